//! What an operator does with sessions. Each action is one call of the session library, whose events name the operator.

use std::fs::File;
use std::io::BufReader;
use std::sync::Arc;

use hyper::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use session::{
    ApprovalDecision, DeadLetterAction, EventId, ImportedSession, Payload, QueuedWake, RequestId, Seq,
    SeqSet, Session, SessionId, SessionInput, Sha256Digest, Timestamp, WakeId, WakePriority, next_after,
};

use super::Server;
use super::access::Caller;
use super::answer::{self, AnswerBody};
use super::problem::Problem;
use crate::wake::time_seed;

/// A session to create.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSessionBody {
    /// The harness that every wake runs.
    pub agent: String,
    /// environments/ID.yaml of a layer.
    pub environment: Option<String>,
    /// The branch, tag or commit that every wake works on, instead of the default branch.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// Creating a session again with the same id returns the same session.
    #[schemars(with = "Option<String>")]
    pub id: Option<SessionId>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct CreatedSession {
    pub id: String,
}

/// An event that was appended.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AppendedEvent {
    /// The session.
    pub id: String,
    pub event: String,
    pub seq: u64,
}

/// The result of a custom tool, or the answer to a question.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerRequestBody {
    /// The digest of the input that was shown.
    #[schemars(with = "String")]
    pub input_digest: Sha256Digest,
    pub output: Json,
    #[serde(default)]
    pub is_error: bool,
}

/// Whether a tool call may happen.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfirmRequestBody {
    /// The digest of the input that was shown.
    #[schemars(with = "String")]
    pub input_digest: Sha256Digest,
    #[schemars(with = "DecisionWord")]
    pub decision: ApprovalDecision,
    pub note: Option<String>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "the schema of a type of the session library")]
enum DecisionWord {
    Allow,
    Deny,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InterruptBody {
    /// For the agent.
    pub note: Option<String>,
}

/// A wake for later: at a time, after a time, or on a schedule.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WakeBody {
    pub due_ms: Option<u64>,
    pub delay_ms: Option<u64>,
    /// Five fields, in UTC.
    pub cron: Option<String>,
    /// Why, for the agent.
    pub reason: Option<String>,
    pub note: Option<String>,
    /// A second wake with the same key is not queued.
    pub key: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct QueuedWakeAnswer {
    pub id: String,
    pub wake: String,
    pub due_ms: i64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminateBody {
    pub reason: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeadLettersBody {
    /// The numbers of the inputs; all dead letters if absent.
    pub inputs: Option<Vec<u64>>,
}

/// The session after an action.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SessionAnswer {
    pub id: String,
    pub status: String,
    pub head: u64,
}

/// Where an archived session is.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ArchivedSession {
    pub id: String,
    /// The bundle, on the machine of the server.
    pub file: String,
}

/// A session that was imported.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ImportedSessionAnswer {
    pub id: String,
    pub status: String,
    pub head: u64,
    /// The environment and the resources of the bundle, which an import over HTTP does not accept.
    pub left_out: Vec<String>,
}

/// Who acts on which session.
pub(super) struct Action<'a> {
    pub(super) server: &'a Arc<Server>,
    pub(super) caller: &'a Caller,
    pub(super) key: Option<String>,
}

type Answered = Result<Response<AnswerBody>, Problem>;

