//! What the guard answers to a hook: a verdict before a call, a cleaned result after it. Its answers are the same for
//! every runtime; only their words differ.

use std::borrow::Cow;
use std::sync::PoisonError;

use serde_json::Value as Json;

use super::Guard;
use super::calls::Decision;
use super::dialect::{self, HookAnswer, HookEvent};
use crate::event::RunEvent;

impl Guard {
    /// One hook's question, from the socket.
    pub(super) fn answer_hook(&self, head: &str, body: &[u8]) -> HookAnswer {
        if head != format!("{} {}", self.runtime, self.token) {
            return HookAnswer::refusal("fullsend: the guard does not know this hook");
        }
        let Ok(body) = serde_json::from_slice::<Json>(body) else {
            return HookAnswer::refusal("fullsend: the hook was given no JSON");
        };
        match dialect::read(self.runtime, &body) {
            None => HookAnswer::refusal("fullsend: the hook was given something unknown"),
            Some(HookEvent::Other) => HookAnswer::silent(),
            Some(HookEvent::Start) => {
                self.started.send_replace(true);
                HookAnswer::silent()
            }
            Some(HookEvent::Before { id, tool, input }) => {
                dialect::verdict(self.runtime, &self.before(&id, &tool, &input))
            }
            Some(HookEvent::After { response }) => match self.clean_json(&response) {
                Cow::Borrowed(_) => HookAnswer::silent(),
                Cow::Owned(cleaned) => dialect::replacement(self.runtime, &body, &cleaned),
            },
        }
    }

    fn before(&self, id: &str, tool: &str, input: &Json) -> Decision {
        let habits = dialect::habits(self.runtime);
        let decision = {
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            calls.hooked(
                id,
                (tool, input),
                &habits,
                || self.judge_call(tool, input),
                |reason| self.deny(reason),
            )
        };
        if let Decision::Deny { reason } = &decision {
            let (call, tool, reason) = (id.to_owned(), tool.to_owned(), reason.clone());
            self.emit.emit(RunEvent::ToolDenied { call, tool, reason });
        }
        decision
    }

    /// What the guard thinks of a call, whoever asks.
    pub(super) fn judge_call(&self, tool: &str, _input: &Json) -> Decision {
        match &self.allowlist {
            Some(names) if !names.iter().any(|name| name == tool) => {
                self.deny(&format!("the tool {tool} is not in FULLSEND_TOOL_ALLOWLIST"))
            }
            _ => Decision::Allow,
        }
    }

    /// Every denial has a mark of its own, which nothing inside can know before it is denied.
    pub(super) fn deny(&self, reason: &str) -> Decision {
        let mark = uuid::Uuid::now_v7().simple();
        Decision::Deny { reason: format!("fullsend: {reason} [denial {mark}]") }
    }

    /// A result in whatever shape, with every text in it cleaned; borrowed if nothing had to be.
    fn clean_json<'v>(&self, value: &'v Json) -> Cow<'v, Json> {
        match value {
            Json::String(text) => match self.clean_result(text) {
                Cow::Borrowed(_) => Cow::Borrowed(value),
                Cow::Owned(clean) => Cow::Owned(Json::String(clean)),
            },
            Json::Array(items) => {
                let cleaned: Vec<Cow<'_, Json>> = items.iter().map(|item| self.clean_json(item)).collect();
                if cleaned.iter().all(|item| matches!(item, Cow::Borrowed(_))) {
                    return Cow::Borrowed(value);
                }
                Cow::Owned(Json::Array(cleaned.into_iter().map(Cow::into_owned).collect()))
            }
            Json::Object(fields) => {
                let cleaned: Vec<(&String, Cow<'_, Json>)> =
                    fields.iter().map(|(key, field)| (key, self.clean_json(field))).collect();
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
