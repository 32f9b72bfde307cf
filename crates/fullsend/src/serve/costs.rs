//! What the runs cost, by day, harness or repository.

use std::sync::Arc;

use hyper::Response;

use super::Server;
use super::answer::{self, AnswerBody};
use super::problem::Problem;
use super::query::Query;
use crate::record::costs::{self, CostKey};
use crate::record::store;

pub(super) async fn get(server: &Arc<Server>, query: &str) -> Result<Response<AnswerBody>, Problem> {
    let query = Query::parse(query)?;
    let by = CostKey::parse(query.value("by").unwrap_or(CostKey::Day.name()));
    let by = by.ok_or_else(|| Problem::bad_request("`by` must be `day`, `harness` or `repository`"))?;
    let since = query.value("since").map(str::to_owned);
    if since.as_deref().is_some_and(|day| !costs::is_day(day)) {
        return Err(Problem::bad_request("`since` must be a day: YYYY-MM-DD"));
    }
    let report =
        server.blocking(move |server| Ok(costs::report(&store::all(&server.runs), by, since.as_deref())));
    Ok(answer::json(&report.await?))
}
