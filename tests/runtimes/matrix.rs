//! Every runtime before every service, and what can happen to a request: with the real programs, in one conversation that meets all
//! of it, and two that fail. The table in `docs/models.md` shows what passed, and with which version (`tried.rs`).

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::upstream::SERVICES;
use serde_json::{Value as Json, json};

use super::service_table::is_accepted;
use super::stage::{Stage, good};
use super::tried::{self, Tried};
use crate::services::Fake;
use crate::support::root;

/// How a runtime reaches a model: the service, the provider's `wire` where it has one, and the model.
pub struct Way {
    pub service: &'static str,
    wire: Option<&'static str>,
    pub model: &'static str,
}

pub const fn way(service: &'static str, wire: Option<&'static str>, model: &'static str) -> Way {
    Way { service, wire, model }
}

const CLAUDE: &[Way] = &[
    way("anthropic", None, "claude-sonnet-4-5"),
    way("vertex", None, "claude-sonnet-4-5"),
    way("bedrock", None, "claude-sonnet-4-5"),
    way("openai", Some("chat"), "qwen3-coder"),
    way("azure-openai", Some("chat"), "qwen3-coder"),
];

const CODEX: &[Way] = &[
    way("openai", Some("responses"), "gpt-5.1"),
    way("openai", Some("chat"), "qwen3-coder"),
    way("azure-openai", Some("responses"), "gpt-5.1"),
    way("azure-openai", Some("chat"), "qwen3-coder"),
];

const NATIVE: &[Way] = &[
    way("anthropic", None, "claude-sonnet-4-5"),
    way("openai", Some("responses"), "gpt-5.1"),
    way("openai", Some("chat"), "qwen3-coder"),
    way("azure-openai", Some("responses"), "gpt-5.1"),
    way("azure-openai", Some("chat"), "qwen3-coder"),
    way("vertex", None, "claude-sonnet-4-5"),
    way("bedrock", None, "claude-sonnet-4-5"),
];

const RUNTIMES: &[(&str, &[Way])] = &[("claude", CLAUDE), ("codex", CODEX), ("native", NATIVE)];

/// All of them in one run, then each of the last two in one of its own.
const CASES: &[&str] = &[
    "text",
    "tools",
    "parallel tools",
    "images",
    "thinking",
    "cached",
    "429",
    "529",
    "cut stream",
    "401",
    "too long",
];

const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP4z8CAFWEXHbQSACj/P8Fu7N9hAAAAAElFTkSuQmCC";

/// `native` has no tool that shows a picture, and Codex offers its own for few models.
fn shows_pictures(runtime: &str) -> bool {
    runtime == "claude"
}

fn provider(way: &Way, port: u16) -> String {
    let credentials = match way.service {
        "bedrock" => "AWS_BEARER_TOKEN_BEDROCK: '${MODEL_KEY}'",
        "vertex" => "GOOGLE_TOKEN: 'exec:echo ya29.token-of-the-fake'",
        "azure-openai" => "AZURE_OPENAI_API_KEY: '${MODEL_KEY}'",
        _ => "MODEL_KEY: '${MODEL_KEY}'",
    };
    let place = match way.service {
        "bedrock" => ", region: eu-west-1",
        "vertex" => ", region: eu, project: acme",
        _ => "",
    };
    let wire = way.wire.map(|wire| format!(", wire: {wire}")).unwrap_or_default();
    format!(
        "name: model\ntype: {}\nconfig: {{base_url: 'http://127.0.0.1:{port}'{place}{wire}}}\ncredentials: {{{credentials}}}\n",
        way.service
    )
}

/// A run of the runtime before the fake of this kind. `None`: the runtime is not here.
fn staged(runtime: &str, way: &Way, kind: &str) -> Option<(Stage, Fake)> {
    let fake = Fake::start("matrix.py", &[kind, &good().to_string()]);
    let stage = staged_before(runtime, way, &fake, "")?;
    Some((stage, fake))
}

/// The same before a fake that runs already; `more` are further lines of the harness.
pub fn staged_before(runtime: &str, way: &Way, fake: &Fake, more: &str) -> Option<Stage> {
    let stage = Stage::with(runtime, "matrix", &json!({ "turns": [] }), more)?;
    stage.world.write("repo/.fullsend/providers/model.yaml", provider(way, fake.port));
    stage.ask(if runtime == "codex" { "gpt-5.1" } else { "claude-sonnet-4-5" }, way.model);
    let picture = STANDARD.decode(PICTURE).unwrap();
    stage.world.write("repo/picture.png", picture);
    Some(stage)
}

