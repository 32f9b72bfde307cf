//! `fullsend acp`: an agent for editors, over standard input and output. A prompt is a run, or a message and a wake of a session.
//! Each is a command of this program, so it has the same checks and the same record.

mod child;
mod prompts;
mod wakes;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use clap::Args;
use serde_json::{Value as Json, json};

use super::exit::{Exit, Failure};
use super::json_lines::{self, next_message, send};
use super::{executor, signals};
use crate::acp::updates::{notification, user_message};
use crate::acp::{EditorMessage, EditorRequest, decide, failed, invalid, updates};
use crate::cancel::Cancel;
use crate::json_rpc::{self, RpcFailure};
use child::ChildCommand;
use prompts::ActivePrompts;
use session::{Payload, SessionEvent};

/// How many requests of an editor are served at once.
const MAX_REQUESTS: usize = 16;
/// How long a person may think about a question.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Args, Debug)]
pub struct Arguments {
    /// Harness that a prompt runs [default: the built-in read-only `ask`]
    #[arg(value_name = "NAME")]
    harness: Option<String>,
    /// Make each conversation a session of the harness: a prompt is a message and a wake, and `confirm_tools` asks you
    #[arg(long, requires = "harness")]
    session: bool,
    /// Serve only this directory and those below it [default: every project that the editor opens]
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let server = Arc::new(Server::new(arguments)?);
    let executor = executor::start(1)?;
    let cancel = Cancel::default();
    signals::watch(executor.handle(), &cancel)?;
    let stopped = Arc::clone(&server);
    let asked = Arc::clone(&server);
    json_lines::end_on_signal(cancel, move || stopped.stop_all(), move || asked.prompts.is_idle())?;
    let mut messages = std::io::stdin().lock();
    std::thread::scope(|scope| {
        let served = loop {
            let message = match next_message(&mut messages) {
                Ok(Some(message)) => message,
                Ok(None) => break Ok(Exit::Done),
                Err(failure) => break Err(failure),
            };
            match decide(&message, server.uses_sessions) {
                EditorMessage::Answer(answer) => send(&answer),
                EditorMessage::Nothing => {}
                EditorMessage::Response { id, result } => server.answered(&id, result),
                EditorMessage::Cancel(session) => server.cancel(&session),
                EditorMessage::Request { id, request } => {
                    let server = &server;
                    match server.accept(&request) {
                        Ok(()) => drop(scope.spawn(move || server.serve(&id, request))),
                        Err(failure) => send(&failure.answer(&id)),
                    }
                }
            }
        };
        // The editor is gone: end its prompts in an orderly way.
        server.stop_all();
        served
    })
}

/// A question to the person at the editor.
struct Question {
    session: String,
    answer: mpsc::Sender<Option<Json>>,
}

struct Server {
    harness: Option<String>,
    uses_sessions: bool,
    /// The only directory that is served, if there is one.
    repository: Option<PathBuf>,
    /// The projects of the editor's sessions.
    projects: Mutex<HashMap<String, PathBuf>>,
    prompts: ActivePrompts,
    questions: Mutex<HashMap<String, Question>>,
    last_question: AtomicU64,
    last_run: AtomicU64,
    requests: AtomicUsize,
}

impl Server {
    fn new(arguments: &Arguments) -> Result<Self, Failure> {
        let canonical = |directory: &PathBuf| {
            directory.canonicalize().map_err(|error| {
                Failure::new(Exit::Missing, format!("cannot use {}: {error}", directory.display()))
            })
        };
        Ok(Self {
            harness: arguments.harness.clone(),
            uses_sessions: arguments.session,
            repository: arguments.repo.as_ref().map(canonical).transpose()?,
            projects: Mutex::default(),
            prompts: ActivePrompts::default(),
            questions: Mutex::default(),
            last_question: AtomicU64::default(),
            last_run: AtomicU64::default(),
            requests: AtomicUsize::default(),
        })
    }

