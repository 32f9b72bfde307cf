//! Options of the harness and the agent. The harness has precedence over the agent's definition. An option that a runtime
//! cannot honour is an error of `check` and `run`.

use yaml::{Diagnostic, Span, Spanned};

use super::contract::{RefusedOption, Runtime};
use crate::check::Checked;
use crate::harness::frontmatter::AgentFrontmatter;
use crate::harness::names::ModelEffort;

/// The requested model; `None`: the runtime chooses.
pub fn model(checked: &Checked) -> Option<&str> {
    let about = checked.agent.frontmatter.as_ref().and_then(|about| about.model.as_ref());
    let model = checked.resolved.harness.model.as_ref().or(about);
    model.map(|model| model.as_str()).filter(|model| *model != "inherit")
}

pub fn effort(checked: &Checked) -> Option<&Spanned<ModelEffort>> {
    let about = checked.agent.frontmatter.as_ref().and_then(|about| about.effort.as_ref());
    checked.resolved.harness.effort.as_ref().or(about)
}

/// One error for each option that this runtime would have to ignore.
pub fn refused(checked: &Checked, runtime: &Runtime) -> Vec<Diagnostic> {
    let start = Span::start_of(checked.agent.source);
    let mut refused = (runtime.refused_options)(checked);
    refused.extend(checked.agent.frontmatter.iter().flat_map(refused_everywhere));
    let diagnose = |RefusedOption { at, option, instead }| {
        let message = format!("the runtime `{}` does not support `{option}`", runtime.name);
        Diagnostic::error("runtime-option", at.unwrap_or(start), message).help(instead)
    };
    let mut problems: Vec<Diagnostic> = refused.into_iter().map(diagnose).collect();
    problems.extend(cleared_variables(checked, runtime));
    problems.extend(absent_skills(checked));
    problems.extend(narrower_plugins(checked, runtime));
    problems.extend((runtime.limited_options)(checked));
    problems
}

/// The gateway serves the model: a variable that would send requests elsewhere has no effect.
fn cleared_variables(checked: &Checked, runtime: &Runtime) -> Vec<Diagnostic> {
    let set = checked.resolved.harness.env.sandbox.0.iter().map(|(name, _)| name);
    set.flat_map(|name| cleared(checked, runtime, std::slice::from_ref(&name.value), name.at)).collect()
}

/// One warning for each of these variables that has no effect, wherever it is set.
pub fn cleared(checked: &Checked, runtime: &Runtime, names: &[String], at: Span) -> Vec<Diagnostic> {
    let kept = (runtime.kept_variable)(checked);
    let cleared = names
        .iter()
        .filter(|name| runtime.model_variables.contains(&name.as_str()) && kept != Some(name.as_str()));
    cleared
        .map(|name| {
            let message = format!("`{name}` is cleared: the model gateway serves the model");
            Diagnostic::warning("model-variable", at, message)
                .help("leave it out, and name the service in a provider file")
        })
        .collect()
}

fn refuse(at: Option<Span>, option: &str, instead: &str) -> RefusedOption {
    RefusedOption { at, option: option.to_owned(), instead: instead.to_owned() }
}

/// Skills that only the agent's own list names. An organisation may add them, so they are not an error.
fn absent_skills(checked: &Checked) -> Vec<Diagnostic> {
    let listed = checked.agent.frontmatter.iter().filter_map(|about| about.skills.as_ref());
    let names = listed.flat_map(|names| names.value.0.iter().map(move |name| (names.at, name)));
    let absent = names.filter(|(_, name)| !checked.skills.iter().any(|skill| skill.name == **name));
    absent
        .map(|(at, name)| {
            let message = format!("the agent lists the skill `{name}`, which the harness does not have");
            Diagnostic::warning("absent-skill", at, message).help(
                "add its directory to `skills` of the harness; without it the agent works without the skill",
            )
        })
        .collect()
}

/// A runtime without plugins of its own reads their skills as files.
fn narrower_plugins(checked: &Checked, runtime: &Runtime) -> Option<Diagnostic> {
    let plugin = checked.resolved.harness.plugins.first().filter(|_| !runtime.has_plugins)?;
    let message = format!("the runtime `{}` uses only the skills of plugins", runtime.name);
    let help = "their language servers, commands, agents and hooks need `runtime: claude`";
    Some(Diagnostic::warning("plugin-parts", plugin.at, message).help(help))
}

/// Keys of Claude's agents that no runtime supports here.
fn refused_everywhere(about: &AgentFrontmatter) -> Vec<RefusedOption> {
    let mut refused = Vec::new();
    if about.permission_mode.as_deref().is_some_and(|mode| mode != "bypassPermissions") {
        let instead = "leave it out: the policy and the guard decide";
        refused.push(refuse(None, "permissionMode", instead));
    }
    if let Some(servers) = &about.mcp_servers {
        refused.push(refuse(Some(servers.at), "mcpServers", "name them in the harness: `mcp_servers`"));
    }
    if let Some(hooks) = &about.hooks {
        let instead = "only the guard's hook runs: leave it out, or check in a `validation_loop.script`";
        refused.push(refuse(Some(hooks.at), "hooks", instead));
    }
    let plain = [
        ("memory", about.memory.is_some(), "leave it out: a run remembers nothing; a session does"),
        ("background", about.background == Some(true), "leave it out: a run waits for its agent"),
        ("isolation", about.isolation.is_some(), "leave it out: the sandbox isolates every run"),
    ];
    let set = plain.into_iter().filter(|(_, is_set, _)| *is_set);
    refused.extend(set.map(|(key, _, instead)| refuse(None, key, instead)));
    refused
}
