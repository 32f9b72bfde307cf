//! `confirm` and `tool-result`: answers to a session's requests. A request takes one answer, before it expires, for exactly
//! the input that was shown.

use clap::{Args, ValueEnum};

use super::super::exit::{Exit, Failure};
use super::send::{SendOptions, append};
use super::store::{SessionOptions, failure, text};
use session::{ApprovalDecision, Payload, RequestId, SessionId, SessionRefusal, Sessions, Sha256Digest};

#[derive(Args, Debug)]
pub struct Confirm {
    #[command(flatten)]
    question: RequestOptions,
    /// Whether the call may run
    #[arg(value_enum)]
    decision: DecisionArgument,
    /// Add a note for the agent
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    options: SendOptions,
}

#[derive(Args, Debug)]
pub struct ToolResultArguments {
    #[command(flatten)]
    question: RequestOptions,
    /// The result as JSON; `-` reads standard input
    #[arg(value_name = "JSON")]
    output: String,
    /// Mark the result as an error of the tool
    #[arg(long)]
    error: bool,
    #[command(flatten)]
    options: SendOptions,
}

/// The request.
#[derive(Args, Debug)]
struct RequestOptions {
    #[command(flatten)]
    session: SessionOptions,
    /// The request id that `session show` prints
    #[arg(value_parser = parse_request)]
    request: RequestId,
    /// Answer only if the input has this digest [default: the input of the request]
    #[arg(long, value_name = "SHA256")]
    digest: Option<Sha256Digest>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DecisionArgument {
    Allow,
    Deny,
}

fn parse_request(text: &str) -> Result<RequestId, String> {
    text.parse().map_err(|_| "a request id has 36 characters; `fullsend session show` lists them".to_owned())
}

pub fn confirm(arguments: &Confirm) -> Result<Exit, Failure> {
    let decision = match arguments.decision {
        DecisionArgument::Allow => ApprovalDecision::Allow,
        DecisionArgument::Deny => ApprovalDecision::Deny,
    };
    let (mut sessions, id, input_digest) = arguments.question.open()?;
    let request_id = arguments.question.request;
    let note = arguments.note.clone();
    let payload = Payload::UserToolConfirmation { request_id, input_digest, decision, note };
    append(&mut sessions, id, payload, &arguments.options)
}

pub fn tool_result(arguments: &ToolResultArguments) -> Result<Exit, Failure> {
    let argument = text(&arguments.output)?;
    let output = serde_json::from_str(&argument).map_err(|error| {
        Failure::new(Exit::Usage, format!("the result is not JSON: {error}"))
            .help("a plain text is JSON in quotes: '\"done\"'")
    })?;
    let (mut sessions, id, input_digest) = arguments.question.open()?;
    let request_id = arguments.question.request;
    let payload =
        Payload::UserCustomToolResult { request_id, input_digest, output, is_error: arguments.error };
    append(&mut sessions, id, payload, &arguments.options)
}

impl RequestOptions {
    /// The store, the session, and the digest that the answer is bound to. The state forgets a request once its answer is consumed; to
    /// repeat such an answer, pass the digest.
    fn open(&self) -> Result<(Sessions, SessionId, Sha256Digest), Failure> {
        let (mut sessions, id) = self.session.open()?;
        if let Some(digest) = self.digest {
            return Ok((sessions, id, digest));
        }
        let state = sessions.session(id).map_err(failure)?.state;
        match state.request(self.request) {
            Some(request) => Ok((sessions, id, request.input_digest)),
            None => Err(failure(SessionRefusal::NoSuchRequest { id: self.request }.into())),
        }
    }
}
