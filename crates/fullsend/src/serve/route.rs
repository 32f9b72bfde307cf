//! Routes: which handler serves which path and method. For a known path with another method, the refusal lists the
//! path's methods.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{ACCEPT, HeaderName};
use hyper::http::request::Parts;
use hyper::{Method, Response};
use session::{DeadLetterAction, Payload};

use super::access::Caller;
use super::actions::{Action, InterruptBody};
use super::answer::{self, AnswerBody};
use super::problem::Problem;
use super::{
    Server, artifact, body, costs, header, metrics, openapi, outgoing, runs, session_feed, sessions, starts,
    stream, webhooks, work,
};

/// The routes.
#[derive(Clone)]
enum Route<'a> {
    Page,
    Description,
    Metrics,
    Caller,
    Work,
    Workers,
    Costs,
    Runs,
    Run(&'a str),
    RunPage(&'a str),
    RunEvents(&'a str),
    CancelRun(&'a str),
    Artifact(&'a str, String),
    Sessions,
    ImportSession,
    Session(&'a str),
    SessionEvents(&'a str),
    Export(&'a str),
    DeadLetters(&'a str),
    Act(&'a str, SessionAction<'a>),
    Webhook(&'a str),
    Deliveries,
    RetryDeliveries,
}

/// The actions on a session.
#[derive(Clone, Copy)]
enum SessionAction<'a> {
    Answer(&'a str),
    Confirm(&'a str),
    Interrupt,
    Wake,
    Terminate,
    Archive,
    DeadLetters(DeadLetterAction),
}

impl<'a> Route<'a> {
    fn find(path: &'a str) -> Option<Self> {
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        Some(match parts[..] {
            [""] | ["runs", _] | ["sessions"] | ["sessions", _] | ["costs"] | ["work"] => Self::Page,
            ["metrics"] => Self::Metrics,
            ["v1", "openapi.json"] => Self::Description,
            ["v1", "caller"] => Self::Caller,
            ["v1", "work"] => Self::Work,
            ["v1", "workers"] => Self::Workers,
            ["v1", "costs"] => Self::Costs,
            ["v1", "runs"] => Self::Runs,
            ["v1", "runs", id] => Self::Run(id),
            ["v1", "runs", id, "page"] => Self::RunPage(id),
            ["v1", "runs", id, "events"] => Self::RunEvents(id),
            ["v1", "runs", id, "cancel"] => Self::CancelRun(id),
            ["v1", "runs", id, "artifacts", ref path @ ..] => Self::Artifact(id, path.join("/")),
            ["v1", "sessions"] => Self::Sessions,
            ["v1", "sessions", "import"] => Self::ImportSession,
            ["v1", "sessions", id] => Self::Session(id),
            ["v1", "sessions", id, "events"] => Self::SessionEvents(id),
            ["v1", "sessions", id, "export"] => Self::Export(id),
            ["v1", "sessions", id, "dead-letters"] => Self::DeadLetters(id),
            ["v1", "sessions", id, ref action @ ..] => Self::Act(id, SessionAction::find(action)?),
            ["v1", "webhooks", name] => Self::Webhook(name),
            ["v1", "deliveries"] => Self::Deliveries,
            ["v1", "deliveries", "retry"] => Self::RetryDeliveries,
            _ => return None,
        })
    }

    /// Whether the path needs no token: the page and the description of the API contain no data, and a webhook is signed.
    fn is_open(&self) -> bool {
        matches!(self, Self::Page | Self::Description | Self::Webhook(_))
    }

    /// The methods of the path, as `Allow` lists them.
    fn methods(&self) -> &'static str {
        match self {
            Self::Runs | Self::Sessions | Self::SessionEvents(_) => "GET, POST",
            Self::CancelRun(_)
            | Self::ImportSession
            | Self::Act(..)
            | Self::Webhook(_)
            | Self::RetryDeliveries => "POST",
            _ => "GET",
        }
    }
}

impl<'a> SessionAction<'a> {
    fn find(parts: &[&'a str]) -> Option<Self> {
        Some(match *parts {
            ["requests", request, "answer"] => Self::Answer(request),
            ["requests", request, "confirm"] => Self::Confirm(request),
            ["interrupt"] => Self::Interrupt,
            ["wakes"] => Self::Wake,
            ["terminate"] => Self::Terminate,
            ["archive"] => Self::Archive,
            ["dead-letters", "retry"] => Self::DeadLetters(DeadLetterAction::Retry),
            ["dead-letters", "drop"] => Self::DeadLetters(DeadLetterAction::Drop),
            _ => return None,
        })
    }
}

pub(super) async fn answer(
    server: &Arc<Server>,
    head: Parts,
    content: Incoming,
) -> Result<Response<AnswerBody>, Problem> {
    server.access.check_origin(&head)?;
    let path = head.uri.path();
    let route = Route::find(path);
    let caller = match &route {
        Some(route) if route.is_open() => None,
        _ => Some(server.access.check_token(&head)?),
    };
    let route = route.ok_or_else(|| Problem::not_found(format!("there is nothing at {path}")))?;
    if !route.methods().split(", ").any(|method| head.method == method) {
        return Err(Problem::method_not_allowed(route.methods()));
    }
    if head.method != Method::POST {
        return read(server, route, caller.as_ref(), &head).await;
    }
    if let Some(caller) = &caller {
        caller.check_may_act()?;
    }
    // A separate task, so that the action is logged even if the caller disconnects.
    let done = tokio::spawn(act_and_log(Arc::clone(server), caller, head, content)).await;
    done.unwrap_or_else(|_| Err(Problem::internal("the request could not be answered")))
}

/// Only an operator or a webhook gets here; a webhook has no caller.
async fn act_and_log(
    server: Arc<Server>,
    caller: Option<Caller>,
    head: Parts,
    content: Incoming,
) -> Result<Response<AnswerBody>, Problem> {
    let path = head.uri.path();
    match (Route::find(path), caller) {
        (Some(Route::Webhook(name)), None) => webhooks::receive(&server, name, &head, content).await,
        (Some(route), Some(caller)) => {
            let done = act(&server, &caller, &route, &head, content).await;
            server.log_answer(&caller.name, path, &done).await;
            done
        }
        _ => Err(Problem::not_found(format!("there is nothing at {path}"))),
    }
}

async fn read(
    server: &Arc<Server>,
    route: Route<'_>,
    caller: Option<&Caller>,
    head: &Parts,
) -> Result<Response<AnswerBody>, Problem> {
    let query = head.uri.query().unwrap_or_default();
    // A header that is not text cannot be a number.
    let last = head.headers.get(&LAST_EVENT_ID).map(|value| value.to_str().unwrap_or_default());
    match route {
        Route::Page => Ok(answer::page()),
        Route::Description => Ok(answer::json(&openapi::document())),
        Route::Metrics => metrics::answer(server).await,
        Route::Caller => caller.map(answer::json).ok_or_else(|| Problem::unauthorized("a token is needed")),
        Route::Work => work::get(server).await,
        Route::Workers => work::workers(server).await,
        Route::Costs => costs::get(server, query).await,
        Route::Runs => runs::list(server, query).await,
        Route::Run(id) => runs::get(server, id).await,
        Route::RunPage(id) => runs::page(server, id).await,
        Route::RunEvents(id) if wants_stream(head) => stream::events(server, id, last).await,
        Route::RunEvents(id) => runs::events(server, id, query).await,
        Route::Artifact(id, path) => artifact::get(server, id, &path).await,
        Route::Sessions => sessions::list(server, query).await,
        Route::Session(id) => sessions::get(server, id).await,
        Route::SessionEvents(id) if wants_stream(head) => session_feed::events(server, id, last).await,
        Route::SessionEvents(id) => sessions::events(server, id, query).await,
        Route::Export(id) => artifact::export(server, id).await,
        Route::DeadLetters(id) => sessions::dead_letters(server, id).await,
        Route::Deliveries => outgoing::list(server, query).await,
        Route::CancelRun(_)
        | Route::ImportSession
        | Route::Act(..)
        | Route::Webhook(_)
        | Route::RetryDeliveries => Err(Problem::method_not_allowed(route.methods())),
    }
}

async fn act(
    server: &Arc<Server>,
    caller: &Caller,
    route: &Route<'_>,
    head: &Parts,
    content: Incoming,
) -> Result<Response<AnswerBody>, Problem> {
    let action = Action { server, caller, key: body::idempotency_key(head)? };
    if let Route::ImportSession = route {
        let _permit = server.imports.acquire().await;
        let file = tempfile::tempfile().map_err(|error| Problem::internal(error.to_string()))?;
        return action.import(body::receive(head, content, file).await?).await;
    }
    let bytes = body::read(head, content).await?;
    let (id, what) = match route {
        Route::Runs => return starts::start(&action, body::parse(&bytes)?).await,
        Route::CancelRun(id) => return runs::cancel(&action, id, body::parse(&bytes)?).await,
        Route::RetryDeliveries => return outgoing::retry(&action, body::parse(&bytes)?).await,
        Route::Sessions => return action.create(body::parse(&bytes)?).await,
        Route::SessionEvents(id) => {
            return action.append(sessions::parse_id(id)?, body::parse(&bytes)?).await;
        }
        Route::Act(id, what) => (sessions::parse_id(id)?, what),
        other => return Err(Problem::method_not_allowed(other.methods())),
    };
    match what {
        SessionAction::Answer(request) => action.answer(id, request, body::parse(&bytes)?).await,
        SessionAction::Confirm(request) => action.confirm(id, request, body::parse(&bytes)?).await,
        SessionAction::Interrupt => {
            let InterruptBody { note } = body::parse(&bytes)?;
            action.append(id, Payload::UserInterrupt { note }).await
        }
        SessionAction::Wake => action.wake(id, body::parse(&bytes)?).await,
        SessionAction::Terminate => action.terminate(id, body::parse(&bytes)?).await,
        SessionAction::Archive => action.archive(id).await,
        SessionAction::DeadLetters(what) => action.dead_letters(id, *what, body::parse(&bytes)?).await,
    }
}

static LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

fn wants_stream(head: &Parts) -> bool {
    header(head, &ACCEPT).is_some_and(|accepted| accepted.contains("text/event-stream"))
}
