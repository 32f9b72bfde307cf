//! However a variable is set inside, a declared credential is its placeholder there. A real value enters only by a host file
//! that is delivered as it is, and the record says so.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use crate::attack_rows::{AttackRow, held};
use crate::image_builder::{Layer, Packing, layout};
use crate::support::{Who, World, has_program, skip};

const VALUE: &str = "forge-secret-value-4410";
const MODEL_KEY: &str = "model-secret-value-9921";
const ENCODED: &str = "Zm9yZ2Utc2VjcmV0LXZhbHVlLTQ0MTA=";

/// An MCP server without tools, which shows its environment.
const SERVER: &str = r#"
import json, os, sys
with open("/tmp/mcp-environment", "w") as file:
    file.write("\n".join(f"{k}={v}" for k, v in os.environ.items()) + " " + " ".join(sys.argv))
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request: continue
    result = {"tools": []}
    if request["method"] == "initialize":
        result = {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"#;

const HARNESS: &str = "agent: agents/triage.md
runtime: native
output_schema: schemas/triage.json
providers: [model, forge]
env:
  sandbox:
    FORGE_TOKEN: ${HOST_TOKEN}
    MODEL_KEY: ${HOST_KEY}
    RENAMED: ${HOST_TOKEN}
    IN_A_URL: https://user:${HOST_TOKEN}@forge.test/
    ENCODED: ${HOST_ENCODED}
    RENAMED_KEY: ${HOST_KEY}
    PLAIN: plain
host_files:
  - {src: files/a.env, dest: /tmp/workspace/.env.d/a.env, expand: true}
  - {src: '${HOST_FILE}', dest: /sandbox/workspace/.env.d/b.env}
  - {src: files/profile.sh, dest: /sandbox/workspace/profile.sh, expand: true}
  - {src: files/settings.json, dest: /sandbox/.claude/settings.json, expand: true}
mcp_servers:
  shown: {command: python3, args: [/sandbox/workspace/repo/server.py, '${HOST_TOKEN}'], env: {FORGE_TOKEN: '${HOST_TOKEN}'}}
# The redaction of the output by format would hide what the variables hold.
security: {sandbox_hooks: {tirith: {enabled: false}}, host_scanners: {secret_redactor: false}}
";

/// What is asked inside. The pattern is put together there, so that the question is not its own answer.
const PROBE: &str = r#"
sed "s/=/ is /" /tmp/mcp-environment
. /sandbox/workspace/profile.sh
. /sandbox/workspace/.env
for file in /sandbox/workspace/.env.d/*; do . "$file"; done
env | sed 's/=/ is /'
cat /sandbox/.claude/settings.json
printf '%s\n' "forge-secret""-value" "model-secret""-value" "Zm9yZ2Utc2VjcmV0""LXZhbHVl" > /tmp/pattern
grep -qFf /tmp/pattern /tmp/pattern && echo "the search works"
grep -rlsFf /tmp/pattern --exclude=pattern /sandbox /tmp /etc/fullsend && echo "found in a file"
cat /proc/[0-9]*/environ 2>/dev/null | grep -aqFf /tmp/pattern && echo "found in an environment"
rm /tmp/pattern
"#;

fn world(harness: &str, probe: &str) -> World {
    let world = World::with_harness();
    world.write("repo/.fullsend/harness/triage.yaml", harness);
    world.write("repo/.fullsend/providers/model.yaml", "name: model\ntype: anthropic\ncredentials: {MODEL_KEY: '${HOST_KEY}'}\nconfig:\n  scenario: scenarios/s.json\n");
    world.write(
        "repo/.fullsend/providers/forge.yaml",
        "name: forge\ntype: forge\ncredentials: {FORGE_TOKEN: '${HOST_TOKEN}'}\n",
    );
    world.write("repo/.fullsend/profiles/forge.yaml", "id: forge\ncredentials:\n  - {name: token, env_vars: [FORGE_TOKEN], auth_style: bearer}\nendpoints:\n  - {host: forge.test, port: 443}\n");
    world.write(
        "repo/.fullsend/files/a.env",
        "FORGE_TOKEN=${HOST_TOKEN}\nMODEL_KEY=${HOST_KEY}\nFROM_FILE=x${HOST_TOKEN}\n",
    );
    let literal =
        world.write("home/b.env", format!("FORGE_TOKEN={VALUE}\nLITERAL='{VALUE}'\nHIDDEN={ENCODED}\n"));
    world.write("repo/.fullsend/files/profile.sh", "export FORGE_TOKEN=${HOST_TOKEN}\n");
    world.write("repo/.fullsend/files/settings.json", "{\"env\": {\"FORGE_TOKEN\": \"${HOST_TOKEN}\"}}\n");
    world.write("repo/server.py", SERVER);
    let turns = json!({ "turns": [
        [{ "shell": format!("({probe}) > /sandbox/workspace/output/report.txt 2>&1; true") }],
        [{ "finish": { "summary": "looked" } }],
    ]});
    world.write("repo/.fullsend/scenarios/s.json", turns.to_string());
    let world = world.env("HOST_TOKEN", VALUE).env("HOST_KEY", MODEL_KEY).env("HOST_ENCODED", ENCODED);
    world.env("HOST_FILE", literal.to_str().unwrap())
}

fn directory(world: &World) -> PathBuf {
    fs::read_dir(world.path("state/fullsend/runs/local")).unwrap().next().unwrap().unwrap().path()
}

fn report(world: &World) -> String {
    fs::read_to_string(directory(world).join("iteration-1/output/report.txt")).unwrap()
}

fn events(directory: &Path) -> Vec<Json> {
    let text = fs::read_to_string(directory.join("events.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn placeholders_win(who: Who) {
    if !has_program("python3", "variables") {
        return;
    }
    let world = world(HARNESS, PROBE);
    let Some(ran) = world.run_as(who, &["run", "triage"]) else { return };
    assert_eq!(ran.code, 0, "{}", ran.err);
    let report = report(&world);
    assert!(report.contains("the search works") && !report.contains("found in"), "{report}");
    for part in ["secret-value", ENCODED] {
        assert!(!report.contains(part), "{part}: {report}");
    }
    let lines: Vec<&str> = report.lines().collect();
    let value = |name: &str| {
        lines.iter().rev().find_map(|line| line.strip_prefix(&format!("{name} is "))).map(str::to_owned)
    };
    let placeholder = value("FORGE_TOKEN").unwrap();
    assert!(placeholder.starts_with("openshell:resolve:env:"), "{placeholder}");
    for name in ["RENAMED", "LITERAL"] {
        assert_eq!(value(name).as_deref(), Some(placeholder.as_str()), "{name}: {report}");
    }
    assert_eq!(value("FROM_FILE"), Some(format!("x{placeholder}")));
    assert_eq!(value("IN_A_URL"), Some(format!("https://user:{placeholder}@forge.test/")));
    assert_eq!(value("PLAIN").as_deref(), Some("plain"));
    // The gateway uses the model's key, and nothing stands for it inside.
    assert_eq!(value("MODEL_KEY"), None);
    for name in ["RENAMED_KEY", "ENCODED", "HIDDEN"] {
        assert!(value(name).unwrap().starts_with("[REDACTED:"), "{name}: {report}");
    }
    assert!(ran.err.contains("`env.sandbox.FORGE_TOKEN` is ignored: a provider sets it"), "{}", ran.err);
    let found =
        events(&directory(&world)).into_iter().filter(|event| event["rule"] == "credential_in_variable");
    let places: Vec<String> = found.map(|event| event["place"].as_str().unwrap().to_owned()).collect();
    for place in
        ["MODEL_KEY in env.sandbox", "FORGE_TOKEN in /sandbox/workspace/.env.d/b.env", "${HOST_TOKEN}"]
    {
        assert!(places.iter().any(|one| one == place), "{place}: {places:?}");
    }
    let exceptions = fs::read_to_string(directory(&world).join("run.json")).unwrap();
    assert!(!exceptions.contains("delivers the credential"), "{exceptions}");
    held(AttackRow::CredentialInVariables, who);
}

#[test]
fn the_placeholder_wins_in_every_way_of_setting_a_variable() {
    placeholders_win(Who::Caller);
}

#[test]
fn the_placeholder_wins_without_privileges_too() {
    placeholders_win(Who::User);
}

const START_FILES: &str = "agent: agents/triage.md
runtime: native
output_schema: schemas/triage.json
providers: [model, forge]
host_files:
  - {src: files/profile, dest: /sandbox/.profile}
  - {src: files/bashrc, dest: /sandbox/.bashrc}
  - {src: files/profile, dest: /etc/profile.d/tools.sh}
  - {src: '${HOST_FILE}', dest: /sandbox/.bash_profile}
security: {sandbox_hooks: {tirith: {enabled: false}}, host_scanners: {secret_redactor: false}}
";

/// Login shells, an interactive one, and one that reads the file of all users.
const SHELLS: &str = r#"
for shell in 'sh -l' 'bash -l' 'bash -i'; do
    $shell -c 'echo "$0: $FORGE_TOKEN|${MODEL_KEY-unset}|$OTHER"' 2>/dev/null
done
sh -c '. /etc/profile.d/tools.sh; echo "$0: $FORGE_TOKEN|${MODEL_KEY-unset}|$OTHER"'
cut -c1-40 /sandbox/.bash_profile /sandbox/.fullsend/start-files/sandbox/.bash_profile
"#;

fn start_files_set_no_credential(who: Who) {
    let world = world(START_FILES, SHELLS);
    // No form of these is recognised: the shell computes the value.
    let computed =
        "x=secret-va; export FORGE_TOKEN=\"forge-${x}lue-4410\" MODEL_KEY=\"model-${x}lue-9921\" OTHER=set\n";
    world.write("repo/.fullsend/files/profile", computed);
    world.write("repo/.fullsend/files/bashrc", format!("{computed}return 0\nexport FORGE_TOKEN=never\n"));
    world.write("home/b.env", format!("export OTHER={VALUE}\n. /sandbox/.profile\n"));
    let Some(ran) = world.run_as(who, &["run", "triage"]) else { return };
    assert_eq!(ran.code, 0, "{}", ran.err);
    let report = report(&world);
    assert!(!report.contains("secret-value") && !report.contains("never"), "{report}");
    let shells: Vec<&str> = report.lines().filter(|line| line.contains('|')).collect();
    assert_eq!(shells.len(), 4, "{report}");
    for shell in shells {
        assert!(shell.contains(": openshell:resolve:env:") && shell.contains("|unset|"), "{report}");
        assert!(shell.ends_with("|set"), "the rest of the file counts: {report}");
    }
    let found =
        events(&directory(&world)).into_iter().filter(|event| event["rule"] == "credential_in_variable");
    let places: Vec<String> = found.map(|event| event["place"].as_str().unwrap().to_owned()).collect();
    assert!(places.iter().any(|place| place == "/sandbox/.bash_profile"), "{places:?}");
    let exceptions = fs::read_to_string(directory(&world).join("run.json")).unwrap();
    assert!(!exceptions.contains("delivers the credential"), "{exceptions}");
}

#[test]
fn a_start_file_of_a_shell_sets_no_credential() {
    start_files_set_no_credential(Who::Caller);
}

#[test]
fn a_start_file_of_a_shell_sets_no_credential_without_privileges_either() {
    start_files_set_no_credential(Who::User);
}

/// `agent_input` is no way in: a value there stops the run, however it is written.
#[test]
fn an_input_directory_brings_no_credential() {
    let harness = "agent: agents/triage.md\nruntime: native\noutput_schema: schemas/triage.json\nproviders: [model, forge]\nagent_input: ${INPUT}\n";
    for (name, text) in [
        ("plain", VALUE.to_owned()),
        ("base64", ENCODED.to_owned()),
        ("lines", "forge-se\ncret-val\nue-4410\n".to_owned()),
        ("escaped", VALUE.replace('-', "\\x2d")),
    ] {
        let world = world(harness, "true");
        world.write(&format!("input/deep/{name}.txt"), format!("a file\n{text}\n"));
        let input = world.path("input");
        let world = world.env("INPUT", input.to_str().unwrap());
        let ran = world.run(&["run", "triage"]);
        assert_ne!(ran.code, 0, "{name}");
        assert!(
            ran.err.contains("contains the credential FORGE_TOKEN of a provider")
                && ran.err.contains(&format!("deep/{name}.txt")),
            "{}",
            ran.err
        );
    }
}

/// The one exception.
#[test]
fn a_real_value_enters_only_in_a_named_host_file_and_is_recorded() {
    let harness = "agent: agents/triage.md\nruntime: native\noutput_schema: schemas/triage.json\nproviders: [model, forge]\nhost_files:\n  - {src: '${HOST_FILE}', dest: /sandbox/workspace/key}\n";
    let world = world(harness, "cut -c1-6 /sandbox/workspace/key; wc -c < /sandbox/workspace/key");
    world.write("home/b.env", VALUE);
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(report(&world), format!("forge-\n{}\n", VALUE.len()));
    let record: Json =
        serde_json::from_slice(&fs::read(directory(&world).join("run.json")).unwrap()).unwrap();
    let what = record["exceptions"][0]["what"].as_str().unwrap();
    assert_eq!(what, "delivers the credential FORGE_TOKEN of a provider to /sandbox/workspace/key");
    let shown = world.run(&["runs", "show"]).out;
    assert!(shown.contains(what), "{shown}");
}

#[test]
fn an_image_sets_no_credential() {
    let Ok(busybox) = fs::read("/bin/busybox").or_else(|_| fs::read("/usr/bin/busybox")) else {
        return skip("variables of an image", "there is no static busybox: install busybox-static");
    };
    let mut layer = Layer::default().directory("bin").program("bin/busybox", busybox);
    for name in ["sh", "env", "sed", "true"] {
        layer = layer.link(&format!("bin/{name}"), "busybox");
    }
    let harness = "agent: agents/triage.md\nruntime: native\noutput_schema: schemas/triage.json\nproviders: [model, forge]\nimage: ${IMAGE}\n";
    let world = world(harness, "env | sed 's/=/ is /'");
    let image = world.path("image");
    let variables =
        [&format!("FORGE_TOKEN={VALUE}"), &format!("OTHER=x{VALUE}"), "MODEL_KEY=abcdefgh", "PATH=/bin"];
    layout(&image, &[layer], Packing::Plain, &variables);
    let world = world.env("IMAGE", image.to_str().unwrap());
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let report = report(&world);
    assert!(
        report.contains("FORGE_TOKEN is openshell:resolve:env:") && report.contains("OTHER is xopenshell:"),
        "{report}"
    );
    assert!(!report.contains("secret-value") && !report.contains("abcdefgh"), "{report}");
}