impl Action<'_> {
    pub(super) async fn create(&self, new: NewSessionBody) -> Answered {
        let created = self.server.with_sessions(Some(self.caller), move |sessions, server| {
            let id = (server.backend.create_session)(&new, sessions).map_err(Problem::bad_request)?;
            Ok(CreatedSession { id: id.to_string() })
        });
        let created = created.await?;
        Ok(answer::created_at(&format!("/v1/sessions/{}", created.id), &created))
    }

    pub(super) async fn append(&self, id: SessionId, payload: Payload) -> Answered {
        let key = self.key.clone();
        let appended = self.server.with_sessions(Some(self.caller), move |sessions, server| {
            let mut seed = time_seed(sessions.now()?);
            let event = match key {
                Some(key) => EventId::from_key(id, &key),
                None => EventId::generate(&mut seed),
            };
            let input = SessionInput { id: event, payload };
            let seqs = sessions.append(id, &[input], &mut seed)?;
            let seq = seqs.first().map_or(0, |seq| seq.0);
            // Wake the readers of this server, so that they need not wait for the next poll of the store.
            server.feed.announce(id, Seq(seq));
            Ok(AppendedEvent { id: id.to_string(), event: event.to_string(), seq })
        });
        Ok(answer::json(&appended.await?))
    }

    pub(super) async fn answer(&self, id: SessionId, request: &str, body: AnswerRequestBody) -> Answered {
        let AnswerRequestBody { input_digest, output, is_error } = body;
        let request_id = parse_request(request)?;
        self.append(id, Payload::UserCustomToolResult { request_id, input_digest, output, is_error }).await
    }

    pub(super) async fn confirm(&self, id: SessionId, request: &str, body: ConfirmRequestBody) -> Answered {
        let ConfirmRequestBody { input_digest, decision, note } = body;
        let request_id = parse_request(request)?;
        self.append(id, Payload::UserToolConfirmation { request_id, input_digest, decision, note }).await
    }

    pub(super) async fn wake(&self, id: SessionId, body: WakeBody) -> Answered {
        let key = body.key.clone().or_else(|| self.key.clone());
        let queued = self.server.with_sessions(Some(self.caller), move |sessions, _| {
            let mut seed = time_seed(sessions.now()?);
            let wake = QueuedWake {
                id: WakeId::generate(&mut seed),
                due_ms: body.due(seed.now)?,
                reason: body.reason.unwrap_or_else(|| "scheduled".to_owned()),
                note: body.note,
                dedupe_key: key,
                priority: WakePriority::Normal,
                cron: body.cron,
            };
            let state = sessions.queue_wake(id, &wake, &mut seed)?;
            let is_it = |other: &&QueuedWake| {
                other.id == wake.id || (wake.dedupe_key.is_some() && other.dedupe_key == wake.dedupe_key)
            };
            let queued = state.wakes.iter().find(is_it).unwrap_or(&wake);
            Ok(QueuedWakeAnswer { id: id.to_string(), wake: queued.id.to_string(), due_ms: queued.due_ms.0 })
        });
        Ok(answer::json(&queued.await?))
    }

    pub(super) async fn terminate(&self, id: SessionId, body: TerminateBody) -> Answered {
        let reason = body.reason.unwrap_or_else(|| "terminated by a person".to_owned());
        let done = self.server.with_sessions(Some(self.caller), move |sessions, _| {
            let mut seed = time_seed(sessions.now()?);
            let state = sessions.terminate(id, &reason, &mut seed)?;
            Ok(SessionAnswer { id: id.to_string(), status: state.status.to_string(), head: state.head.0 })
        });
        Ok(answer::json(&done.await?))
    }

    pub(super) async fn dead_letters(
        &self,
        id: SessionId,
        action: DeadLetterAction,
        body: DeadLettersBody,
    ) -> Answered {
        let done = self.server.with_sessions(Some(self.caller), move |sessions, _| {
            let dead = sessions.session(id)?.state.dead;
            let inputs: SeqSet = match body.inputs {
                None => dead,
                Some(mut seqs) => {
                    seqs.sort_unstable();
                    seqs.dedup();
                    seqs.into_iter().map(Seq).collect()
                }
            };
            let mut seed = time_seed(sessions.now()?);
            let state = sessions.dead_letters(id, action, &inputs, &mut seed)?;
            Ok(SessionAnswer { id: id.to_string(), status: state.status.to_string(), head: state.head.0 })
        });
        Ok(answer::json(&done.await?))
    }

    pub(super) async fn archive(&self, id: SessionId) -> Answered {
        let done = self.server.with_sessions(Some(self.caller), move |sessions, server| {
            sessions.session(id)?;
            let file = (server.backend.archive_session)(sessions, id).map_err(Problem::refused)?;
            Ok(ArchivedSession { id: id.to_string(), file })
        });
        Ok(answer::json(&done.await?))
    }
}

impl Action<'_> {
    pub(super) async fn import(&self, bundle: File) -> Answered {
        let done = self.server.with_sessions(Some(self.caller), move |sessions, server| {
            let terms = (server.backend.import_terms)().map_err(Problem::refused)?;
            let imported = sessions.import(&mut BufReader::new(bundle), &terms)?;
            let ImportedSession { session, attachments, left_out } = imported;
            let id = session.header.id;
            (server.backend.save_attachments)(id, &attachments).map_err(Problem::refused)?;
            let Session { state, .. } = session;
            let status = state.status.to_string();
            Ok(ImportedSessionAnswer { id: id.to_string(), status, head: state.head.0, left_out })
        });
        let imported = done.await?;
        Ok(answer::created_at(&format!("/v1/sessions/{}", imported.id), &imported))
    }
}

impl WakeBody {
    fn due(&self, now: Timestamp) -> Result<Timestamp, Problem> {
        let wrong = |why: &str| Problem::bad_request(why.to_owned());
        match (self.due_ms, self.delay_ms, &self.cron) {
            (Some(due), None, None) => {
                i64::try_from(due).map(Timestamp).map_err(|_| wrong("`due_ms` is too large"))
            }
            (None, Some(delay), None) => Ok(now.plus_ms(delay)),
            (None, None, Some(cron)) => next_after(cron, now)
                .ok_or_else(|| wrong("`cron`: this schedule is not valid or never occurs")),
            _ => Err(wrong("one of `due_ms`, `delay_ms` and `cron` is needed")),
        }
    }
}

fn parse_request(text: &str) -> Result<RequestId, Problem> {
    text.parse().map_err(|_| Problem::not_found("the session has no such request"))
}
