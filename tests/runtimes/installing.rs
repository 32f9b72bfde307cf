//! `fullsend runtimes`: the matrix and the page made of it, and the installing, with the real npm where it is there.

use std::fmt::Write;
use std::fs;

use serde_json::{Value as Json, json};

use super::stage::{Stage, good};
use crate::support::{World, root, skip};

fn described() -> Vec<Json> {
    let ran = World::new().run(&["runtimes", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    serde_json::from_str(&ran.out).unwrap()
}

#[test]
fn docs_of_the_runtimes_are_made_from_their_contracts() {
    let page = page(&described());
    let path = root().join("docs/runtimes.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let committed = fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == page,
        "docs/runtimes.md is not what the contracts say: UPDATE_DOCS=1 cargo test docs"
    );
}

fn page(all: &[Json]) -> String {
    let mut text = "# Runtimes\n\nMade from the contracts by `UPDATE_DOCS=1 cargo test docs`; `fullsend runtimes` prints the same, with what is\ninstalled here. `fullsend runtimes install claude` puts a program into the cache, with npm; one on the PATH is used\nif its version is in range, and one in the harness's `image` before either. Why each is started as it is: `docs/decisions/`.\n\n## Security features\n\n".to_owned();
    let cells = |of: &dyn Fn(&Json) -> String| {
        let cells: Vec<String> = all.iter().map(of).collect();
        format!("{} |\n", cells.join(" | "))
    };
    let word = |value: &Json| value.as_str().unwrap_or("–").to_owned();
    writeln!(
        text,
        "| feature | switch | {}|---|---|{}",
        cells(&|r| word(&r["name"])),
        "---|".repeat(all.len())
    )
    .unwrap();
    for (name, feature) in all[0]["features"].as_object().unwrap() {
        let switch = feature["switch"].as_str().unwrap().replace(", ", "`, `");
        write!(text, "| {name} | `{switch}` | ").unwrap();
        text += &cells(&|runtime| {
            let cell = &runtime["features"][name];
            let carried = if cell["carried"] == true { "yes" } else { "**no**" };
            format!("{carried}: {}", word(&cell["by"]))
        });
    }
    text += "\n## The rest of the contract\n\n";
    writeln!(text, "| | {}|---|{}", cells(&|r| word(&r["name"])), "---|".repeat(all.len())).unwrap();
    let rows = [
        ("tested with", "tested"),
        ("first version not taken", "below"),
        ("configuration and state inside", "config_directory"),
        ("a hook that does not answer", "without_answer"),
        ("proof that the hooks are there", "liveness"),
    ];
    for (title, key) in rows {
        write!(text, "| {title} | {}", cells(&|runtime| word(&runtime[key]))).unwrap();
    }
    let list = |value: &Json| {
        let words: Vec<&str> = value.as_array().unwrap().iter().filter_map(Json::as_str).collect();
        if words.is_empty() { "–".to_owned() } else { words.join(", ") }
    };
    write!(text, "| hooks installed | {}", cells(&|runtime| list(&runtime["hooks"]))).unwrap();
    write!(text, "| tools judged at the gateway alone | {}", cells(&|r| list(&r["tools_without_hooks"])))
        .unwrap();
    text
}

#[test]
fn the_table_names_every_runtime_and_says_what_is_missing() {
    let ran = World::new().run(&["runtimes"]);
    insta::assert_snapshot!("runtimes", ran.all());
}

#[test]
fn what_cannot_be_installed_is_said_before_anything_is_fetched() {
    let world = World::new();
    for (name, words) in [
        ("native", vec!["native"]),
        ("unknown", vec!["gemini"]),
        ("old", vec!["claude", "--version", "1.0.0"]),
        ("no-version", vec!["codex", "--version", "latest"]),
    ] {
        let ran = world.run(&[&["runtimes", "install"], &words[..]].concat());
        insta::assert_snapshot!(format!("runtimes-install-{name}"), ran.all());
    }
    let ran = World::new().env("PATH", "/nowhere").run(&["runtimes", "install", "claude"]);
    insta::assert_snapshot!("runtimes-install-no-npm", ran.all());
    assert!(!world.path("home/.cache").exists());
}

/// A stand-in for npm where the world cannot be asked to misbehave: a registry with another package, or half of one.
fn with_npm(script: &str) -> World {
    let world = World::new();
    world.script("bin/npm", &format!("#!/bin/sh\n{script}\n"));
    let path = format!("{}:/usr/bin:/bin", world.path("bin").display());
    world.env("PATH", &path)
}

#[test]
fn what_npm_brings_must_be_what_was_tested() {
    let place = "node_modules/@openai/codex";
    let lock = |integrity: &str| {
        format!(
            "mkdir -p {place}; echo '{{\"packages\":{{\"{place}\":{{\"integrity\":\"{integrity}\"}}}}}}' > node_modules/.package-lock.json"
        )
    };
    let altered = with_npm(&lock("sha512-other"));
    let ran = altered.run(&["runtimes", "install", "codex"]);
    insta::assert_snapshot!("runtimes-install-altered", ran.all());
    let silent = with_npm("exit 0").run(&["runtimes", "install", "codex"]);
    assert_eq!(silent.code, 6, "{}", silent.err);
    let failed = with_npm("echo 'npm error code ENOSPC' >&2; echo 'npm error no space left' >&2; exit 1");
    insta::assert_snapshot!("runtimes-install-refused", failed.run(&["runtimes", "install", "codex"]).all());
    // Another version in range has no pin, and the package is empty.
    let other =
        with_npm(&lock("sha512-other")).run(&["runtimes", "install", "codex", "--version", "0.166.1"]);
    insta::assert_snapshot!("runtimes-install-incomplete", other.all());
    let left = fs::read_dir(altered.path("home/.cache/fullsend/runtimes/codex")).unwrap().count();
    assert_eq!(left, 0, "nothing is kept");
}

#[test]
fn a_registry_out_of_reach_is_said() {
    let path = "/usr/local/bin:/usr/bin:/bin";
    if !path.split(':').any(|place| std::path::Path::new(place).join("npm").exists()) {
        return skip("runtimes offline", "there is no npm");
    }
    let world = World::new().env("PATH", path).env("npm_config_registry", "http://127.0.0.1:1/");
    let ran = world.env("npm_config_fetch_retries", "0").run(&["runtimes", "install", "codex"]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(ran.err.contains("npm could not reach its registry: ECONNREFUSED"), "{}", ran.err);
}

#[test]
fn installed_programs_are_found_and_not_fetched_again() {
    for runtime in ["acp", "claude", "codex"] {
        if !super::programs::is_available(runtime, "installed") {
            continue;
        }
        let cache = super::programs::cache();
        let world = World::new().env("XDG_CACHE_HOME", cache.to_str().unwrap()).env("PATH", "/nowhere");
        let ran = world.run(&["runtimes", "install", runtime]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(
            ran.out.starts_with("already there") && ran.out.contains("the tested package"),
            "{}",
            ran.out
        );
        assert!(world.run(&["runtimes"]).out.contains(cache.to_str().unwrap()));
    }
}

/// Neither in the cache nor in an image: the program itself lies on the PATH, through a link as package managers make them.
#[test]
fn a_program_on_the_path_is_used() {
    for runtime in ["claude", "codex"] {
        let scenario = json!({ "turns": [[{ "finish": good() }]] });
        let Some(mut stage) = Stage::new(runtime, "on the PATH", &scenario) else { continue };
        let installed = World::new().env("XDG_CACHE_HOME", super::programs::cache().to_str().unwrap());
        let installed = installed.run(&["runtimes", "install", runtime]).out;
        let program = installed.trim().rsplit(' ').next().unwrap();
        let bin = stage.world.path("bin");
        let empty = stage.world.path("empty-cache");
        fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(program, bin.join(runtime)).unwrap();
        let path = format!("{}:/usr/bin:/bin", bin.display());
        stage.world = stage.world.env("XDG_CACHE_HOME", empty.to_str().unwrap()).env("PATH", &path);
        let record = stage.ends(0);
        assert_eq!(record["program"]["place"], program, "{record:#}");
    }
}
