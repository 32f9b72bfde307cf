//! What the guard answers to the model gateway. It records every tool call before the agent sees it. It matches every
//! result with the verdict of its call and cleans it again before the model sees it. It cleans every answer before the
//! agent sees it.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError};

use model::gateway::{ChunkFormat, EarlierOutput, HoldBack, Inspect, Inspected, StartSignal, Verdict};
use redact::Category;
use scan::Origin;
use serde_json::Value as Json;
use tokio::sync::watch;

use super::Guard;
use super::dialect::CallDecision;
use super::judge::{Scanners, describe, name};
use super::reminders;
use super::report::TextAction;
use super::tool_input;
use super::withholding::{PassedResult, WithheldParts, withheld_notice};
use crate::event::RunEvent;

/// How long the model's first request waits for the start hook.
const START_PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// A result at the gateway.
struct GatewayResult<'a> {
    place: &'a str,
    call: Option<&'a (String, Json)>,
    text: &'a str,
    continued: Option<EarlierOutput<'a>>,
    /// No earlier request contained it: findings are reported.
    fresh: bool,
}

impl Guard {
    /// How the run's runtime gives output in portions.
    pub fn chunk_format(&self) -> ChunkFormat {
        self.dialect.chunk_format
    }

    /// How much of a streamed answer is held back: as much as the longest known value.
    pub fn hold_back(&self) -> HoldBack {
        let known = Arc::clone(&self.judge.known);
        Arc::new(move || known.text_redactor().reach())
    }

    /// The same guard, as the gateway asks it.
    pub fn gateway_inspect(&self) -> Inspect {
        let guard = self.clone();
        Arc::new(move |subject| guard.inspect_at_gateway(subject))
    }

    /// The process of the runtime, as it sees itself. Only it may use the gateway.
    pub fn set_runtime_process(&self, pid: i32) {
        self.runtime_process.send_replace(Some(pid));
    }

    pub fn runtime_process(&self) -> watch::Receiver<Option<i32>> {
        self.runtime_process.subscribe()
    }

    /// What the gateway waits for before the first request.
    pub fn start_signal(&self) -> StartSignal {
        StartSignal { started: self.started.subscribe(), patience: START_PATIENCE }
    }

    fn inspect_at_gateway(&self, subject: &Inspected<'_>) -> Verdict {
        match *subject {
            Inspected::Text { text } => {
                self.repeated_at_gateway(text).unwrap_or_else(|| self.answer_at_gateway(text))
            }
            Inspected::Said { text } => self.repeated_at_gateway(text).unwrap_or(Verdict::Pass),
            Inspected::UserText { text, fresh } => self.user_text_at_gateway(text, fresh),
            Inspected::SystemText { text, .. } => self.system_text_at_gateway(text),
            Inspected::Document { text, fresh } => self.foreign_at_gateway("document", text, fresh),
            // The runtime wrote the descriptions of its own tools, MCP servers those of theirs.
            Inspected::ToolDescription { tool, text, fresh } if self.is_of_server(tool) => {
                self.foreign_at_gateway(&format!("tool/{tool}"), text, fresh)
            }
            Inspected::ToolDescription { text, .. } => self.masked_at_gateway(text),
            Inspected::ToolDefinition { tool, description, schema } => {
                self.tool_at_gateway(tool, description, schema)
            }
            Inspected::Counted { text } => match self.redact(text) {
                Cow::Owned(clean) if clean != text => Verdict::Replace(clean),
                _ => Verdict::Pass,
            },
            Inspected::ToolCall { call_id, tool, input } => self.remember(call_id, tool, input),
            Inspected::ToolResult { call_id, text, continued, is_error, fresh, .. } => {
                if fresh && let Err(stop) = self.match_result(call_id, text, is_error) {
                    return stop;
                }
                let call = self.calls.lock().unwrap_or_else(PoisonError::into_inner).get(call_id);
                let marked = is_error || self.dialect.quirks.errors_are_marked;
                let place = format!("result/{}", call.as_ref().map_or("unknown", |(tool, _)| tool));
                let renamed = self.own_reminders(call_id).and_then(|name| reminders::rename(name, text));
                let text = renamed.as_deref().unwrap_or(text);
                let result = GatewayResult { place: &place, call: call.as_ref(), text, continued, fresh };
                match self.result_at_gateway(&result, marked.then_some(!is_error)) {
                    Verdict::Replace(clean) if renamed.is_some() => {
                        Verdict::Replace(self.with_reminders(&clean))
                    }
                    verdict => verdict,
                }
            }
        }
    }

