//! Skills that a repository brings itself. They are loaded only if the harness or the organisation allows it, and only
//! after every file in them was scanned: everyone who may write to the repository may write them.

use std::io::Read;
use std::path::{Path, PathBuf};

use yaml::{ParseLimits, Sources, Value};

use crate::harness::{frontmatter, names};

/// Where the runtimes look for skills.
pub const PLACES: &[&str] = &[".claude/skills", ".agents/skills", ".codex/skills"];

const MAX_SKILLS: usize = 100;

/// The limits of the search in one place.
const MAX_ENTRIES: usize = 5000;
const MAX_DEPTH: usize = 12;

/// How much of a SKILL.md is read for its header.
const MAX_ABOUT: u64 = 64 << 10;

/// A directory with a SKILL.md.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoSkill {
    pub name: String,
    /// Its purpose, from its header.
    pub description: String,
    /// Where it is, on the host and in the repository.
    pub directory: PathBuf,
    pub shown: String,
}

/// All of them except those whose names are `taken`: the harness's own skills win.
pub fn find(repository: &Path, taken: &[&str]) -> Vec<RepoSkill> {
    let mut found: Vec<RepoSkill> = Vec::new();
    for place in PLACES {
        let entries = std::fs::read_dir(repository.join(place)).into_iter().flatten().flatten();
        let mut all: Vec<(String, PathBuf)> = entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| entry.file_name().into_string().ok().map(|name| (name, entry.path())))
            .filter(|(name, directory)| names::is_identifier(name) && directory.join("SKILL.md").is_file())
            .collect();
        all.sort();
        for (name, directory) in all {
            let known = taken.contains(&name.as_str()) || found.iter().any(|one| one.name == name);
            if !known && found.len() < MAX_SKILLS {
                let description = SkillHeader::read(&directory.join("SKILL.md")).description;
                found.push(RepoSkill { shown: format!("{place}/{name}"), name, description, directory });
            }
        }
    }
    found
}

/// A `taken` name, and the SKILL.md in the repository with the same name, from its directory or its header.
pub fn shadowed(repository: &Path, taken: &[&str]) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for place in PLACES.iter().filter(|_| !taken.is_empty()) {
        // If there are too many, report at least those that every agent would find.
        let usual = || taken.iter().map(|name| format!("{name}/SKILL.md")).collect();
        let there = below(&repository.join(place)).unwrap_or_else(usual);
        for shown in there.iter().map(|path| format!("{place}/{path}")) {
            let path = repository.join(&shown);
            let directory = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
            let own = SkillHeader::read(&path).name;
            let name = taken.iter().find(|name| **name == directory || **name == own);
            if let Some(name) = name.filter(|_| path.is_file() && all.len() < MAX_SKILLS) {
                all.push(((*name).to_owned(), shown));
            }
        }
    }
    all
}

/// The header of a skill; empty if it cannot be read.
#[derive(Default)]
struct SkillHeader {
    name: String,
    description: String,
}

impl SkillHeader {
    fn read(path: &Path) -> Self {
        // A link could lead out of the repository.
        if !std::fs::symlink_metadata(path).is_ok_and(|about| about.is_file()) {
            return Self::default();
        }
        let mut text = String::new();
        let opened = std::fs::File::open(path);
        let read = opened.and_then(|file| file.take(MAX_ABOUT).read_to_string(&mut text));
        read.ok().and_then(|_| Self::of(&text)).unwrap_or_default()
    }

    fn of(text: &str) -> Option<Self> {
        let mut sources = Sources::default();
        let source = sources.add("SKILL.md", text);
        let range = frontmatter::split(text, source).ok()?.frontmatter?;
        let tree = yaml::parse_part(&sources, source, range, ParseLimits::default()).ok()?;
        let field = |key: &str| match tree.get(key).map(|node| &node.value) {
            Some(Value::Text(text)) => text.trim().to_owned(),
            _ => String::new(),
        };
        Some(Self { name: field("name"), description: field("description") })
    }
}

/// Every SKILL.md below a directory, as paths below it; links to directories are followed as runtimes follow them.
/// `None`: the tree is too large.
pub fn below(directory: &Path) -> Option<Vec<String>> {
    let mut search = SkillSearch { found: Vec::new(), left: MAX_ENTRIES };
    search.directory(directory, "", 0)?;
    search.found.sort();
    Some(search.found)
}

struct SkillSearch {
    found: Vec<String>,
    left: usize,
}

impl SkillSearch {
    fn directory(&mut self, path: &Path, below: &str, depth: usize) -> Option<()> {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        for entry in entries {
            self.left = self.left.checked_sub(1)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let name = if below.is_empty() { name } else { format!("{below}/{name}") };
            if entry.path().is_dir() {
                if depth >= MAX_DEPTH {
                    return None;
                }
                self.directory(&entry.path(), &name, depth + 1)?;
            } else if entry.file_name().eq_ignore_ascii_case("SKILL.md") {
                self.found.push(name);
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(directory: &Path, path: &str, text: &str) {
        let path = directory.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn skills_are_found_however_deep_and_too_many_are_not_half_found() {
        let directory = tempfile::tempdir().unwrap();
        for path in ["SKILL.md", "a/SKILL.md", "b/c/d/SKILL.md", "b/other.md"] {
            put(directory.path(), path, "");
        }
        std::os::unix::fs::symlink(directory.path().join("b/c"), directory.path().join("link")).unwrap();
        let all = ["SKILL.md", "a/SKILL.md", "b/c/d/SKILL.md", "link/d/SKILL.md"];
        assert_eq!(below(directory.path()).unwrap(), all);
        assert_eq!(below(&directory.path().join("none")).unwrap(), Vec::<String>::new());
        // A link back to a parent directory would never end.
        std::os::unix::fs::symlink(directory.path(), directory.path().join("a/again")).unwrap();
        assert_eq!(below(directory.path()), None);
    }

    #[test]
    fn a_skill_is_shadowed_by_its_directory_or_by_its_own_words() {
        let directory = tempfile::tempdir().unwrap();
        put(directory.path(), ".claude/skills/review/SKILL.md", "no frontmatter");
        put(directory.path(), ".agents/skills/group/other/SKILL.md", "---\nname: review\n---\n");
        put(directory.path(), ".codex/skills/mine/SKILL.md", "---\nname: mine\ndescription: Mine.\n---\n");
        let found: Vec<String> =
            shadowed(directory.path(), &["review"]).into_iter().map(|(_, place)| place).collect();
        assert_eq!(found, [".claude/skills/review/SKILL.md", ".agents/skills/group/other/SKILL.md"]);
        assert_eq!(shadowed(directory.path(), &[]), []);
        let others = find(directory.path(), &["review"]);
        assert_eq!(others.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["mine"]);
        assert_eq!(others[0].description, "Mine.");
        // With a link back to a parent directory, the usual place is still reported.
        std::os::unix::fs::symlink(".", directory.path().join(".claude/skills/again")).unwrap();
        assert_eq!(shadowed(directory.path(), &["review"])[0].1, ".claude/skills/review/SKILL.md");
    }
}
