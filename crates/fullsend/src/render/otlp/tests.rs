//! A small run, exported with and without its messages.

use serde_json::{Value as Json, json};

use super::*;
use crate::record::conversation::ConversationEntry;

fn one(mut requests: Vec<Json>) -> Json {
    assert_eq!(requests.len(), 1);
    requests.remove(0)
}

fn attribute(of: &Json, key: &str) -> Json {
    let found = of["attributes"].as_array().unwrap().iter().find(|pair| pair["key"] == key);
    found.map(|pair| pair["value"].clone()).unwrap_or_default()
}

fn conversations() -> Vec<ConversationRecord> {
    let call = || "c".to_owned();
    let entries = vec![
        ConversationEntry::Told { text: "the secret task".to_owned() },
        ConversationEntry::Said { text: "the secret words".to_owned() },
        ConversationEntry::ToolCall {
            call: call(),
            tool: "Bash".to_owned(),
            input: "the secret input".to_owned(),
        },
        ConversationEntry::ToolResult {
            call: call(),
            output: "the secret output".to_owned(),
            is_error: true,
        },
    ];
    vec![ConversationRecord { iteration: 1, agent: String::new(), entries }]
}

fn envelope(seq: u64, event: &Json) -> Envelope {
    let mut line = json!({ "v": 1, "seq": seq, "time": format!("2030-01-31T12:00:0{seq}.500Z"), "previous": "", "hash": "" });
    line.as_object_mut().unwrap().extend(event.as_object().unwrap().clone());
    serde_json::from_value(line).unwrap()
}

fn sample() -> Vec<Envelope> {
    let run_id = "01990000-0000-7000-8000-000000000001";
    let usage = json!({ "input": 7, "output": 2, "cache_read": 5, "cache_write": 0, "cache_write_hour": 0 });
    let request = json!({ "type": "model_request", "exchange": 1, "wire": "messages", "model": "m", "turn": 0, "tools": 0, "bytes": 1 });
    let answer = json!({ "type": "model_answer", "exchange": 1, "model": "m", "status": 200, "ending": "complete", "usage": usage, "cost": null, "duration_ms": 1 });
    [
        json!({ "type": "run_started", "run_id": run_id, "harness": "triage", "runtime": "native", "repository": "", "fullsend": "0" }),
        json!({ "type": "step_started", "step": "agent" }),
        json!({ "type": "agent_started", "iteration": 1 }),
        json!({ "type": "model", "event": request }),
        json!({ "type": "model", "event": answer }),
        json!({ "type": "tool_started", "iteration": 1, "call": "c", "tool": "Bash", "summary": "the secret command" }),
        json!({ "type": "tool_denied", "call": "c", "tool": "Bash", "reason": "the secret reason" }),
        json!({ "type": "agent_finished", "iteration": 1, "ending": "finished", "turns": 1 }),
    ]
    .into_iter()
    .zip(1..)
    .map(|(event, seq)| envelope(seq, &event))
    .collect()
}

