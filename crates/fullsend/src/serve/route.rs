//! Which request asks for what. A known path with another method is refused with the methods that it has.

use std::sync::Arc;

use hyper::header::{ACCEPT, HeaderName};
use hyper::http::request::Parts;
use hyper::{Method, Response};

use super::answer::{self, AnswerBody};
use super::problem::Problem;
use super::{Server, artifact, header, metrics, openapi, runs, stream};

/// What a path names.
enum Route<'a> {
    Page,
    Description,
    Metrics,
    Runs,
    Run(&'a str),
    RunPage(&'a str),
    RunEvents(&'a str),
    Artifact(&'a str, String),
}

impl<'a> Route<'a> {
    fn find(path: &'a str) -> Option<Self> {
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        Some(match parts[..] {
            [""] | ["runs", _] => Self::Page,
            ["metrics"] => Self::Metrics,
            ["v1", "openapi.json"] => Self::Description,
            ["v1", "runs"] => Self::Runs,
            ["v1", "runs", id] => Self::Run(id),
            ["v1", "runs", id, "page"] => Self::RunPage(id),
            ["v1", "runs", id, "events"] => Self::RunEvents(id),
            ["v1", "runs", id, "artifacts", ref path @ ..] => Self::Artifact(id, path.join("/")),
            _ => return None,
        })
    }

    /// The page and the description of the API hold no data of runs: a browser loads them without a token.
    fn is_open(&self) -> bool {
        matches!(self, Self::Page | Self::Description)
    }
}

pub(super) async fn answer(server: &Arc<Server>, head: &Parts) -> Result<Response<AnswerBody>, Problem> {
    server.access.check_origin(head)?;
    let path = head.uri.path();
    let route = Route::find(path);
    if !route.as_ref().is_some_and(Route::is_open) {
        server.access.check_token(head)?;
    }
    let route = route.ok_or_else(|| Problem::not_found(format!("there is nothing at {path}")))?;
    if head.method != Method::GET {
        return Err(Problem::method_not_allowed("GET"));
    }
    let query = head.uri.query().unwrap_or_default();
    match route {
        Route::Page => Ok(answer::page()),
        Route::Description => Ok(answer::json(&openapi::document())),
        Route::Metrics => metrics::answer(server).await,
        Route::Runs => runs::list(server, query).await,
        Route::Run(id) => runs::get(server, id).await,
        Route::RunPage(id) => runs::page(server, id).await,
        Route::RunEvents(id) if wants_stream(head) => {
            stream::events(server, id, header(head, &LAST_EVENT_ID)).await
        }
        Route::RunEvents(id) => runs::events(server, id, query).await,
        Route::Artifact(id, path) => artifact::get(server, id, &path).await,
    }
}

static LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

fn wants_stream(head: &Parts) -> bool {
    header(head, &ACCEPT).is_some_and(|accepted| accepted.contains("text/event-stream"))
}
