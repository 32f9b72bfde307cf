//! Incoming webhooks. A request must have a valid signature (GitHub, Standard Webhooks) or, for GitLab without a signing
//! secret, the secret token; an API token of `serve` does not count. Its event becomes a message to one session, or starts the
//! harnesses whose `trigger` matches. A repeated delivery has no effect.

use std::sync::Arc;
use std::time::SystemTime;

use hyper::body::Incoming;
use hyper::header::HeaderName;
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value as Json;
use session::{EventId, Payload, SessionId, SessionInput};
use trigger::TriggerEvent;

use super::answer::{self, AnswerBody};
use super::problem::Problem;
use super::signature::{self, StandardSignature};
use super::starts::{IdentifiedRun, InputBody, NewRunBody};
use super::{Server, body, header};
use crate::event::log::sha256;
use crate::wake::time_seed;

/// A webhook that the server accepts.
pub struct IncomingWebhook {
    /// The last part of its path.
    pub name: String,
    pub forge: WebhookForge,
    pub secret: String,
    pub target: WebhookTarget,
    /// Whether events of people without write access count as well.
    pub allow_non_writers: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookForge {
    Github,
    Gitlab,
}

/// What an event starts.
pub enum WebhookTarget {
    /// A message to this session.
    Session(SessionId),
    /// Runs of the harnesses whose `trigger` accepts the event.
    Harnesses,
}

/// A harness, and what its `trigger` says about an event.
pub struct EvaluatedTrigger {
    pub harness: String,
    /// An error is a message for people.
    pub starts: Result<bool, String>,
}

/// The result of an event.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct WebhookAnswer {
    /// Why nothing happened; absent if something did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignored: Option<String>,
    /// The number of the message in the log of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The runs that start.
    pub runs: Vec<TriggeredRun>,
}

/// A run that an event starts.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TriggeredRun {
    pub harness: String,
    /// Absent if it does not start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A request whose signature was checked.
struct Delivery {
    /// The sender's id for it, the same when it is sent again.
    id: String,
    kind: String,
    payload: Json,
}

impl IncomingWebhook {
    /// The name of the caller in events.
    fn actor(&self) -> String {
        format!("webhook:{}", self.name)
    }

    fn check(&self, head: &Parts, content: &[u8]) -> Result<Delivery, Problem> {
        let shown = |name: &HeaderName| header(head, name).unwrap_or_default();
        let standard = StandardSignature {
            id: shown(&WEBHOOK_ID),
            timestamp: shown(&WEBHOOK_TIMESTAMP),
            signatures: shown(&WEBHOOK_SIGNATURE),
        };
        let secret = &self.secret;
        let is_authentic = match self.forge {
            WebhookForge::Github => signature::is_of_github(secret, content, shown(&HUB_SIGNATURE)),
            // With a signing secret, the plain token is not accepted.
            WebhookForge::Gitlab if secret.starts_with("whsec_") => {
                standard.is_valid(secret, content, SystemTime::now())
            }
            WebhookForge::Gitlab => signature::is_secret(secret, shown(&GITLAB_TOKEN)),
        };
        if !is_authentic {
            return Err(Problem::new(
                StatusCode::UNAUTHORIZED,
                "bad-signature",
                "the signature is missing or wrong",
            ));
        }
        let (kind, ids) = match self.forge {
            WebhookForge::Github => (&GITHUB_EVENT, vec![&GITHUB_DELIVERY]),
            WebhookForge::Gitlab => (&GITLAB_EVENT, vec![&WEBHOOK_ID, &IDEMPOTENCY_KEY, &GITLAB_EVENT_UUID]),
        };
        let id = ids.into_iter().map(shown).find(|id| !id.is_empty()).map(str::to_owned);
        Ok(Delivery {
            // Without an id from the sender, equal bodies count as the same delivery.
            id: id.unwrap_or_else(|| sha256(content)),
            kind: shown(kind).to_owned(),
            payload: body::parse(content)?,
        })
    }

    fn event(&self, delivery: &Delivery) -> Result<TriggerEvent, String> {
        let Delivery { kind, payload, .. } = delivery;
        let event = match self.forge {
            WebhookForge::Github => TriggerEvent::of_github(kind, payload),
            WebhookForge::Gitlab => TriggerEvent::of_gitlab(kind, payload),
        };
        let event = event.ok_or_else(|| format!("events `{kind}` start nothing"))?;
        if !self.allow_non_writers && !event.is_authorized() {
            return Err("the forge does not say that the actor may write to the repository".to_owned());
        }
        Ok(event)
    }
}

