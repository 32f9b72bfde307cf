//! What the guard must know about a runtime: how its hooks ask, which answers they understand, and which tools run
//! without a hook. Plain types; each runtime fills them in its own folder.

use model::gateway::ChunkFormat;
use serde_json::Value as Json;

/// One runtime's hook format.
#[derive(Clone, Copy, Debug)]
pub struct HookDialect {
    /// Reads what a hook got on its standard input. `None`: this runtime does not send that.
    pub read: fn(&Json) -> Option<HookEvent>,
    /// The guard's decision about a call, in the runtime's format.
    pub verdict: fn(&CallDecision) -> HookAnswer,
    /// The answer that replaces a result: what the hook was given, then the cleaned result.
    pub replacement: fn(&Json, &Json) -> HookAnswer,
    /// How the output of one command is spread over several results.
    pub chunk_format: ChunkFormat,
    pub quirks: RuntimeQuirks,
}

/// A hook's report, for any runtime.
#[derive(Clone, Debug, PartialEq)]
pub enum HookEvent {
    /// The runtime has started and its hooks run.
    Start,
    /// A call is about to run.
    Before { id: String, tool: String, input: Json },
    /// A call has run, or failed.
    After { id: String, response: Json, succeeded: Option<bool> },
    /// Something that needs no answer.
    Other,
}

/// The result of the hook's process: its exit code and its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookAnswer {
    pub code: u8,
    /// On standard output for 0, on standard error for everything else.
    pub text: String,
}

impl HookAnswer {
    /// The exit codes that runtimes understand: continue, and deny. The neutral contract denies with `BLOCKED`.
    pub const PASSED: u8 = 0;
    pub const BLOCKED: u8 = 1;
    pub const DENIED: u8 = 2;

    pub fn passes(&self) -> bool {
        self.code == Self::PASSED
    }

    /// The call goes on, the result stays as it is.
    pub fn silent() -> Self {
        Self { code: Self::PASSED, text: String::new() }
    }

    pub fn json(value: &Json) -> Self {
        Self { code: Self::PASSED, text: value.to_string() }
    }

    /// Every runtime reads this as a denial, for any kind of hook.
    pub fn refusal(reason: &str) -> Self {
        Self { code: Self::DENIED, text: reason.to_owned() }
    }
}

/// A text field of what a hook was given.
pub fn text(body: &Json, key: &str) -> Option<String> {
    body[key].as_str().map(str::to_owned)
}

/// What the guard decides about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallDecision {
    Allow,
    /// The reason contains the mark. Only this denial has it, and nothing inside can know it before.
    Deny {
        reason: String,
        mark: String,
    },
}

/// For a runtime that asks no hook about any tool.
pub const EVERY_TOOL: &[&str] = &["every tool"];

/// What is special about a runtime's tool calls and their results.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeQuirks {
    /// Tools that the runtime runs without asking its hooks, or `EVERY_TOOL`. The model gateway alone judges them.
    pub tools_without_hooks: &'static [&'static str],
    /// Prefixes of tool names that no run may use, and why.
    pub switched_off: &'static [(&'static str, &'static str)],
    /// Marks in user messages by which the runtime reports what happens in the background.
    pub events: &'static [&'static str],
    /// How results start when the runtime itself refused a call before any hook: no such tool, wrong arguments.
    pub refusals: &'static [&'static str],
    /// Whether results have an error flag.
    pub errors_are_marked: bool,
    /// Whether a result that a hook replaces loses its exit code. Then the hook replaces only what steers the agent, and the
    /// gateway masks the rest.
    pub replacing_loses_exit_code: bool,
    /// The element in which the runtime adds reminders of its own to results.
    pub reminder: Option<&'static str>,
    /// The tool that returns the result. No tool allowlist can forbid it.
    pub result_tool: Option<&'static str>,
    /// The name of a tool as hooks and tool allowlists know it.
    pub name_of: fn(&str) -> &str,
    /// Whether the hook got the call that the model made.
    pub same_call: fn(asked: (&str, &Json), hooked: (&str, &Json)) -> bool,
}

impl RuntimeQuirks {
    /// Whether the runtime runs this tool without asking its hooks.
    pub fn is_hookless(&self, tool: &str) -> bool {
        self.tools_without_hooks == EVERY_TOOL || self.tools_without_hooks.contains(&tool)
    }

    /// Why no run may use this tool, if so.
    pub fn why_off(&self, tool: &str) -> Option<&'static str> {
        self.switched_off.iter().find(|(start, _)| tool.starts_with(start)).map(|(_, why)| *why)
    }
}
