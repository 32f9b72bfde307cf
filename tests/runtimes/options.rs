//! Options mean one thing everywhere: each is honoured, as the request to the model or the end of the run shows, or it is
//! an error of `check` that says so.

use serde_json::{Value as Json, json};

use super::stage::{Stage, good};
use crate::support::World;

const RUNTIMES: [&str; 4] = ["acp", "claude", "codex", "native"];

/// An option in the agent's frontmatter or in the harness, and the runtimes for which `check` refuses it.
struct Row {
    option: &'static str,
    agent: &'static str,
    harness: &'static str,
    refused: &'static [&'static str],
}

const fn agent(option: &'static str, agent: &'static str, refused: &'static [&'static str]) -> Row {
    Row { option, agent, harness: "", refused }
}

const fn harness(option: &'static str, harness: &'static str, refused: &'static [&'static str]) -> Row {
    Row { option, agent: "", harness, refused }
}

const TABLE: &[Row] = &[
    harness("model", "model: some-model\n", &[]),
    harness("effort", "effort: high\n", &["acp"]),
    harness("effort: max", "effort: max\n", &["acp", "codex"]),
    agent("effort: max", "effort: max\n", &["acp", "codex"]),
    agent("tools", "tools: Bash, Read\n", &["acp", "codex"]),
    agent("WebFetch", "tools: WebFetch\n", &["acp", "codex", "native"]),
    agent("disallowedTools", "disallowedTools: Bash\n", &["acp", "codex"]),
    agent("maxTurns", "maxTurns: 3\n", &["acp", "codex"]),
    harness("budget", "budget: { turns: 3 }\n", &[]),
    harness("plugins", "plugins: [plugins/plug]\n", &[]),
    harness("skills", "skills: [skills/review]\n", &[]),
    agent("skills: review", "skills: review\n", &[]),
    agent("permissionMode", "permissionMode: plan\n", &RUNTIMES),
    agent("permissionMode", "permissionMode: bypassPermissions\n", &[]),
    agent("mcpServers", "mcpServers: { a: { command: b } }\n", &RUNTIMES),
    agent("hooks", "hooks: { PreToolUse: [] }\n", &RUNTIMES),
    agent("memory", "memory: user\n", &RUNTIMES),
    agent("background", "background: true\n", &RUNTIMES),
    agent("isolation", "isolation: worktree\n", &RUNTIMES),
];

#[test]
fn what_a_runtime_cannot_honour_is_an_error_of_check() {
    for row in TABLE {
        for runtime in RUNTIMES {
            let world = World::with_harness().with_runtime_programs();
            let text = format!(
                "agent: agents/triage.md\nruntime: {runtime}\nproviders: [model]\noutput_schema: schemas/triage.json\n{}",
                row.harness
            );
            world.write("repo/.fullsend/harness/triage.yaml", text);
            let text = format!("---\nname: triage\n{}---\nWrite `summary`.\n", row.agent);
            world.write("repo/.fullsend/agents/triage.md", text);
            world.write("repo/.fullsend/plugins/plug/.claude-plugin/plugin.json", "{\"name\":\"plug\"}");
            world.write(
                "repo/.fullsend/skills/review/SKILL.md",
                "---\nname: review\ndescription: Reviews.\n---\nDo.\n",
            );
            let ran = world.run(&["check", "triage"]);
            let case = format!("{runtime}, {}", row.option);
            let refused = row.refused.contains(&runtime);
            assert_eq!(ran.code, if refused { 3 } else { 0 }, "{case}: {}", ran.all());
            let said = ran.all().contains(&format!("the runtime `{runtime}` does not support `"));
            assert_eq!(said, refused, "{case}: {}", ran.all());
            assert!(!refused || ran.all().contains(row.option), "{case}: {}", ran.all());
        }
    }
}

