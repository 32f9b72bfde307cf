//! SLSA provenance for the accepted output of a run: which files it has, from which inputs, and who made them. It uses
//! the record alone.

use serde_json::{Value as Json, json};

use super::Record;
use super::statement::{STATEMENT_TYPE, Subject};
use crate::event::outcome::OutcomeKind;

/// The kind of build that a run is.
const BUILD_TYPE: &str = "urn:fullsend:run:1";

/// Why a run has no provenance.
#[derive(Debug, PartialEq, Eq)]
pub enum NoProvenance {
    NotCompleted,
    NoOutput,
}

impl std::fmt::Display for NoProvenance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotCompleted => "it did not complete, so no output was accepted",
            Self::NoOutput => "it has no accepted files",
        })
    }
}

impl std::error::Error for NoProvenance {}

/// The statement, in SLSA's format of the first version.
pub fn statement(record: &Record) -> Result<Json, NoProvenance> {
    if record.outcome != Some(OutcomeKind::Completed) {
        return Err(NoProvenance::NotCompleted);
    }
    if record.artifacts.is_empty() {
        return Err(NoProvenance::NoOutput);
    }
    let subject: Vec<Subject> =
        record.artifacts.iter().map(|artifact| Subject::new(&artifact.path, &artifact.sha256)).collect();
    let inputs = record.inputs.iter().filter(|input| !input.sha256.is_empty());
    let mut dependencies: Vec<Json> = inputs
        .map(|input| json!({
            "name": input.name, "digest": { "sha256": input.sha256 }, "annotations": { "kind": input.kind },
        }))
        .collect();
    if !record.commit.is_empty() {
        let name = if record.repository.is_empty() { "repository" } else { &record.repository };
        dependencies.push(json!({ "name": name, "digest": { "gitCommit": record.commit } }));
    }
    Ok(json!({
        "_type": STATEMENT_TYPE,
        "subject": subject,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "harness": record.harness, "repository": record.repository, "branch": record.branch,
                },
                "internalParameters": {
                    "runtime": record.runtime, "model": record.model, "schema": record.schema,
                    "models": record.usage.keys().collect::<Vec<_>>(),
                },
                "resolvedDependencies": dependencies,
            },
            "runDetails": {
                "builder": { "id": "urn:fullsend", "version": { "fullsend": record.fullsend } },
                "metadata": {
                    "invocationId": record.run_id, "startedOn": record.started, "finishedOn": record.finished,
                },
                "byproducts": [{ "name": "events.jsonl", "annotations": { "chain_head": record.chain_head } }],
            },
        },
    }))
}
