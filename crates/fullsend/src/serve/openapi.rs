//! The OpenAPI 3.1 document of the HTTP API. Its schemas are made from the types that are answered.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value as Json, json};
use session::SessionStatus;

use super::access::Caller;
use super::actions::{
    AnswerRequestBody, AppendedEvent, ArchivedSession, ConfirmRequestBody, CreatedSession, DeadLettersBody,
    ImportedSessionAnswer, InterruptBody, NewSessionBody, QueuedWakeAnswer, SessionAnswer, TerminateBody,
    WakeBody,
};
use super::outgoing::{DeliveryList, RetriedDeliveries, RetryDeliveriesBody};
use super::problem::Problem;
use super::query::MAX_LIMIT;
use super::runs::{CancelBody, CancelledRun, EventList, RUNNING, RunList};
use super::sessions::{SessionEventList, SessionList};
use super::starts::{NewRunBody, StartedRun};
use super::webhooks::WebhookAnswer;
use super::work::{WorkReport, WorkerList};
use crate::event::outcome::EndCause;
use crate::record::Record;
use crate::record::costs::{CostKey, CostReport};
use crate::record::page::RunPage;

/// The largest number that every JSON reader keeps exactly.
const MAX_NUMBER: u64 = (1 << 53) - 1;

pub fn document() -> Json {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut description = Description { generator: SchemaGenerator::new(settings), paths: Map::new() };
    description.general();
    description.runs();
    description.sessions();
    description.run_actions();
    description.actions();
    description.webhooks();
    let schemas = description.generator.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "fullsend",
            "version": "1",
            "summary": "The runs and sessions of one machine",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": [] }],
        "paths": description.paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

struct Description {
    generator: SchemaGenerator,
    paths: Map<String, Json>,
}

impl Description {
    fn schema<T: JsonSchema>(&mut self) -> Json {
        self.generator.subschema_for::<T>().to_value()
    }

    fn json<T: JsonSchema>(&mut self) -> Json {
        json!({ "application/json": { "schema": self.schema::<T>() } })
    }

    /// Adds a request with what it answers: a map from media type to schema.
    fn get(&mut self, path: &str, summary: &str, parameters: &[Json], content: &Json) {
        let responses = self.responses("200", content, REFUSALS);
        let operation = json!({ "summary": summary, "parameters": parameters, "responses": responses });
        self.add(path, "get", operation);
    }

    /// Adds an action of an operator.
    fn post(&mut self, path: &str, summary: &str, status: &str, body: &Json, content: &Json) {
        let refusals: Vec<(&str, &str)> = REFUSALS.iter().chain(ACTION_REFUSALS).copied().collect();
        let responses = self.responses(status, content, &refusals);
        let mut parameters: Vec<Json> = Vec::new();
        let id = if path.starts_with("/v1/runs/") { run_id() } else { session_id() };
        parameters.extend(path.contains("{id}").then_some(id));
        parameters
            .extend(path.contains("{request}").then(|| path_parameter("request", "The id of the request")));
        parameters.push(idempotency_key());
        let operation = json!({
            "summary": summary, "parameters": parameters, "responses": responses,
            "requestBody": { "required": true, "content": body },
        });
        self.add(path, "post", operation);
    }

    fn add(&mut self, path: &str, method: &str, operation: Json) {
        let methods = self.paths.entry(path).or_insert_with(|| json!({}));
        methods[method] = operation;
    }

    fn responses(&mut self, status: &str, content: &Json, refusals: &[(&str, &str)]) -> Json {
        let problem = json!({ "application/problem+json": { "schema": self.schema::<Problem>() } });
        let mut responses = Map::new();
        responses.insert(status.to_owned(), json!({ "description": "Done", "content": content }));
        for (status, description) in refusals {
            responses.insert((*status).to_owned(), json!({ "description": description, "content": problem }));
        }
        responses.into()
    }

    fn general(&mut self) {
        let text = json!({ "text/plain": { "schema": { "type": "string" } } });
        self.get("/metrics", "Get counters for Prometheus", &[], &text);
        let any = json!({ "application/json": { "schema": { "type": "object" } } });
        self.get("/v1/openapi.json", "Get this document", &[], &any);
        self.paths["/v1/openapi.json"]["get"]["security"] = json!([]);
        let caller = self.json::<Caller>();
        self.get("/v1/caller", "Get the name and the role of the token", &[], &caller);
        let work = self.json::<WorkReport>();
        self.get("/v1/work", "Get leases, queued wakes and dead letters of all sessions", &[], &work);
        let workers = self.json::<WorkerList>();
        self.get("/v1/workers", "List the workers that wait for due sessions", &[], &workers);
        let costs = self.json::<CostReport>();
        let parameters = [
            query(
                "by",
                &json!({ "enum": CostKey::ALL.map(CostKey::name) }),
                "Group the runs by this; `day` if absent",
            ),
            query(
                "since",
                &json!({ "type": "string", "format": "date" }),
                "Only runs from this day on, in UTC",
            ),
        ];
        self.get(
            "/v1/costs",
            "Get what the kept runs cost, by day, harness or repository",
            &parameters,
            &costs,
        );
    }

    fn runs(&mut self) {
        let list = self.json::<RunList>();
        let filters = [
            limit(),
            query("cursor", &json!({ "type": "string", "format": "uuid" }), "`next` of the page before"),
            query("harness", &json!({ "type": "string" }), "Only runs of this harness"),
            query("outcome", &json!({ "enum": outcomes() }), "Only runs with this outcome, or `running`"),
        ];
        self.get("/v1/runs", "List runs, newest first", &filters, &list);
        let record = self.json::<Record>();
        self.get("/v1/runs/{id}", "Get the record of a run", &[run_id()], &record);
        let page = self.json::<RunPage>();
        self.get("/v1/runs/{id}/page", "Get everything that the page of a run shows", &[run_id()], &page);
        let mut events = self.json::<EventList>();
        events["text/event-stream"] = json!({ "schema": { "type": "string" } });
        self.get(
            "/v1/runs/{id}/events",
            "Read the events of a run; with `Accept: text/event-stream`, as they happen",
            &[
                run_id(),
                query("after", &number(0, MAX_NUMBER), "Begin after this event"),
                limit(),
                last_event_id(),
            ],
            &events,
        );
        let file = json!({ "application/octet-stream": {} });
        let path = json!({ "name": "path", "in": "path", "required": true, "schema": { "type": "string" },
                           "description": "As the record lists it" });
        self.get(
            "/v1/runs/{id}/artifacts/{path}",
            "Get a file of the accepted output",
            &[run_id(), path],
            &file,
        );
    }
}

impl Description {
    fn sessions(&mut self) {
        let list = self.json::<SessionList>();
        let statuses: Vec<&str> = SessionStatus::ALL.iter().map(|status| status.word()).collect();
        let filters = [
            limit(),
            query("cursor", &json!({ "type": "string", "format": "uuid" }), "`next` of the page before"),
            query("agent", &json!({ "type": "string" }), "Only sessions of this agent"),
            query("repository", &json!({ "type": "string" }), "Only sessions of this repository"),
            query("status", &json!({ "enum": statuses }), "Only sessions with this status"),
        ];
        self.get("/v1/sessions", "List sessions, by id", &filters, &list);
        let session = json!({ "application/json": { "schema": {
            "type": "object", "required": ["id", "agent", "status", "head", "requests", "wakes", "dead", "usage"],
        } } });
        self.get(
            "/v1/sessions/{id}",
            "Get a session: status, open requests, wakes, usage",
            &[session_id()],
            &session,
        );
        let mut events = self.json::<SessionEventList>();
        events["text/event-stream"] = json!({ "schema": { "type": "string" } });
        let after = query("after", &number(0, MAX_NUMBER), "Begin after this event");
        self.get(
            "/v1/sessions/{id}/events",
            "Read the log of a session; with `Accept: text/event-stream`, as it grows",
            &[session_id(), after, limit(), last_event_id()],
            &events,
        );
        let dead = self.json::<SessionEventList>();
        self.get(
            "/v1/sessions/{id}/dead-letters",
            "Get the inputs that were given up",
            &[session_id()],
            &dead,
        );
        let file = json!({ "application/octet-stream": {} });
        self.get("/v1/sessions/{id}/export", "Get a session as one file", &[session_id()], &file);
    }

    fn run_actions(&mut self) {
        let body = self.json::<NewRunBody>();
        let started = self.json::<StartedRun>();
        let summary = "Start a run; the answer comes when the run has started";
        self.post("/v1/runs", summary, "201", &body, &started);
        let body = self.json::<CancelBody>();
        let cancelled = self.json::<CancelledRun>();
        let summary = "Cancel a run, wherever on this machine it was started";
        self.post("/v1/runs/{id}/cancel", summary, "202", &body, &cancelled);
    }

    fn webhooks(&mut self) {
        let path = "/v1/webhooks/{name}";
        let body = json!({ "application/json": { "schema": { "type": "object" } } });
        let answer = self.json::<WebhookAnswer>();
        self.post(path, "Receive a signed webhook of a forge", "202", &body, &answer);
        let name = json!({ "name": "name", "in": "path", "required": true, "schema": { "type": "string" },
                           "description": "The name of the webhook in the file of `--webhooks`" });
        self.paths[path]["post"]["parameters"] = json!([name]);
        self.paths[path]["post"]["security"] = json!([]);
        let list = self.json::<DeliveryList>();
        let filters = [
            limit(),
            query(
                "cursor",
                &json!({ "type": "string", "pattern": "^[0-9]{1,18}$" }),
                "`next` of the page before",
            ),
            query(
                "state",
                &json!({ "enum": ["dead", "waiting"] }),
                "`dead` if absent: those that were given up",
            ),
        ];
        self.get("/v1/deliveries", "List deliveries of outgoing webhooks, oldest first", &filters, &list);
        let body = self.json::<RetryDeliveriesBody>();
        let retried = self.json::<RetriedDeliveries>();
        let summary = "Send deliveries again that were given up";
        self.post("/v1/deliveries/retry", summary, "200", &body, &retried);
    }

    fn actions(&mut self) {
        let new = self.json::<NewSessionBody>();
        let created = self.json::<CreatedSession>();
        self.post("/v1/sessions", "Create a session", "201", &new, &created);
        let appended = self.json::<AppendedEvent>();
        let input = json!({ "application/json": { "schema": { "type": "object", "required": ["type"], "properties": {
            "type": { "enum": ["user.message", "user.define_outcome", "user.interrupt", "user.tool_confirmation",
                               "user.custom_tool_result"] },
        } } } });
        self.post("/v1/sessions/{id}/events", "Append an input, as the log has it", "200", &input, &appended);
        let path = "/v1/sessions/{id}/requests/{request}/answer";
        let body = self.json::<AnswerRequestBody>();
        self.post(path, "Answer a question, or return the result of a custom tool", "200", &body, &appended);
        let path = "/v1/sessions/{id}/requests/{request}/confirm";
        let body = self.json::<ConfirmRequestBody>();
        self.post(
            path,
            "Allow or deny a tool call with exactly the input that was shown",
            "200",
            &body,
            &appended,
        );
        let body = self.json::<InterruptBody>();
        self.post("/v1/sessions/{id}/interrupt", "Stop the run of a session", "200", &body, &appended);
        let body = self.json::<WakeBody>();
        let queued = self.json::<QueuedWakeAnswer>();
        self.post("/v1/sessions/{id}/wakes", "Queue a wake", "200", &body, &queued);
        let body = self.json::<TerminateBody>();
        let session = self.json::<SessionAnswer>();
        self.post("/v1/sessions/{id}/terminate", "Terminate a session for good", "200", &body, &session);
        let body = self.json::<DeadLettersBody>();
        let path = "/v1/sessions/{id}/dead-letters/retry";
        self.post(path, "Make dead letters pending again", "200", &body, &session);
        let path = "/v1/sessions/{id}/dead-letters/drop";
        self.post(path, "Drop dead letters for good", "200", &body, &session);
        let body = json!({ "application/octet-stream": {} });
        let imported = self.json::<ImportedSessionAnswer>();
        let summary = "Import a session that was exported";
        self.post("/v1/sessions/import", summary, "201", &body, &imported);
        let body = json!({ "application/json": { "schema": { "type": "object" } } });
        let archived = self.json::<ArchivedSession>();
        let summary = "Export a session to a file of the server, terminate and remove it";
        self.post("/v1/sessions/{id}/archive", summary, "200", &body, &archived);
    }
}

/// Error answers of every request, as in RFC 9457.
const REFUSALS: &[(&str, &str)] = &[
    ("400", "A parameter is not valid"),
    ("401", "The token is missing or wrong"),
    ("403", "The request comes from a page of another site, or a viewer tries to act"),
    ("404", "Not found"),
    ("405", "The path has other methods"),
    ("409", "Stored data cannot be read or was changed, or the action is not possible now"),
    ("421", "The host is not a name of this server"),
];

/// Further error answers of an action.
const ACTION_REFUSALS: &[(&str, &str)] = &[
    ("413", "The body is too large"),
    ("415", "The body has another media type"),
    ("422", "The run cannot start: its harness or an option is not valid"),
    ("429", "The server runs as many runs as it allows"),
    ("503", "The store does not answer"),
];

fn outcomes() -> Vec<&'static str> {
    let mut words: Vec<&str> = EndCause::ALL.iter().map(|cause| cause.outcome().as_str()).collect();
    words.push(RUNNING);
    words.sort_unstable();
    words.dedup();
    words
}

fn path_parameter(name: &str, description: &str) -> Json {
    json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string", "format": "uuid" },
            "description": description })
}

fn run_id() -> Json {
    path_parameter("id", "The whole id of the run")
}

fn session_id() -> Json {
    path_parameter("id", "The whole id of the session")
}

fn idempotency_key() -> Json {
    json!({ "name": "Idempotency-Key", "in": "header",
            "schema": { "type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$" },
            "description": "Sent again with the same key, an input is stored once" })
}

fn last_event_id() -> Json {
    json!({ "name": "Last-Event-ID", "in": "header", "schema": { "type": "string", "pattern": "^[0-9]{1,15}$" },
            "description": "Continue a stream after this event" })
}

fn query(name: &str, schema: &Json, description: &str) -> Json {
    json!({ "name": name, "in": "query", "schema": schema, "description": description })
}

fn limit() -> Json {
    query("limit", &number(1, MAX_LIMIT as u64), "At most so many")
}

fn number(minimum: u64, maximum: u64) -> Json {
    json!({ "type": "integer", "minimum": minimum, "maximum": maximum })
}
