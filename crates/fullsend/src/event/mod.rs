//! The events of a run, in the order in which they happen: a closed, versioned enum. Console, JSON, record and
//! annotations are made from this stream.

mod agent_ending;
pub mod clock;
mod counted;
pub mod exit;
pub mod finding;
pub mod input;
pub mod lasting;
pub mod log;
pub mod outcome;
pub mod zone;

use egress::event::EgressEvent;
use model::ModelEvent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use agent_ending::AgentEnding;
pub use finding::FindingEvent;
use finding::FindingFamily;
pub use input::InputKind;
pub use lasting::LastingEvent;
use outcome::OutcomeKind;

/// The version of the event format.
pub const VERSION: u32 = 1;

/// One event. New kinds may be added; the meaning of a kind stays the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RunEvent {
    /// The run has an id and a directory.
    RunStarted {
        run_id: String,
        harness: String,
        runtime: String,
        /// The name in the harness or the agent; empty if the runtime chooses.
        #[serde(default)]
        model: String,
        repository: String,
        /// The name of its directory on the host; empty in older logs.
        #[serde(default)]
        repository_directory: String,
        fullsend: String,
    },
    /// The commit and branch of the repository.
    Repository {
        commit: String,
        branch: String,
    },
    /// The digest of one input of the run.
    Input {
        kind: InputKind,
        name: String,
        sha256: String,
    },
    /// How much of an image has been pulled from its registry.
    ImagePull {
        name: String,
        bytes: u64,
        total_bytes: u64,
    },
    /// The program of a runtime, and where it was found.
    Program {
        version: String,
        place: String,
    },
    /// A skill of the repository has the same name as one of the harness; the agent gets the harness's.
    SkillShadowed {
        skill: String,
        /// Its SKILL.md in the repository.
        place: String,
    },
    /// The agent asked for a skill with `fullsend fetch-skill`.
    SkillFetch(SkillFetchEvent),
    /// A security setting is weaker than the built-in default, and no organisation pins it.
    Toggle {
        field: String,
        value: String,
        place: String,
    },
    /// An exception: a named, recorded weakening.
    Exception {
        field: String,
        what: String,
        reason: String,
        until: String,
    },
    /// An operator acted on the run through `fullsend serve`.
    OperatorAction {
        by: String,
        action: OperatorActionKind,
    },
    /// The command line sets a field of the harness, or a variable, for this run.
    Override {
        field: String,
        value: String,
    },
    StepStarted {
        step: Step,
    },
    StepFinished {
        step: Step,
        duration_ms: u64,
        ok: bool,
    },
    /// The guard or a scanner found something.
    Finding(FindingEvent),
    /// A scanner failed. This is not a finding.
    #[serde(rename = "scanner_broke")]
    ScannerFailed {
        place: String,
        scanner: String,
        reason: String,
        /// Whether the text was stopped because of it.
        stopped: bool,
    },
    /// Which scanner serves a family of rules in this run.
    Scanner {
        family: FindingFamily,
        by: String,
    },
    /// A person must review this run; CI sets the label.
    ReviewRequested {
        label: String,
    },
    /// Whether one part of the sandbox is enforced.
    SandboxPart {
        part: String,
        status: EnforcementStatus,
        reason: String,
    },
    /// One probe of the sandbox's proof: an action that the sandbox must refuse.
    Proof {
        name: String,
        held: bool,
        detail: String,
    },
    /// A connection or a name that the sandbox tried to reach.
    Egress {
        event: EgressEvent,
    },
    /// A request or a response that passed the model gateway.
    Model {
        event: ModelEvent,
    },
    /// The agent was started.
    AgentStarted {
        iteration: u32,
    },
    /// Text of the agent for people, as it wrote it.
    AgentText {
        iteration: u32,
        text: String,
    },
    /// The agent called a tool.
    ToolStarted {
        iteration: u32,
        call: String,
        tool: String,
        summary: String,
    },
    /// The guard denied a tool call; the agent got the reason and continued.
    ToolDenied {
        call: String,
        tool: String,
        reason: String,
    },
    /// A tool result came back without the guard's verdict, or despite its denial.
    HookMissing {
        call: String,
        reason: String,
        stopped: bool,
    },
    ToolFinished {
        iteration: u32,
        call: String,
        is_error: bool,
        bytes: u64,
    },
    AgentFinished {
        iteration: u32,
        ending: AgentEnding,
        turns: u64,
    },
    /// The output did not pass; the next attempt gets the reasons.
    OutputRejected {
        iteration: u32,
        violations: Vec<Violation>,
    },
    /// The output passed every check.
    OutputAccepted {
        iteration: u32,
        schema: String,
    },
    /// A file of the accepted output.
    Artifact {
        path: String,
        sha256: String,
        bytes: u64,
    },
    /// An API server on the host is ready, or ended too early.
    ApiServer {
        name: String,
        state: ServerState,
        detail: String,
    },
    /// The agent's workspace was saved; links and special files were left out.
    #[serde(rename = "kept")]
    WorkspaceSaved {
        files: u64,
        left_out: u64,
        /// Why it could not be saved; empty if it was.
        problem: String,
    },
    ScriptFinished {
        script: String,
        exit: i32,
        duration_ms: u64,
    },
    RunFinished {
        outcome: OutcomeKind,
        exit_code: u8,
        reason: String,
    },
    /// So many further events of a kind happened in the run so far. They are not in the log.
    EventsCounted {
        kind: String,
        count: u64,
    },
    /// What happens to a lasting sandbox, which is not a run.
    Lasting {
        event: LastingEvent,
    },
}

/// What an operator does with a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OperatorActionKind {
    Start,
    Cancel,
}

impl OperatorActionKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Cancel => "cancel",
        }
    }
}

/// A skill that the agent asked for while it ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkillFetchEvent {
    pub url: String,
    /// Empty if it was refused.
    pub name: String,
    /// The digest of its names, modes and contents; empty if it was refused.
    pub sha256: String,
    /// Why it was refused; empty if it was not.
    pub refused: String,
}

/// How a part of the sandbox is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EnforcementStatus {
    Enforced,
    /// The action is possible; fullsend notices it and stops it.
    Watched,
    Absent,
}

impl EnforcementStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::Watched => "watched",
            Self::Absent => "absent",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServerState {
    Ready,
    Ended,
}

/// A step of a run, in the order in which a run takes them. A rejected output repeats the steps from `Agent` to
/// `Validate`; with `feedback_mode: fresh`, `Teardown`, `Provision` and `Bootstrap` come before the next `Agent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    PreScript,
    Inputs,
    Provision,
    Bootstrap,
    Agent,
    Quarantine,
    Validate,
    Publish,
    Teardown,
    PostScript,
}

/// One reason why an output was rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Violation {
    /// JSON pointer into the output; empty for the whole.
    pub path: String,
    pub message: String,
}

/// One line of `events.jsonl`: an event, its number, and the digests that chain it to the line before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Envelope {
    pub v: u32,
    pub seq: u64,
    /// RFC 3339, UTC.
    pub time: String,
    #[serde(flatten)]
    pub event: RunEvent,
    /// The digest of the line before; 64 zeros for the first.
    pub previous: String,
    /// SHA-256 over `previous` and the line without this key.
    pub hash: String,
}
