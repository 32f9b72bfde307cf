//! The sockets of the host that the sandbox sees: the guard's, and that of `fullsend fetch-skill` where the harness allows it.

use std::io;
use std::path::Path;

use sandbox::{Mount, MountKind};

use super::RunContext;
use super::skill_server::{SkillRules, SkillServer};
use crate::guard::hook_client;
use crate::guard::hook_server::HookServer;
use crate::inputs::ScannedInputs;
use crate::remote::skill_request;
use crate::runtime;

/// Servers that listen until they are dropped.
pub struct RunSockets {
    hooks: HookServer,
    skills: Option<SkillServer>,
}

impl RunSockets {
    pub fn start(inputs: &ScannedInputs, staging: &Path, context: &RunContext<'_>) -> io::Result<Self> {
        let hooks = HookServer::start(context.directory, context.guard)?;
        let resolved = &inputs.checked().resolved;
        let harness = &resolved.harness;
        if !harness.allow_runtime_fetch.value {
            return Ok(Self { hooks, skills: None });
        }
        let config = runtime::of(harness.runtime.value).config_directory;
        let rules = SkillRules {
            allowed: harness.allowed_remote_resources.iter().map(|prefix| prefix.value.clone()).collect(),
            most: harness.max_runtime_fetches.as_ref().map_or(0, |most| most.get()),
            remote: context.library.remote.for_thread(),
            staging: staging.to_owned(),
            inside: format!("{config}/skills"),
        };
        let skills = SkillServer::start(context.directory, rules, context)?;
        Ok(Self { hooks, skills: Some(skills) })
    }

    pub fn mounts(&self) -> Vec<Mount> {
        let socket = |target: &str, source: &Path| Mount {
            target: target.into(),
            kind: MountKind::Socket { source: source.to_owned() },
        };
        let mut mounts = vec![socket(hook_client::SOCKET, self.hooks.path())];
        mounts.extend(self.skills.as_ref().map(|skills| socket(skill_request::SOCKET, skills.path())));
        mounts
    }
}