    /// Counts a request. A prompt is active from here on, so that a later cancellation finds it.
    fn accept(&self, request: &EditorRequest) -> Result<(), RpcFailure> {
        if self.requests.load(Ordering::SeqCst) >= MAX_REQUESTS {
            return Err(failed(format!("{MAX_REQUESTS} requests are running; wait until one has ended")));
        }
        if let EditorRequest::Prompt { session, .. } = request {
            self.project(session)?;
            self.prompts.begin(session)?;
        }
        self.requests.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn serve(&self, id: &Json, request: EditorRequest) {
        let result = match request {
            EditorRequest::NewSession { directory } => self.new_session(&directory),
            EditorRequest::LoadSession { session, directory } => self.load_session(&session, &directory),
            EditorRequest::Prompt { session, blocks } => {
                let result = self.prompt(&session, &blocks);
                self.prompts.end(&session);
                result
            }
        };
        self.requests.fetch_sub(1, Ordering::SeqCst);
        send(&match result {
            Ok(result) => json_rpc::result(id, &result),
            Err(failure) => failure.answer(id),
        });
    }

    fn new_session(&self, directory: &Path) -> Result<Json, RpcFailure> {
        let project = self.resolve(directory)?;
        let id = match &self.harness {
            Some(harness) if self.uses_sessions => wakes::create(harness, &project)?,
            _ => uuid::Uuid::now_v7().to_string(),
        };
        self.projects.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), project);
        Ok(json!({ "sessionId": id }))
    }

    /// Sends the messages of an earlier session again.
    fn load_session(&self, session: &str, directory: &Path) -> Result<Json, RpcFailure> {
        let project = self.resolve(directory)?;
        let log = ChildCommand::new(&project, &["session", "events", "--", session]).succeed()?;
        for event in log.lines().filter_map(|line| serde_json::from_str::<SessionEvent>(line).ok()) {
            match event.payload {
                Payload::UserMessage { message } => send(&notification(session, &user_message(&message))),
                Payload::AgentMessage { message, .. } if !message.is_empty() => {
                    send(&notification(session, &updates::message(&message)));
                }
                _ => {}
            }
        }
        self.projects.lock().unwrap_or_else(PoisonError::into_inner).insert(session.to_owned(), project);
        Ok(json!({}))
    }

    /// A project that this server serves. A link that leaves the repository is refused.
    fn resolve(&self, directory: &Path) -> Result<PathBuf, RpcFailure> {
        let found = directory.canonicalize();
        let found =
            found.map_err(|error| invalid(format!("cannot use `{}`: {error}", directory.display())))?;
        match &self.repository {
            Some(repository) if !found.starts_with(repository) => Err(invalid(format!(
                "`{}` is not in {}, which this agent serves",
                directory.display(),
                repository.display()
            ))),
            _ => Ok(found),
        }
    }

    /// Asks the person at the editor. `None`: the question was cancelled or not answered.
    fn ask(&self, session: &str, question: &Json) -> Option<Json> {
        let id = json!(format!("fullsend-{}", self.last_question.fetch_add(1, Ordering::SeqCst)));
        let (sender, answer) = mpsc::channel();
        let asked = Question { session: session.to_owned(), answer: sender };
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_string(), asked);
        if !self.prompts.is_cancelled(session) {
            send(&json_rpc::request(&id, "session/request_permission", question));
            let answer = answer.recv_timeout(ANSWER_TIMEOUT).ok().flatten();
            self.questions.lock().unwrap_or_else(PoisonError::into_inner).remove(&id.to_string());
            return answer;
        }
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).remove(&id.to_string());
        None
    }

    fn answered(&self, id: &Json, result: Option<Json>) {
        let question = self.questions.lock().unwrap_or_else(PoisonError::into_inner).remove(&id.to_string());
        if let Some(question) = question {
            // The caller may be gone.
            drop(question.answer.send(result));
        }
    }

    /// Stops the prompt of a session. A session of fullsend is interrupted, so that its log says so and the next prompt
    /// starts fresh; this happens before the next message of the editor is read.
    fn cancel(&self, session: &str) {
        if !self.prompts.cancel(session) {
            return;
        }
        let project = self.project(session).ok().filter(|_| self.uses_sessions);
        let interrupted = project.is_some_and(|project| {
            ChildCommand::new(&project, &["session", "interrupt", "--", session]).succeed().is_ok()
        });
        if !interrupted {
            self.prompts.terminate(session);
        }
        let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        questions.retain(|_, question| question.session != session);
    }

    /// Asks every command to end in an orderly way: a run closes its sandbox and completes its record.
    fn stop_all(&self) {
        self.prompts.stop_all();
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
