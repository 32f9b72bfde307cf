//! Files that are not what they should be: for each kind of file that a command reads, one clear message, exit 3, within
//! five seconds of processor time and bounded memory, without a Rust type or a panic in it.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};
use std::{ffi::OsStr, fs, path::Path};

use crate::support::{Ran, Who, World, program, skip};

/// A file that `check` reads, and how a message names it.
struct Target {
    name: &'static str,
    path: &'static str,
}

const TARGETS: &[Target] = &[
    Target { name: "harness", path: ".fullsend/harness/triage.yaml" },
    Target { name: "configuration", path: ".fullsend/config.yaml" },
    Target { name: "agent", path: ".fullsend/agents/triage.md" },
    Target { name: "skill", path: ".fullsend/skills/review/SKILL.md" },
    Target { name: "schema", path: ".fullsend/schemas/triage.json" },
    Target { name: "policy", path: ".fullsend/policies/triage.yaml" },
    Target { name: "provider", path: ".fullsend/providers/model.yaml" },
];

/// A harness that names one file of every kind, all of them right.
pub fn world() -> World {
    let world = World::with_harness();
    world.write(
        "repo/.fullsend/harness/triage.yaml",
        "agent: agents/triage.md\noutput_schema: schemas/triage.json\npolicy: policies/triage.yaml\nskills: [skills/review]\nproviders: [model]\n",
    );
    world.write("repo/.fullsend/config.yaml", "runtime: native\n");
    world.write(
        "repo/.fullsend/skills/review/SKILL.md",
        "---\nname: review\ndescription: Reviews.\n---\nLook.\n",
    );
    world.write(
        "repo/.fullsend/policies/triage.yaml",
        include_str!("../crates/fullsend/src/defaults/policies/default.yaml"),
    );
    world.write("repo/.fullsend/providers/model.yaml", "name: model\ntype: anthropic\n");
    world
}

/// Runs the program with 400 MB of address space, twenty seconds on the clock and five of processor time: a debug
/// build on a busy machine needs one.
pub fn bounded(world: &World, arguments: &[&str]) -> Ran {
    let script = "ulimit -t 5; ulimit -v 400000; exec \"$@\"";
    let program = program();
    let mut words: Vec<&OsStr> = ["20", "sh", "-c", script, "sh"].map(OsStr::new).to_vec();
    words.push(program.as_os_str());
    words.extend(arguments.iter().map(OsStr::new));
    world.run_program(Path::new("timeout"), &words)
}

/// The file is refused, once, clearly, and by its name.
fn assert_refused(ran: &Ran, target: &Target, said: &str, what: &str) {
    let about = format!("{what} as {}: {}", target.name, ran.all());
    assert_eq!(ran.code, 3, "{about}");
    assert_eq!(ran.out, "", "{about}");
    assert_eq!(ran.err.matches("error[").count(), 1, "{about}");
    assert!(ran.err.contains(target.path) || ran.err.contains("repo/.fullsend"), "{about}");
    assert!(ran.err.contains(said), "expected {said:?}: {about}");
    assert!(ran.err.len() < 10_000, "{} bytes: {what}", ran.err.len());
    for word in
        ["panicked", "RUST_BACKTRACE", "::", "Err(", "Some(", "Os {", "Error {", "src/", ".rs:", "unwrap"]
    {
        let shown = ran.err.lines().filter(|line| !line.trim_start().starts_with(":::")).collect::<Vec<_>>();
        assert!(!shown.iter().any(|line| line.contains(word)), "`{word}` in {about}");
    }
}

/// Puts something in the place of every kind of file, one at a time.
fn for_every_file(what: &str, expected: fn(&Target) -> &'static str, put: fn(&World, &Path)) {
    for target in TARGETS {
        let said = expected(target);
        if said.is_empty() {
            continue;
        }
        let world = world();
        assert_eq!(world.run(&["check", "triage"]).code, 0, "{}", world.run(&["check", "triage"]).all());
        let path = world.path("repo").join(target.path);
        fs::remove_file(&path).unwrap();
        put(&world, &path);
        assert_refused(&bounded(&world, &["check", "triage"]), target, said, what);
    }
}

