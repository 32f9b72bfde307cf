//! SARIF 2.1.0: what code scanning services read.

use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use yaml::{Diagnostic, Sources, Span};

use super::diagnostics::{clean, severity};

/// One log with one run that holds all problems.
pub fn log(sources: &Sources, diagnostics: &[Diagnostic]) -> Json {
    let mut rules: Vec<&str> = diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
    rules.sort_unstable();
    rules.dedup();
    let results: Vec<Json> =
        diagnostics.iter().map(|diagnostic| result(sources, diagnostic, &rules)).collect();
    wrap(&rules, &results)
}

/// The log around results.
pub fn wrap(rules: &[&str], results: &[Json]) -> Json {
    let described =
        |rule: &&str| json!({ "id": rule, "shortDescription": { "text": rule.replace('-', " ") } });
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "fullsend",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.iter().map(described).collect::<Vec<_>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn result(sources: &Sources, diagnostic: &Diagnostic, rules: &[&str]) -> Json {
    let diagnostic = &clean(diagnostic);
    let text = match &diagnostic.help {
        Some(help) => format!("{}; {help}", diagnostic.message),
        None => diagnostic.message.clone(),
    };
    let related = |(at, what): &(Span, String)| json!({ "physicalLocation": place(sources, *at), "message": { "text": what } });
    json!({
        "ruleId": diagnostic.code,
        "ruleIndex": rules.iter().position(|rule| *rule == diagnostic.code),
        "level": severity(diagnostic),
        "message": { "text": text },
        "locations": [{ "physicalLocation": place(sources, diagnostic.at) }],
        "relatedLocations": diagnostic.related.iter().map(related).collect::<Vec<_>>(),
        "partialFingerprints": { "fullsend/v1": fingerprint(diagnostic) },
    })
}

fn place(sources: &Sources, at: Span) -> Json {
    let start = sources.locate(at);
    let end = sources.locate(Span { start: at.end, ..at });
    json!({
        "artifactLocation": { "uri": uri(&start.name) },
        "region": {
            "startLine": start.line,
            "startColumn": start.column,
            "endLine": end.line,
            "endColumn": end.column,
        },
    })
}

/// The same problem is the same alert, also when the lines above it change.
fn fingerprint(diagnostic: &Diagnostic) -> String {
    let digest = Sha256::digest(format!("{}\n{}", diagnostic.code, diagnostic.message));
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The name of a file as a URI. A file that was read from a commit gets its path in the repository.
pub fn uri(name: &str) -> String {
    let name =
        name.split_once(":.fullsend/").map_or(name.to_owned(), |(_, path)| format!(".fullsend/{path}"));
    let scheme = if name.starts_with('/') { "file://" } else { "" };
    let mut uri = scheme.to_owned();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}
