//! How each runtime reaches each service: what `check` says of every pair, and the table of it in `docs/models.md`. What can
//! happen to a request on each of these ways is tried in `crates/model/src/gateway/tests/matrix.rs`.

use std::fs;

use model::upstream::{SERVICES, Service};
use model::wire::Wire;

use crate::support::{World, root};

const RUNTIMES: &[(&str, &[Wire])] = &[
    ("claude", &[Wire::Messages]),
    ("codex", &[Wire::Responses]),
    ("native", &[Wire::Messages, Wire::Responses, Wire::Chat]),
];

/// Whether `check` accepts the pair; `wire` is the provider's setting.
pub fn is_accepted(runtime: &str, service: &Service, wire: Option<&str>) -> bool {
    let world = World::with_harness().with_runtime_programs();
    let model = if service.wires.contains(&Wire::Messages) { "claude-sonnet-4-5" } else { "gpt-5.1" };
    world.write(
        "repo/.fullsend/harness/triage.yaml",
        format!("agent: agents/triage.md\nruntime: {runtime}\nproviders: [model]\nmodel: {model}\n"),
    );
    let credentials = match service.name {
        "bedrock" => "AWS_ACCESS_KEY_ID: '${KEY}', AWS_SECRET_ACCESS_KEY: '${KEY}'",
        "vertex" => "GOOGLE_APPLICATION_CREDENTIALS: '${KEY}'",
        _ => "KEY: '${KEY}'",
    };
    let region = if ["bedrock", "vertex"].contains(&service.name) { ", region: eu-west-1" } else { "" };
    let wire = wire.map(|wire| format!(", wire: {wire}")).unwrap_or_default();
    let provider = format!(
        "name: model\ntype: {}\nconfig: {{base_url: 'http://127.0.0.1:9'{region}{wire}}}\ncredentials: {{{credentials}}}\n",
        service.name
    );
    world.write("repo/.fullsend/providers/model.yaml", provider);
    let ran = world.env("KEY", "a-value-that-stays-on-the-host").run(&["check", "triage"]);
    let refused = ran.err.contains("cannot serve the runtime");
    assert!(
        refused == (ran.code == 3) && [0, 3].contains(&ran.code),
        "{runtime} {}: {}",
        service.name,
        ran.all()
    );
    !refused
}

fn cell(runtime: &str, sent: &[Wire], service: &Service) -> String {
    let common: Vec<&str> =
        sent.iter().filter(|wire| service.wires.contains(wire)).map(|wire| name(*wire)).collect();
    assert_eq!(is_accepted(runtime, service, None), !common.is_empty(), "{runtime} {}", service.name);
    if !common.is_empty() {
        return common.join(", ");
    }
    let has_chat = service.wires.contains(&Wire::Chat);
    if has_chat && is_accepted(runtime, service, Some("chat")) {
        return "translated, with `wire: chat`".to_owned();
    }
    "refused by `check`".to_owned()
}

fn name(wire: Wire) -> &'static str {
    match wire {
        Wire::Messages => "Messages",
        Wire::Responses => "Responses",
        Wire::Chat => "Chat Completions",
    }
}

#[test]
fn docs_say_how_each_runtime_reaches_each_service() {
    let mut table = "| |".to_owned();
    SERVICES.iter().for_each(|service| table += &format!(" `{}` |", service.name));
    table += &format!("\n|---|{}\n", "---|".repeat(SERVICES.len()));
    for (runtime, sent) in RUNTIMES {
        let cells: Vec<String> = SERVICES.iter().map(|service| cell(runtime, sent, service)).collect();
        table += &format!("| `{runtime}` | {} |\n", cells.join(" | "));
    }
    let path = root().join("docs/models.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(START).unwrap();
    let after = rest.split_once("\n\n").unwrap().1;
    let made = format!("{before}{START}{table}\n{after}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    assert!(made == fs::read_to_string(path).unwrap(), "UPDATE_DOCS=1 cargo test docs\n{table}");
}

/// What stands before the table.
const START: &str = "How each runtime reaches each service:\n\n";
