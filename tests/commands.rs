//! The output of commands for valid files, and for wrong command lines: formats, explanations, lists, versions, help,
//! completions, first steps.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use serde_json::Value as Json;

use crate::support::{World, program};

/// A harness with one error and one warning, in a layer above and in its own.
fn flawed() -> World {
    let world = World::with_harness();
    world.write("org/config.yaml", "security: {fail_mode: closed}\n");
    world.write(
        "repo/.fullsend/harness/triage.yaml",
        "agent: agents/triage.md\noutput_schema: schemas/triage.json\nsecurity: {fail_mode: open}\npre_script: 'scripts/é 100%,a:b.sh'\nrunner_env: {A: b}\n",
    );
    world.env("FULLSEND_ORG_DIR", "../org")
}

#[test]
fn check_in_every_format() {
    for format in ["human", "json", "sarif", "github"] {
        insta::assert_snapshot!(
            format!("check-{format}"),
            flawed().run(&["check", "--format", format]).all()
        );
    }
}

#[test]
fn check_in_every_format_when_all_is_well() {
    for format in ["human", "json", "sarif", "github"] {
        let ran = World::with_harness().run(&["check", "--format", format]);
        let shown = ran.all().replace(env!("CARGO_PKG_VERSION"), "VERSION");
        insta::assert_snapshot!(format!("check-right-{format}"), shown);
    }
}

/// What code scanning services need of SARIF 2.1.0, and reject a file without.
#[test]
fn sarif_has_what_code_scanning_needs() {
    for world in [flawed(), World::with_harness(), World::with_harness().env("FULLSEND_ORG_DIR", "../repo")] {
        let log: Json = serde_json::from_str(&world.run(&["check", "--format", "sarif"]).out).unwrap();
        assert_eq!(log["version"], "2.1.0");
        assert!(log["$schema"].as_str().unwrap().contains("sarif-2.1.0"));
        let [run] = &log["runs"].as_array().unwrap()[..] else { panic!("one run") };
        assert!(!run["tool"]["driver"]["name"].as_str().unwrap().is_empty());
        let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
        for rule in rules {
            assert!(!rule["id"].as_str().unwrap().is_empty());
            assert!(!rule["shortDescription"]["text"].as_str().unwrap().is_empty(), "{rule}");
        }
        for result in run["results"].as_array().unwrap() {
            let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
            assert_eq!(rules[index]["id"], result["ruleId"]);
            assert!(["error", "warning"].contains(&result["level"].as_str().unwrap()));
            assert!(!result["message"]["text"].as_str().unwrap().is_empty());
            assert!(!result["partialFingerprints"]["fullsend/v1"].as_str().unwrap().is_empty());
            let [location] = &result["locations"].as_array().unwrap()[..] else { panic!("one location") };
            physical(&location["physicalLocation"]);
            for related in result["relatedLocations"].as_array().unwrap() {
                physical(&related["physicalLocation"]);
                assert!(!related["message"]["text"].as_str().unwrap().is_empty());
            }
        }
    }
}

fn physical(place: &Json) {
    let uri = place["artifactLocation"]["uri"].as_str().unwrap();
    assert!(!uri.is_empty() && !uri.contains([' ', '<', '>', '\\']), "{uri} is not a URI");
    let number = |name: &str| place["region"][name].as_u64().unwrap();
    assert!(number("startLine") >= 1 && number("startColumn") >= 1);
    let (start, end) =
        ((number("startLine"), number("startColumn")), (number("endLine"), number("endColumn")));
    assert!(start <= end, "{place}");
}

#[test]
fn explaining_a_harness() {
    let world = World::with_harness();
    world.write("org/config.yaml", "security:\n  escalation: {review_label: look}\nbudget: {usd: 5}\n");
    world.write("org/harness/triage.yaml", "agent: agents/triage.md\nmodel: far\nskills: [skills/review]\n");
    world.write(
        "repo/.fullsend/harness/triage.yaml",
        "base: harness/triage.yaml\nmodel: near\nbudget: {usd: 2.50}\nskills:\n- skills/review: {a.md: null}\nenv:\n  runner: {TEXT: \"two\\nlines\"}\n",
    );
    let world = world.env("FULLSEND_ORG_DIR", "../org");
    for (name, arguments) in [
        ("explain", &["explain", "triage"][..]),
        ("explain-json", &["explain", "triage", "budget", "--format", "json"]),
        ("explain-field", &["explain", "triage", "model"]),
        ("explain-block", &["explain", "triage", "security.host_scanners"]),
        ("explain-not-set", &["explain", "triage", "slug"]),
        ("explain-not-set-below", &["explain", "triage", "openshell.profiles"]),
        ("explain-unknown", &["explain", "triage", "modle"]),
        ("explain-unknown-below", &["explain", "triage", "security.fail_mod"]),
        ("explain-unknown-far", &["explain", "triage", "zebra"]),
        ("explain-resolved", &["explain", "triage", "--resolved"]),
        ("explain-no-harness", &["explain", "traige"]),
        ("explain-both", &["explain", "triage", "model", "--resolved"]),
    ] {
        insta::assert_snapshot!(name, world.run(arguments).all());
    }
}