/// One conversation that meets everything but the two failures.
fn meets_everything(runtime: &str, way: &Way) -> Option<()> {
    let (stage, fake) = staged(runtime, way, "good")?;
    let place = format!("{runtime} {} {:?}", way.service, way.wire);
    let ran = stage.run();
    let seen = fake.requests("/");
    assert_eq!(ran.code, 0, "{place}: {}\n{seen:#?}", ran.err);
    assert_eq!(stage.accepted(1), good(), "{place}");
    let main: Vec<&Json> = seen.iter().filter(|request| request["main"] == true).collect();
    for met in ["429", "529", "cut"] {
        assert!(main.iter().any(|request| request["did"] == met), "{place}: no {met} in {seen:#?}");
    }
    let results: Vec<u64> = main.iter().filter_map(|request| request["results"].as_u64()).collect();
    assert!(results.contains(&1), "{place}: the result of one tool, {results:?}");
    assert!(results.contains(&3) && !results.contains(&2), "{place}: two tools at once, {results:?}");
    let pictures = main.iter().filter_map(|request| request["pictures"].as_u64()).max();
    assert_eq!(pictures, Some(u64::from(shows_pictures(runtime))), "{place}: {seen:#?}");
    // Chat Completions has no field for thoughts of earlier turns.
    let returns_thoughts = way.wire != Some("chat");
    let has_thoughts = main.iter().any(|request| request["thoughts"] != 0);
    assert_eq!(has_thoughts, returns_thoughts, "{place}: {seen:#?}");
    let usage = stage.record()["usage"].clone();
    let cached: u64 = usage.as_object().unwrap().values().filter_map(|one| one["cache_read"].as_u64()).sum();
    let answered = seen.iter().filter(|request| request["did"] == "answered").count() as u64;
    assert!(cached >= answered * 5, "{place}: {cached} of {answered} answers in {usage}");
    tried::note(&tried(runtime, way, "conversation"), &stage.record());
    Some(())
}

/// What was tried, for the table.
fn tried<'a>(runtime: &'a str, way: &Way, part: &'a str) -> Tried<'a> {
    Tried { runtime, service: way.service, wire: way.wire.unwrap_or("-"), part }
}

/// A refused key and a conversation that is too long, each in the run's last words.
fn fails(runtime: &str, way: &Way) -> Option<()> {
    let variable = match way.service {
        "bedrock" => "AWS_BEARER_TOKEN_BEDROCK",
        "vertex" => "GOOGLE_TOKEN",
        "azure-openai" => "AZURE_OPENAI_API_KEY",
        _ => "MODEL_KEY",
    };
    let denied = format!("the provider `model`, credential {variable}");
    for (kind, words) in
        [("denied", denied.as_str()), ("long", "the conversation does not fit into the context of")]
    {
        let (stage, fake) = staged(runtime, way, kind)?;
        let ran = stage.run();
        let place = format!("{runtime} {} {:?} {kind}", way.service, way.wire);
        assert_ne!(ran.code, 0, "{place}: {}", ran.err);
        assert!(ran.err.contains(words), "{place}: {}\n{:#?}", ran.err, fake.requests("/"));
        tried::note(&tried(runtime, way, kind), &stage.record());
    }
    Some(())
}

/// Until one says that the runtime is not here.
fn each(runtime: &str, ways: &[Way], passes: fn(&str, &Way) -> Option<()>) {
    let _skipped = ways.iter().try_for_each(|way| passes(runtime, way));
}

#[test]
fn claude_meets_everything() {
    each("claude", CLAUDE, meets_everything);
}

#[test]
fn claude_fails_with_the_services_reason() {
    each("claude", CLAUDE, fails);
}

#[test]
fn codex_meets_everything() {
    each("codex", CODEX, meets_everything);
}

#[test]
fn codex_fails_with_the_services_reason() {
    each("codex", CODEX, fails);
}

#[test]
fn native_meets_everything() {
    each("native", NATIVE, meets_everything);
}

#[test]
fn native_fails_with_the_services_reason() {
    each("native", NATIVE, fails);
}

fn rows() -> String {
    let mut table =
        format!("| runtime | service | {} |\n|---|---|{}\n", CASES.join(" | "), "---|".repeat(CASES.len()));
    for (runtime, ways) in RUNTIMES {
        let version = tried::tested_version(runtime);
        let named = if version == "-" { format!("`{runtime}`") } else { format!("`{runtime}` {version}") };
        for service in SERVICES {
            let served: Vec<&Way> = ways.iter().filter(|way| way.service == service.name).collect();
            for way in &served {
                assert!(is_accepted(runtime, service, way.wire), "{runtime} {}", service.name);
                let wire = way.wire.map(|wire| format!(", `wire: {wire}`")).unwrap_or_default();
                let cell = |case: &str| {
                    let is_sent = case != "images" || shows_pictures(runtime);
                    let noted = tried::noted_version(&tried(runtime, way, part_of(case)));
                    match (is_sent, noted) {
                        (false, _) => "passed (gateway)",
                        (true, Some(noted)) if noted == version => "passed",
                        (true, _) => "not tried",
                    }
                };
                let cells: Vec<&str> = CASES.iter().map(|case| cell(case)).collect();
                table += &format!("| {named} | `{}`{wire} | {} |\n", service.name, cells.join(" | "));
            }
            if served.is_empty() {
                assert!(!is_accepted(runtime, service, None), "{runtime} {} has no row", service.name);
                let cells = vec!["refused by `check`"; CASES.len()];
                table += &format!("| {named} | `{}` | {} |\n", service.name, cells.join(" | "));
            }
        }
    }
    table
}

/// The run that meets this case.
fn part_of(case: &str) -> &str {
    match case {
        "401" => "denied",
        "too long" => "long",
        _ => "conversation",
    }
}

#[test]
fn docs_list_what_each_runtime_meets_at_each_service() {
    let path = root().join("docs/models.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(START).unwrap();
    let after = rest.split_once("\n\n").unwrap().1;
    let made = format!("{before}{START}{}\n{after}", rows());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    assert!(made == fs::read_to_string(path).unwrap(), "UPDATE_DOCS=1 cargo test docs\n{}", rows());
}

/// What stands before the table.
const START: &str = "What each runtime meets at each service:\n\n";
