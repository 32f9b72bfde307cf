//! Connects the protocol with the run: sends what the client answers, lets the guard decide about requests for
//! permission, writes events and the transcript, and knows when the agent is done.

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use serde_json::json;

use super::client::{AgentClient, Effect, SessionSetup};
use super::messages::{self, CallProgress, CallUpdate, PermissionRequest, TurnEnd};
use super::transcript::{Transcript, kept};
use crate::event::RunEvent;
use crate::event::log::Emitter;
use crate::guard::Guard;
use crate::guard::dialect::CallDecision;
use crate::json_rpc;

/// From the last answer to the end of the program, which ends when its input is closed.
const LEAVE: Duration = Duration::from_secs(3);

/// How often an agent is asked to go on after the gateway denied every call of an answer.
const MAX_CONTINUED: u32 = 20;

/// How the conversation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TalkEnd {
    Turn(TurnEnd),
    Failed(String),
}

pub struct Driver<'a> {
    client: AgentClient,
    /// To the agent's standard input, which is closed when this is dropped.
    sender: Option<Sender<Vec<u8>>>,
    guard: &'a Guard,
    emit: &'a Emitter,
    iteration: u32,
    pub end: Option<TalkEnd>,
    ended: Option<Instant>,
    continued: u32,
    pub turns: u64,
    transcript: Transcript,
}

impl<'a> Driver<'a> {
    pub fn start(
        setup: SessionSetup,
        sender: Sender<Vec<u8>>,
        guard: &'a Guard,
        emit: &'a Emitter,
        iteration: u32,
    ) -> Self {
        let mut transcript = Transcript::default();
        transcript.add(&json!({ "type": "prompt", "text": kept(&setup.prompt) }));
        let (client, first) = AgentClient::start(setup);
        let mut driver = Self {
            client,
            sender: Some(sender),
            guard,
            emit,
            iteration,
            end: None,
            ended: None,
            continued: 0,
            turns: 0,
            transcript,
        };
        driver.send(&first);
        driver
    }

    pub fn line(&mut self, line: &[u8]) {
        if self.end.is_some() {
            return;
        }
        for effect in self.client.line(line) {
            self.perform(effect);
        }
    }

    /// Asks the agent to stop its turn. `false`: it has none.
    pub fn cancel(&mut self) -> bool {
        let Some(message) = self.client.cancel() else { return false };
        self.send(&message);
        true
    }

    /// Whether the agent has had the time to end by itself.
    pub fn is_over(&self) -> bool {
        self.ended.is_some_and(|ended| ended.elapsed() >= LEAVE)
    }

    /// Whether nothing more is expected of the agent.
    pub fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    pub fn last_words(&self) -> &str {
        self.client.last_words()
    }

    pub fn into_transcript(self) -> Transcript {
        self.transcript
    }

    fn send(&mut self, message: &serde_json::Value) {
        // An agent that is gone reads nothing: its closed output ends the attempt.
        let line = format!("{message}\n").into_bytes();
        drop(self.sender.as_ref().map(|sender| sender.send(line)));
    }

    fn finish(&mut self, end: TalkEnd) {
        self.transcript.add(&json!({ "type": "end", "how": format!("{end:?}") }));
        self.end = Some(end);
        self.ended = Some(Instant::now());
        self.sender = None;
    }

    fn perform(&mut self, effect: Effect) {
        let iteration = self.iteration;
        match effect {
            Effect::Send(message) => self.send(&message),
            Effect::Words(text) => {
                self.transcript.add(&json!({ "type": "message", "text": kept(&text) }));
                self.emit.emit(RunEvent::AgentText { iteration, text });
            }
            Effect::CallStarted(call) => self.call_started(&call),
            Effect::CallFinished(CallUpdate { id, status, output, .. }) => {
                let is_error = status == CallProgress::Failed;
                let entry =
                    json!({ "type": "tool_result", "id": id, "is_error": is_error, "text": kept(&output) });
                self.transcript.add(&entry);
                let bytes = output.len() as u64;
                self.emit.emit(RunEvent::ToolFinished { iteration, call: id, is_error, bytes });
            }
            Effect::Plan(entries) => self.transcript.add(&json!({ "type": "plan", "entries": entries })),
            Effect::Ask { id, request } => self.asked(&id, &request),
            Effect::TurnEnded(end) => self.turn_ended(end),
            Effect::Failed(why) => self.finish(TalkEnd::Failed(why)),
        }
    }

    /// The model's own call says more than the agent's words about it.
    fn call_started(&mut self, call: &CallUpdate) {
        let (tool, input) = match self.guard.call_of_model(&call.id) {
            Some(asked) => asked,
            None => (call.tool().to_owned(), call.input.clone()),
        };
        self.transcript.add(&json!({ "type": "tool_call", "id": call.id, "tool": tool, "input": input }));
        let summary = messages::summary(&input, &call.title);
        let iteration = self.iteration;
        self.emit.emit(RunEvent::ToolStarted { iteration, call: call.id.clone(), tool, summary });
    }

    fn asked(&mut self, id: &serde_json::Value, request: &PermissionRequest) {
        let call = &request.call;
        let decision = self.guard.permit(&call.id, call.tool(), &call.input);
        let reason = match &decision {
            CallDecision::Allow => None,
            CallDecision::Deny { reason, .. } => Some(reason.as_str()),
        };
        self.transcript.add(&json!({ "type": "permission", "id": call.id, "denied": reason }));
        self.send(&json_rpc::result(id, &request.answer(decision == CallDecision::Allow)));
    }

    /// If the gateway denied every call of the last answer, the agent saw an answer without calls and ended its turn. It
    /// reads the reasons and goes on.
    fn turn_ended(&mut self, end: TurnEnd) {
        self.turns += 1;
        let denied = self.guard.take_denied_last();
        if end != TurnEnd::Done || denied.is_empty() || self.continued >= MAX_CONTINUED {
            return self.finish(TalkEnd::Turn(end));
        }
        self.continued += 1;
        let text = format!("{}\n\nGo on with your task without these calls.", denied.join("\n"));
        self.transcript.add(&json!({ "type": "prompt", "text": kept(&text) }));
        let prompt = self.client.prompt(&text);
        self.send(&prompt);
    }
}
