//! A program that uses runs as a library, for tests: several at once in one process, and one that goes on with another's
//! conversation. It says how each ended, and what in the process is not as it was before.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program for tests says what happened, or stops"
)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use fullsend::Conversation;
use fullsend::ExpectedDocument;
use fullsend::Library;
use fullsend::event::RunEvent;
use fullsend::event::clock::Moment;
use fullsend::{Cancel, CancelReason};
use fullsend::{Choices, Strictness};
use fullsend::{Layer, LayerKind, Layers};
use fullsend::{Outcome, Request};
use fullsend::{PreflightContext, preflight};
use serde_json::{Value as Json, json};

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    // Sandboxes are made by the program that runs.
    if let Some(code) = fullsend::run_hidden_command(&words) {
        return code;
    }
    let [_, what, place] = &words[..] else { return ExitCode::from(2) };
    let executor =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let stage = Stage { place: PathBuf::from(place), executor: executor.handle().clone() };
    let before = of_this_process();
    let outcomes = match what.to_str() {
        Some("several") => several(&stage),
        Some("resumed") => resumed(&stage),
        _ => return ExitCode::from(2),
    };
    println!("{}", json!({ "outcomes": outcomes, "same": before == of_this_process() }));
    ExitCode::SUCCESS
}

/// Where the process stands, its variables, and which signals it catches or ignores.
fn of_this_process() -> (PathBuf, Vec<(OsString, OsString)>, Vec<String>) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let handled = ["SigBlk:", "SigIgn:", "SigCgt:"];
    let handled = |line: &&str| handled.iter().any(|name| line.starts_with(name));
    let signals = status.lines().filter(handled).map(str::to_owned).collect();
    (std::env::current_dir().unwrap(), std::env::vars_os().collect(), signals)
}

struct Stage {
    place: PathBuf,
    executor: tokio::runtime::Handle,
}

/// What differs between the runs.
#[derive(Default)]
struct Wish {
    mark: String,
    context: Option<String>,
    conversation: Option<Conversation>,
    expected: Option<ExpectedDocument>,
}

impl Stage {
    fn run(&self, repository: &str, wish: Wish, cancel: &Cancel) -> Outcome {
        let repository = self.place.join(repository);
        let layer =
            Layer::directory(LayerKind::Repository, &repository.join(".fullsend"), ".fullsend".to_owned());
        let mut library = Library::new(Layers::new(vec![layer.unwrap()]));
        let choices = Choices { today: Moment::now().date(), ..Choices::default() };
        let mut problems = Vec::new();
        let mut environment: BTreeMap<String, String> = std::env::vars().collect();
        environment.insert("MARK".to_owned(), wish.mark.clone());
        let context = PreflightContext {
            environment: &|name| environment.get(name).cloned(),
            strictness: Strictness::Required,
            repository: &repository,
            recording: None,
        };
        let checked = preflight(&mut library, "triage", &choices, &context, &mut problems).unwrap();
        let checked = match wish.expected {
            Some(document) => checked.expecting(document),
            None => checked,
        };
        let stop = cancel.clone();
        let unlucky = wish.mark == "stopped";
        let runs = self.place.join("runs");
        let request = Request {
            repository_name: Some(format!("acme/{}", wish.mark)),
            environment,
            context: wish.context,
            conversation: wish.conversation,
            listener: Arc::new(move |envelope| {
                if unlucky && matches!(envelope.event, RunEvent::ToolStarted { .. }) {
                    stop.cancel(CancelReason::Terminated);
                }
            }),
            ..Request::new(checked, library, repository, runs, self.executor.clone())
        };
        fullsend::run(request, cancel)
    }
}

/// Each in a thread of its own; one of them is asked to end.
fn several(stage: &Stage) -> Vec<Json> {
    let marks = ["one", "two", "stopped", "three"];
    std::thread::scope(|scope| {
        let one = |mark: &'static str| {
            let wish = Wish { mark: mark.to_owned(), ..Wish::default() };
            said(&stage.run(mark, wish, &Cancel::default()))
        };
        let running: Vec<_> = marks.iter().map(|mark| scope.spawn(move || one(mark))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// A run with words of the caller's and a document that the caller wants, and another that goes on from there.
fn resumed(stage: &Stage) -> Vec<Json> {
    let schema =
        json!({ "type": "object", "required": ["reply"], "properties": { "reply": { "type": "string" } } });
    let wish = |context: &str, conversation| Wish {
        mark: "one".to_owned(),
        context: Some(context.to_owned()),
        conversation,
        expected: Some(ExpectedDocument::new("reply.json", schema.clone()).unwrap()),
    };
    let first = stage.run("one", wish("The word is BASIL.", None), &Cancel::default());
    let conversation = first.conversation.clone();
    let second = stage.run("one", wish("Which word was it?", conversation), &Cancel::default());
    vec![said(&first), said(&second)]
}

fn said(outcome: &Outcome) -> Json {
    let read = |name: &str| {
        let output = outcome.artifacts.as_ref().map(|artifacts| artifacts.directory().join(name));
        output.and_then(|path| std::fs::read_to_string(path).ok())
    };
    let conversation = outcome.conversation.iter().flat_map(|conversation| &conversation.files);
    let words: String =
        conversation.map(|file| String::from_utf8_lossy(&file.contents).into_owned()).collect();
    json!({
        "kind": outcome.kind().as_str(), "exit_code": outcome.exit().code(), "reason": outcome.reason,
        "directory": outcome.directory.as_deref().map(Path::to_string_lossy),
        "result": read("agent-result.json"), "reply": read("reply.json"), "conversation": words,
    })
}
