//! The `security` block: what is scanned, judged and redacted, and what a finding does. No switch turns all of it off.

use yaml::{Map, Spanned, Unmerged, choice, record};

use super::names::Threshold;

choice! {
    /// What a critical finding or a broken scanner does.
    pub enum FailMode {
        /// It stops the run.
        Closed = "closed",
        /// It is recorded, and the run continues.
        Open = "open",
    }
}

choice! {
    /// What the learned scanner scores.
    pub enum MatchType { Sentence = "sentence", Full = "full" }
}

choice! {
    /// The lowest severity that denies a command.
    pub enum FailOn { Critical = "critical", High = "high", Medium = "medium" }
}

choice! {
    /// What a critical finding requires of people.
    pub enum OnCritical { Halt = "halt", Review = "review" }
}

choice! {
    /// What a finding of one rule does.
    pub enum RuleAction {
        /// It acts by its severity.
        On = "on",
        /// It is shown, and stops nothing.
        Report = "report",
        /// It is not reported.
        Off = "off",
    }
}

record! {
    /// Defences against injection and leaks. All are on and fail closed by default.
    layered pub struct Security {
        /// What a critical finding or a broken scanner does. Default: closed.
        fail_mode: Spanned<FailMode>,
        /// Scanners that run on the host before the sandbox gets anything.
        host_scanners: HostScanners,
        /// Checks of every tool call.
        sandbox_hooks: SandboxHooks,
        /// Rules that are noisy here, by name: `RULE: {action: report, reason: …}`. The organisation's settings are
        /// pins; its `"*": {action: on}` pins every rule.
        rules: Map<Unmerged<RuleSetting>>,
        /// What a critical finding requires of people.
        escalation: Escalation,
        /// Tracing of the guard's decisions. Not supported yet.
        trace: Trace,
    }
    refuse {
        "enabled" => "there is no switch for everything: turn single scanners and hooks off by name. A full bypass is an entry with `field: security` in the organisation's `overrides`, and every use of it is recorded",
    }
}

record! {
    /// A layer's setting for one rule.
    pub struct RuleSetting {
        /// `on`, `report` (findings are shown and stop nothing) or `off` (findings are not reported).
        action: Spanned<RuleAction>,
        /// The reason. Required unless the action is `on`.
        reason: Option<Spanned<String>>,
    }
}

record! {
    /// Scanners that run on the host.
    layered pub struct HostScanners {
        /// Invisible, bidirectional and confusable characters.
        unicode_normalizer: Spanned<bool>,
        /// Instructions hidden in text that the agent reads.
        context_injection: Spanned<bool>,
        /// URLs that point at internal addresses.
        ssrf_validator: Spanned<bool>,
        /// Credentials.
        secret_redactor: Spanned<bool>,
        /// The learned scanner.
        llm_guard: LlmGuard,
    }
}

record! {
    /// The learned scanner for injected instructions.
    layered pub struct LlmGuard {
        /// Whether it runs where its weights file is installed. Default: true.
        enabled: Spanned<bool>,
        /// The score from which a text is a finding. Default: 0.98.
        threshold: Spanned<Threshold>,
        /// A lower threshold for instruction files, the harness's own documents and settings.
        threshold_instruction: Option<Spanned<Threshold>>,
        /// A lower threshold for tool results, pages and the output.
        threshold_tool: Option<Spanned<Threshold>>,
        /// A lower threshold for issues, inputs, session memory and learnings.
        threshold_issue: Option<Spanned<Threshold>>,
        /// Whether each sentence is scored alone, or the text in windows. Default: full.
        match_type: Spanned<MatchType>,
        /// Whether a run on a host without the weights file is refused. Default: false.
        required: Spanned<bool>,
        /// The weights file on the host, an absolute path. Without it, the installed file is used: beside the program, in
        /// `../share/fullsend` or in `$XDG_DATA_HOME/fullsend`.
        model: Option<Spanned<String>>,
    }
}

record! {
    /// Checks of every tool call, before and after it runs.
    layered pub struct SandboxHooks {
        /// Commands that destroy data, hide their purpose, or run downloaded code.
        tirith: TirithSettings,
        /// URLs in commands and fetches that point at internal addresses.
        ssrf_pretool: Spanned<bool>,
        /// Credentials in results.
        secret_redact_posttool: Spanned<bool>,
        /// Invisible and confusable characters in results.
        unicode_posttool: Spanned<bool>,
        /// Replaces long logs of successful checks with one line.
        context_suppress_posttool: Spanned<bool>,
        /// The canary token in a call's input.
        canary_pretool: Spanned<bool>,
        /// The canary token in a result.
        canary_posttool: Spanned<bool>,
        /// Allows only the tools in FULLSEND_TOOL_ALLOWLIST.
        tool_allowlist_pretool: ToolAllowlist,
    }
}

record! {
    /// Judgement of shell commands.
    layered pub struct TirithSettings {
        /// Default: true.
        enabled: Spanned<bool>,
        /// The lowest severity that denies a command. Default: high.
        fail_on: Spanned<FailOn>,
    }
}

record! {
    /// Only listed tools may run.
    layered pub struct ToolAllowlist {
        /// Default: false. Needs FULLSEND_TOOL_ALLOWLIST.
        enabled: Spanned<bool>,
    }
}

record! {
    /// What a critical finding requires of people.
    layered pub struct Escalation {
        /// Default: halt.
        on_critical: Spanned<OnCritical>,
        /// The label that CI sets for a review. Default: requires-manual-review.
        review_label: Spanned<String>,
    }
}

record! {
    /// Tracing of the guard's decisions. Not supported yet.
    layered pub struct Trace {
        /// Default: false.
        enabled: Spanned<bool>,
    }
}