#[test]
fn a_credential_is_not_repeated_by_explain() {
    let world = World::with_harness();
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    world.write(
        "repo/.fullsend/harness/triage.yaml",
        format!("agent: agents/triage.md\nenv: {{runner: {{GH_TOKEN: {token}}}}}\n"),
    );
    for arguments in [
        &["explain", "triage"][..],
        &["explain", "triage", "--format", "json"],
        &["check"],
        &["check", "--format", "json"],
        &["check", "--format", "sarif"],
        &["check", "--format", "github"],
    ] {
        let ran = world.run(arguments);
        assert!(!ran.all().contains(&token), "{arguments:?}: {}", ran.all());
    }
    assert!(world.run(&["explain", "triage", "env"]).out.contains("(a credential)"));
}

#[test]
fn listing_harnesses() {
    let world = World::with_harness();
    world.write("org/harness/code.yaml", "description: Writes code.\nagent: agents/a.md\n");
    world.write("org/harness/broken.yaml", "description: [\n");
    world.write("org/harness/not-yaml.txt", "");
    let world = world.env("FULLSEND_ORG_DIR", "../org");
    insta::assert_snapshot!("list", world.run(&["list"]).all());
    insta::assert_snapshot!("list-json", world.run(&["list", "--json"]).all());
    insta::assert_snapshot!("list-none", World::new().run(&["list"]).all());
}

#[test]
fn the_version() {
    let world = World::new();
    let line = world.run(&["version"]).out;
    assert!(line.starts_with(&format!("fullsend {} (", env!("CARGO_PKG_VERSION"))), "{line}");
    assert!(line.trim_end().ends_with("-linux-gnu)"), "{line}");
    for flag in ["--version", "-V"] {
        assert_eq!(world.run(&[flag]).out, line);
    }
    let json: Json = serde_json::from_str(&world.run(&["version", "--json"]).out).unwrap();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(json["harness_version"], 1);
}

#[test]
fn completions_are_scripts() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = world.run(&["completions", shell]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        assert!(ran.out.contains("FULLSEND_COMPLETE"), "the script asks the program: {shell}: {}", ran.out);
    }
    let script = world.write("completions.bash", world.run(&["completions", "bash"]).out);
    let status = Command::new("bash").arg("-n").arg(script).status().unwrap();
    assert!(status.success());
    insta::assert_snapshot!("completions-unknown", world.run(&["completions", "csh"]).all());
}

#[test]
fn help_for_every_command() {
    let world = World::new();
    let top = world.run(&["--help"]);
    insta::assert_snapshot!("help", top.all());
    insta::assert_snapshot!("help-no-command", world.run(&[]).all());
    insta::assert_snapshot!("help-unknown-command", world.run(&["chekc"]).all());
    insta::assert_snapshot!("help-unknown-option", world.run(&["check", "--frmat", "json"]).all());
    insta::assert_snapshot!("help-unknown-format", world.run(&["check", "--format", "xml"]).all());
    insta::assert_snapshot!("help-unknown-forge", world.run(&["check", "--forge", "gitbucket"]).all());
    for command in
        ["check", "explain", "schema", "init", "list", "runtimes", "models", "version", "completions"]
    {
        assert!(top.out.contains(&format!("\n  {command}")), "{}", top.out);
        let long = world.run(&[command, "--help"]);
        assert_eq!((long.code, long.err.as_str()), (0, ""));
        assert_eq!(world.run(&["help", command]).out, long.out);
        assert_eq!(world.run(&[command, "-h"]).code, 0);
        insta::assert_snapshot!(format!("help-{command}"), long.out);
    }
}

