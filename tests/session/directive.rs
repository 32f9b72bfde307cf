//! The directive: what is understood, and every malformed form with the sentence that is fed back.

use serde_json::json;
use session::{DIRECTIVE_SCHEMA, DIRECTIVE_TAG, Directive, DirectiveOutcome, WakePriority};

fn schema() -> jsonschema::Validator {
    jsonschema::validator_for(&serde_json::from_str(DIRECTIVE_SCHEMA).unwrap()).unwrap()
}

/// The parser and the schema must say the same.
fn read(validator: &jsonschema::Validator, text: &str) -> Result<Directive, String> {
    let parsed = Directive::from_json(text).map_err(|error| error.to_string());
    let valid = serde_json::from_str(text).is_ok_and(|value| validator.is_valid(&value));
    assert_eq!(parsed.is_ok(), valid, "parser and schema differ on {text}: {parsed:?}");
    parsed
}

#[test]
fn the_whole_form() {
    let text = json!({
        "response": "Done.", "summary": "tests are green", "outcome": "continue", "follow_up_seconds": 60,
        "queued_wakes": [{"reason": "look again", "delay_seconds": 3600, "note": "ci", "dedupe_key": "ci", "priority": "low"},
                         {"reason": "tomorrow", "delay_seconds": 86400}],
        "learnings": [{"kind": "lesson", "title": "cache", "detail": "warm it", "dedupe_key": null}],
        "custom_tools": [{"name": "deploy.prod", "input": {"version": 3}, "expires_seconds": 600}],
    });
    let directive = read(&schema(), &text.to_string()).unwrap();
    assert_eq!(directive.outcome, DirectiveOutcome::Continue);
    assert_eq!(directive.follow_up_seconds, Some(60));
    assert_eq!(directive.queued_wakes[0].priority, WakePriority::Low);
    assert_eq!(directive.queued_wakes[1].priority, WakePriority::Normal);
    assert_eq!(directive.custom_tools[0].input["version"], 3);
    assert_eq!(directive.learnings[0].title, "cache");
}

