//! The output of `fullsend run --dry-run`: what a run of the checked harness would do, step by step.

use crate::check::Checked;
use crate::harness::names::FeedbackMode;
use crate::resolve::layers::LayerPath;

/// One line for each step.
pub fn steps(checked: &Checked) -> String {
    let harness = &checked.resolved.harness;
    let scripts = &checked.scripts;
    let mut lines = vec![format!("{} ({})", checked.resolved.name, harness.runtime.value)];
    let mut add = |what: &str, text: String| lines.push(format!("  {what:11} {text}"));
    let path = |found: &LayerPath| found.path.clone();
    scripts.pre.iter().for_each(|pre| add("pre-script", path(pre)));
    add("inputs", format!("{} and all other inputs are scanned", checked.agent.found.path));
    for skill in &checked.skills {
        add("skill", skill.name.clone());
    }
    for file in &checked.providers {
        add("provider", file.provider.name.to_string());
    }
    for server in &harness.api_servers {
        add("server", format!("{} on port {}", server.name.value, server.port.value));
    }
    let root = harness.image.as_ref().map_or("the host's programs", |image| image.value.raw());
    let repository = if harness.readonly_repo.value { "read-only" } else { "copy-on-write" };
    add("sandbox", format!("{root}; {}; the repository {repository}", checked.policy.found.path));
    for endpoint in checked.policy.policy.networks.iter().flat_map(|network| &network.endpoints) {
        let ports: Vec<String> = endpoint.ports.iter().map(ToString::to_string).collect();
        add("may reach", format!("{}:{}", endpoint.host, ports.join(",")));
    }
    let mode = match harness.validation_loop.feedback_mode.value {
        FeedbackMode::Append => "in one conversation",
        FeedbackMode::Fresh => "each in a new sandbox",
    };
    let attempts = harness.validation_loop.max_iterations.get();
    let minutes = harness.timeout_minutes.get();
    add("agent", format!("at most {attempts} attempts in {minutes} minutes, {mode}"));
    let schema = checked.schema.as_ref().map_or("the built-in shape", |schema| schema.found.path.as_str());
    let script = scripts.validation.as_ref().map(|script| format!(", then by {}", script.path));
    add("validate", format!("{} by {schema}{}", harness.output_file.value, script.unwrap_or_default()));
    scripts.post.iter().for_each(|post| add("post-script", path(post)));
    lines.push(String::new());
    lines.join("\n")
}
