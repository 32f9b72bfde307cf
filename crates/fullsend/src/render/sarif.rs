//! SARIF 2.1.0: what code scanning services read.

use serde_json::{Value as Json, json};
use yaml::{Diagnostic, Sources};

use super::diagnostics::{clean, severity};

/// One log with one run that holds all problems.
pub fn log(sources: &Sources, diagnostics: &[Diagnostic]) -> Json {
    let mut rules: Vec<&str> = diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
    rules.sort_unstable();
    rules.dedup();
    let results: Vec<Json> = diagnostics.iter().map(|diagnostic| result(sources, diagnostic)).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "fullsend",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.iter().map(|rule| json!({ "id": rule })).collect::<Vec<_>>(),
            }},
            "results": results,
        }],
    })
}

fn result(sources: &Sources, diagnostic: &Diagnostic) -> Json {
    let diagnostic = &clean(diagnostic);
    let place = sources.locate(diagnostic.at);
    let text = match &diagnostic.help {
        Some(help) => format!("{}. {help}", diagnostic.message),
        None => diagnostic.message.clone(),
    };
    json!({
        "ruleId": diagnostic.code,
        "level": severity(diagnostic),
        "message": { "text": text },
        "locations": [{ "physicalLocation": {
            "artifactLocation": { "uri": place.name },
            "region": { "startLine": place.line, "startColumn": place.column },
        }}],
    })
}
