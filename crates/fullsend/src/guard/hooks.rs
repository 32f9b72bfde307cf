//! Answers hooks: a verdict before a call, a redacted result after it. The decisions are the same for every runtime; the
//! dialect gives them their format.

use std::borrow::Cow;
use std::sync::PoisonError;

use scan::Origin;
use serde_json::Value as Json;

use super::Guard;
use super::calls::CallState;
use super::dialect::{CallDecision, HookAnswer, HookEvent};
use super::hook_client;
use super::judge::Scanners;
use super::reminders;
use super::report::TextAction;
use super::tool_input;
use super::withholding;
use crate::event::RunEvent;

/// The client on the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HookCaller {
    /// The hook of the run's runtime.
    Runtime,
    /// Another program inside, by the neutral contract.
    Neutral,
}

impl Guard {
    /// The client, if it knows the run's token.
    pub(super) fn caller(&self, head: &str) -> Option<HookCaller> {
        let (name, token) = head.split_once(' ')?;
        if token != &*self.token {
            None
        } else if name == hook_client::NEUTRAL {
            Some(HookCaller::Neutral)
        } else {
            (name == self.runtime).then_some(HookCaller::Runtime)
        }
    }

    /// Answers one hook.
    pub(super) fn answer(&self, caller: HookCaller, body: &[u8]) -> HookAnswer {
        match caller {
            HookCaller::Runtime => self.answer_hook(body),
            HookCaller::Neutral => self.answer_neutral(body),
        }
    }

    fn answer_hook(&self, body: &[u8]) -> HookAnswer {
        let Ok(body) = serde_json::from_slice::<Json>(body) else {
            return HookAnswer::refusal("fullsend: the hook's input is not JSON");
        };
        match (self.dialect.read)(&body) {
            None => HookAnswer::refusal("fullsend: the hook's input has an unknown event type"),
            Some(HookEvent::Other) => HookAnswer::silent(),
            Some(HookEvent::Start) => {
                self.started.send_replace(true);
                HookAnswer::silent()
            }
            Some(HookEvent::Before { id, tool, input }) => {
                (self.dialect.verdict)(&self.before(&id, &tool, &input))
            }
            Some(HookEvent::After { id, response, succeeded }) => {
                let call = {
                    let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(name) = self.dialect.quirks.reminder {
                        calls.record_reminder(&id, reminders::is_printed(name, &response));
                    }
                    calls.get(&id)
                };
                match self.clean_response(call.as_ref(), &response, succeeded) {
                    Cow::Borrowed(_) => HookAnswer::silent(),
                    Cow::Owned(cleaned) => (self.dialect.replacement)(&body, &cleaned),
                }
            }
        }
    }