#[test]
fn beginning() {
    let world = World::new();
    let git = |arguments: &[&str]| {
        assert!(
            Command::new("git").args(arguments).current_dir(world.path("repo")).status().unwrap().success()
        );
    };
    git(&["init", "-q"]);
    git(&["remote", "add", "origin", "https://example.com/acme/widgets.git"]);
    insta::assert_snapshot!("init", world.run(&["init"]).all());
    world.write("repo/.fullsend/agents/assess.md", "Mine: `summary` and `risks`.\n");
    insta::assert_snapshot!("init-again", world.run(&["init", "--owner", "@acme/platform"]).all());
    let third = world.run(&["init", "--owner", "@acme/platform"]).out;
    assert!(third.contains("kept  CODEOWNERS: .fullsend has an owner"), "{third}");
    let kept = fs::read_to_string(world.path("repo/.fullsend/agents/assess.md")).unwrap();
    assert_eq!(kept, "Mine: `summary` and `risks`.\n", "init replaces nothing");
    let owners = fs::read_to_string(world.path("repo/CODEOWNERS")).unwrap();
    assert_eq!(owners.matches("/.fullsend/ @acme/platform").count(), 1, "{owners}");
    let ran = world.run(&["check"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
}

#[test]
fn beginning_with_every_runtime_and_without_git() {
    for runtime in ["native", "claude", "codex"] {
        let world = World::new().with_runtime_programs();
        let ran = world.run(&["init", "--runtime", runtime, "--owner", "@acme/platform"]);
        assert_eq!(ran.code, 0, "{}", ran.all());
        let ran = world.run(&["check"]);
        assert_eq!((ran.code, ran.err.matches("error[").count()), (0, 0), "{}", ran.all());
        let explained = world.run(&["explain", "assess", "runtime"]);
        assert!(explained.out.contains(runtime), "{}", explained.all());
    }
    insta::assert_snapshot!("init-no-git", World::new().run(&["init"]).all());
    insta::assert_snapshot!("init-unknown-runtime", World::new().run(&["init", "--runtime", "gemini"]).all());
    insta::assert_snapshot!("init-unset-variables", {
        let world = World::new().with_runtime_programs();
        world.run(&["init", "--runtime", "codex", "--owner", "@acme/platform"]);
        world.run(&["check", "--env"]).all()
    });
}

#[test]
fn nothing_to_check() {
    insta::assert_snapshot!("check-nothing", World::new().run(&["check"]).all());
    insta::assert_snapshot!("check-no-repository", World::new().run(&["check", "--repo", "none"]).all());
    insta::assert_snapshot!(
        "check-no-organisation",
        World::with_harness().run(&["check", "--org-dir", "none"]).all()
    );
    let remote = World::with_harness();
    remote.write("repo/.fullsend/config.yaml", "org: https://example.com/acme/.fullsend\n");
    insta::assert_snapshot!("check-remote-organisation", remote.run(&["check"]).all());
}

#[test]
fn a_reader_that_stops_early_is_no_failure() {
    let world = World::with_harness();
    let many: String = (0..4000).map(|index| format!("    VARIABLE{index}: value\n")).collect();
    world.write(
        "repo/.fullsend/harness/triage.yaml",
        format!("agent: agents/triage.md\nenv:\n  runner:\n{many}"),
    );
    for arguments in [
        &["explain", "triage"][..],
        &["explain", "triage", "--resolved"],
        &["explain", "triage", "--format", "json"],
        &["schema", "harness"],
        &["completions", "bash"],
    ] {
        let mut child = Command::new(program())
            .args(arguments)
            .current_dir(world.path("repo"))
            .env_clear()
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
}

/// Colour is for terminals, and `NO_COLOR` is honoured there.
#[test]
fn colour_is_only_for_people() {
    let world = flawed();
    assert!(!world.run(&["check"]).all().contains('\u{1b}'));
    let on_a_terminal = |no_colour: Option<&str>| {
        let mut command = Command::new("script");
        let line = format!("{} check", program().display());
        command.args(["-qec", &line, "/dev/null"]).current_dir(world.path("repo")).env_clear();
        command.env("PATH", "/usr/bin:/bin").env("TERM", "xterm").env("FULLSEND_ORG_DIR", "../org");
        command.envs(no_colour.map(|value| ("NO_COLOR", value)));
        command.stdin(Stdio::null()).output().ok().filter(|output| !output.stdout.is_empty())
    };
    let Some(coloured) = on_a_terminal(None) else {
        return crate::support::skip(
            "commands::colour_is_only_for_people",
            "there is no `script` to make a terminal",
        );
    };
    assert!(coloured.stdout.contains(&0x1b), "{}", String::from_utf8_lossy(&coloured.stdout));
    assert!(!on_a_terminal(Some("1")).unwrap().stdout.contains(&0x1b));
}

#[test]
fn variables_are_expanded_where_they_are_set() {
    let harness = "agent: agents/triage.md\noutput_schema: schemas/triage.json\nrequired_env: [TOKEN]\nenv: {runner: {A: '${TOKEN}', PRICE: 'costs $$5', EMPTY: '${EMPTY}'}}\nruntime: native\nproviders: [model]\n";
    let world = World::with_harness();
    world.write("repo/.fullsend/harness/triage.yaml", harness);
    let warned = world.run(&["check"]);
    assert_eq!((warned.code, warned.err.matches("warning[").count()), (0, 3), "{}", warned.all());
    let strict = world.run(&["check", "--env"]);
    assert_eq!((strict.code, strict.err.matches("error[").count()), (4, 3), "{}", strict.all());
    let world = world.env("TOKEN", "value-of-the-token").env("EMPTY", "");
    let set = world.run(&["check", "--env"]);
    assert_eq!(set.code, 0, "{}", set.all());
    assert!(!set.all().contains("value-of-the-token"));
    let withheld = World::with_harness();
    withheld.write("repo/.fullsend/harness/triage.yaml", "agent: agents/triage.md\noutput_schema: schemas/triage.json\nrequired_env: [ACTIONS_ID_TOKEN_REQUEST_TOKEN]\n");
    let ran = withheld.env("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "x").run(&["check", "--env"]);
    assert_eq!(ran.code, 4, "the job's own identity is given to nobody: {}", ran.all());
}

#[test]
fn a_wrong_file_and_a_missing_variable_is_a_wrong_file() {
    let world = World::with_harness();
    world.write("repo/.fullsend/harness/triage.yaml", "agent: agents/none.md\nrequired_env: [TOKEN]\n");
    assert_eq!(world.run(&["check", "--env"]).code, 3);
}

#[test]
fn models_have_prices_and_a_list_can_be_newer() {
    let world = World::new();
    let shown = world.run(&["models", "show", "claude-sonnet-4-5-20250929"]);
    assert_eq!(shown.code, 0, "{}", shown.all());
    assert!(shown.out.contains("anthropic") && shown.out.contains("bedrock") && shown.out.contains(" 3.00"));
    let unpriced = world.run(&["models", "show", "unheard-of-9"]);
    assert_eq!(unpriced.code, 4, "{}", unpriced.all());
    assert!(
        unpriced.err.contains("prices:\n  - {model: \"unheard-of-9\", input: 1.00, output: 4.00}"),
        "{}",
        unpriced.err
    );
    world.write(
        "repo/.fullsend/config.yaml",
        "prices:\n  - {model: unheard-of-9, input: 1.5, output: 6, max_output_tokens: 4096}\n",
    );
    let own = world.run(&["models", "show", "unheard-of-9", "--json"]).out;
    let own: serde_json::Value = serde_json::from_str(&own).unwrap();
    assert_eq!(
        (own["service"].as_str(), own["usd_per_million"]["input"].as_f64()),
        (Some("config.yaml"), Some(1.5))
    );

    let list = |version: &str| {
        format!(
            r#"{{"version":"{version}","unit":"usd per million tokens","services":{{"openai":{{"new-1":{{"input":7,"output":8}}}}}}}}"#
        )
    };
    let file = world.write("prices.json", list("2020-01-01"));
    let file = file.to_str().unwrap();
    let old = world.run(&["models", "update", file]);
    assert_eq!(old.code, 3);
    assert!(old.err.contains("the list of 2020-01-01 is not newer than the built-in one"), "{}", old.err);
    world.write("prices.json", list("2999-01-01"));
    assert_eq!(world.run(&["models", "update", file]).code, 0);
    let listed = world.run(&["models", "list", "--service", "openai"]);
    assert!(listed.out.contains("new-1") && listed.out.contains("of 2999-01-01"), "{}", listed.all());
    world.write("prices.json", "{}");
    assert!(world.run(&["models", "update", file]).err.contains("the price list is not valid"));
}
