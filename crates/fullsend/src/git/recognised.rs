//! What git recognises as a repository, on any file system: names that some file system treats as `.git`, and bare
//! repositories, also such whose parts are in several directories that a file system merges. Git runs what a repository's
//! configuration names, so neither may reach the host from inside the sandbox.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use sandbox::{Descend, TreeEntry, Unreadable, WalkError, WalkLimits, walk_directory};
use unicode_normalization::UnicodeNormalization;

/// Whether some file system treats this name as `.git`; `git~1` is its short name.
pub fn is_dot_git(name: &OsStr) -> bool {
    parts(name).iter().any(|part| part == ".git" || part.strip_prefix("git~").is_some_and(is_number))
}

/// The names in a path that some file system sees in one name: NTFS also separates them by a backslash.
fn parts(name: &OsStr) -> Vec<String> {
    String::from_utf8_lossy(name.as_encoded_bytes()).split('\\').map(folded).collect()
}

/// The name as the most lenient file system compares it. Case is folded (APFS, NTFS, ext4), accents are separated (HFS+,
/// APFS, ext4), invisible characters are dropped (HFS+, ext4), and so is what NTFS ignores: a stream's name, and dots and
/// spaces at the end.
fn folded(name: &str) -> String {
    let visible = name.chars().filter(|c| !is_ignorable(*c));
    // First upper case, so that letters with two lower cases become one, such as `s` and `ſ`.
    let upper = visible.nfd().flat_map(char::to_uppercase);
    let lower: String = upper.flat_map(char::to_lowercase).collect();
    if lower == ".." {
        return lower;
    }
    lower.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']).to_owned()
}