#[test]
fn the_shortest_form_and_the_largest_numbers() {
    let validator = schema();
    read(&validator, r#"{"outcome":"sleep","summary":"s"}"#).unwrap();
    read(&validator, r#"{"outcome":"continue","summary":"s","follow_up_seconds":2592000}"#).unwrap();
    read(&validator, r#"{"outcome":"sleep","summary":"s","follow_up_seconds":null,"queued_wakes":[]}"#)
        .unwrap();
    let eight: Vec<_> = (0..8).map(|n| json!({"reason": format!("r{n}"), "delay_seconds": 1})).collect();
    read(&validator, &json!({"outcome":"sleep","summary":"s","queued_wakes":eight}).to_string()).unwrap();
    read(&validator, &json!({"outcome":"sleep","summary":"ä".repeat(4000)}).to_string()).unwrap();
}

/// A good directive with something more in it.
fn base(more: &str) -> String {
    format!(r#"{{"outcome":"sleep","summary":"s"{more}}}"#)
}

fn check_refused(cases: &[(String, &str)]) {
    let validator = schema();
    for (text, expected) in cases {
        let error = read(&validator, text).unwrap_err();
        assert!(error.contains(expected), "{text}\ngave: {error}\nexpected: {expected}");
    }
}

#[test]
fn malformed_json() {
    check_refused(&[
        (String::new(), "EOF"),
        ("null".into(), "must be an object"),
        ("[]".into(), "must be an object"),
        (r#"["ok","s","sleep",null,[],[],[]]"#.into(), "must be an object"),
        ("\"sleep\"".into(), "must be an object"),
        ("{".into(), "EOF"),
        (format!("```json\n{}\n```", base("")), "expected value"),
        (format!("{} {}", base(""), base("")), "trailing characters"),
        ("{'outcome':'sleep'}".into(), "key must be a string"),
        ("{}".into(), "missing field `summary`"),
        (r#"{"outcome":"sleep"}"#.into(), "missing field `summary`"),
        (r#"{"summary":"s"}"#.into(), "missing field `outcome`"),
        (r#"{"outcome":"nap","summary":"s"}"#.into(), "unknown variant `nap`"),
        (r#"{"outcome":"Sleep","summary":"s"}"#.into(), "unknown variant `Sleep`"),
        (r#"{"outcome":null,"summary":"s"}"#.into(), "expected"),
        (r#"{"outcome":"sleep","summary":""}"#.into(), "`summary` is empty"),
        (r#"{"outcome":"sleep","summary":" \n"}"#.into(), "`summary` is empty"),
        (r#"{"outcome":"sleep","summary":7}"#.into(), "invalid type: integer"),
        (json!({"outcome":"sleep","summary":"x".repeat(4001)}).to_string(), "`summary` has 4001 characters"),
        (
            json!({"outcome":"sleep","summary":"s","response":"x".repeat(100_001)}).to_string(),
            "`response` has 100001",
        ),
        (base(r#","mood":"good""#), "unknown field `mood`"),
        (base(r#","followUpSeconds":5"#), "unknown field `followUpSeconds`"),
        (base(r#","follow_up_seconds":0"#), "`follow_up_seconds` is 0"),
        (base(r#","follow_up_seconds":-5"#), "invalid value: integer `-5`"),
        (base(r#","follow_up_seconds":1.5"#), "invalid type: floating point"),
        (base(r#","follow_up_seconds":"60""#), "invalid type: string"),
        (base(r#","follow_up_seconds":2592001"#), "`follow_up_seconds` is 2592001"),
        (base(r#","follow_up_seconds":1e99"#), "invalid type: floating point"),
    ]);
}

#[test]
fn malformed_lists() {
    let wakes = |wake: &str| base(&format!(r#","queued_wakes":[{wake}]"#));
    let learnings = |learning: &str| base(&format!(r#","learnings":[{learning}]"#));
    let tools = |tool: &str| base(&format!(r#","custom_tools":[{tool}]"#));
    let nine = |item: &str| [item; 9].join(",");
    let wake = r#"{"reason":"r","delay_seconds":1}"#;
    check_refused(&[
        (base(r#","queued_wakes":null"#), "invalid type: null"),
        (base(r#","queued_wakes":{}"#), "invalid type: map"),
        (wakes(r#"{"reason":"r"}"#), "missing field `delay_seconds`"),
        (wakes(r#"{"delay_seconds":1}"#), "missing field `reason`"),
        (wakes(r#"{"reason":"","delay_seconds":1}"#), "`queued_wakes.reason` is empty"),
        (wakes(r#"{"reason":"r","delay_seconds":0}"#), "`queued_wakes.delay_seconds` is 0"),
        (wakes(r#"{"reason":"r","delay_seconds":99999999}"#), "`queued_wakes.delay_seconds` is 99999999"),
        (wakes(r#"{"reason":"r","delay_seconds":1,"priority":"urgent"}"#), "unknown variant `urgent`"),
        (wakes(r#"{"reason":"r","delay_seconds":1,"dedupe_key":" "}"#), "`queued_wakes.dedupe_key` is empty"),
        (wakes(r#"{"reason":"r","delay_seconds":1,"cron":"* * *"}"#), "unknown field `cron`"),
        (wakes(r#"["r",1,null,null,"low"]"#), "`queued_wakes` must be an object"),
        (wakes(&nine(wake)), "`queued_wakes` has 9 items"),
        (learnings(r#"{"kind":"fact","title":"t","detail":"d"}"#), "unknown variant `fact`"),
        (learnings(r#"{"kind":"lesson","title":"","detail":"d"}"#), "`learnings.title` is empty"),
        (learnings(r#"{"kind":"lesson","title":"t"}"#), "missing field `detail`"),
        (
            learnings(&format!(r#"{{"kind":"lesson","title":"{}","detail":"d"}}"#, "t".repeat(121))),
            "`learnings.title` has 121",
        ),
        (learnings(&nine(r#"{"kind":"lesson","title":"t","detail":"d"}"#)), "`learnings` has 9 items"),
        (tools(r#"{"name":"a b","input":{}}"#), "`custom_tools.name` must be"),
        (tools(r#"{"name":"","input":{}}"#), "`custom_tools.name` must be"),
        (tools(r#"{"name":"a","input":[]}"#), "invalid type: sequence"),
        (tools(r#"{"name":"a"}"#), "missing field `input`"),
        (tools(r#"{"name":"a","input":{},"expires_seconds":0}"#), "`custom_tools.expires_seconds` is 0"),
        (tools(&nine(r#"{"name":"a","input":{}}"#)), "`custom_tools` has 9 items"),
    ]);
}

/// What the schema cannot see: JSON that says the same thing twice, is too deep or too long.
#[test]
fn malformed_beyond_the_schema() {
    for (text, expected) in [
        (r#"{"outcome":"sleep","outcome":"continue","summary":"s"}"#.to_owned(), "duplicate field `outcome`"),
        (
            format!(
                r#"{{"outcome":"sleep","summary":"s","custom_tools":[{{"name":"a","input":{{"x":{}1{}}}}}]}}"#,
                "[".repeat(200),
                "]".repeat(200)
            ),
            "recursion limit",
        ),
        (format!(r#"{{"outcome":"sleep","summary":"s"{}}}"#, " ".repeat(600_000)), "the limit is 524288"),
    ] {
        let error = Directive::from_json(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_tagged_block_ends_the_answer() {
    let block = format!(r#"<{DIRECTIVE_TAG}>{{"outcome":"sleep","summary":"s"}}</{DIRECTIVE_TAG}>"#);
    let directive = Directive::from_text(&format!("All done.\n\n{block}\n")).unwrap();
    assert_eq!((directive.response.as_str(), directive.outcome), ("All done.", DirectiveOutcome::Sleep));
    let quoted = format!(
        "You wrote {block} and I agree.\n<{DIRECTIVE_TAG}>\n{{\"outcome\":\"continue\",\"summary\":\"t\"}}\n</{DIRECTIVE_TAG}>"
    );
    let directive = Directive::from_text(&quoted).unwrap();
    assert_eq!((directive.outcome, directive.summary.as_str()), (DirectiveOutcome::Continue, "t"));
    for (text, expected) in [
        (String::new(), "does not end with"),
        ("All done.".to_owned(), "does not end with"),
        (block.to_uppercase(), "does not end with"),
        (format!("<{DIRECTIVE_TAG}>{{\"outcome\":\"sleep\"}}"), "is not closed"),
        (format!("{block} and more"), "text follows"),
        (format!("{block}<{DIRECTIVE_TAG}>"), "is not closed"),
        (format!("<{DIRECTIVE_TAG}></{DIRECTIVE_TAG}>"), "EOF"),
        (format!("<{DIRECTIVE_TAG}>sleep</{DIRECTIVE_TAG}>"), "expected value"),
        (format!("<{DIRECTIVE_TAG}>```json\n{{}}\n```</{DIRECTIVE_TAG}>"), "expected value"),
        (block.replace("\"summary\"", "\"response\":\"twice\",\"summary\""), "`response` must be left out"),
        (format!("{}{block}", "x".repeat(100_001)), "`response` has 100001"),
    ] {
        let error = Directive::from_text(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text:.200}\ngave: {error}");
    }
}
