//! Skills that a repository brings itself. They are loaded only where the harness or the organisation says so, and only
//! after every file in them was scanned: whoever may write to the repository may write them.

use std::path::{Path, PathBuf};

/// Where agents look for them.
const PLACES: &[&str] = &[".claude/skills", ".agents/skills"];

const MAX_SKILLS: usize = 100;

/// A directory with a SKILL.md.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoSkill {
    pub name: String,
    /// Where it is, on the host and in the repository.
    pub directory: PathBuf,
    pub shown: String,
}

/// All of them but those whose names are `taken`: what the harness names stands above.
pub fn find(repository: &Path, taken: &[&str]) -> Vec<RepoSkill> {
    let mut found: Vec<RepoSkill> = Vec::new();
    for place in PLACES {
        let entries = std::fs::read_dir(repository.join(place)).into_iter().flatten().flatten();
        let mut all: Vec<RepoSkill> = entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| entry.file_name().into_string().ok().map(|name| (name, entry.path())))
            .map(|(name, directory)| RepoSkill { shown: format!("{place}/{name}"), name, directory })
            .filter(|skill| crate::harness::names::is_identifier(&skill.name))
            .filter(|skill| skill.directory.join("SKILL.md").is_file())
            .collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        for skill in all {
            let known =
                taken.contains(&skill.name.as_str()) || found.iter().any(|one| one.name == skill.name);
            if !known && found.len() < MAX_SKILLS {
                found.push(skill);
            }
        }
    }
    found
}