/// The first request of a run with these options, and how the run ended.
fn first_request(runtime: &str, frontmatter: &str, more: &str, model: &str) -> Option<(Json, i32, String)> {
    let turns = json!([[{ "shell": "true" }], [{ "shell": "true" }], [{ "finish": good() }]]);
    let stage = Stage::with(runtime, "options", &json!({ "turns": turns }), more)?;
    let agent = format!("---\nname: mend\n{frontmatter}---\nReport `fixed`, `file` and `cause`.\n");
    stage.world.write("repo/.fullsend/agents/mend.md", agent);
    let skill = "---\nname: review\ndescription: Reviews as OURS-DESCRIPTION.\n---\nDo.\n";
    stage.world.write("repo/.fullsend/skills/review/SKILL.md", skill);
    let path = stage.world.path("repo/.fullsend/harness/mend.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let named = text.lines().find(|line| line.starts_with("model: ")).unwrap();
    std::fs::write(&path, text.replace(named, &format!("model: {model}"))).unwrap();
    let ran = stage.run();
    Some((stage.server.requests()[0]["body"].clone(), ran.code, ran.err))
}

fn tools(body: &Json) -> Vec<&str> {
    body["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect()
}

#[test]
fn options_are_honoured_by_claude() {
    let agent = "tools: Bash, Read, Grep, Skill\ndisallowedTools: Grep\nmaxTurns: 1\nskills: review\n";
    let more = "effort: low\nskills: [skills/review]\n";
    let Some((body, code, err)) = first_request("claude", agent, more, "claude-opus-4-6") else { return };
    assert_eq!(body["model"], "claude-opus-4-6");
    assert_eq!(body["output_config"]["effort"], "low", "{body}");
    assert_eq!(tools(&body), ["Bash", "Read", "Skill", "StructuredOutput"]);
    assert!(body.to_string().contains("OURS-DESCRIPTION"), "{body}");
    assert!(code == 1 && err.contains("maximum number of turns (1)"), "{code} {err}");
}

#[test]
fn options_are_honoured_by_codex() {
    let more = "effort: low\nskills: [skills/review]\nbudget: { turns: 1 }\n";
    let Some((body, code, err)) = first_request("codex", "skills: review\n", more, "gpt-5.5") else { return };
    assert_eq!(body["model"], "gpt-5.5");
    assert_eq!(body["reasoning"]["effort"], "low", "{body}");
    assert!(body.to_string().contains("OURS-DESCRIPTION"), "{body}");
    assert_eq!(code, 7, "{err}");
}

#[test]
fn options_are_honoured_by_native() {
    let agent = "tools: Bash, Read, Grep\ndisallowedTools: Grep\nmaxTurns: 1\nskills: review\n";
    let more = "effort: low\nskills: [skills/review]\n";
    let Some((body, code, err)) = first_request("native", agent, more, "claude-opus-4-6") else { return };
    assert_eq!(body["model"], "claude-opus-4-6");
    assert_eq!(body["output_config"]["effort"], "low");
    assert_eq!(tools(&body), ["Bash", "Read", "finish"]);
    assert!(body.to_string().contains("OURS-DESCRIPTION"), "{body}");
    assert!(code == 1 && err.contains("it did not finish within 1 turns"), "{code} {err}");
}

/// A tool that is not offered does not run, whoever asks for it.
#[test]
fn a_tool_that_was_taken_away_does_not_run() {
    for runtime in ["claude", "native"] {
        let call =
            json!([{ "tool": "Bash", "input": { "command": "echo RAN-$((6*7))", "description": "x" } }]);
        let scenario = json!({ "turns": [call, [{ "finish": good() }]] });
        let Some(stage) = Stage::new(runtime, "options", &scenario) else { continue };
        let agent = "---\nname: mend\ndisallowedTools: Bash\n---\nReport `fixed`, `file` and `cause`.\n";
        stage.world.write("repo/.fullsend/agents/mend.md", agent);
        stage.ends(0);
        assert!(!stage.words().join("\n").contains("RAN-42"), "{runtime}");
    }
}
