//! The shapes in which runtimes ask their hooks and hear the answers. Each file knows one runtime's words: what it sends,
//! which answer it honours, and what it does without asking. None decides anything.

mod claude;
mod codex;
pub mod native;

use serde_json::Value as Json;

use super::calls::{Decision, Habits};
use crate::harness::names::RuntimeName;

/// What a hook has to say, in neutral words.
#[derive(Clone, Debug, PartialEq)]
pub enum HookEvent {
    /// The runtime has started and its hooks run.
    Start,
    /// A call is about to run.
    Before { id: String, tool: String, input: Json },
    /// A call has run, or failed.
    After { response: Json },
    /// Something that needs no answer.
    Other,
}

/// What the hook's process does: its exit code, and what it prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookAnswer {
    pub code: u8,
    /// On standard output for 0, on standard error for everything else.
    pub text: String,
}

impl HookAnswer {
    /// Nothing to say: the call goes on, the result stays.
    pub fn silent() -> Self {
        Self { code: 0, text: String::new() }
    }

    fn json(value: &Json) -> Self {
        Self { code: 0, text: value.to_string() }
    }

    /// The one answer that every runtime takes for a denial, whatever it asked.
    pub fn refusal(reason: &str) -> Self {
        Self { code: 2, text: reason.to_owned() }
    }
}

/// Reads what a hook was given on its standard input. `None`: it is not what this runtime sends.
pub fn read(runtime: RuntimeName, body: &Json) -> Option<HookEvent> {
    match runtime {
        RuntimeName::Claude => claude::read(body),
        RuntimeName::Codex => codex::read(body),
        RuntimeName::Native => native::read(body),
    }
}

/// The verdict on a call, in the runtime's words.
pub fn verdict(runtime: RuntimeName, decision: &Decision) -> HookAnswer {
    match runtime {
        RuntimeName::Claude => claude::verdict(decision),
        RuntimeName::Codex => codex::verdict(decision),
        RuntimeName::Native => native::verdict(decision),
    }
}

/// A result that must be shown differently.
pub fn replacement(runtime: RuntimeName, body: &Json, cleaned: &Json) -> HookAnswer {
    match runtime {
        RuntimeName::Claude => claude::replacement(body, cleaned),
        RuntimeName::Codex => codex::replacement(cleaned),
        RuntimeName::Native => native::replacement(cleaned),
    }
}

pub fn habits(runtime: RuntimeName) -> Habits {
    match runtime {
        RuntimeName::Claude => claude::HABITS,
        RuntimeName::Codex => codex::HABITS,
        RuntimeName::Native => native::HABITS,
    }
}

fn text(body: &Json, key: &str) -> Option<String> {
    body[key].as_str().map(str::to_owned)
}
