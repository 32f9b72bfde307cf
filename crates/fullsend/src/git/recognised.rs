//! What git recognises as a repository, on any file system: names that some file system treats as `.git`, and bare
//! repositories. Git runs what a repository's configuration names, so neither may reach the host from inside the
//! sandbox.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use sandbox::{Descend, TreeEntry, Unreadable, WalkError, WalkLimits, walk_directory};

/// Whether some file system treats this name as `.git`. Case is folded (APFS, NTFS, ext4), invisible characters are
/// dropped (HFS+, ext4), and so is what NTFS ignores: a stream's name, and dots and spaces at the end. `git~1` is its
/// short name.
pub fn is_dot_git(name: &OsStr) -> bool {
    let name = String::from_utf8_lossy(name.as_encoded_bytes());
    // NTFS also separates parts of a path by a backslash.
    name.split('\\').any(|part| {
        let folded = folded(part);
        folded == ".git" || folded.strip_prefix("git~").is_some_and(is_number)
    })
}

/// The name as the most lenient file system compares it.
fn folded(name: &str) -> String {
    let lower = name.chars().filter(|c| !is_ignorable(*c)).flat_map(char::to_lowercase);
    // The long s (ſ) is lower case already, but file systems treat it as `s`.
    let lower: String = lower.map(|c| if c == '\u{17f}' { 's' } else { c }).collect();
    lower.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']).to_owned()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Unicode's default ignorable characters: file systems that normalise names drop them.
fn is_ignorable(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fff8}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// The names in one directory, as far as they matter to git.
#[derive(Debug, Default)]
pub struct DirectoryNames {
    has_head: bool,
    has_data: bool,
}

impl DirectoryNames {
    pub fn add(&mut self, name: &OsStr) {
        self.has_head |= is_named(name, "head");
        self.has_data |= ["objects", "refs", "commondir"].iter().any(|known| is_named(name, known));
    }

    /// Whether git recognises the directory as a repository, bare or of a linked worktree. Stricter than git, which
    /// wants `HEAD` with `objects` and `refs`, or with `commondir`.
    pub fn is_repository(&self) -> bool {
        self.has_head && self.has_data
    }
}

impl<'a> FromIterator<&'a OsStr> for DirectoryNames {
    fn from_iter<T: IntoIterator<Item = &'a OsStr>>(names: T) -> Self {
        let mut all = Self::default();
        names.into_iter().for_each(|name| all.add(name));
        all
    }
}

/// Whether some file system treats `name` as `known`, which is in lower case.
fn is_named(name: &OsStr, known: &str) -> bool {
    folded(&name.to_string_lossy()) == known
}

const MAX_ENTRIES: usize = 1_000_000;
const MAX_DEPTH: usize = 200;
const SUFFIX: &str = ".not-a-repository";

/// Renames everything below `root` that makes git recognise a repository: each `.git`, and the `HEAD` of each bare
/// repository. Returns how many names it changed. Nothing else may write there meanwhile.
pub fn defuse(root: &Path) -> io::Result<usize> {
    let mut names: Vec<PathBuf> = Vec::new();
    let mut heads: Vec<PathBuf> = Vec::new();
    let mut with_data: BTreeSet<PathBuf> = BTreeSet::new();
    let limits = WalkLimits { entries: MAX_ENTRIES, depth: MAX_DEPTH, unreadable: Unreadable::Fail };
    let walked = walk_directory(root, limits, &mut |entry: &TreeEntry<'_>| {
        let mut alone = DirectoryNames::default();
        alone.add(entry.name);
        if is_dot_git(entry.name) {
            names.push(entry.path.to_path_buf());
        }
        if alone.has_head && entry.kind != FileType::Directory {
            heads.push(entry.path.to_path_buf());
        }
        if alone.has_data {
            with_data.extend(entry.path.parent().map(Path::to_path_buf));
        }
        Ok(Descend::Yes)
    });
    walked.map_err(WalkError::into_io)?;
    heads.retain(|head| head.parent().is_some_and(|directory| with_data.contains(directory)));
    names.extend(heads);
    // The deepest first, so that the paths of the others stay valid.
    names.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
    for path in &names {
        let from = root.join(path);
        std::fs::rename(&from, free_name(&from))?;
    }
    Ok(names.len())
}

/// The name with our suffix and a number if that exists. Characters that some file system ignores are dropped.
fn free_name(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let visible: String = name.chars().filter(|c| !is_ignorable(*c)).collect();
    let mut candidate = OsString::from(format!("{visible}{SUFFIX}"));
    let mut number = 1;
    while path.with_file_name(&candidate).symlink_metadata().is_ok() {
        number += 1;
        candidate = OsString::from(format!("{visible}{SUFFIX}-{number}"));
    }
    path.with_file_name(candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_dot_git_is_known() {
        for name in [
            ".git",
            ".GIT",
            ".Git",
            ".g\u{200c}it",
            "\u{feff}.git",
            ".git\u{ad}",
            ".gi\u{e0020}t",
            ".git.",
            ".git . .",
            "git~1",
            "GIT~1",
            "git~2",
            ".git::$INDEX_ALLOCATION",
            ".git:x",
            "a\\.git",
            ".git\\config",
            ".GIT ",
        ] {
            assert!(is_dot_git(OsStr::new(name)), "{name:?}");
        }
        for name in
            [".gitignore", ".github", "git", "x.git", ".git-credentials", "git~", "git~x", "..git", ".git.x"]
        {
            assert!(!is_dot_git(OsStr::new(name)), "{name:?}");
        }
    }

    #[test]
    fn a_directory_with_a_head_and_data_is_a_repository() {
        let check = |names: &[&str], expected: bool| {
            let found: DirectoryNames = names.iter().map(OsStr::new).collect();
            assert_eq!(found.is_repository(), expected, "{names:?}");
        };
        check(&["HEAD", "objects", "refs"], true);
        check(&["head", "OBJECTS", "Refs"], true);
        check(&["HEAD", "commondir"], true);
        check(&["H\u{200d}EAD", "obj\u{ad}ects", "refs."], true);
        check(&["HEAD", "ref\u{17f}"], true);
        check(&["HEAD", "README.md"], false);
        check(&["objects", "refs"], false);
    }

    #[test]
    fn a_tree_is_defused_and_keeps_its_contents() {
        let place = tempfile::tempdir().unwrap();
        let write = |path: &str| {
            let path = place.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        };
        for path in
            ["a/.git/HEAD", "a/.git/objects/x", "a/.git/refs/x", "b/.GIT", "c/d.git/HEAD", "c/d.git/refs/x"]
        {
            write(path);
        }
        for path in ["docs/HEAD", "docs/text", "HEAD", "refs/x", ".git.not-a-repository"] {
            write(path);
        }
        assert_eq!(defuse(place.path()).unwrap(), 5);
        assert_eq!(defuse(place.path()).unwrap(), 0);
        for path in [
            "a/.git.not-a-repository/HEAD.not-a-repository",
            "b/.GIT.not-a-repository",
            "c/d.git/HEAD.not-a-repository",
            "docs/HEAD",
            "HEAD.not-a-repository",
        ] {
            assert!(place.path().join(path).exists(), "{path}");
        }
    }
}
