//! Skills for runtimes that do not list them by themselves, or that would list the repository's beside ours: the list is
//! ours, and a skill is a file to read when it is needed.

use crate::inputs::Cleared;

/// A paragraph for the agent's definition; nothing if there are no skills.
pub fn listing(cleared: &Cleared, config_directory: &str) -> String {
    let ours =
        cleared.checked().skills.iter().map(|skill| (&skill.name, &skill.frontmatter.description.value));
    let theirs = cleared.repo_skills().iter().map(|skill| (&skill.name, &skill.description));
    let lines: String = ours
        .chain(theirs)
        .map(|(name, about)| {
            let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
            format!("- {name}: {about} ({config_directory}/skills/{name}/SKILL.md)\n")
        })
        .collect();
    if lines.is_empty() {
        return lines;
    }
    format!(
        "\n\n# Skills\n\nRead the file of a skill before you do what it is for; what it names lies beside it.\n\n{lines}"
    )
}
