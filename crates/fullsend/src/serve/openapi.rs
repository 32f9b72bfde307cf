//! The OpenAPI 3.1 document of the HTTP API. Its schemas are made from the types that are answered.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value as Json, json};

use super::problem::Problem;
use super::query::MAX_LIMIT;
use super::runs::{EventList, RUNNING, RunList};
use crate::event::outcome::EndCause;
use crate::record::Record;
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
    let schemas = description.generator.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "fullsend",
            "version": "1",
            "summary": "The runs of one machine",
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
        let problem = json!({ "application/problem+json": { "schema": self.schema::<Problem>() } });
        let mut responses = Map::new();
        responses.insert("200".to_owned(), json!({ "description": "Done", "content": content }));
        for (status, description) in REFUSALS {
            responses.insert((*status).to_owned(), json!({ "description": description, "content": problem }));
        }
        let operation = json!({ "summary": summary, "parameters": parameters, "responses": responses });
        self.paths.insert(path.to_owned(), json!({ "get": operation }));
    }

    fn general(&mut self) {
        let text = json!({ "text/plain": { "schema": { "type": "string" } } });
        self.get("/metrics", "Get counters for Prometheus", &[], &text);
        let any = json!({ "application/json": { "schema": { "type": "object" } } });
        self.get("/v1/openapi.json", "Get this document", &[], &any);
        self.paths["/v1/openapi.json"]["get"]["security"] = json!([]);
    }

    fn runs(&mut self) {
        let list = self.json::<RunList>();
        let filters = [
            limit(),
            query("cursor", &json!({ "type": "string", "format": "uuid" }), "`next` of the page before"),
            query("harness", &json!({ "type": "string" }), "Only runs of this harness"),
            query("outcome", &json!({ "enum": outcomes() }), "Only runs that ended so, or still run"),
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

/// What every request may be answered instead, as RFC 9457 says it.
const REFUSALS: &[(&str, &str)] = &[
    ("400", "A parameter is not valid"),
    ("401", "The token is missing or wrong"),
    ("403", "A page of another site asks"),
    ("404", "There is no such thing"),
    ("405", "The path has other methods"),
    ("409", "What is on disk cannot be read, or was changed"),
    ("421", "The host is not a name of this server"),
];

fn outcomes() -> Vec<&'static str> {
    let mut words: Vec<&str> = EndCause::ALL.iter().map(|cause| cause.outcome().as_str()).collect();
    words.push(RUNNING);
    words.sort_unstable();
    words.dedup();
    words
}

fn run_id() -> Json {
    json!({ "name": "id", "in": "path", "required": true, "schema": { "type": "string", "format": "uuid" },
            "description": "The whole id of the run" })
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
