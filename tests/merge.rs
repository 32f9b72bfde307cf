//! How layers become one harness, observed through `explain` of the real program: a row for every field and the rule of
//! its kind, then the precedence of bases, forges, configuration, `customized/`, files of nearer layers. A field
//! without a row fails the tests.

use fullsend::internal::{ForgeBlock, Harness};

use crate::explained::Explained;
use crate::merge_fields::{FIELDS, FORGE_FIELDS, Field, OnNull};
use crate::support::World;

const REPOSITORY: &str = "repo/.fullsend/harness/triage.yaml";

/// An organisation and a repository with nothing in them yet.
fn world(files: &[(&str, &str)]) -> World {
    let world = World::new();
    world.write("org/README", "");
    world.write("repo/.fullsend/README", "");
    for (path, text) in files {
        world.write(path, text);
    }
    world.env("FULLSEND_ORG_DIR", "../org")
}

fn refusal(world: &World, arguments: &[&str]) -> String {
    let ran = world.run(&[&["explain", "triage"], arguments].concat());
    assert_eq!((ran.code, ran.out.as_str()), (3, ""), "{}", ran.all());
    ran.err
}

fn with_agent(text: &str) -> String {
    if text.lines().any(|line| line.starts_with("agent:")) {
        text.to_owned()
    } else {
        format!("{text}\nagent: agents/triage.md\n")
    }
}

/// The two ways in which one file overrides another: a nearer layer, and `base:` within one layer.
fn both_ways(far: &str, near: &str) -> [World; 2] {
    let far = with_agent(far);
    let layers = [
        ("org/harness/triage.yaml", far.as_str()),
        (REPOSITORY, &format!("{near}\nbase: harness/triage.yaml\n")),
    ];
    let base = [
        ("repo/.fullsend/harness/far.yaml", far.as_str()),
        (REPOSITORY, &format!("{near}\nbase: harness/far.yaml\n")),
    ];
    [world(&layers), world(&base)]
}

#[test]
fn every_field_has_a_row() {
    let rows: Vec<&str> = FIELDS.iter().map(|field| field.key).collect();
    let resolved = Harness::KEYS.iter().filter(|key| !["base", "forge"].contains(key));
    let missing: Vec<_> = resolved.filter(|key| !rows.contains(key)).collect();
    assert!(missing.is_empty(), "no row says how these merge: {missing:?}");
    let rows: Vec<&str> = FORGE_FIELDS.iter().map(|field| field.key).collect();
    let missing: Vec<_> = ForgeBlock::KEYS.iter().filter(|key| !rows.contains(key)).collect();
    assert!(missing.is_empty(), "no row says how these stand in a forge block: {missing:?}");
}

#[test]
fn the_nearer_value_stands_by_the_rule_of_its_field() {
    for Field { key, far, near, merged, .. } in FIELDS {
        for world in both_ways(far, near) {
            assert_eq!(Explained::of(&world, &[]).below(key), *merged, "{key}");
        }
    }
}

#[test]
fn value_of_the_base_file_is_inherited() {
    for Field { key, far, .. } in FIELDS {
        let [layers, base] = both_ways(far, "role: near");
        let alone = world(&[(REPOSITORY, &with_agent(far))]);
        if *key != "role" {
            let alone = Explained::of(&alone, &[]);
            for world in [layers, base] {
                assert_eq!(Explained::of(&world, &[]).below(key), alone.below(key), "{key}");
            }
        }
    }
}

#[test]
fn null_deletes() {
    for Field { key, far, null, .. } in FIELDS {
        for (index, world) in both_ways(far, &format!("{key}: null")).into_iter().enumerate() {
            match null {
                OnNull::Pinned if index == 0 => assert!(refusal(&world, &[]).contains("[pinned]"), "{key}"),
                OnNull::Pinned => {
                    assert_eq!(Explained::of(&world, &[]).below(key), [(*key, "(removed)")], "{key}");
                }
                OnNull::Leaves(expected) => {
                    assert_eq!(Explained::of(&world, &[]).below(key), *expected, "{key}");
                }
                OnNull::Refused(message) => {
                    let error = refusal(&world, &[]);
                    assert!(error.contains(message), "{key}: {error}");
                }
            }
        }
    }
}

#[test]
fn the_value_of_a_forge_stands_over_the_one_outside() {
    for Field { key, far, near, merged, .. } in FORGE_FIELDS {
        let indented = near.replace('\n', "\n    ");
        let file = with_agent(&format!("{far}\nforge:\n  github:\n    {indented}\n  gitlab: {{}}\n"));
        let world = world(&[(REPOSITORY, &file)]);
        assert_eq!(Explained::of(&world, &["--forge", "github"]).below(key), *merged, "{key}");
        let outside = Explained::of(&world, &["--forge", "gitlab"]);
        assert_eq!(outside.below(key), Explained::of(&world, &[]).below(key), "{key}");
        assert_ne!(outside.below(key), *merged, "{key}: the block changes nothing");
        assert!(outside.below("forge").is_empty() && outside.below("base").is_empty());
    }
}