/// The words for a document whose contents are wrong: JSON says them differently, prompts may hold anything.
fn in_yaml(target: &Target, yaml: &'static str, json: &'static str, markdown: &'static str) -> &'static str {
    match target.name {
        "schema" => json,
        "agent" | "skill" => markdown,
        _ => yaml,
    }
}

#[test]
fn ten_megabytes() {
    for_every_file(
        "10 MB",
        |_| "has 10485760 bytes; at most 1048576 are read",
        |_, path| {
            fs::write(path, "a: b\n".repeat(2 << 20)).unwrap();
        },
    );
}

#[test]
fn a_file_that_claims_to_be_huge() {
    for_every_file(
        "1 TB of nothing",
        |_| "has 1099511627776 bytes; at most",
        |_, path| {
            fs::File::create(path).unwrap().set_len(1 << 40).unwrap();
        },
    );
}

#[test]
fn deep_nesting_in_flow_style() {
    let said = |target: &Target| {
        in_yaml(target, "nested deeper than 64 levels", "is not JSON", "nested deeper than 64 levels")
    };
    for_every_file("10,000 brackets", said, |_, path| {
        let text = "[".repeat(10_000);
        let closed = format!("---\na: {text}\n---\nWrite.\n");
        fs::write(path, if path.extension() == Some(OsStr::new("md")) { closed } else { text }).unwrap();
    });
}

#[test]
fn deep_nesting_in_block_style() {
    let said = |target: &Target| {
        in_yaml(target, "nested deeper than 64 levels", "is not JSON", "nested deeper than 64 levels")
    };
    for_every_file("10,000 dashes", said, |_, path| {
        let text = "- ".repeat(10_000);
        let closed = format!("---\na:\n {text}\n---\nWrite.\n");
        fs::write(path, if path.extension() == Some(OsStr::new("md")) { closed } else { text }).unwrap();
    });
    for_every_file("1,000 steps", said, |_, path| {
        let steps: String = (0..1000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
        let closed = format!("---\n{steps}---\nWrite.\n");
        fs::write(path, if path.extension() == Some(OsStr::new("md")) { closed } else { steps }).unwrap();
    });
}

#[test]
fn aliases_that_explode() {
    let said = |target: &Target| {
        in_yaml(
            target,
            "more than 100000 values, counting what aliases repeat",
            "is not JSON",
            "more than 100000 values",
        )
    };
    for_every_file("nine times nine aliases", said, |_, path| {
        let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
        for name in 'b'..='j' {
            let before = char::from(name as u8 - 1);
            let many = vec![format!("*{before}"); 9].join(",");
            bomb.push_str(&format!("{name}: &{name} [{many}]\n"));
        }
        let closed = format!("---\n{bomb}---\nWrite.\n");
        fs::write(path, if path.extension() == Some(OsStr::new("md")) { closed } else { bomb }).unwrap();
    });
    let nested = |target: &Target| in_yaml(target, "more than 100000 values", "", "");
    for_every_file("anchors around anchors", nested, |_, path| {
        let open: String = (0..60).map(|index| format!("&a{index} [")).collect();
        fs::write(path, format!("x: {open}{}{}\n", "x,".repeat(90_000), "]".repeat(60))).unwrap();
    });
}

#[test]
fn bytes_that_are_not_text() {
    for_every_file(
        "Latin-1",
        |_| "is not UTF-8 text: byte 13 is the first that is not",
        |_, path| {
            fs::write(path, b"description: \xe9t\xe9\n").unwrap();
        },
    );
    for_every_file(
        "UTF-16",
        |_| "is not UTF-8 text: byte 0 is the first that is not",
        |_, path| {
            fs::write(path, b"\xff\xfea\0:\0").unwrap();
        },
    );
}

#[test]
fn keys_that_are_set_twice() {
    let said = |target: &Target| {
        in_yaml(target, "`name` is set twice", "`name` is set twice", "`name` is set twice")
    };
    for_every_file("a key twice", said, |_, path| {
        let text = match path.extension().and_then(OsStr::to_str) {
            Some("md") => "---\nname: a\nname: b\n---\nWrite.\n",
            Some("json") => "{\n  \"properties\": {\n    \"name\": {},\n    \"name\": {}\n  }\n}\n",
            _ => "name: a\nname: b\n",
        };
        fs::write(path, text).unwrap();
    });
}

#[test]
fn a_directory_where_a_file_should_be() {
    for_every_file(
        "a directory",
        |_| "is a directory, and a file is needed",
        |_, path| fs::create_dir(path).unwrap(),
    );
}

#[test]
fn a_pipe_that_nobody_writes_to() {
    let said = |target: &Target| match target.name {
        "harness" | "configuration" | "skill" => "is neither a file nor a directory",
        _ => "is not a regular file",
    };
    for_every_file("a FIFO", said, |_, path| {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    });
}

#[test]
fn a_device() {
    let world = World::new();
    let device = world.path("device");
    let made = Command::new("mknod").arg(&device).args(["c", "1", "5"]).stderr(Stdio::null()).status();
    if !made.is_ok_and(|status| status.success()) {
        return skip("bad_input::a_device", "only root makes device files");
    }
    let said = |target: &Target| match target.name {
        "harness" | "configuration" | "skill" => "is neither a file nor a directory",
        _ => "is not a regular file",
    };
    for_every_file("/dev/zero", said, |_, path| {
        assert!(Command::new("mknod").arg(path).args(["c", "1", "5"]).status().unwrap().success());
    });
}

#[test]
fn links_that_lead_nowhere_good() {
    for_every_file(
        "a link to itself",
        |_| "is a loop of symbolic links",
        |_, path| symlink(path.file_name().unwrap(), path).unwrap(),
    );
    for_every_file(
        "a link out of the layer",
        |_| "leads out of its layer through a symbolic link",
        |world, path| {
            let outside = world.write("outside", "agent: agents/triage.md\n");
            symlink(outside, path).unwrap();
        },
    );
    for_every_file(
        "a relative link out of the layer",
        |_| "leads out of its layer through a symbolic link",
        |_, path| {
            symlink("../../../../outside", path).unwrap();
        },
    );
    for_every_file(
        "a link to a device",
        |_| "leads out of its layer through a symbolic link",
        |_, path| {
            symlink("/dev/zero", path).unwrap();
        },
    );
    for_every_file(
        "a link into /proc",
        |_| "leads out of its layer through a symbolic link",
        |_, path| {
            symlink("/proc/self/environ", path).unwrap();
        },
    );
}

#[test]
fn a_link_inside_the_layer_is_fine() {
    for target in TARGETS {
        let world = world();
        let path = world.path("repo").join(target.path);
        let beside = path.with_extension("kept");
        fs::rename(&path, &beside).unwrap();
        symlink(beside.file_name().unwrap(), &path).unwrap();
        let ran = bounded(&world, &["check", "triage"]);
        assert_eq!(ran.code, 0, "{}: {}", target.name, ran.all());
    }
}

#[test]
fn empty_documents() {
    let said = |target: &Target| match target.name {
        "harness" | "policy" | "provider" => "the document must be a map of fields",
        "agent" => "the agent has no prompt",
        "skill" => "a skill needs frontmatter",
        "schema" => "is not JSON",
        _ => "", // An empty configuration says nothing, which is allowed.
    };
    for_every_file("nothing", said, |_, path| fs::write(path, "").unwrap());
    for_every_file("a byte order mark", said, |_, path| fs::write(path, "\u{feff}").unwrap());
    let said = |target: &Target| match target.name {
        "harness" | "policy" | "provider" => "the document must be a map of fields",
        "schema" => "is not a JSON Schema",
        _ => "",
    };
    for_every_file("null", said, |_, path| fs::write(path, "null").unwrap());
}

#[test]
fn a_list_at_the_top() {
    let said =
        |target: &Target| in_yaml(target, "the document must be a map of fields", "is not a JSON Schema", "");
    for_every_file("a list", said, |_, path| fs::write(path, "[]").unwrap());
    let said = |target: &Target| in_yaml(target, "", "", "the document must be a map of fields");
    for_every_file("a list as frontmatter", said, |_, path| {
        fs::write(path, "---\n- a\n---\nWrite.\n").unwrap();
    });
}

#[test]
fn frontmatter_that_never_ends() {
    let said = |target: &Target| in_yaml(target, "", "", "opens with `---` and is never closed");
    for_every_file("an open end", said, |_, path| fs::write(path, "---\nname: a\n").unwrap());
}

#[test]
fn a_nul_in_the_text() {
    let said =
        |target: &Target| in_yaml(target, "this is not valid YAML", "is not JSON", "this is not valid YAML");
    for_every_file("NUL", said, |_, path| {
        let text = if path.extension() == Some(OsStr::new("md")) {
            "---\nname: a\0b\n---\nx\n"
        } else {
            "name: a\0b\n"
        };
        fs::write(path, text).unwrap();
    });
}

#[test]
fn a_file_that_may_not_be_read() {
    for target in TARGETS {
        let world = world();
        fs::set_permissions(world.path("repo").join(target.path), fs::Permissions::from_mode(0o000)).unwrap();
        let Some(ran) = world.run_as(Who::User, &["check", "triage"]) else { return };
        assert_refused(&ran, target, "Permission denied", "mode 0");
    }
}

#[test]
fn a_layer_that_may_not_be_read() {
    let world = world();
    fs::set_permissions(world.path("repo/.fullsend"), fs::Permissions::from_mode(0o000)).unwrap();
    for command in [&["check", "triage"][..], &["check"], &["list"]] {
        let Some(ran) = world.run_as(Who::User, command) else { return };
        assert_eq!(ran.code, 3, "{command:?}: {}", ran.all());
        assert!(ran.err.contains("Permission denied"), "{command:?}: {}", ran.all());
    }
    fs::set_permissions(world.path("repo/.fullsend"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn paths_that_leave_the_layer() {
    let long = "a/".repeat(3000);
    for (path, said) in [
        ("/etc/passwd", "must be a path inside its layer"),
        ("~/agent.md", "must be a path inside its layer"),
        ("../agents/a.md", "leaves it with `..`"),
        ("agents/../../a.md", "leaves it with `..`"),
        ("\"agents/a\\0.md\"", "must not contain control characters"),
        ("''", "must not be empty"),
        ("./", "names no file"),
        ("${HOME}/a.md", "must be written out"),
        ("http://example.com/a.md", "must be an https URL"),
        ("file:///etc/passwd", "must be an https URL"),
        (long.as_str(), ""),
    ] {
        for field in ["agent", "policy", "output_schema", "pre_script", "base"] {
            let world = world();
            let keep = if field == "agent" { "" } else { "agent: agents/triage.md\n" };
            world.write("repo/.fullsend/harness/triage.yaml", format!("{keep}{field}: {path}\n"));
            let ran = bounded(&world, &["check", "triage"]);
            assert_eq!(ran.code, 3, "{field}: {path}: {}", ran.all());
            let executable = field == "pre_script" && path.contains("://");
            let said = if executable { "is never fetched from a URL" } else { said };
            assert!(ran.err.contains(said), "{field}: {path}: {}", ran.all());
            assert!(!ran.err.contains("root:"), "{}", ran.all());
        }
    }
}

#[test]
fn a_name_is_not_a_path() {
    let long = "a".repeat(100_000);
    for name in ["../triage", "/etc/passwd", "a/b", "", ".", "..", "triage\n", "*", "trïage", &long] {
        for command in ["check", "explain", "run"] {
            let ran = bounded(&world(), &[command, name]);
            assert_eq!(ran.code, 3, "{command} {name:?}: {}", ran.all());
            assert!(ran.err.contains("[no-harness]"), "{command} {name:?}: {}", ran.all());
            assert!(ran.err.len() < 5000, "{command}: {} bytes", ran.err.len());
        }
    }
}

#[test]
fn directories_that_are_not_layers() {
    for put in [
        (|path: &Path| fs::write(path, "").unwrap()) as fn(&Path),
        |path| symlink(".fullsend", path).unwrap(),
        |path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
    ] {
        let world = World::new();
        put(&world.path("repo/.fullsend"));
        assert_eq!(bounded(&world, &["check"]).code, 3);
        let ran =
            bounded(&World::new(), &["check", "--org-dir", &world.path("repo/.fullsend").to_string_lossy()]);
        assert!([3, 4].contains(&ran.code), "{}", ran.all());
    }
}

#[test]
fn a_schema_that_would_never_end() {
    for (text, said) in [
        (
            r#"{"$ref": "https://example.com/schema.json"}"#,
            "may only name files in the schema's own directory",
        ),
        (r#"{"$ref": "../agents/triage.md"}"#, "may only name files in the schema's own directory"),
        (r#"{"$ref": "missing.json"}"#, "missing.json"),
        (r#"{"pattern": "(a{1000}){1000}{1000}"}"#, "does not compile"),
        (r#"{"type": "objekt"}"#, "is not a JSON Schema"),
        (r#"{"required": "summary"}"#, "is not a JSON Schema"),
    ] {
        let world = world();
        world.write("repo/.fullsend/schemas/triage.json", text);
        let ran = bounded(&world, &["check", "triage"]);
        assert_eq!(ran.code, 3, "{text}: {}", ran.all());
        assert!(ran.err.contains(said), "{text}: {}", ran.all());
    }
}

#[test]
fn commands_do_not_wait_for_a_fifo() {
    let world = world();
    fs::remove_file(world.path("repo/.fullsend/config.yaml")).unwrap();
    assert!(Command::new("mkfifo").arg(world.path("repo/.fullsend/config.yaml")).status().unwrap().success());
    for command in [&["list"][..], &["explain", "triage"], &["run", "triage"], &["check"]] {
        let ran = bounded(&world, command);
        assert_ne!(ran.code, 124, "{command:?} waits for a FIFO: {}", ran.all());
    }
}
