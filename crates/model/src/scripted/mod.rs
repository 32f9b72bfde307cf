//! The scripted model: answers requests from a scenario file, in the wire format that the request came in. It is the
//! model of the demo and of the tests; it has no network of its own.

mod play;
mod scenario;
#[cfg(test)]
mod tests;
mod turn;

pub use scenario::{Scenario, ScenarioError};
pub use turn::TurnRef;

use crate::wire::assemble::AnswerAssembler;
use crate::wire::codec::{self, FrameWriter};
use crate::wire::fault::{Fault, FaultKind};
use crate::wire::{Delta, ModelRequest, StopReason, TokenUsage, Wire};
use bytes::Bytes;
use play::{PlayContext, PlayStep, play};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How many requests are remembered to recognise a repeated one; more than any scenario has.
const MAX_REMEMBERED: usize = 4096;

/// One request to the scripted model.
#[derive(Debug)]
pub struct ReceivedRequest<'a> {
    pub wire: Wire,
    pub body: &'a [u8],
    /// `None`: nothing in the scenario answers it.
    pub place: Option<TurnRef>,
}

type Log = Arc<dyn Fn(&ReceivedRequest<'_>) + Send + Sync>;

pub struct ScriptedModel {
    scenario: Scenario,
    log: Option<Log>,
    attempts: Mutex<HashMap<u64, u32>>,
}

/// What to send, step by step. The last step of a healthy answer is bytes.
#[derive(Debug, PartialEq)]
pub enum Emission {
    Bytes(Bytes),
    Sleep(Duration),
    /// Break the connection now.
    Cut,
}

#[derive(Debug, PartialEq)]
pub struct ScriptedAnswer {
    pub status: u16,
    pub content_type: &'static str,
    pub emissions: Vec<Emission>,
}

impl ScriptedModel {
    pub fn new(scenario: Scenario) -> Self {
        Self { scenario, log: None, attempts: Mutex::new(HashMap::new()) }
    }

    /// Calls back with every request, before it is answered.
    #[must_use]
    pub fn with_log(mut self, log: impl Fn(&ReceivedRequest<'_>) + Send + Sync + 'static) -> Self {
        self.log = Some(Arc::new(log));
        self
    }

    pub fn answer(&self, wire: Wire, request: &ModelRequest, body: &[u8]) -> ScriptedAnswer {
        let chosen = self.steps(wire, request, body);
        match chosen {
            Err(fault) => refusal(wire, &fault),
            Ok(steps) if request.stream => streamed(wire, steps),
            Ok(steps) => answer_without_stream(wire, steps),
        }
    }

    fn steps(&self, wire: Wire, request: &ModelRequest, body: &[u8]) -> Result<Vec<PlayStep>, Fault> {
        if let (Some(side), true) = (&self.scenario.side, request.tools.is_empty()) {
            self.report(wire, body, None);
            return Ok(side_steps(side, request));
        }
        match turn::choose(&self.scenario, request) {
            Ok(chosen) => {
                self.report(wire, body, Some(chosen.place));
                let digest = digest(request, body);
                let context =
                    PlayContext { request, request_bytes: body.len(), digest, attempt: self.attempt(digest) };
                play(chosen.acts, &context)
            }
            Err(place) => {
                self.report(wire, body, None);
                let name = &self.scenario.name;
                let message = format!("the scenario {name} has no {place}: nothing answers this request");
                Err(Fault::new(FaultKind::InvalidRequest, message))
            }
        }
    }

    fn report(&self, wire: Wire, body: &[u8], place: Option<TurnRef>) {
        if let Some(log) = &self.log {
            log(&ReceivedRequest { wire, body, place });
        }
    }

    fn attempt(&self, digest: u64) -> u32 {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        if attempts.len() >= MAX_REMEMBERED {
            attempts.clear();
        }
        let count = attempts.entry(digest).or_insert(0);
        let before = *count;
        *count = count.saturating_add(1);
        before
    }
}

/// Of the conversation alone: clients change headers and metadata between retries.
fn digest(request: &ModelRequest, body: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    request.model.hash(&mut hasher);
    format!("{:?}", request.messages).hash(&mut hasher);
    if request.messages.is_empty() {
        body.hash(&mut hasher);
    }
    hasher.finish()
}

fn side_steps(text: &str, request: &ModelRequest) -> Vec<PlayStep> {
    let usage = TokenUsage { input: 1, output: 1, ..TokenUsage::default() };
    let deltas = [
        Delta::Start { id: "msg_side".to_owned(), model: request.model.clone(), usage },
        Delta::Text { block: 0, text: text.to_owned() },
        Delta::BlockEnd { block: 0 },
        Delta::Finish { stop: StopReason::EndTurn, usage },
        Delta::End,
    ];
    deltas.into_iter().map(PlayStep::Delta).collect()
}

fn refusal(wire: Wire, fault: &Fault) -> ScriptedAnswer {
    let body = codec::write_fault(wire, fault).to_string();
    let emissions = vec![Emission::Bytes(Bytes::from(body))];
    ScriptedAnswer { status: codec::fault_status(wire, fault), content_type: "application/json", emissions }
}

fn streamed(wire: Wire, steps: Vec<PlayStep>) -> ScriptedAnswer {
    let mut writer = FrameWriter::new(wire);
    let mut emissions = Vec::new();
    for step in steps {
        match step {
            PlayStep::Sleep(duration) => emissions.push(Emission::Sleep(duration)),
            PlayStep::Cut => {
                emissions.push(Emission::Cut);
                break;
            }
            PlayStep::Delta(delta) => {
                let frames = writer.write(&delta);
                emissions.extend(frames.iter().map(|frame| Emission::Bytes(Bytes::from(frame.encode()))));
            }
        }
    }
    ScriptedAnswer { status: 200, content_type: "text/event-stream", emissions }
}

fn answer_without_stream(wire: Wire, steps: Vec<PlayStep>) -> ScriptedAnswer {
    let mut fold = AnswerAssembler::default();
    let mut emissions = Vec::new();
    for step in steps {
        match step {
            PlayStep::Sleep(duration) => emissions.push(Emission::Sleep(duration)),
            PlayStep::Cut => {
                emissions.push(Emission::Cut);
                return ScriptedAnswer { status: 200, content_type: "application/json", emissions };
            }
            PlayStep::Delta(Delta::Error(fault)) => {
                return refusal(wire, &fault);
            }
            PlayStep::Delta(delta) => {
                let fold_result = fold.push(delta);
                debug_assert_eq!(fold_result, Ok(()));
            }
        }
    }
    match fold.finish() {
        Ok(answer) => {
            emissions.push(Emission::Bytes(Bytes::from(codec::write_answer(wire, &answer).to_string())));
            ScriptedAnswer { status: 200, content_type: "application/json", emissions }
        }
        Err(error) => {
            let fault = Fault::new(FaultKind::Upstream, error.to_string());
            refusal(wire, &fault)
        }
    }
}
