//! Sessions and workers as JSON, for the commands of `session` and for the HTTP API.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value as Json, json};
use session::{Payload, Seq, Session, SessionError, Sessions, StoredWorker, ToolRequest, WorkerDescription};

/// Each open request with its input.
pub fn load_open_requests(
    sessions: &mut Sessions,
    session: &Session,
) -> Result<Vec<(ToolRequest, Json)>, SessionError> {
    let mut all = Vec::new();
    for request in session.state.open_requests() {
        let before = Seq(request.asked.0.saturating_sub(1));
        let event = sessions.events(session.header.id, before, 1)?.pop().map(|event| event.payload);
        let input = match event {
            Some(Payload::AgentCustomToolUse { input, .. } | Payload::AgentToolUse { input, .. }) => input,
            _ => Json::Null,
        };
        all.push((request.clone(), input));
    }
    Ok(all)
}

/// A session with its state as it is stored.
pub fn describe(session: &Session, requests: &[(ToolRequest, Json)]) -> Json {
    let Session { header, state, holder } = session;
    let open: Vec<Json> = requests.iter().map(request).collect();
    let held = holder.as_ref().map(|holder| json!({ "owner": holder.owner, "until_ms": holder.until_ms }));
    json!({
        "id": header.id, "repository": header.repository, "ref": header.reference, "organisation": header.organisation,
        "imported": header.imported, "agent": header.agent, "harness": header.harness, "labels": header.labels,
        "environment": session.environment(), "resources": header.resources,
        "parent": header.parent, "children": state.children, "created_ms": header.created_ms, "status": state.status, "stop_reason": state.stop_reason,
        "head": state.head, "pending": state.pending.len() + state.interrupts.len(),
        "dead": state.dead, "requests": open,
        "wakes": state.wakes, "attempt": state.wake.as_ref().map(|wake| wake.attempt), "usage": state.usage,
        "bindings": state.bindings, "memory": state.memory, "held": held,
    })
}

fn request((request, input): &(ToolRequest, Json)) -> Json {
    json!({
        "id": request.id, "kind": request.kind, "tool": request.tool, "input": input,
        "input_digest": request.input_digest, "asked": request.asked, "expires_ms": request.expires_ms,
    })
}

/// A worker that waits for due sessions, as it last reported itself.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WorkerSummary {
    /// The owner of its leases.
    pub name: String,
    pub host: String,
    /// The repository, or the beginnings of the repositories, whose sessions it runs.
    pub repositories: Vec<String>,
    /// Only sessions of this agent.
    pub agent: Option<String>,
    /// The labels that it serves.
    pub labels: Vec<String>,
    /// How many wakes it runs at once.
    pub concurrency: u16,
    pub started_ms: i64,
    /// About once a minute. A worker that runs one long wake is not seen meanwhile.
    pub seen_ms: i64,
}

impl From<StoredWorker> for WorkerSummary {
    fn from(worker: StoredWorker) -> Self {
        let StoredWorker { name, description, started_ms, seen_ms } = worker;
        let WorkerDescription { host, repositories, agent, labels, concurrency } = description;
        Self {
            name,
            host,
            repositories,
            agent,
            labels,
            concurrency,
            started_ms: started_ms.0,
            seen_ms: seen_ms.0,
        }
    }
}
