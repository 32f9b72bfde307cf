//! Options of the harness and the agent. The harness has precedence over the agent's definition. An option that a runtime
//! cannot honour is an error of `check` and `run`.

use yaml::{At, Diagnostic, Span};

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

pub fn effort(checked: &Checked) -> Option<&At<ModelEffort>> {
    let about = checked.agent.frontmatter.as_ref().and_then(|about| about.effort.as_ref());
    checked.resolved.harness.effort.as_ref().or(about)
}

/// One error for each option that this runtime would have to ignore.
pub fn refused(checked: &Checked, runtime: &Runtime) -> Vec<Diagnostic> {
    let start = Span::start_of(checked.agent.source);
    let mut refused = Vec::new();
    if let Some(plugin) = checked.resolved.harness.plugins.first().filter(|_| !runtime.has_plugins) {
        refused.push(refuse(Some(plugin.at), "plugins", "only `runtime: claude` has plugins"));
    }
    refused.extend((runtime.refused_options)(checked));
    if let Some(about) = &checked.agent.frontmatter {
        refused.extend(refused_everywhere(about));
        refused.extend(unknown_skills(checked, about));
    }
    let diagnose = |RefusedOption { at, option, instead }| {
        let message = format!("the runtime `{}` does not support `{option}`", runtime.name);
        Diagnostic::error("runtime-option", at.unwrap_or(start), message).help(instead)
    };
    refused.into_iter().map(diagnose).chain(cleared_variables(checked, runtime)).collect()
}

/// The gateway serves the model: a variable that would send requests elsewhere has no effect.
fn cleared_variables(checked: &Checked, runtime: &Runtime) -> Vec<Diagnostic> {
    let set = checked.resolved.harness.env.sandbox.0.iter().map(|(name, _)| name);
    set.flat_map(|name| cleared(runtime, std::slice::from_ref(&name.value), name.at)).collect()
}

/// One warning for each of these variables that has no effect, wherever it is set.
pub fn cleared(runtime: &Runtime, names: &[String], at: Span) -> Vec<Diagnostic> {
    let cleared = names.iter().filter(|name| runtime.model_variables.contains(&name.as_str()));
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

fn unknown_skills(checked: &Checked, about: &AgentFrontmatter) -> Vec<RefusedOption> {
    let is_known = |name: &str| checked.skills.iter().any(|skill| skill.name == name);
    let named = about.skills.iter().flat_map(|names| names.value.0.iter().map(move |name| (names.at, name)));
    let unknown = named.filter(|(_, name)| !is_known(name));
    let instead = "name it in the harness too, under `skills`";
    unknown.map(|(at, name)| refuse(Some(at), &format!("skills: {name}"), instead)).collect()
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