#[test]
fn other_fields_do_not_stand_in_a_forge_block() {
    for key in Harness::KEYS.iter().filter(|key| !ForgeBlock::KEYS.contains(key)) {
        let file = with_agent(&format!("forge: {{github: {{{key}: null}}}}"));
        let error = refusal(&world(&[(REPOSITORY, &file)]), &[]);
        assert!(error.contains(&format!("unknown key `forge.github.{key}`")), "{error}");
    }
}

#[test]
fn the_forge_is_chosen_by_the_option_then_by_the_ci() {
    let file = with_agent(
        "model: none\nforge:\n  github: {env: {runner: {F: hub}}}\n  gitlab: {env: {runner: {F: lab}}}\n  jira: {env: {runner: {F: jira}}}\n",
    );
    let forge = |variables: &[(&str, &str)], arguments: &[&str]| {
        let world = world(&[(REPOSITORY, &file)]);
        let world = variables.iter().fold(world, |world, (name, value)| world.env(name, value));
        Explained::of(&world, arguments).value("env.runner.F").map(str::to_owned)
    };
    assert_eq!(forge(&[], &[]), None);
    assert_eq!(forge(&[], &["--forge", "jira"]).as_deref(), Some("jira"));
    assert_eq!(forge(&[("GITHUB_ACTIONS", "true")], &[]).as_deref(), Some("hub"));
    assert_eq!(forge(&[("GITLAB_CI", "true")], &[]).as_deref(), Some("lab"));
    assert_eq!(forge(&[("GITHUB_ACTIONS", "false")], &[]), None);
    assert_eq!(forge(&[("GITHUB_ACTIONS", "true")], &["--forge", "gitlab"]).as_deref(), Some("lab"));
}

#[test]
fn forge_blocks_merge_along_the_chain_and_null_takes_one_away() {
    let far = "forge: {github: {env: {runner: {A: far, B: far}}}, gitlab: {env: {runner: {A: lab}}}}";
    for world in both_ways(far, "forge: {github: {env: {runner: {B: near}}}, gitlab: null}") {
        let github = Explained::of(&world, &["--forge", "github"]);
        assert_eq!(github.below("env.runner"), [("env.runner.A", "far"), ("env.runner.B", "near")]);
        let error = refusal(&world, &["--forge", "gitlab"]);
        assert!(error.contains("`forge` has no block for gitlab (it has github)"), "{error}");
    }
}

#[test]
fn a_forge_without_its_block_is_refused_and_no_blocks_at_all_are_not() {
    let error = refusal(&world(&[(REPOSITORY, &with_agent("forge: {github: {}}"))]), &["--forge", "jira"]);
    assert!(error.contains("`forge` has no block for jira (it has github)"), "{error}");
    assert!(error.contains("add `jira: {}` if nothing differs there"), "{error}");
    for file in ["", "forge: {}", "forge: null"] {
        Explained::of(&world(&[(REPOSITORY, &with_agent(file))]), &["--forge", "jira"]);
    }
}

#[test]
fn null_restores_the_default_and_names_the_deleted_value() {
    let [layers, _] = both_ways(
        "timeout_minutes: 10\nsecurity: {fail_mode: open}",
        "timeout_minutes: null\nsecurity: null",
    );
    let explained = Explained::of(&layers, &[]);
    assert_eq!(explained.set_by("timeout_minutes"), Some("<built in>/defaults.yaml:9"));
    let deleted =
        ["<built in>/defaults.yaml:9", "../org/harness/triage.yaml:1", ".fullsend/harness/triage.yaml:1"];
    assert_eq!(explained.replaced("timeout_minutes"), deleted);
    assert_eq!(explained.replaced("security.fail_mode").last(), Some(&".fullsend/harness/triage.yaml:2"));
}

#[test]
fn origins_name_every_file_that_was_replaced() {
    let world = world(&[
        ("org/config.yaml", "security:\n  fail_mode: closed\n"),
        ("repo/.fullsend/config.yaml", "\nsecurity: {fail_mode: closed}\n"),
        ("org/harness/triage.yaml", "\n\nsecurity: {fail_mode: closed}\nagent: agents/a.md\n"),
        (REPOSITORY, "base: harness/triage.yaml\n\n\nsecurity: {fail_mode: closed}\n"),
    ]);
    let explained = Explained::of(&world, &[]);
    assert_eq!(explained.set_by("security.fail_mode"), Some(".fullsend/harness/triage.yaml:4"));
    assert_eq!(
        explained.replaced("security.fail_mode"),
        [
            "<built in>/defaults.yaml:28",
            "../org/config.yaml:2",
            ".fullsend/config.yaml:2",
            "../org/harness/triage.yaml:3"
        ]
    );
    assert_eq!(explained.set_by("agent"), Some("../org/harness/triage.yaml:4"));
    assert!(explained.replaced("agent").is_empty());
}

/// Merging is what fills a node's `replaced`: no other file than the merge rules does that.
#[test]
fn the_merge_rules_are_written_in_one_file() {
    let mut files = vec![crate::support::root().join("crates")];
    let mut merging = Vec::new();
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let fills = [".replaced = ", ".replaced.push(", ".replaced.extend(", "replaced: overlay"];
        if fills.iter().any(|fill| text.contains(fill)) {
            merging.push(path);
        }
    }
    let rules = crate::support::root().join("crates/yaml/src/merge.rs");
    assert_eq!(merging, [rules]);
}
