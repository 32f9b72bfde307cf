//! The page of a run: exported from real runs, and driven in a real Chromium. The browser is the machine's; what drives it
//! is installed by npm into `target/cache`, once, under a lock. A machine without one of them skips that part.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use fullsend::event::log::Emitter;
use serde_json::{Value as Json, json};

use crate::support::{Ran, World, example, has_program, root, skip};

/// Everything that must stay text: markup, ends of scripts and comments, quotes, links, changes of the reading direction.
const HOSTILE: &str = "</script><script>window.hacked=1</script><img src=x onerror=\"window.hacked=1\"><!--<script>-->]]>\
                       &lt;b&gt;'\"`${window.hacked=1}\u{202e}\u{2066}\u{0}javascript:window.hacked=1//{{constructor}}";

const BROWSERS: [&str; 4] = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

pub fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    BROWSERS.iter().find_map(|name| places.iter().map(|place| place.join(name)).find(|file| file.is_file()))
}

/// A copy of `web/` with its packages, as the lock file names them.
pub fn web() -> Result<PathBuf, String> {
    static INSTALLED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    INSTALLED.get_or_init(install).clone()
}

fn install() -> Result<PathBuf, String> {
    if !has_program("node", "page") {
        return Err("node is not installed".to_owned());
    }
    let place = root().join("target/cache/web");
    let failed = |error: std::io::Error| error.to_string();
    fs::create_dir_all(&place).map_err(failed)?;
    let lock = File::create(place.with_extension("lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let locked = fs::read(root().join("web/package-lock.json")).map_err(failed)?;
    let marker = place.join("node_modules/.installed");
    if fs::read(&marker).is_ok_and(|installed| installed == locked) {
        return Ok(place);
    }
    for name in ["package.json", "package-lock.json"] {
        fs::copy(root().join("web").join(name), place.join(name)).map_err(failed)?;
    }
    let words = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"];
    let output = Command::new("npm").args(words).current_dir(&place).output().map_err(failed)?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(words.lines().last().unwrap_or("npm failed").to_owned());
    }
    fs::write(marker, locked).map_err(failed)?;
    Ok(place)
}

/// Runs a program of the packages on the sources of the tree.
fn node(place: &Path, arguments: &[&str]) -> (bool, String) {
    let output = Command::new("node").args(arguments).current_dir(place).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn copy_sources(place: &Path) {
    for name in ["src", "test"] {
        drop(fs::remove_dir_all(place.join(name)));
        crate::support::copy(&root().join("web").join(name), &place.join(name));
    }
    for name in ["build.mjs", "types.mjs", "tsconfig.json"] {
        fs::copy(root().join("web").join(name), place.join(name)).unwrap();
    }
}

fn ran(world: &World, arguments: &[&str]) -> Ran {
    let ran = world.run(arguments);
    assert_eq!(ran.code, 0, "{}", ran.all());
    ran
}

/// `npm run types && npm run build` in `web/` writes them anew.
#[test]
fn the_committed_bundle_is_what_the_sources_make() {
    let place = match web() {
        Ok(place) => place,
        Err(reason) => return skip("page bundle", &format!("the packages cannot be installed: {reason}")),
    };
    let own = tempfile::tempdir_in(&place).unwrap();
    let place = own.path();
    copy_sources(place);
    fs::write(place.join("package.json"), r#"{"type":"module"}"#).unwrap();
    let schema = root().join("schemas/page.json");
    let same = |committed: &str, made: &str| {
        let committed = fs::read_to_string(root().join("web").join(committed)).unwrap();
        assert!(
            committed == fs::read_to_string(place.join(made)).unwrap(),
            "web/{made} is not what the sources make: cd web && npm ci && npm run types && npm run build"
        );
    };
    let (typed, text) = node(place, &["types.mjs", &schema.to_string_lossy(), "types.ts"]);
    assert!(typed, "{text}");
    same("src/types.ts", "types.ts");
    let (checked, text) = node(place, &["../node_modules/typescript/bin/tsc", "--noEmit", "-p", "."]);
    assert!(checked, "{text}");
    let (built, text) = node(place, &["build.mjs", "dist"]);
    assert!(built, "{text}");
    same("dist/page.js", "dist/page.js");
    same("dist/page.css", "dist/page.css");
}

#[test]
fn a_run_is_exported_as_one_private_file_and_opened() {
    let world = example("hello");
    world.script("bin/browser", "#!/bin/sh\necho \"$1\" > ../opened\n");
    let world = world.env("BROWSER", "../bin/browser");
    ran(&world, &["run", "hello", "--quiet"]);
    let exported = ran(&world, &["runs", "export", "--html", "../page.html", "--json", "../page.json"]);
    assert_eq!((exported.out.as_str(), exported.err.as_str()), ("", ""));
    let page = world.path("page.html");
    let about = fs::metadata(&page).unwrap();
    assert!(about.len() < 3 << 20, "{} bytes", about.len());
    assert_eq!(about.permissions().mode() & 0o777, 0o600);
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-"));
    assert_eq!(html.matches("<script").count(), 2, "the data and the program");

    let data: Json = serde_json::from_str(&fs::read_to_string(world.path("page.json")).unwrap()).unwrap();
    let schema: Json = serde_json::from_str(&ran(&world, &["schema", "page"]).out).unwrap();
    jsonschema::draft202012::new(&schema).unwrap().validate(&data).unwrap();
    assert_eq!(data["verification"]["status"], "verified", "the page's own files are part of the run");

    let opened = ran(&world, &["runs", "open"]);
    let shown = crate::support::wait_for(|| {
        fs::read_to_string(world.path("opened")).ok().filter(|text| text.ends_with('\n'))
    });
    let place = opened.out.replace("$ROOT", world.path("").to_string_lossy().trim_end_matches('/'));
    assert_eq!(place, shown);
    assert_eq!(fs::metadata(place.trim()).unwrap().permissions().mode() & 0o777, 0o600);

    let nothing = world.run(&["runs", "export"]);
    assert_eq!(nothing.code, 2, "{}", nothing.all());
    let unwritable = world.run(&["runs", "export", "--html", "/nowhere/page.html"]);
    assert!(unwritable.err.contains("cannot write /nowhere/page.html"), "{}", unwritable.err);
    if let (Some(browser), Ok(web)) = (browser(), web()) {
        let hostile = world.path("hostile.html");
        fs::write(&hostile, hostile_page(&world)).unwrap();
        drive(&web, &browser, &page, &hostile);
    } else {
        let missing = web().err().unwrap_or_else(|| "none of Chromium's programs is installed".to_owned());
        skip("page in a browser", &missing);
    }
}

/// Checks in the browser; `UPDATE_DOCS=1` also takes the screenshots of the docs.
fn drive(web: &Path, browser: &Path, demo: &Path, hostile: &Path) {
    let own = tempfile::tempdir_in(web).unwrap();
    fs::copy(root().join("web/test/page.mjs"), own.path().join("page.mjs")).unwrap();
    let images = root().join("docs/images");
    let [browser, demo, hostile, shots] =
        [browser, demo, hostile, &images].map(|path| path.to_string_lossy().into_owned());
    let mut words = vec!["page.mjs", &browser, &demo, &hostile];
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::create_dir_all(&images).unwrap();
        words.push(&shots);
    }
    let (passed, text) = node(own.path(), &words);
    assert!(passed, "{text}");
    assert!(text.matches("ok ").count() > 80, "{text}");
}

/// The page of a run whose log, conversation, patch, result and configuration hold hostile text wherever text can be.
fn hostile_page(world: &World) -> String {
    let run = world.path("state/hostile/local/0198c2f0-0000-7000-8000-000000000000");
    fs::create_dir_all(run.join("iteration-1/transcripts")).unwrap();
    let emitter = Emitter::create(&run.join("events.jsonl"), |_| {}).unwrap();
    for event in events() {
        emitter
            .emit(serde_json::from_value(event.clone()).unwrap_or_else(|error| panic!("{event}: {error}")));
    }
    drop(emitter);
    let block = |kind: &str| json!({ "type": kind, "text": HOSTILE, "thinking": HOSTILE });
    let call = json!({ "type": "tool_use", "id": HOSTILE, "name": HOSTILE, "input": { HOSTILE: HOSTILE } });
    let answer =
        json!({ "type": "tool_result", "tool_use_id": HOSTILE, "content": HOSTILE, "is_error": true });
    let conversation = json!({ "messages": [
        { "role": "user", "content": HOSTILE },
        { "role": "assistant", "content": [block("text"), block("thinking"), call] },
        { "role": "user", "content": [answer] },
    ] });
    fs::write(run.join("iteration-1/transcripts/conversation.json"), conversation.to_string()).unwrap();
    let line = HOSTILE.replace('\0', "");
    let patch =
        format!("diff --git a/{line} b/{line}\nnew file mode {line}\n@@ -0,0 +1 @@ {line}\n+{line}\n");
    fs::write(run.join("iteration-1/changes.patch"), patch).unwrap();
    fs::create_dir_all(run.join("iteration-1/output")).unwrap();
    fs::write(run.join("iteration-1/output/agent-result.json"), json!({ HOSTILE: HOSTILE }).to_string())
        .unwrap();
    fs::write(run.join("iteration-1/output/<img src=x onerror=hacked>"), HOSTILE).unwrap();
    let origin = json!({ "layer": HOSTILE, "file": HOSTILE, "line": 1 });
    let value = json!({ "field": HOSTILE, "value": HOSTILE, "set_by": origin, "replaced": [origin] });
    let file = json!({ "name": HOSTILE, "text": HOSTILE });
    let configuration =
        json!({ "v": 1, "values": [value], "effective_policy": [value], "policy": file, "schema": file });
    fs::write(run.join("configuration.json"), configuration.to_string()).unwrap();
    let runs = world.path("state/hostile");
    ran(world, &["runs", "export", "--html", "-", "--output-dir", &runs.to_string_lossy()]).out
}

/// One event of every kind, with hostile text in every field that takes any text.
fn events() -> Vec<Json> {
    let h = HOSTILE;
    let usage = json!({ "input": 1, "output": 1, "cache_read": 0, "cache_write": 0, "cache_write_hour": 0 });
    let connection = json!({
        "type": "attempt", "via": "connect", "host": h, "port": 443, "method": h, "path": h, "pid": 1, "binary": h,
        "sha256": h, "decision": "denied", "rule": h, "code": "policy_denied", "reason": h, "fix": h, "status": 403,
        "bytes_out": 1, "bytes_in": 1, "duration_ms": 1,
    });
    let model = |event: Json| json!({ "type": "model", "event": event });
    vec![
        json!({ "type": "run_started", "run_id": h, "harness": h, "runtime": h, "model": h, "repository": h,
                "repository_directory": h, "fullsend": h }),
        json!({ "type": "repository", "commit": h, "branch": h }),
        json!({ "type": "input", "kind": "harness", "name": h, "sha256": h }),
        json!({ "type": "image_pull", "name": h, "bytes": 1, "total_bytes": 2 }),
        json!({ "type": "program", "version": h, "place": h }),
        json!({ "type": "skill_shadowed", "skill": h, "place": h }),
        json!({ "type": "skill_fetch", "url": h, "name": h, "sha256": h, "refused": h }),
        json!({ "type": "toggle", "field": h, "value": h, "place": h }),
        json!({ "type": "exception", "field": h, "what": h, "reason": h, "until": h }),
        json!({ "type": "operator_action", "by": h, "action": "cancel" }),
        json!({ "type": "override", "field": h, "value": h }),
        json!({ "type": "step_started", "step": "agent" }),
        json!({ "type": "scanner_broke", "place": h, "scanner": h, "reason": h, "stopped": false }),
        json!({ "type": "scanner", "family": "commands", "by": h }),
        json!({ "type": "review_requested", "label": h }),
        json!({ "type": "sandbox_part", "part": h, "status": "absent", "reason": h }),
        json!({ "type": "proof", "name": h, "held": false, "detail": h }),
        json!({ "type": "agent_started", "iteration": 1 }),
        json!({ "type": "egress", "event": connection }),
        json!({ "type": "egress", "event": { "type": "name_refused", "name": h, "reason": h } }),
        model(
            json!({ "type": "model_request", "exchange": 1, "wire": "messages", "model": h, "turn": 0, "tools": 1, "bytes": 1 }),
        ),
        model(
            json!({ "type": "model_answer", "exchange": 1, "model": h, "status": 200, "ending": "complete",
                      "usage": usage, "cost": 5, "duration_ms": 1 }),
        ),
        model(json!({ "type": "model_refused", "exchange": 2, "status": 403, "reason": h })),
        model(json!({ "type": "budget_warning", "spent": h })),
        model(json!({ "type": "budget_spent", "spent": h })),
        model(
            json!({ "type": "model_retry", "exchange": 1, "attempt": 1, "status": 500, "reason": h, "wait_ms": 1 }),
        ),
        model(json!({ "type": "model_fallback", "exchange": 1, "from": h, "to": h, "reason": h })),
        model(json!({ "type": "credential_refused", "exchange": 1, "status": 401, "credential": h })),
        model(json!({ "type": "stop", "exchange": 1, "reason": h })),
        json!({ "type": "agent_text", "iteration": 1, "text": h }),
        json!({ "type": "tool_started", "iteration": 1, "call": h, "tool": h, "summary": h }),
        json!({ "type": "finding", "place": format!("call/{h}"), "origin": "tool", "rule": h, "category": "commands",
                "severity": "high", "score": 0.9, "line": 1, "column": 1, "start": 1, "end": 2, "excerpt": h,
                "advice": h, "action": "denied", "suppressed": h, "kept": h }),
        json!({ "type": "tool_denied", "call": h, "tool": h, "reason": h }),
        json!({ "type": "hook_missing", "call": h, "reason": h, "stopped": false }),
        json!({ "type": "tool_finished", "iteration": 1, "call": h, "is_error": true, "bytes": 1 }),
        json!({ "type": "agent_finished", "iteration": 1, "ending": format!("failed: {h}"), "turns": 1 }),
        json!({ "type": "output_rejected", "iteration": 1, "violations": [{ "path": h, "message": h }] }),
        json!({ "type": "output_accepted", "iteration": 1, "schema": h }),
        json!({ "type": "artifact", "path": h, "sha256": h, "bytes": 1 }),
        json!({ "type": "api_server", "name": h, "state": "ended", "detail": h }),
        json!({ "type": "kept", "files": 1, "left_out": 1, "problem": h }),
        json!({ "type": "script_finished", "script": h, "exit": 1, "duration_ms": 1 }),
        json!({ "type": "events_counted", "kind": h, "count": 7 }),
        json!({ "type": "lasting", "event": { "kind": "command_started", "command": 1, "arguments": [h], "directory": h } }),
        json!({ "type": "step_finished", "step": "agent", "duration_ms": 1, "ok": false }),
        json!({ "type": "run_finished", "outcome": "agent_failed", "exit_code": 1, "reason": h }),
    ]
}

/// The hostile run has every kind of event that the schema knows.
#[test]
fn the_hostile_run_has_every_kind_of_event() {
    let schema: Json =
        serde_json::from_str(&fs::read_to_string(root().join("schemas/event.json")).unwrap()).unwrap();
    let word = |value: &Json| value["properties"]["type"]["const"].as_str().map(str::to_owned);
    let known: BTreeSet<String> = schema["oneOf"].as_array().unwrap().iter().filter_map(word).collect();
    let made: BTreeSet<String> =
        events().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect();
    assert_eq!(made, known);
}
