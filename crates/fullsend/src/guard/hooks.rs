//! What the guard answers to a hook: a verdict before a call, a cleaned result after it. Its answers are the same for
//! every runtime; only their words differ.

use std::borrow::Cow;
use std::sync::PoisonError;

use scan::Origin;
use serde_json::Value as Json;

use super::Guard;
use super::calls::Standing;
use super::client;
use super::dialect::{Decision, HookAnswer, HookEvent};
use super::judge::Ask;
use super::report::Action;
use super::tool_input;
use crate::event::RunEvent;

/// Who asks over the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// The hook of the run's runtime.
    Runtime,
    /// Something else inside, in neutral words.
    Neutral,
}

impl Guard {
    /// Who asks, if it knows the run's token.
    pub(super) fn asker(&self, head: &str) -> Option<Asker> {
        let (name, token) = head.split_once(' ')?;
        if token != &*self.token {
            None
        } else if name == client::NEUTRAL {
            Some(Asker::Neutral)
        } else {
            (name == self.runtime).then_some(Asker::Runtime)
        }
    }

    /// One hook's question, from the socket.
    pub(super) fn answer(&self, asker: Asker, body: &[u8]) -> HookAnswer {
        match asker {
            Asker::Runtime => self.answer_hook(body),
            Asker::Neutral => self.answer_neutral(body),
        }
    }

    fn answer_hook(&self, body: &[u8]) -> HookAnswer {
        let Ok(body) = serde_json::from_slice::<Json>(body) else {
            return HookAnswer::refusal("fullsend: the hook was given no JSON");
        };
        match (self.dialect.read)(&body) {
            None => HookAnswer::refusal("fullsend: the hook was given something unknown"),
            Some(HookEvent::Other) => HookAnswer::silent(),
            Some(HookEvent::Start) => {
                self.started.send_replace(true);
                HookAnswer::silent()
            }
            Some(HookEvent::Before { id, tool, input }) => {
                (self.dialect.verdict)(&self.before(&id, &tool, &input))
            }
            Some(HookEvent::After { id, response, succeeded }) => {
                let call = self.calls.lock().unwrap_or_else(PoisonError::into_inner).get(&id);
                match self.clean_response(call.as_ref(), &response, succeeded) {
                    Cow::Borrowed(_) => HookAnswer::silent(),
                    Cow::Owned(cleaned) => (self.dialect.replacement)(&body, &cleaned),
                }
            }
        }
    }

    fn before(&self, id: &str, tool: &str, input: &Json) -> Decision {
        let quirks = &self.dialect.quirks;
        let standing =
            self.calls.lock().unwrap_or_else(PoisonError::into_inner).standing(id, (tool, input), quirks);
        // Judged without the lock: a program of the host may take its time.
        let decision = match standing {
            Standing::Unknown => return self.announce(id, tool, self.deny("the model made no such call")),
            Standing::Settled(decision) => return decision,
            Standing::Other => self.deny("the model asked for something else"),
            Standing::Off(why) => self.deny(why),
            Standing::Denied(decision) => decision,
            // Not at the gateway: a runtime may refuse such a call by itself, before any hook.
            Standing::Open if self.judge.fails_closed() && tool_input::is_unreadable(tool, input) => {
                self.deny(tool_input::UNREADABLE)
            }
            Standing::Open if self.is_judged(id, tool, input) => self.confirmed(tool, input),
            Standing::Open => match self.decide(tool, input, Ask::Programs) {
                Decision::Allow => self.confirmed(tool, input),
                denied => denied,
            },
        };
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).settle(id, &decision);
        self.announce(id, tool, decision)
    }

    /// Whether the gateway has judged by the rules what the hook shows, and no program of the host is to be asked.
    fn is_judged(&self, id: &str, tool: &str, input: &Json) -> bool {
        let asked = self.calls.lock().unwrap_or_else(PoisonError::into_inner).get(id);
        // A runtime may call a command what the model did not.
        let is_alike = |(asked, given): (String, Json)| {
            let quirks = &self.dialect.quirks;
            tool_input::command(&asked, &given) == tool_input::command(tool, input)
                && tool_input::addresses(&asked, &given) == tool_input::addresses(tool, input)
                && (quirks.name_of)(&asked) == (quirks.name_of)(tool)
        };
        !self.judge.asks_programs() && asked.is_some_and(is_alike)
    }

    fn announce(&self, id: &str, tool: &str, decision: Decision) -> Decision {
        if let Decision::Deny { reason } = &decision {
            let (call, tool, reason) = (id.to_owned(), tool.to_owned(), reason.clone());
            self.say(RunEvent::ToolDenied { call, tool, reason });
        }
        decision
    }

    /// What the guard thinks of a call. The gateway tells of everything that was found; the hook, which asks after it, only
    /// of what the gateway could not know.
    pub(super) fn decide(&self, tool: &str, input: &Json, ask: Ask) -> Decision {
        let quirks = &self.dialect.quirks;
        // The way to hand in the result is ours and no tool of the agent's.
        let named = if quirks.hand_in == Some(tool) { None } else { Some((quirks.name_of)(tool)) };
        let place = format!("call/{}", named.unwrap_or(tool));
        let judged = self.judge.call(tool, named, input, ask);
        let decision = match &judged {
            Ok((_, Some(reason))) => self.deny(reason),
            Err(broke) if self.judge.fails_closed() => self.deny(&broke.to_string()),
            Ok((_, None)) | Err(_) => Decision::Allow,
        };
        let denied = decision != Decision::Allow;
        match judged {
            Ok((opinion, _)) if denied => self.tell(&place, Origin::Tool, &opinion, Action::Denied),
            Ok((opinion, _)) if ask == Ask::BuiltIn || quirks.tools_without_hooks.contains(&tool) => {
                self.tell(&place, Origin::Tool, &opinion, Action::Reported);
            }
            Ok(_) => {}
            Err(broke) => {
                self.tell_broken(&place, &broke);
            }
        }
        decision
    }

    /// Every denial has a mark of its own, which nothing inside can know before it is denied.
    pub(super) fn deny(&self, reason: &str) -> Decision {
        let mark = uuid::Uuid::new_v4().simple();
        Decision::Deny { reason: format!("fullsend: {reason} [denial {mark}]") }
    }

    /// One text of a result, cleaned and told of.
    fn clean_text<'t>(
        &self,
        call: Option<&(String, Json)>,
        text: &'t str,
        succeeded: Option<bool>,
    ) -> Cow<'t, str> {
        let place = format!("result/{}", call.map_or("unknown", |(tool, _)| tool));
        match self.judge.result(call, text, succeeded) {
            Ok(passed) => {
                let action = if passed.withheld.is_some() { Action::Withheld } else { Action::Cleaned };
                self.tell(&place, Origin::Tool, &passed.opinion, action);
                passed.text
            }
            Err(broke) if self.tell_broken(&place, &broke) => {
                Cow::Owned(format!("[fullsend withheld this text: {broke}]"))
            }
            Err(_) => Cow::Borrowed(text),
        }
    }

    /// A result in whatever shape, with every text in it cleaned; borrowed if nothing had to be.
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
