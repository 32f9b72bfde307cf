//! The JSON Schemas of our files, each made from the types that read or write it.

use serde_json::{Value as Json, json};

use crate::harness::Harness;
use crate::harness::config::Config;
use crate::harness::environment::Environment;
use crate::harness::provider::Provider;

/// The schema of a harness file, with the built-in defaults.
pub fn harness() -> Json {
    let mut schema = yaml::document::<Harness>("urn:fullsend:harness:1", "fullsend harness");
    // A harness that extends another may inherit its agent.
    schema["$defs"]["Harness"]["anyOf"] = json!([{ "required": ["agent"] }, { "required": ["base"] }]);
    schema
}

pub fn config() -> Json {
    yaml::document::<Config>("urn:fullsend:config:1", "fullsend config.yaml")
}

pub fn provider() -> Json {
    yaml::document::<Provider>("urn:fullsend:provider:1", "fullsend provider")
}

pub fn policy() -> Json {
    policy::schema()
}

/// Where sessions run.
pub fn environment() -> Json {
    yaml::document::<Environment>("urn:fullsend:environment:1", "fullsend environment")
}

/// How a session continues after a run.
pub fn directive() -> Json {
    serde_json::from_str(session::DIRECTIVE_SCHEMA).unwrap_or_default()
}

/// The record of a run.
pub fn run() -> Json {
    schemars::schema_for!(crate::record::Record).to_value()
}

/// One line of `events.jsonl`.
pub fn event() -> Json {
    schemars::schema_for!(crate::event::Envelope).to_value()
}

/// The data of a run's page.
pub fn page() -> Json {
    schemars::schema_for!(crate::record::page::RunPage).to_value()
}
