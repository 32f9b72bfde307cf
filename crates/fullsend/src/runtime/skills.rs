//! The list of skills for runtimes that do not list them, or that would list the repository's skills too. A skill is a
//! file that the agent reads when it needs it.

use super::paths;
use crate::inputs::ScannedInputs;

/// A paragraph for the agent's definition; nothing if there are no skills.
pub fn listing(inputs: &ScannedInputs, config_directory: &str) -> String {
    let of_harness =
        inputs.checked().skills.iter().map(|skill| (&skill.name, &skill.frontmatter.description.value));
    let of_repository = inputs.repo_skills().iter().map(|skill| (&skill.name, &skill.description));
    let lines: String = of_harness
        .chain(of_repository)
        .map(|(name, about)| {
            let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
            format!("- {name}: {about} ({config_directory}/skills/{name}/SKILL.md)\n")
        })
        .collect();
    let lines = lines + &of_plugins(inputs);
    if lines.is_empty() {
        return lines;
    }
    format!(
        "\n\n# Skills\n\nBefore you start a task that a skill describes, read the skill's file. Other files of the \
         skill are in the same directory.\n\n{lines}"
    )
}

/// The skills of plugins, for runtimes that do not support plugins.
fn of_plugins(inputs: &ScannedInputs) -> String {
    let plugins = inputs.checked().plugins.iter();
    let line = |plugin: &str, skill: &str| {
        format!("- {plugin}:{skill} ({}/{plugin}/skills/{skill}/SKILL.md)\n", paths::PLUGINS)
    };
    plugins.flat_map(|plugin| plugin.skills.iter().map(|skill| line(&plugin.name, skill))).collect()
}
