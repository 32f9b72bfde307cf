//! What a shell completes, the manual pages, and what the doctor says about the host beside its sandbox.

use std::fs;

use serde_json::Value as Json;

use crate::support::World;

/// What fish is offered for the last of these words.
fn offered(world: World, words: &[&str]) -> (World, Vec<String>) {
    let world = world.env("FULLSEND_COMPLETE", "fish");
    let words: Vec<&str> = ["--", "fullsend"].iter().chain(words).copied().collect();
    let ran = world.run(&words);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{words:?}");
    let names = ran.out.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned());
    let names = names.collect();
    (world.without("FULLSEND_COMPLETE"), names)
}

#[test]
fn a_shell_completes_commands_options_and_names() {
    let world = World::scripted("", r#"{"turns":[[{"finish":{"summary":"x"}}]]}"#);
    assert_eq!(world.run(&["run", "triage", "--quiet"]).code, 0);
    let created = world.run(&["session", "create", "--agent", "triage", "--json"]);
    assert_eq!(created.code, 0, "{}", created.err);
    let session: Json = serde_json::from_str(&created.out).unwrap();
    let run = fs::read_dir(world.path("state/fullsend/runs/local")).unwrap().next().unwrap().unwrap();
    let run = run.file_name().to_string_lossy().into_owned();

    let (world, found) = offered(world, &["expl"]);
    assert_eq!(found, ["explain"]);
    let (world, found) = offered(world, &["check", "--config-r"]);
    assert_eq!(found, ["--config-ref"]);
    let (world, found) = offered(world, &["run", "tri"]);
    assert_eq!(found, ["triage"]);
    let (world, found) = offered(world, &["policy", "show", ""]);
    assert!(found.contains(&"triage".to_owned()), "{found:?}");
    let (world, found) = offered(world, &["runs", "show", ""]);
    assert!(found.contains(&"latest".to_owned()) && found.contains(&run), "{run}: {found:?}");
    let (world, found) = offered(world, &["session", "show", ""]);
    assert!(found.contains(&session["id"].as_str().unwrap().to_owned()), "{session}: {found:?}");
    // A store that does not exist is not made.
    let world = world.env("FULLSEND_SESSION_STORE", "../none/sessions.db");
    let (world, _) = offered(world, &["session", "show", ""]);
    assert!(!world.path("none").exists());
}

#[test]
fn every_command_has_a_manual_page() {
    let world = World::new();
    let ran = world.run(&["man", "pages"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let page = |name: &str| fs::read_to_string(world.path(&format!("repo/pages/{name}.1"))).unwrap();
    assert!(page("fullsend").contains("one coding agent"), "{}", page("fullsend"));
    assert!(page("fullsend-run").contains("max\\-usd"), "{}", page("fullsend-run"));
    assert!(page("fullsend-session-dead-list").contains("fullsend session dead list"), "the example");
    let again = world.run(&["man", "more"]);
    assert_eq!(again.code, 0);
    let more = fs::read_to_string(world.path("repo/more/fullsend.1")).unwrap();
    assert_eq!(more, page("fullsend"), "the same every time");
}

#[test]
fn the_doctor_names_what_a_run_needs_of_the_host() {
    let world = World::new();
    world.script("bin/git", "#!/bin/sh\necho git version 9.9.9\n");
    world.script("bin/npm", "#!/bin/sh\nexit 7\n");
    let path = world.path("bin").to_string_lossy().into_owned();
    let world = world
        .env("PATH", &format!("{path}:/usr/bin:/bin"))
        .env("ANTHROPIC_API_KEY", "sk-value-that-stays")
        .env("HTTPS_PROXY", "ftp://proxy");
    let ran = world.run(&["doctor", "--json"]);
    assert!(!ran.out.contains("sk-value"), "{}", ran.out);
    let said: Json = serde_json::from_str(&ran.out).unwrap();
    let checks = said["checks"].as_array().unwrap();
    let check = |name: &str| checks.iter().find(|check| check["name"] == name).unwrap_or(&Json::Null);
    for name in ["git", "npm", "claude", "codex", "keys", "disk", "clock", "network", "proxies"] {
        let found = check(name);
        assert!(found["found"].as_str().is_some_and(|found| !found.is_empty()), "{name}: {found}");
        assert_eq!(found["state"] == "good", found["fix"].is_null(), "{name} says what to do: {found}");
    }
    assert!(check("git")["found"].as_str().unwrap().starts_with("git version 9.9.9 ("), "{}", check("git"));
    assert!(check("npm")["found"].as_str().unwrap().ends_with("/bin/npm ended with 7"), "{}", check("npm"));
    assert!(
        check("keys")["found"].as_str().unwrap().starts_with("ANTHROPIC_API_KEY set"),
        "{}",
        check("keys")
    );
    assert_eq!(check("proxies")["fix"], "write it as HTTPS_PROXY=http://HOST:PORT");
    assert_eq!(said["healthy"], true, "the host's programs do not decide about the sandbox");

    let world = world.env("PATH", "/nowhere").without("ANTHROPIC_API_KEY").without("HTTPS_PROXY");
    let lines = world.env("HTTP_PROXY", "http://127.0.0.1:9").run(&["doctor"]).out;
    for line in [
        "weaker  git: not found in PATH\n        fix: install git",
        "weaker  keys: no variable with a key for a model is set\n        fix: export ANTHROPIC_API_KEY",
        "weaker  proxies: HTTP_PROXY is set and HTTPS_PROXY is not\n        fix: set HTTPS_PROXY too",
    ] {
        assert!(lines.contains(line), "{line}\n{lines}");
    }
}
