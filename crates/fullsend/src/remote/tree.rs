//! The files of a remote resource, in memory: from an archive or a commit, with names that mean the same on every file
//! system. Links, devices and names that leave the tree or collide are refused, so that the checked files are the ones
//! that are read.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use flate2::read::GzDecoder;
use tar::EntryType;

use crate::event::log::sha256;

/// The most that one tree holds. A skill or a plugin may not hold more inside a sandbox either.
const MAX_FILES: usize = 1_000;
const MAX_BYTES: usize = 50 << 20;
const MAX_PATH: usize = 1_024;
const MAX_DEPTH: usize = 32;
/// The most entries of an archive that are not files, such as directories.
const MAX_ENTRIES: usize = 10_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeFile {
    pub bytes: Vec<u8>,
    pub is_executable: bool,
}

/// Files by their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileTree {
    files: BTreeMap<String, TreeFile>,
    bytes: usize,
}

impl FileTree {
    pub fn of_one(name: &str, bytes: Vec<u8>) -> Result<Self, String> {
        let mut tree = Self::default();
        tree.add(name, TreeFile { bytes, is_executable: false })?;
        Ok(tree)
    }

    pub fn add(&mut self, path: &str, file: TreeFile) -> Result<(), String> {
        check_path(path)?;
        self.bytes += file.bytes.len();
        if self.files.len() >= MAX_FILES || self.bytes > MAX_BYTES {
            return Err(format!("has more than {MAX_FILES} files or {} MiB", MAX_BYTES >> 20));
        }
        if self.files.insert(path.to_owned(), file).is_some() {
            return Err(format!("has `{path}` twice"));
        }
        Ok(())
    }

    /// A tar archive, packed with gzip or not.
    pub fn of_archive(bytes: &[u8]) -> Result<Self, String> {
        let packed = bytes.starts_with(&[0x1f, 0x8b]);
        let reader: Box<dyn Read + '_> =
            if packed { Box::new(GzDecoder::new(bytes)) } else { Box::new(bytes) };
        // Headers take space too, but a legitimate archive does not have twice as many header bytes as file bytes.
        let mut archive = tar::Archive::new(reader.take(2 * MAX_BYTES as u64));
        let mut tree = Self::default();
        let broken = |error: io::Error| format!("is not a whole tar archive: {error}");
        for (index, entry) in archive.entries().map_err(broken)?.enumerate() {
            let mut entry = entry.map_err(broken)?;
            if index >= MAX_ENTRIES {
                return Err(format!("has more than {MAX_ENTRIES} entries"));
            }
            let name = String::from_utf8(entry.path_bytes().into_owned())
                .map_err(|_| "has a name that is not UTF-8".to_owned())?;
            let name = name.strip_prefix("./").unwrap_or(&name).to_owned();
            match entry.header().entry_type() {
                EntryType::Directory => {
                    let name = name.trim_end_matches('/');
                    if !name.is_empty() && name != "." {
                        check_path(name)?;
                    }
                }
                EntryType::Regular | EntryType::Continuous => {
                    let is_executable = entry.header().mode().is_ok_and(|mode| mode & 0o111 != 0);
                    let mut bytes = Vec::new();
                    let most = (MAX_BYTES + 1 - tree.bytes) as u64;
                    (&mut entry).take(most).read_to_end(&mut bytes).map_err(broken)?;
                    tree.add(&name, TreeFile { bytes, is_executable })?;
                }
                // What `git archive` writes before everything else.
                EntryType::XGlobalHeader => {}
                _ => return Err(format!("has `{name}`, which is a link or a special file")),
            }
        }
        tree.checked()
    }

    /// The tree, if no two of its names could be the same file somewhere.
    pub fn checked(self) -> Result<Self, String> {
        let mut seen = BTreeMap::new();
        for path in self.files.keys() {
            if let Some(other) = seen.insert(path.to_lowercase(), path) {
                return Err(format!("has `{other}` and `{path}`, which differ only in case"));
            }
        }
        let mut directories = BTreeMap::new();
        for path in self.files.keys() {
            for (end, _) in path.match_indices('/') {
                let directory = &path[..end];
                if seen.contains_key(&directory.to_lowercase()) {
                    return Err(format!("has `{directory}` as a file and as a directory"));
                }
                match directories.insert(directory.to_lowercase(), directory) {
                    Some(other) if other != directory => {
                        return Err(format!("has `{other}` and `{directory}`, which differ only in case"));
                    }
                    _ => {}
                }
            }
        }
        if self.files.is_empty() {
            return Err("has no files".to_owned());
        }
        Ok(self)
    }

    pub fn files(&self) -> impl Iterator<Item = (&str, &TreeFile)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    pub fn has(&self, path: &str) -> bool {
        let below = format!("{path}/");
        path.is_empty() || self.files.keys().any(|file| file == path || file.starts_with(&below))
    }

    /// The one directory that holds everything, as in the archives of forges.
    pub fn single_top(&self) -> Option<&str> {
        let tops: BTreeSet<Option<&str>> =
            self.files.keys().map(|path| path.split_once('/').map(|(top, _)| top)).collect();
        let mut tops = tops.into_iter();
        tops.next().flatten().filter(|_| tops.next().is_none())
    }

