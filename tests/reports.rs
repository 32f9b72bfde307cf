//! Reports of a run for other programs: JUnit XML, SARIF, GitLab's code quality, OpenTelemetry spans and ATIF trajectories, from the
//! events of one real run.

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

/// Our own description of ATIF 1.7: every object is closed, so a field that the format does not have is an error.
fn atif_schema() -> Json {
    let closed = |required: &[&str], properties: Json| json!({ "type": "object", "additionalProperties": false, "required": required, "properties": properties });
    let text = json!({ "type": "string" });
    let count = json!({ "type": "integer", "minimum": 0 });
    let any = json!({ "type": "object" });
    let agent = closed(&["name", "version"], json!({ "name": text, "version": text, "model_name": text }));
    let call = closed(
        &["tool_call_id", "function_name", "arguments"],
        json!({ "tool_call_id": text, "function_name": text, "arguments": any }),
    );
    let result = closed(&[], json!({ "source_call_id": text, "content": text, "extra": any }));
    let observation = closed(&["results"], json!({ "results": { "type": "array", "items": result } }));
    let mut step = closed(
        &["step_id", "source", "message"],
        json!({
            "step_id": { "type": "integer", "minimum": 1 }, "source": { "enum": ["system", "user", "agent"] },
            "message": text, "reasoning_content": text, "tool_calls": { "type": "array", "items": call },
            "observation": observation, "extra": any,
        }),
    );
    // Only an agent thinks and calls tools.
    step["if"] = json!({ "properties": { "source": { "enum": ["system", "user"] } } });
    step["then"] = json!({ "properties": { "tool_calls": false, "reasoning_content": false } });
    let metrics = closed(
        &[],
        json!({
            "total_prompt_tokens": count, "total_completion_tokens": count, "total_cached_tokens": count,
            "total_cost_usd": { "type": "number" }, "total_steps": count,
        }),
    );
    closed(
        &["schema_version", "agent", "steps"],
        json!({
            "schema_version": { "const": "ATIF-v1.7" }, "session_id": text, "trajectory_id": text, "agent": agent,
            "steps": { "type": "array", "minItems": 1, "items": step }, "final_metrics": metrics, "extra": any,
            "subagent_trajectories": { "type": "array", "items": { "$ref": "#" } },
        }),
    )
}

#[test]
fn a_run_is_exported_as_a_trajectory() {
    let world = example("hello");
    let ran = world.run(&["run", "hello", "--quiet"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    let trajectory: Json = serde_json::from_str(&export(&world, "--atif")).unwrap();
    let validator = jsonschema::draft202012::new(&atif_schema()).unwrap();
    let problems: Vec<String> = validator.iter_errors(&trajectory).map(|error| error.to_string()).collect();
    assert!(problems.is_empty(), "{problems:#?}\n{trajectory:#}");

    let steps = trajectory["steps"].as_array().unwrap();
    for (index, step) in steps.iter().enumerate() {
        assert_eq!(step["step_id"], index + 1, "{trajectory:#}");
        let calls: Vec<&Json> =
            step["tool_calls"].as_array().into_iter().flatten().map(|call| &call["tool_call_id"]).collect();
        for result in step["observation"]["results"].as_array().into_iter().flatten() {
            assert!(calls.contains(&&result["source_call_id"]), "{step:#}");
        }
    }
    let calls = steps.iter().flat_map(|step| step["tool_calls"].as_array().into_iter().flatten()).count();
    let attempts: std::collections::BTreeSet<u64> =
        steps.iter().map(|step| step["extra"]["iteration"].as_u64().unwrap()).collect();
    assert_eq!((calls, attempts.len()), (5, 2), "{trajectory:#}");
    assert_eq!(trajectory["agent"]["name"], "native");
    assert_eq!(trajectory["extra"]["outcome"], "completed");
    assert!(trajectory["final_metrics"]["total_prompt_tokens"].as_u64().unwrap() > 0, "{trajectory:#}");
}

#[test]
fn a_run_without_a_conversation_has_no_trajectory() {
    let world =
        World::scripted("pre_script: scripts/fail.sh\n", r#"{"turns":[[{"finish":{"summary":"x"}}]]}"#);
    world.write("repo/.fullsend/scripts/fail.sh", "#!/bin/sh\nexit 1\n");
    assert_ne!(world.run(&["run", "triage"]).code, 0);
    let refused = world.run(&["runs", "export", "--atif", "-"]);
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(
        refused.err.contains("has no conversation, and a trajectory has at least one step"),
        "{}",
        refused.err
    );
}
