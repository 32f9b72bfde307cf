//! Skills for runtimes that do not list them by themselves, or that would list the repository's beside ours: the list is
//! ours, and a skill is a file to read when it is needed.

use std::path::Path;

use crate::check::Checked;

/// What a search in the repository looks at.
const MAX_ENTRIES: usize = 5000;
const MAX_DEPTH: usize = 12;

/// A paragraph for the agent's definition; nothing if there are no skills.
pub fn listing(checked: &Checked, config_directory: &str) -> String {
    if checked.skills.is_empty() {
        return String::new();
    }
    let lines = checked.skills.iter().map(|skill| {
        let about = skill.frontmatter.description.as_str().split_whitespace().collect::<Vec<_>>().join(" ");
        format!("- {0}: {about} ({config_directory}/skills/{0}/SKILL.md)\n", skill.name)
    });
    format!(
        "\n\n# Skills\n\nRead the file of a skill before you do what it is for; what it names lies beside it.\n\n{}",
        lines.collect::<String>()
    )
}

/// Every SKILL.md below a directory, as paths below it; links to directories are followed as runtimes follow them.
/// `None`: there is more than can be looked at.
pub fn find(directory: &Path) -> Option<Vec<String>> {
    let mut search = Search { found: Vec::new(), left: MAX_ENTRIES };
    search.directory(directory, "", 0)?;
    search.found.sort();
    Some(search.found)
}

struct Search {
    found: Vec<String>,
    left: usize,
}

impl Search {
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

    #[test]
    fn skills_are_found_however_deep_and_too_many_are_not_half_found() {
        let directory = tempfile::tempdir().unwrap();
        let put = |path: &str| {
            let path = directory.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        };
        put("SKILL.md");
        put("a/SKILL.md");
        put("b/c/d/SKILL.md");
        put("b/other.md");
        std::os::unix::fs::symlink(directory.path().join("b/c"), directory.path().join("link")).unwrap();
        let all = ["SKILL.md", "a/SKILL.md", "b/c/d/SKILL.md", "link/d/SKILL.md"];
        assert_eq!(find(directory.path()).unwrap(), all);
        assert_eq!(find(&directory.path().join("none")).unwrap(), Vec::<String>::new());
        // A directory that leads back to itself has no end.
        std::os::unix::fs::symlink(directory.path(), directory.path().join("a/again")).unwrap();
        assert_eq!(find(directory.path()), None);
    }
}