pub(super) async fn receive(
    server: &Arc<Server>,
    name: &str,
    head: &Parts,
    content: Incoming,
) -> Result<Response<AnswerBody>, Problem> {
    let found = server.webhooks.iter().find(|webhook| webhook.name == name);
    let webhook = found.ok_or_else(|| Problem::not_found("there is no such webhook"))?;
    let done = async {
        let delivery = webhook.check(head, &body::read(head, content).await?)?;
        match webhook.event(&delivery) {
            Ok(event) => server.take(webhook, &delivery, &event).await,
            Err(why) => Ok(WebhookAnswer { ignored: Some(why), ..WebhookAnswer::default() }),
        }
    };
    let done = done.await;
    let status = done.as_ref().map(|_| StatusCode::ACCEPTED);
    server.log_action(&webhook.actor(), head.uri.path(), status, None).await;
    Ok(answer::accepted(&done?))
}

impl Server {
    async fn take(
        self: &Arc<Self>,
        webhook: &IncomingWebhook,
        delivery: &Delivery,
        event: &TriggerEvent,
    ) -> Result<WebhookAnswer, Problem> {
        match webhook.target {
            WebhookTarget::Session(id) => {
                let seq = self.tell_session(id, webhook, delivery, event).await?;
                Ok(WebhookAnswer { seq: Some(seq), ..WebhookAnswer::default() })
            }
            WebhookTarget::Harnesses => {
                let wanted = event.clone();
                let evaluated = self.blocking(move |server| {
                    (server.backend.evaluate_triggers)(&wanted).map_err(Problem::refused)
                });
                let mut answer = WebhookAnswer::default();
                for EvaluatedTrigger { harness, starts } in evaluated.await? {
                    let run = match starts {
                        Ok(false) => continue,
                        Ok(true) => self.start_triggered(webhook, delivery, event, &harness).await,
                        Err(why) => TriggeredRun { harness, id: None, problem: Some(why) },
                    };
                    answer.runs.push(run);
                }
                Ok(answer)
            }
        }
    }

    /// A forge waits only a few seconds for an answer, so this does not wait until the run has started.
    async fn start_triggered(
        self: &Arc<Self>,
        webhook: &IncomingWebhook,
        delivery: &Delivery,
        event: &TriggerEvent,
        harness: &str,
    ) -> TriggeredRun {
        let content = format!("{:#}\n", event.json());
        let body = NewRunBody {
            harness: harness.to_owned(),
            inputs: vec![InputBody { name: "event.json".to_owned(), content }],
            ..NewRunBody::default()
        };
        let key = format!("{}:{harness}", delivery.id);
        let harness = harness.to_owned();
        match self.begin_run(&webhook.actor(), Some(key), body).await {
            Ok(begun) => {
                let id = begun.id.clone();
                tokio::spawn(log_start(Arc::clone(self), webhook.actor(), begun));
                TriggeredRun { harness, id: Some(id), problem: None }
            }
            Err(problem) => TriggeredRun { harness, id: None, problem: Some(problem.detail().to_owned()) },
        }
    }

    async fn tell_session(
        self: &Arc<Self>,
        id: SessionId,
        webhook: &IncomingWebhook,
        delivery: &Delivery,
        event: &TriggerEvent,
    ) -> Result<u64, Problem> {
        let actor = webhook.actor();
        let key = format!("{actor}:{}", delivery.id);
        let message = format!("A webhook reports this event:\n\n{:#}", event.json());
        self.with_actor(Some(actor), move |sessions, _| {
            let mut seed = time_seed(sessions.now()?);
            let input =
                SessionInput { id: EventId::from_key(id, &key), payload: Payload::UserMessage { message } };
            let seqs = sessions.append(id, &[input], &mut seed)?;
            Ok(seqs.first().map_or(0, |seq| seq.0))
        })
        .await
    }
}

/// The forge has its answer already: the log says whether the run has begun, or why not.
async fn log_start(server: Arc<Server>, actor: String, run: IdentifiedRun) {
    let path = format!("/v1/runs/{}", run.id);
    let begun = server.wait_until_begun(run).await;
    server.log_action(&actor, &path, begun.as_ref().map(|_| StatusCode::CREATED), None).await;
}

static HUB_SIGNATURE: HeaderName = HeaderName::from_static("x-hub-signature-256");
static GITHUB_EVENT: HeaderName = HeaderName::from_static("x-github-event");
static GITHUB_DELIVERY: HeaderName = HeaderName::from_static("x-github-delivery");
static GITLAB_TOKEN: HeaderName = HeaderName::from_static("x-gitlab-token");
static GITLAB_EVENT: HeaderName = HeaderName::from_static("x-gitlab-event");
static GITLAB_EVENT_UUID: HeaderName = HeaderName::from_static("x-gitlab-event-uuid");
static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
static WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
static WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
static WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