/// Whether this may be the short name that NTFS gives to another one, such as `abcdef~1` and `abcdef~1.git`.
fn is_short(folded: &str) -> bool {
    let stem = folded.split('.').next().unwrap_or(folded);
    stem.rsplit_once('~').is_some_and(|(_, number)| is_number(number))
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DirectoryNames {
    has_head: bool,
    has_data: bool,
}

impl DirectoryNames {
    /// What one name adds, as file systems compare it.
    fn of(folded: &str) -> Self {
        let has_data = ["objects", "refs", "commondir"].contains(&folded)
            || folded.strip_prefix("common~").is_some_and(is_number);
        Self { has_head: folded == "head", has_data }
    }

    fn with(self, other: Self) -> Self {
        Self { has_head: self.has_head || other.has_head, has_data: self.has_data || other.has_data }
    }

    /// Whether git recognises the directory as a repository, bare or of a linked worktree. Stricter than git, which
    /// wants `HEAD` with `objects` and `refs`, or with `commondir`.
    fn is_repository(self) -> bool {
        self.has_head && self.has_data
    }
}

/// Looks for repositories among the paths of a tree. Directories that some file system merges, such as `b` and `B`, count as
/// one.
#[derive(Debug, Default)]
pub struct RepositoryFinder {
    directories: BTreeMap<Vec<String>, DirectoryNames>,
    /// What directories with short names have: such a name can mean any other directory.
    in_short: DirectoryNames,
}

impl RepositoryFinder {
    /// Adds a path below the top, whose directories were added before. Whether git now recognises a repository, or the name
    /// as `.git`.
    pub fn add(&mut self, path: &Path) -> bool {
        let Some(name) = path.file_name() else { return false };
        let mut found = is_dot_git(name);
        for (directory, names) in self.places(path) {
            found |= self.add_names(directory, names);
        }
        found
    }

    /// The directories that the path is in, where its name matters there: each that a backslash ends, too.
    fn places(&self, path: &Path) -> Vec<(Vec<String>, DirectoryNames)> {
        let Some(name) = path.file_name() else { return Vec::new() };
        let last = parts(name);
        let matters = |part: &String| DirectoryNames::of(part) != DirectoryNames::default();
        if !last.iter().any(matters) {
            return Vec::new();
        }
        let above = path.parent().into_iter().flat_map(Path::components);
        let mut directory: Vec<String> = Vec::new();
        above.flat_map(|part| parts(part.as_os_str())).for_each(|part| enter(&mut directory, part));
        let mut places = Vec::new();
        for part in last {
            places.extend(matters(&part).then(|| (directory.clone(), DirectoryNames::of(&part))));
            enter(&mut directory, part);
        }
        places
    }

    fn add_names(&mut self, directory: Vec<String>, names: DirectoryNames) -> bool {
        let is_short = directory.iter().any(|part| is_short(part));
        let known = self.directories.entry(directory).or_default();
        *known = known.with(names);
        let known = *known;
        if is_short {
            self.in_short = self.in_short.with(names);
            return self.directories.values().any(|other| other.with(self.in_short).is_repository());
        }
        known.with(self.in_short).is_repository()
    }

    /// Whether a name of this path makes one of the directories a repository.
    fn is_head_of_repository(&self, path: &Path) -> bool {
        let is_repository = |directory: &Vec<String>| {
            let names = self.directories.get(directory).copied().unwrap_or_default();
            let is_short = directory.iter().any(|part| is_short(part));
            let elsewhere =
                self.directories.values().any(|other| is_short && names.with(*other).is_repository());
            names.with(self.in_short).is_repository() || elsewhere
        };
        self.places(path).iter().any(|(directory, names)| names.has_head && is_repository(directory))
    }
}

fn enter(directory: &mut Vec<String>, part: String) {
    match part.as_str() {
        "" => {}
        ".." => drop(directory.pop()),
        _ => directory.push(part),
    }
}

const MAX_ENTRIES: usize = 1_000_000;
const MAX_DEPTH: usize = 200;
const SUFFIX: &str = ".not-a-repository";

/// Renames everything below `root` that makes git recognise a repository: each `.git`, and the `HEAD` of each bare
/// repository. Returns how many names it changed. Nothing else may write there meanwhile.
pub fn defuse(root: &Path) -> io::Result<usize> {
    let mut names: Vec<PathBuf> = Vec::new();
    let mut heads: Vec<PathBuf> = Vec::new();
    let mut finder = RepositoryFinder::default();
    let limits = WalkLimits { entries: MAX_ENTRIES, depth: MAX_DEPTH, unreadable: Unreadable::Fail };
    let walked = walk_directory(root, limits, &mut |entry: &TreeEntry<'_>| {
        let is_directory = entry.kind == FileType::Directory;
        if is_dot_git(entry.name) {
            names.push(entry.path.to_path_buf());
            return Ok(Descend::Yes);
        }
        let places = finder.places(entry.path);
        if !is_directory && places.iter().any(|(_, names)| names.has_head) {
            heads.push(entry.path.to_path_buf());
        }
        for (directory, names) in places {
            finder.add_names(directory, names);
        }
        Ok(Descend::Yes)
    });
    walked.map_err(WalkError::into_io)?;
    heads.retain(|head| finder.is_head_of_repository(head));
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
        let check = |paths: &[&str], expected: bool| {
            let mut finder = RepositoryFinder::default();
            let found = paths.iter().filter(|path| finder.add(Path::new(path))).count();
            assert_eq!(found > 0, expected, "{paths:?}");
        };
        check(&["HEAD", "objects", "refs"], true);
        check(&["head", "OBJECTS", "Refs"], true);
        check(&["HEAD", "commondir"], true);
        check(&["H\u{200d}EAD", "obj\u{ad}ects", "refs."], true);
        check(&["HEAD", "ref\u{17f}"], true);
        check(&["HEAD", "README.md"], false);
        check(&["objects", "refs"], false);
        // Directories that some file system merges.
        for other in ["B", "b.", "b ", "b::$INDEX_ALLOCATION", "b\u{200d}", "x/../b", "x\\..\\b", ".\\b"] {
            check(&[&format!("{other}/HEAD"), "b/objects", "b/refs"], true);
            check(&["b/HEAD", &format!("{other}/refs")], true);
        }
        check(&["b\\HEAD", "b\\objects\\x", "b/refs"], true);
        check(&["a/b\\HEAD", "A/B/objects"], true);
        check(&["caf\u{e9}/HEAD", "cafe\u{301}/refs"], true);
        check(&["stra\u{df}e/HEAD", "STRASSE/refs"], true);
        check(&["\u{3c2}/HEAD", "\u{3c3}/refs"], true);
        check(&["a-long-name/HEAD", "A-LONG~1/refs"], true);
        check(&["A-LONG~1/x/HEAD", "a-long-name/x/refs"], true);
        check(&["b/HEAD", "b/COMMON~1"], true);
        check(&["b/HEAD", "c/objects", "d/refs", "b/file~1"], false);
        check(&["docs/HEAD", "src/refs/x", "backup~1/notes"], false);
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
        for path in ["e/HEAD", "E/objects/x", "E./refs/x", "f\\HEAD", "F/refs/x"] {
            write(path);
        }
        assert_eq!(defuse(place.path()).unwrap(), 7);
        assert_eq!(defuse(place.path()).unwrap(), 0);
        for path in [
            "a/.git.not-a-repository/HEAD.not-a-repository",
            "b/.GIT.not-a-repository",
            "c/d.git/HEAD.not-a-repository",
            "docs/HEAD",
            "HEAD.not-a-repository",
            "e/HEAD.not-a-repository",
            "f\\HEAD.not-a-repository",
        ] {
            assert!(place.path().join(path).exists(), "{path}");
        }
    }
}
