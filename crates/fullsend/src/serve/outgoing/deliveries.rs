//! The deliveries that wait or were given up, as answers; and their retry by an operator.

use std::sync::Arc;

use hyper::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::outbox::{OutboxError, QueuedDelivery};
use crate::event::clock::Moment;
use crate::serve::Server;
use crate::serve::actions::Action;
use crate::serve::answer::{self, AnswerBody};
use crate::serve::problem::Problem;
use crate::serve::query::Query;

/// One page of deliveries, oldest first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeliveryList {
    pub deliveries: Vec<DeliverySummary>,
    /// The cursor of the next page; absent at the end.
    pub next: Option<String>,
}

/// One event for one webhook.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeliverySummary {
    /// `webhook-id` of every attempt.
    pub id: String,
    pub webhook: String,
    /// The type of the event.
    #[serde(rename = "type")]
    pub kind: String,
    pub created: String,
    pub attempts: u32,
    /// When it is sent next; absent if it was given up.
    pub next_attempt: Option<String>,
    /// The receiver's status for the last attempt.
    pub status: Option<u16>,
    /// Why the last attempt failed.
    pub problem: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryDeliveriesBody {
    /// The deliveries; all that were given up if absent.
    pub ids: Option<Vec<String>>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct RetriedDeliveries {
    /// How many are sent again.
    pub retried: usize,
}

impl DeliverySummary {
    fn of(delivery: QueuedDelivery) -> Self {
        let time = |millis: i64| Moment::from_millis(u64::try_from(millis).unwrap_or(0)).rfc3339();
        let QueuedDelivery { id, webhook, kind, created_ms, attempts, due_ms, status, problem, .. } =
            delivery;
        let created = time(created_ms);
        Self { id, webhook, kind, created, attempts, next_attempt: due_ms.map(time), status, problem }
    }
}

fn failed(error: &OutboxError) -> Problem {
    Problem::new(hyper::StatusCode::SERVICE_UNAVAILABLE, "store-unavailable", error.to_string())
}

pub(in crate::serve) async fn list(
    server: &Arc<Server>,
    query: &str,
) -> Result<Response<AnswerBody>, Problem> {
    let query = Query::parse(query)?;
    let limit = query.limit()?;
    let cursor = query.number("cursor")?.map_or(Ok(0), i64::try_from);
    let after = cursor.map_err(|_| Problem::bad_request("`cursor` must be `next` of the page before"))?;
    let is_dead = match query.value("state").unwrap_or("dead") {
        "dead" => true,
        "waiting" => false,
        _ => return Err(Problem::bad_request("`state` must be `dead` or `waiting`")),
    };
    let list = server.blocking(move |server| {
        let Some(outgoing) = &server.outgoing else {
            return Ok(DeliveryList { deliveries: Vec::new(), next: None });
        };
        let found = outgoing.outbox.list(is_dead, after, limit).map_err(|error| failed(&error))?;
        let next = found.last().filter(|_| found.len() == limit).map(|last| last.number.to_string());
        Ok(DeliveryList { deliveries: found.into_iter().map(DeliverySummary::of).collect(), next })
    });
    Ok(answer::json(&list.await?))
}

/// Sends given-up deliveries again.
pub(in crate::serve) async fn retry(
    action: &Action<'_>,
    body: RetryDeliveriesBody,
) -> Result<Response<AnswerBody>, Problem> {
    let retried = action.server.blocking(move |server| {
        let Some(outgoing) = &server.outgoing else { return Ok(0) };
        outgoing.outbox.retry(&outgoing.names(), body.ids.as_deref()).map_err(|error| failed(&error))
    });
    Ok(answer::json(&RetriedDeliveries { retried: retried.await? }))
}
