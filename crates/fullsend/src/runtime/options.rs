//! Options mean one thing everywhere: what the harness says stands above what the agent's definition says. What a runtime
//! cannot honour of either is an error of `check` and of `run`, and never left out in silence.

use yaml::{At, Diagnostic, Span};

use super::native::tools;
use crate::check::Checked;
use crate::harness::frontmatter::AgentFrontmatter;
use crate::harness::names::{Effort, RuntimeName};

/// The model that is asked for; `None` where the runtime chooses.
pub fn model(checked: &Checked) -> Option<&str> {
    let about = checked.agent.frontmatter.as_ref().and_then(|about| about.model.as_ref());
    let model = checked.resolved.harness.model.as_ref().or(about);
    model.map(|model| model.as_str()).filter(|model| *model != "inherit")
}

pub fn effort(checked: &Checked) -> Option<&At<Effort>> {
    let about = checked.agent.frontmatter.as_ref().and_then(|about| about.effort.as_ref());
    checked.resolved.harness.effort.as_ref().or(about)
}

/// One error for each option that this runtime would have to ignore.
pub fn refused(checked: &Checked) -> Vec<Diagnostic> {
    let harness = &checked.resolved.harness;
    let mut found = Refused {
        runtime: harness.runtime.value,
        start: Span::start_of(checked.agent.source),
        all: Vec::new(),
    };
    if let Some(plugin) = harness.plugins.first().filter(|_| found.runtime != RuntimeName::Claude) {
        found.say(plugin.at, "plugins", "only `runtime: claude` has plugins");
    }
    let about = checked.agent.frontmatter.as_ref();
    if let Some(effort) =
        effort(checked).filter(|effort| effort.value == Effort::Max && found.runtime == RuntimeName::Codex)
    {
        found.say(effort.at, "effort: max", "its highest is `xhigh`");
    }
    if let Some(about) = about {
        found.tools(about);
        found.everywhere(about);
        let known = |name: &String| checked.skills.iter().any(|skill| skill.name == *name);
        for (names, name) in
            about.skills.iter().flat_map(|names| names.value.0.iter().map(move |name| (names, name)))
        {
            if !known(name) {
                found.say(names.at, &format!("skills: {name}"), "name it in the harness too, under `skills`");
            }
        }
    }
    found.all
}

struct Refused {
    runtime: RuntimeName,
    /// For keys that do not know where they stand.
    start: Span,
    all: Vec<Diagnostic>,
}

impl Refused {
    fn say(&mut self, at: Span, option: &str, instead: &str) {
        let message =
            format!("the runtime `{}` cannot honour `{option}`, and it is never ignored", self.runtime);
        self.all.push(Diagnostic::error("runtime-option", at, message).help(instead.to_owned()));
    }

    fn tools(&mut self, about: &AgentFrontmatter) {
        match self.runtime {
            RuntimeName::Claude => {}
            RuntimeName::Codex => {
                let instead = "its tools are its own: leave it out, or let the guard choose with `tool_allowlist_pretool`";
                for (key, tools) in [("tools", &about.tools), ("disallowedTools", &about.disallowed_tools)] {
                    if let Some(tools) = tools {
                        self.say(tools.at, key, instead);
                    }
                }
                if about.max_turns.is_some() {
                    self.say(self.start, "maxTurns", "say `budget: { turns: N }` in the harness");
                }
            }
            RuntimeName::Native => {
                let known =
                    |name: &String| tools::NAMES.contains(&name.as_str()) || name.starts_with("mcp__");
                for tools in [&about.tools, &about.disallowed_tools].into_iter().flatten() {
                    for name in tools.value.0.iter().filter(|name| !known(name)) {
                        let instead = format!("it has {}, and `mcp__SERVER__TOOL`", tools::NAMES.join(", "));
                        self.say(tools.at, name, &instead);
                    }
                }
            }
        }
    }

    /// Keys of Claude's agents that a run has its own words for, whatever the runtime.
    fn everywhere(&mut self, about: &AgentFrontmatter) {
        if about.permission_mode.as_deref().is_some_and(|mode| mode != "bypassPermissions") {
            self.say(
                self.start,
                "permissionMode",
                "leave it out: nobody can be asked; the policy and the guard decide",
            );
        }
        if let Some(servers) = &about.mcp_servers {
            self.say(servers.at, "mcpServers", "name them in the harness: `mcp_servers`");
        }
        if let Some(hooks) = &about.hooks {
            self.say(
                hooks.at,
                "hooks",
                "only the guard's hook runs: leave it out, or check in a `validation_loop.script`",
            );
        }
        let plain = [
            ("memory", about.memory.is_some(), "leave it out: a run remembers nothing; a session does"),
            ("background", about.background == Some(true), "leave it out: a run waits for its agent"),
            ("isolation", about.isolation.is_some(), "leave it out: the sandbox isolates every run"),
        ];
        for (key, _, instead) in plain.into_iter().filter(|(_, there, _)| *there) {
            self.say(self.start, key, instead);
        }
    }
}
