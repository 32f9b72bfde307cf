//! `confirm` and `tool-result`: answers to what a session asked. One answer per question, for exactly the input that was
//! shown, in time.

use clap::{Args, ValueEnum};

use super::super::exit::{Exit, Failure};
use super::send::{SendOptions, append};
use super::store::{SessionArguments, failure, text};
use session::{ApprovalDecision, Payload, RequestId, SessionRefusal, Sessions, Sha256Digest};

#[derive(Args, Debug)]
pub struct Confirm {
    #[command(flatten)]
    question: RequestArguments,
    #[arg(value_enum)]
    decision: DecisionArgument,
    /// What the agent is told with it
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    how: SendOptions,
}

#[derive(Args, Debug)]
pub struct ToolResult {
    #[command(flatten)]
    question: RequestArguments,
    /// The result as JSON; `-` reads standard input
    #[arg(value_name = "JSON")]
    output: String,
    /// The tool failed, and the result says how
    #[arg(long)]
    error: bool,
    #[command(flatten)]
    how: SendOptions,
}

/// Which question is answered.
#[derive(Args, Debug)]
struct RequestArguments {
    #[command(flatten)]
    one: SessionArguments,
    /// The request, as `session show` or the log names it
    #[arg(value_parser = parse_request)]
    request: RequestId,
    /// The digest of the input that was shown to whoever answers [default: what was asked]
    #[arg(long, value_name = "SHA256")]
    digest: Option<Sha256Digest>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DecisionArgument {
    Allow,
    Deny,
}

fn parse_request(text: &str) -> Result<RequestId, String> {
    text.parse()
        .map_err(|_| "a request's id has 36 characters; `fullsend session show` lists them".to_owned())
}

pub fn confirm(arguments: &Confirm) -> Result<Exit, Failure> {
    let decision = match arguments.decision {
        DecisionArgument::Allow => ApprovalDecision::Allow,
        DecisionArgument::Deny => ApprovalDecision::Deny,
    };
    let (mut sessions, input_digest) = arguments.question.open()?;
    let (request_id, note) = (arguments.question.request, arguments.note.clone());
    let payload = Payload::UserToolConfirmation { request_id, input_digest, decision, note };
    append(&mut sessions, arguments.question.one.id, payload, &arguments.how)
}

pub fn tool_result(arguments: &ToolResult) -> Result<Exit, Failure> {
    let given = text(&arguments.output)?;
    let output = serde_json::from_str(&given).map_err(|error| {
        Failure::new(Exit::Usage, format!("the result is not JSON: {error}"))
            .help("a text is JSON too, in quotes: '\"done\"'")
    })?;
    let (mut sessions, input_digest) = arguments.question.open()?;
    let request_id = arguments.question.request;
    let payload =
        Payload::UserCustomToolResult { request_id, input_digest, output, is_error: arguments.error };
    append(&mut sessions, arguments.question.one.id, payload, &arguments.how)
}

impl RequestArguments {
    /// The store, and what the answer is bound to. A question that was answered and consumed is not known any more; the
    /// key of a repeated answer needs the digest then.
    fn open(&self) -> Result<(Sessions, Sha256Digest), Failure> {
        let mut sessions = self.one.place.open()?;
        if let Some(digest) = self.digest {
            return Ok((sessions, digest));
        }
        let state = sessions.session(self.one.id).map_err(failure)?.state;
        match state.request(self.request) {
            Some(request) => Ok((sessions, request.input_digest)),
            None => Err(failure(SessionRefusal::NoSuchRequest { id: self.request }.into())),
        }
    }
}
