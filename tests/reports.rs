//! Reports of a run for other programs: JUnit XML, SARIF, GitLab's code quality and OpenTelemetry spans, from the events of
//! one real run.

use std::fs;

use serde_json::{Value as Json, json};

use crate::support::{World, example};

fn export(world: &World, format: &str) -> String {
    let ran = world.run(&["runs", "export", format, "-"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.all());
    ran.out
}

#[test]
fn a_run_is_reported_in_the_formats_of_ci_services() {
    let world =
        example("hello").env("TRACEPARENT", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    let ran = world.run(&["run", "hello", "--quiet"]);
    assert_eq!(ran.code, 0, "{}", ran.all());

    let junit = export(&world, "--junit");
    assert!(junit.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"), "{junit}");
    assert!(junit.contains("<testcase classname=\"hello\" name=\"run\" time=\""), "{junit}");
    assert!(junit.contains("failures=\"0\" errors=\"0\" skipped=\"1\""), "{junit}");
    let retried =
        "<skipped message=\"rejected, and tried again: &quot;cause&quot; is a required property; at /fixed:";
    assert!(junit.contains(retried), "{junit}");
    assert!(junit.contains("collector.example:443"), "the refusal is in the report: {junit}");

    let sarif: Json = serde_json::from_str(&export(&world, "--sarif")).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let hidden = results.iter().find(|result| result["ruleId"] == "hidden-instruction").unwrap();
    assert_eq!(hidden["level"], "error");
    let place = &hidden["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "AGENTS.md");
    assert_eq!(place["region"], json!({ "startLine": 5, "startColumn": 5 }));
    let rules = sarif["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
    let index = usize::try_from(hidden["ruleIndex"].as_u64().unwrap()).unwrap();
    assert_eq!(rules[index]["id"], "hidden-instruction");

    let quality: Json = serde_json::from_str(&export(&world, "--code-quality")).unwrap();
    let first =
        quality.as_array().unwrap().iter().find(|one| one["check_name"] == "hidden-instruction").unwrap();
    assert_eq!(first["severity"], "critical");
    assert_eq!(first["location"], json!({ "path": "AGENTS.md", "lines": { "begin": 5 } }));

    let otlp = export(&world, "--otlp");
    assert!(
        !otlp.contains("wrold") && !otlp.contains("Ignore all previous"),
        "spans have no content: {otlp}"
    );
    let otlp: Json = serde_json::from_str(&otlp).unwrap();
    let spans = otlp["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    assert!(spans.iter().all(|span| span["traceId"] == "4bf92f3577b34da6a3ce929d0e0e4736"));
    assert_eq!(spans[0]["parentSpanId"], "00f067aa0ba902b7");
    let named =
        |start: &str| spans.iter().filter(|span| span["name"].as_str().unwrap().starts_with(start)).count();
    assert_eq!((named("chat "), named("execute_tool "), named("attempt ")), (5, 5, 2), "{otlp:#}");

    let files = ["a.xml", "b.sarif"].map(|name| world.path(name).to_string_lossy().into_owned());
    let several = world.run(&["runs", "export", "--junit", &files[0], "--sarif", &files[1]]);
    assert_eq!(several.code, 0, "{}", several.all());
    assert_eq!(fs::read_to_string(&files[0]).unwrap(), junit);
}
