//! Files that nobody writes by accident: too large, too deep, exploding, not text, not files. One clear error each, exit
//! 3, in about a second, in bounded memory, without the words of a crash.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use crate::support::{Ran, Who, World};

/// What stands in the place of a file.
type Plant = fn(&World, &str);

const FILES: &[&str] = &[
    "harness/triage.yaml",
    "config.yaml",
    "agents/triage.md",
    "skills/one/SKILL.md",
    "schemas/triage.json",
    "policies/p.yaml",
    "providers/model.yaml",
];

fn world() -> World {
    let world = World::with_harness();
    world.write("repo/.fullsend/harness/triage.yaml", "agent: agents/triage.md\noutput_schema: schemas/triage.json\nskills: [skills/one]\npolicy: policies/p.yaml\nproviders: [model]\n");
    world.write("repo/.fullsend/config.yaml", "version: 1\n");
    world.write("repo/.fullsend/skills/one/SKILL.md", "---\nname: one\ndescription: A skill.\n---\nText.\n");
    world
        .write("repo/.fullsend/policies/p.yaml", "version: 1\nfilesystem_policy:\n  include_workdir: true\n");
    world.write(
        "repo/.fullsend/providers/model.yaml",
        "name: model\ntype: anthropic\ncredentials: {K: \"${K}\"}\n",
    );
    world
}

fn front(path: &str, yaml: String) -> String {
    if path.ends_with(".md") { format!("---\n{yaml}\n---\nbody\n") } else { yaml }
}

const PLANTS: &[(&str, Plant)] = &[
    ("10 MB", |world, path| drop(world.write(path, front(path, format!("a: {}\n", "x".repeat(10 << 20)))))),
    ("deep flow", |world, path| drop(world.write(path, front(path, "[".repeat(10_000))))),
    ("deep block", |world, path| drop(world.write(path, front(path, "- ".repeat(10_000))))),
    ("aliases", |world, path| drop(world.write(path, front(path, bomb())))),
    ("not UTF-8", |world, path| drop(world.write(path, b"agent: \xff\xfe\n"))),
    ("duplicate key", |world, path| {
        drop(world.write(path, front(path, "name: a\nname: b\nversion: 1\nversion: 1\n".to_owned())))
    }),
    ("list", |world, path| drop(world.write(path, front(path, "- a\n- b\n".to_owned())))),
    ("directory", |world, path| {
        fs::remove_file(world.path(path)).unwrap();
        fs::create_dir(world.path(path)).unwrap();
    }),
    ("FIFO", |world, path| {
        fs::remove_file(world.path(path)).unwrap();
        fifo(world, path);
    }),
    ("loop", |world, path| {
        fs::remove_file(world.path(path)).unwrap();
        symlink(world.path(path), world.path(path)).unwrap();
    }),
    ("link out", |world, path| {
        fs::remove_file(world.path(path)).unwrap();
        symlink("/etc/passwd", world.path(path)).unwrap();
    }),
    ("device", |world, path| {
        fs::remove_file(world.path(path)).unwrap();
        symlink("/dev/zero", world.path(path)).unwrap();
    }),
];

fn bomb() -> String {
    let level = |c: u8| {
        let (name, before) = (c as char, (c - 1) as char);
        format!(
            "{name}: &{name} [*{before},*{before},*{before},*{before},*{before},*{before},*{before},*{before}]\n"
        )
    };
    format!("a: &a [x,x,x,x,x,x,x,x]\n{}", (b'b'..=b'k').map(level).collect::<String>())
}

fn fifo(world: &World, path: &str) {
    let path = std::ffi::CString::new(world.path(path).as_os_str().as_bytes()).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path.as_c_str(),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
}

#[test]
fn every_hostile_file_gets_one_clear_error() {
    for path in FILES {
        for (name, plant) in PLANTS {
            // A JSON Schema is JSON: what is wrong with YAML is not always wrong with it, but never right.
            let world = world();
            plant(&world, &format!("repo/.fullsend/{path}"));
            let started = Instant::now();
            let ran = world.run_within_memory(&["check", "triage"], 400 << 20);
            let time = started.elapsed();
            assert_eq!(ran.code, 3, "{path}, {name}: {}", ran.all());
            assert!(time < Duration::from_secs(20), "{path}, {name}: {time:?}");
            clear(&ran, &format!("{path}, {name}"));
        }
    }
}

/// Says what and where, and none of the words of a crash.
fn clear(ran: &Ran, case: &str) {
    assert!(ran.err.contains("error[") && ran.err.contains(".fullsend/"), "{case}: {}", ran.err);
    for word in
        ["panicked", "RUST_BACKTRACE", "unwrap", "std::", "core::", "Err(", "Some(", "Utf8Error", "Os {"]
    {
        assert!(!ran.err.contains(word), "{case}: `{word}` in {}", ran.err);
    }
    assert!(ran.err.len() < 8 << 10, "{case}: {} bytes of message", ran.err.len());
}

#[test]
fn a_file_that_may_not_be_read_is_said_so() {
    let world = world();
    let path = world.path("repo/.fullsend/agents/triage.md");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    let Some(ran) = world.run_as(Who::User, &["check", "triage"]) else { return };
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains("Permission denied"), "{}", ran.err);
}

#[test]
fn an_empty_harness_lacks_its_agent() {
    for text in ["", "null\n", "# nothing\n", "{}\n"] {
        let world = world();
        world.write("repo/.fullsend/harness/triage.yaml", text);
        let ran = world.run(&["check", "triage"]);
        assert_eq!(ran.code, 3, "{text:?}: {}", ran.err);
        clear(&ran, text);
    }
}

#[test]
fn paths_cannot_leave_their_layer() {
    for value in [
        "../x.md",
        "agents/../../x.md",
        "/etc/passwd",
        "~/x.md",
        "\"a\\0b.md\"",
        "${HOME}/x.md",
        "http://x/y.md",
        "file:///etc/passwd",
    ] {
        let world = world();
        world.write("repo/.fullsend/harness/triage.yaml", format!("agent: {value}\n"));
        let ran = world.run(&["check", "triage"]);
        assert_eq!(ran.code, 3, "{value}: {}", ran.err);
    }
}