    /// One line for each file: whether it is a program, its digest and its path.
    pub fn listing(&self) -> String {
        let line = |(path, file): (&String, &TreeFile)| {
            let mode = if file.is_executable { "755" } else { "644" };
            format!("{mode} {} {path}\n", sha256(&file.bytes))
        };
        self.files.iter().map(line).collect()
    }

    /// The digest of names, modes and contents.
    pub fn digest(&self) -> String {
        sha256(self.listing().as_bytes())
    }

    /// The files below a directory of the tree, by their paths from there.
    pub fn below(self, directory: &str) -> Self {
        if directory.is_empty() {
            return self;
        }
        let start = format!("{directory}/");
        let inside = self.files.into_iter().filter_map(|(path, file)| {
            let path = path.strip_prefix(&start)?.to_owned();
            Some((path, file))
        });
        Self { files: inside.collect(), bytes: self.bytes }
    }

    /// Writes the files below a directory that does not exist yet, readable by everyone who can reach it: the sandbox
    /// may run as another user.
    pub fn write(&self, into: &Path) -> io::Result<()> {
        let directory = |path: &Path| std::fs::DirBuilder::new().recursive(true).mode(0o755).create(path);
        directory(into)?;
        for (path, file) in &self.files {
            let path = into.join(path);
            directory(path.parent().unwrap_or(into))?;
            let mode = if file.is_executable { 0o755 } else { 0o644 };
            let mut opened =
                std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
            opened.write_all(&file.bytes)?;
        }
        Ok(())
    }
}

/// A relative path of ordinary names, in a spelling that every system reads in the same way.
fn check_path(path: &str) -> Result<(), String> {
    let shown: String = path.chars().take(80).flat_map(char::escape_debug).collect();
    let wrong = |why: &str| Err(format!("has the name `{shown}`, which {why}"));
    if path.is_empty() || path.starts_with('/') {
        return wrong("is not a relative path");
    }
    if path.len() > MAX_PATH || path.split('/').count() > MAX_DEPTH {
        return wrong("is too long or too deep");
    }
    if path.contains('\\') || path.chars().any(char::is_control) {
        return wrong("has a backslash or a control character");
    }
    for part in path.split('/') {
        if part.is_empty() || part == "." || part == ".." {
            return wrong("leads elsewhere");
        }
        if part.eq_ignore_ascii_case(".git") {
            return wrong("belongs to git");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(entries: &[(&str, EntryType, &str)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, kind, text) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(0o644);
            header.set_size(if *kind == EntryType::Regular { text.len() as u64 } else { 0 });
            // The builder's own way refuses names that lead elsewhere.
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            if *kind != EntryType::Regular {
                header.as_mut_bytes()[157..157 + text.len()].copy_from_slice(text.as_bytes());
            }
            header.set_cksum();
            let body = if *kind == EntryType::Regular { text.as_bytes() } else { &[] };
            builder.append(&header, body).unwrap();
        }
        builder.into_inner().unwrap()
    }

    #[test]
    fn tricks_with_paths_are_refused() {
        let check = |entries: &[(&str, EntryType, &str)], expected: &str| {
            let found = FileTree::of_archive(&archive(entries));
            let why = found.expect_err(expected);
            assert!(why.contains(expected), "{entries:?}: {why}");
        };
        let file = EntryType::Regular;
        check(&[("../x", file, "")], "leads elsewhere");
        check(&[("a/../../x", file, "")], "leads elsewhere");
        check(&[("/etc/passwd", file, "")], "not a relative path");
        check(&[("a//b", file, "")], "leads elsewhere");
        check(&[("a\\..\\b", file, "")], "backslash");
        check(&[(".git/config", file, "")], "belongs to git");
        check(&[("a/.GIT/config", file, "")], "belongs to git");
        check(&[("link", EntryType::Symlink, "/etc/passwd")], "link or a special file");
        check(&[("link", EntryType::Link, "x")], "link or a special file");
        check(&[("pipe", EntryType::Fifo, "")], "link or a special file");
        check(&[("../up/", EntryType::Directory, "")], "leads elsewhere");
        check(&[("SKILL.md", file, "a"), ("skill.md", file, "b")], "differ only in case");
        check(&[("A/x", file, "a"), ("a/y", file, "b")], "differ only in case");
        check(&[("a", file, "a"), ("a/b", file, "b")], "as a file and as a directory");
        check(&[("a", file, "a"), ("a", file, "b")], "twice");
        check(&[], "no files");
        assert!(FileTree::of_archive(b"not an archive at all").is_err());
    }

    #[test]
    fn a_tree_is_bounded_and_has_one_digest() {
        let mut tree = FileTree::default();
        let mut large = || tree.add("x", TreeFile { bytes: vec![0; MAX_BYTES + 1], is_executable: false });
        assert!(large().unwrap_err().contains("50 MiB"));
        let of = |text: &str| FileTree::of_archive(&archive(&[("top/SKILL.md", EntryType::Regular, text)]));
        let tree = of("a").unwrap();
        assert_eq!(tree.single_top(), Some("top"));
        assert!(tree.has("top") && tree.has("top/SKILL.md") && !tree.has("top/SKILL"));
        assert_eq!(tree.digest(), of("a").unwrap().digest());
        assert_ne!(tree.digest(), of("b").unwrap().digest());
        let program = TreeFile { bytes: b"a".to_vec(), is_executable: true };
        let mut other = FileTree::default();
        other.add("top/SKILL.md", program).unwrap();
        assert_ne!(tree.digest(), other.digest(), "the run bit counts");
    }
}