    fn before(&self, id: &str, tool: &str, input: &Json) -> CallDecision {
        let quirks = &self.dialect.quirks;
        let state =
            self.calls.lock().unwrap_or_else(PoisonError::into_inner).state(id, (tool, input), quirks);
        // Release the lock first: an external scanner may be slow.
        let decision = match state {
            CallState::Unknown => {
                return self.emit_if_denied(
                    id,
                    tool,
                    self.deny("the gateway did not see this call in your last answer. Make the call again."),
                );
            }
            CallState::Settled(decision) => return decision,
            CallState::Different => {
                self.deny("the runtime changed this call after you made it. Make the call again.")
            }
            CallState::Off(why) => self.deny(why),
            CallState::Denied(decision) => decision,
            // The gateway does not check this, because the runtime itself may refuse the call.
            CallState::Open if self.judge.fails_closed() && tool_input::is_unreadable(tool, input) => {
                self.deny(tool_input::UNREADABLE)
            }
            CallState::Open if self.is_judged(id, tool, input) => self.confirm(tool, input),
            CallState::Open => match self.decide(tool, input, Scanners::All) {
                CallDecision::Allow => self.confirm(tool, input),
                denied => denied,
            },
        };
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).settle(id, &decision);
        self.emit_if_denied(id, tool, decision)
    }

    /// Whether the gateway has judged this call already, and no external scanner is configured.
    fn is_judged(&self, id: &str, tool: &str, input: &Json) -> bool {
        let asked = self.calls.lock().unwrap_or_else(PoisonError::into_inner).get(id);
        // The runtime may rewrite the call, so compare what it would really run.
        let is_alike = |(asked, given): (String, Json)| {
            let quirks = &self.dialect.quirks;
            tool_input::command(&asked, &given) == tool_input::command(tool, input)
                && tool_input::addresses(&asked, &given) == tool_input::addresses(tool, input)
                && (quirks.name_of)(&asked) == (quirks.name_of)(tool)
        };
        !self.judge.asks_programs() && asked.is_some_and(is_alike)
    }

    pub(super) fn emit_if_denied(&self, id: &str, tool: &str, decision: CallDecision) -> CallDecision {
        if let CallDecision::Deny { reason, .. } = &decision {
            let event =
                RunEvent::ToolDenied { call: id.to_owned(), tool: tool.to_owned(), reason: reason.clone() };
            self.emit.emit(event);
        }
        decision
    }

    /// Decides about a call. The gateway has judged it first and reported its findings; the hook reports only what the
    /// gateway could not know.
    pub(super) fn decide(&self, tool: &str, input: &Json, scanners: Scanners) -> CallDecision {
        let quirks = &self.dialect.quirks;
        // The tool that returns the result is ours, and not subject to the tool allowlist.
        let named = if quirks.result_tool == Some(tool) { None } else { Some((quirks.name_of)(tool)) };
        let place = format!("call/{}", named.unwrap_or(tool));
        let judged = self.judge.judge_call(tool, named, input, scanners);
        let decision = match &judged {
            Ok((_, Some(reason))) => self.deny(reason),
            Err(error) if self.judge.fails_closed() => self.deny(&error.to_string()),
            Ok((_, None)) | Err(_) => CallDecision::Allow,
        };
        let denied = decision != CallDecision::Allow;
        match judged {
            Ok((findings, _)) if denied => self.report(&place, Origin::Tool, &findings, TextAction::Denied),
            Ok((findings, _)) if scanners == Scanners::BuiltIn || quirks.is_hookless(tool) => {
                self.report(&place, Origin::Tool, &findings, TextAction::Reported);
            }
            Ok(_) => {}
            Err(error) => {
                self.report_scanner_error(&place, &error);
            }
        }
        decision
    }

    /// Every denial has its own random mark, so that the guard can recognise it in the runtime's result.
    pub(super) fn deny(&self, reason: &str) -> CallDecision {
        let mark = format!("[denial {}]", uuid::Uuid::new_v4().simple());
        CallDecision::Deny { reason: format!("fullsend: {reason} {mark}"), mark }
    }

    /// One text of a result, redacted and reported.
    fn clean_text<'t>(
        &self,
        call: Option<&(String, Json)>,
        text: &'t str,
        succeeded: Option<bool>,
    ) -> Cow<'t, str> {
        let place = format!("result/{}", call.map_or("unknown", |(tool, _)| tool));
        match self.judge.result(call, text, succeeded) {
            Ok(passed) if passed.withheld.is_none() && self.dialect.quirks.replacing_loses_exit_code => {
                Cow::Borrowed(text)
            }
            Ok(passed) => {
                let action =
                    if passed.withheld.is_some() { TextAction::Withheld } else { TextAction::Cleaned };
                self.report_result(&place, text, &passed.findings, action);
                passed.text
            }
            Err(error) if self.report_scanner_error(&place, &error) => {
                Cow::Owned(withholding::withheld_notice(&error.to_string()))
            }
            Err(_) => Cow::Borrowed(text),
        }
    }

    /// A result of any shape, with every text in it redacted; borrowed if nothing changed.
    fn clean_response<'v>(
        &self,
        call: Option<&(String, Json)>,
        value: &'v Json,
        succeeded: Option<bool>,
    ) -> Cow<'v, Json> {
        match value {
            Json::String(text) => match self.clean_text(call, text, succeeded) {
                Cow::Borrowed(_) => Cow::Borrowed(value),
                Cow::Owned(clean) => Cow::Owned(Json::String(clean)),
            },
            Json::Array(items) => {
                let cleaned: Vec<Cow<'_, Json>> =
                    items.iter().map(|item| self.clean_response(call, item, succeeded)).collect();
                if cleaned.iter().all(|item| matches!(item, Cow::Borrowed(_))) {
                    return Cow::Borrowed(value);
                }
                Cow::Owned(Json::Array(cleaned.into_iter().map(Cow::into_owned).collect()))
            }
            Json::Object(fields) => {
                let cleaned: Vec<(&String, Cow<'_, Json>)> = fields
                    .iter()
                    .map(|(key, field)| (key, self.clean_response(call, field, succeeded)))
                    .collect();
                if cleaned.iter().all(|(_, field)| matches!(field, Cow::Borrowed(_))) {
                    return Cow::Borrowed(value);
                }
                let fields = cleaned.into_iter().map(|(key, field)| (key.clone(), field.into_owned()));
                Cow::Owned(Json::Object(fields.collect()))
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => Cow::Borrowed(value),
        }
    }
}