#[test]
fn spans_hang_below_each_other_and_have_no_content() {
    let exported = one(traces(&sample(), &conversations(), &OtlpOptions::default(), BatchLimit::NONE));
    let text = exported.to_string();
    assert!(!text.contains("secret"), "{text}");
    let spans = exported["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let find = |name: &str| spans.iter().find(|span| span["name"] == name).unwrap();
    let below = |name: &str, parent: &str| {
        assert_eq!(find(name)["parentSpanId"], find(parent)["spanId"], "{name}");
    };
    assert_eq!(find("invoke_agent triage")["traceId"], "01990000000070008000000000000001");
    assert_eq!(find("invoke_agent triage")["parentSpanId"], "");
    below("step agent", "invoke_agent triage");
    below("attempt 1", "step agent");
    below("chat m", "attempt 1");
    below("execute_tool Bash", "attempt 1");
    assert_eq!(find("chat m")["startTimeUnixNano"], "1896091204500000000");
    assert_eq!(find("execute_tool Bash")["status"]["code"], 2, "an error");
    assert_eq!(find("chat m")["status"]["code"], 1);
    assert_eq!(attribute(find("chat m"), "gen_ai.provider.name"), json!({ "stringValue": "anthropic" }));
    assert_eq!(attribute(find("chat m"), "gen_ai.usage.input_tokens"), json!({ "intValue": "12" }));
    assert_eq!(spans.len(), 5, "{text}");
}

#[test]
fn a_parent_of_the_caller_is_used_if_it_is_valid() {
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let options = OtlpOptions { parent: TraceParent::parse(parent), ..OtlpOptions::default() };
    let exported = one(traces(&sample(), &[], &options, BatchLimit::NONE));
    let root = &exported["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    assert_eq!(
        (&root["traceId"], &root["parentSpanId"]),
        (&json!("4bf92f3577b34da6a3ce929d0e0e4736"), &json!("00f067aa0ba902b7"))
    );
    let zeros = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
    for wrong in [
        "",
        "00-1-2-3",
        zeros,
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    ] {
        assert_eq!(TraceParent::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn content_is_exported_if_it_is_asked_for() {
    let options = OtlpOptions { captures_content: true, ..OtlpOptions::default() };
    let exported = one(traces(&sample(), &conversations(), &options, BatchLimit::NONE));
    let spans = exported["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let find = |name: &str| spans.iter().find(|span| span["name"] == name).unwrap();
    let text = |span: &str, key: &str| attribute(find(span), key)["stringValue"].as_str().unwrap().to_owned();
    assert_eq!(
        text("attempt 1", "gen_ai.input.messages"),
        r#"[{"role":"user","parts":[{"type":"text","content":"the secret task"}]}]"#
    );
    assert!(text("attempt 1", "gen_ai.output.messages").contains("the secret words"));
    assert_eq!(text("execute_tool Bash", "gen_ai.tool.call.arguments"), "the secret input");
    assert_eq!(text("execute_tool Bash", "gen_ai.tool.call.result"), "the secret output");
}

#[test]
fn many_spans_are_several_requests_of_one_program() {
    let resource =
        [("service.name", "ci"), ("team", "tools")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let options = OtlpOptions { resource: resource.to_vec(), ..OtlpOptions::default() };
    let requests = traces(&sample(), &[], &options, BatchLimit { spans: 2, ..BatchLimit::NONE });
    let count =
        |request: &Json| request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().len();
    assert_eq!(requests.iter().map(count).collect::<Vec<_>>(), [2, 2, 1]);
    let small = traces(&sample(), &[], &options, BatchLimit { bytes: 1, ..BatchLimit::NONE });
    assert_eq!(small.iter().map(count).collect::<Vec<_>>(), [1; 5], "bounded by bytes");
    for request in &requests {
        let resource = &request["resourceSpans"][0]["resource"];
        assert_eq!(attribute(resource, "service.name"), json!({ "stringValue": "ci" }));
        assert_eq!(attribute(resource, "team"), json!({ "stringValue": "tools" }));
    }
}

#[test]
fn metrics_count_tokens_and_time_by_model() {
    let delta = OtlpOptions { temporality: Temporality::Delta, ..OtlpOptions::default() };
    let exported = metrics(&sample(), &delta);
    let metrics = exported["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let find = |name: &str| metrics.iter().find(|metric| metric["name"] == name).unwrap();
    let tokens = &find("gen_ai.client.token.usage")["histogram"];
    assert_eq!(tokens["aggregationTemporality"], 1);
    let input = &tokens["dataPoints"][0];
    assert_eq!(attribute(input, "gen_ai.token.type"), json!({ "stringValue": "input" }));
    assert_eq!((&input["count"], &input["sum"]), (&json!("1"), &json!(12.0)));
    assert_eq!(input["bucketCounts"][2], "1", "from 4 to 16: {input}");
    let seconds = &find("gen_ai.client.operation.duration")["histogram"]["dataPoints"][0];
    assert_eq!((&seconds["sum"], &seconds["bucketCounts"][0]), (&json!(0.001), &json!("1")));
    let runs = &find("fullsend.runs")["sum"]["dataPoints"][0];
    assert_eq!(attribute(runs, "fullsend.outcome"), json!({ "stringValue": "running" }));
    assert!(!exported.to_string().contains("secret"), "{exported}");
}