    /// Whether a tool belongs to an MCP server. Some runtimes put only the server's name before a tool's.
    fn is_of_server(&self, tool: &str) -> bool {
        let named =
            |server: &String| tool.strip_prefix(server.as_str()).is_some_and(|rest| rest.starts_with('_'));
        tool.starts_with("mcp__") || self.mcp_servers.iter().any(named)
    }

    /// The name of the runtime's reminders, if every one in the result of this call is its own.
    fn own_reminders(&self, call: &str) -> Option<&'static str> {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        self.dialect.quirks.reminder.filter(|_| calls.has_only_own_reminders(call))
    }

    fn with_reminders(&self, renamed: &str) -> String {
        self.dialect
            .quirks
            .reminder
            .map_or_else(|| renamed.to_owned(), |name| reminders::restore(name, renamed))
    }

    /// Stops the run if the model repeats the canary token, a sign of prompt injection.
    fn repeated_at_gateway(&self, text: &str) -> Option<Verdict> {
        let findings = match self.judge.scan_for_canary(text, "answer") {
            Ok(findings) => findings,
            Err(error) => {
                let stopped = self.report_scanner_error("answer", &error);
                return stopped.then(|| Verdict::Stop(error.to_string()));
            }
        };
        let why =
            self.judge.stopping_finding(&findings).map(|finding| format!("answer: {}", describe(finding)));
        let action = if why.is_some() { TextAction::Stopped } else { TextAction::Reported };
        // A long text is scanned in overlapping parts, and then whole.
        self.report_once("answer", Origin::Output, findings, action);
        why.map(Verdict::Stop)
    }

    fn answer_at_gateway(&self, text: &str) -> Verdict {
        match self.judge.redact_response(text) {
            Ok(Cow::Borrowed(_)) => Verdict::Pass,
            Ok(Cow::Owned(clean)) => {
                // Report removed text now: it is absent from the forwarded text.
                if let Ok(mut findings) = self.judge.scan_file(text.as_bytes(), Origin::Output, "answer") {
                    findings.open.retain(|finding| finding.category != Category::Canary);
                    self.report("answer", Origin::Output, &findings, TextAction::Cleaned);
                }
                Verdict::Replace(clean)
            }
            Err(error) if self.report_scanner_error("answer", &error) => Verdict::Stop(error.to_string()),
            Err(_) => Verdict::Pass,
        }
    }

    /// Records a call. A denied call still passes, because its hook tells the agent why. If the runtime asks no hook, the
    /// gateway denies it.
    fn remember(&self, id: &str, tool: &str, input: &Json) -> Verdict {
        let hookless = self.dialect.quirks.is_hookless(tool);
        let scanners = if hookless { Scanners::All } else { Scanners::BuiltIn };
        let unreadable = hookless && self.judge.fails_closed() && tool_input::is_unreadable(tool, input);
        let decision = match self.decide(tool, input, scanners) {
            CallDecision::Allow if unreadable => self.deny(tool_input::UNREADABLE),
            CallDecision::Allow if hookless => self.confirm(tool, input),
            decision => decision,
        };
        let decision = if hookless { self.emit_if_denied(id, tool, decision) } else { decision };
        let verdict = match &decision {
            CallDecision::Deny { reason, .. } if hookless => Verdict::Deny(reason.clone()),
            _ => Verdict::Pass,
        };
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.record(id, tool, input, decision);
        verdict
    }

    fn match_result(&self, id: &str, text: &str, is_error: bool) -> Result<(), Verdict> {
        let quirks = &self.dialect.quirks;
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.goes_on();
        let Err(unmatched) = calls.result(id, text, is_error, quirks) else { return Ok(()) };
        let call = id.to_owned();
        let reason = unmatched.to_string();
        let stopped = self.judge.fails_closed();
        self.emit.emit(RunEvent::HookMissing { call, reason: reason.clone(), stopped });
        if stopped { Err(Verdict::Stop(reason)) } else { Ok(()) }
    }

    /// The output of a background command comes as a user message, and is judged as a result. In other user messages only
    /// known values are masked: they were scanned on their way in.
    fn user_text_at_gateway(&self, text: &str, fresh: bool) -> Verdict {
        if self.dialect.quirks.events.iter().any(|mark| text.contains(mark)) {
            return self.foreign_at_gateway("result/event", text, fresh);
        }
        self.masked_at_gateway(text)
    }

    /// Untrusted text of a program or a person is scanned like a result.
    fn foreign_at_gateway(&self, place: &str, text: &str, fresh: bool) -> Verdict {
        self.result_at_gateway(&GatewayResult { place, call: None, text, continued: None, fresh }, None)
    }

    /// The runner puts the canary token into the system text: the model must read it there.
    fn system_text_at_gateway(&self, text: &str) -> Verdict {
        let Some(canary) = &self.canary else { return self.masked_at_gateway(text) };
        let around: Vec<String> = text.split(&**canary).map(|part| self.mask(part)).collect();
        let masked = around.join(canary);
        if masked == text { Verdict::Pass } else { Verdict::Replace(masked) }
    }

    fn masked_at_gateway(&self, text: &str) -> Verdict {
        let masked = self.mask(text);
        if masked == text { Verdict::Pass } else { Verdict::Replace(masked) }
    }

    /// Repeats the work of the hook after the call: passages that steer the agent are withheld. A critical finding here
    /// means that the hook failed, and stops the run.
    fn result_at_gateway(&self, result: &GatewayResult<'_>, succeeded: Option<bool>) -> Verdict {
        let GatewayResult { place, call, text, continued, fresh } = *result;
        let judged = self.judge.scan_next_chunk(text, continued, place).and_then(|(joined, began)| {
            let PassedResult { text: clean, mut findings, withheld } =
                self.judge.result(call, &joined, succeeded)?;
            let crosses = self.judge.withholds(&began).next().map(name);
            findings.open.extend(began.open);
            findings.waived.extend(began.waived);
            let (clean, withheld) = match crosses {
                Some(why) => (Cow::Owned(withheld_notice(&why)), Some(WithheldParts::Whole(why))),
                None => (clean, withheld),
            };
            let cleaned = match clean {
                Cow::Owned(clean) => Some(clean),
                Cow::Borrowed(same) => (same != text).then(|| same.to_owned()),
            };
            Ok((cleaned, findings, withheld))
        });
        let (cleaned, findings, withheld) = match judged {
            Ok(judged) => judged,
            Err(error) if self.report_scanner_error(place, &error) => {
                return Verdict::Stop(error.to_string());
            }
            Err(_) => return Verdict::Pass,
        };
        let stops = self.judge.stopping_finding(&findings).map(name);
        if fresh {
            let action = match (&stops, &withheld) {
                (Some(_), _) => TextAction::Stopped,
                (None, Some(_)) => TextAction::Withheld,
                (None, None) => TextAction::Cleaned,
            };
            self.report_result(place, text, &findings, action);
        }
        match (stops, cleaned) {
            (Some(why), _) => Verdict::Stop(format!("{place}: {why}")),
            (None, Some(clean)) => Verdict::Replace(clean),
            (None, None) => Verdict::Pass,
        }
    }
}
