//! Hostile outputs of an agent: each is refused or comes out harmless, and none makes the runner read or write
//! elsewhere, or hang.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use fullsend::Library;
use fullsend::event::log::Emitter;
use fullsend::internal::{
    AgentRepository, CollectedOutput, Guard, GuardSetup, QuarantineError, collect, validate,
};
use fullsend::{Choices, Layer, LayerKind, Layers, resolve};
use rustix::fs::{Mode, OFlags};

use crate::support::World;

const SECRET: &str = "what only the host may read";

/// A sandbox's root as the quarantine sees it, without a sandbox.
struct Scene {
    world: World,
    guard: Guard,
}

/// The guard of the world's harness.
pub fn guard(world: &World) -> Guard {
    let layer =
        Layer::directory(LayerKind::Repository, &world.path("repo/.fullsend"), ".fullsend".to_owned());
    let mut library = Library::new(Layers::new(vec![layer.unwrap()]));
    let choices = Choices { today: "2026-01-01".to_owned(), ..Choices::default() };
    let resolved = resolve(&mut library, "triage", &choices, &mut Vec::new()).unwrap();
    let emit = Emitter::create(&world.path("events.jsonl"), |_| {}).unwrap();
    let setup = GuardSetup {
        harness: &resolved.harness,
        dialect: fullsend::internal::of(resolved.harness.runtime.value).dialect,
        allowlist: None,
        waivers: Vec::new(),
        today: "2026-01-01",
        path: "",
        weights: Default::default(),
        run_directory: None,
        tool_digests: Vec::new(),
        tools_are_locked: false,
    };
    Guard::new(setup, &emit).unwrap()
}

impl Scene {
    fn new() -> Self {
        let world = World::with_harness();
        fs::create_dir_all(world.path("root/sandbox/workspace/output")).unwrap();
        world.write("secret", SECRET);
        let guard = guard(&world);
        Self { world, guard }
    }

    fn output(&self) -> PathBuf {
        self.world.path("root/sandbox/workspace/output")
    }

    fn collect(&self, name: &str) -> Result<CollectedOutput, QuarantineError> {
        let root = rustix::fs::open(self.world.path("root"), OFlags::PATH, Mode::empty()).unwrap();
        let worked = AgentRepository {
            root: root.as_fd(),
            inside: "/sandbox/workspace/repo",
            layer: None,
            repository: &self.world.path("repo"),
            fullsend_files: &[],
            writable: false,
        };
        collect(&worked, &self.world.path(name), &self.guard)
    }
}

type Make = fn(&Path, &Path);

/// A name, how it is made from the output directory and the secret's path, and why it is refused; nothing if it is
/// collected without harm.
const CASES: &[(&str, Make, &str)] = &[
    ("a link to a file", |out, secret| symlink(secret, out.join("a")).unwrap(), "symbolic link"),
    ("a link to a directory", |out, _| symlink("/etc", out.join("a")).unwrap(), "symbolic link"),
    ("a link to itself", |out, _| symlink("a", out.join("a")).unwrap(), "symbolic link"),
    (
        "a link to a link",
        |out, secret| {
            symlink(secret, out.join("b")).unwrap();
            symlink("b", out.join("a")).unwrap();
        },
        "symbolic link",
    ),
    (
        "a link below a directory",
        |out, secret| {
            fs::create_dir(out.join("d")).unwrap();
            symlink(secret, out.join("d/a")).unwrap();
        },
        "symbolic link",
    ),
    ("a link through proc", |out, _| symlink("/proc/self/environ", out.join("a")).unwrap(), "symbolic link"),
    ("a hard link", |out, secret| fs::hard_link(secret, out.join("a")).unwrap(), "hard link"),
    ("a pipe", |out, _| make_node(&out.join("a"), rustix::fs::FileType::Fifo), "neither a file"),
    (
        "a socket",
        |out, _| drop(std::os::unix::net::UnixListener::bind(out.join("a")).unwrap()),
        "neither a file",
    ),
    ("a name with a newline", |out, _| fs::write(out.join("a\nb"), "").unwrap(), "unusable name"),
    ("a name with an escape", |out, _| fs::write(out.join("a\u{1b}[2J"), "").unwrap(), "unusable name"),
    (
        "a name that runs backwards",
        |out, _| fs::write(out.join("a\u{202e}nosj.b"), "").unwrap(),
        "unusable name",
    ),
    ("a name with nothing to see", |out, _| fs::write(out.join("a\u{200b}"), "").unwrap(), "unusable name"),
    (
        "a name that is no text",
        |out, _| {
            fs::write(out.join(std::ffi::OsStr::from_bytes(b"a\xff")), "").unwrap();
        },
        "not UTF-8",
    ),
    ("a long name", |out, _| fs::write(out.join("a".repeat(250)), "").unwrap(), "unusable name"),
    ("a deep tree", |out, _| fs::create_dir_all(out.join("d/".repeat(40))).unwrap(), "too deep"),
    (
        "a sparse giant",
        |out, _| {
            fs::File::create(out.join("a")).unwrap().set_len(1 << 40).unwrap();
        },
        "too large",
    ),
    (
        "two halves of a giant",
        |out, _| {
            for name in ["a", "b"] {
                fs::File::create(out.join(name)).unwrap().set_len(60 << 20).unwrap();
            }
        },
        "too large",
    ),
    (
        "a hundred thousand files",
        |out, _| {
            (0..100_000).for_each(|number| drop(fs::File::create(out.join(number.to_string())).unwrap()));
        },
        "too many",
    ),
    (
        "many directories with a file",
        |out, _| {
            for number in 0..1_100 {
                fs::create_dir(out.join(number.to_string())).unwrap();
                fs::write(out.join(format!("{number}/a")), "").unwrap();
            }
        },
        "too many",
    ),
    ("a name that looks like an option", |out, _| fs::write(out.join("--upload-pack=x"), "").unwrap(), ""),
    ("a name that a shell would run", |out, _| fs::write(out.join("$(id);`id`|x"), "").unwrap(), ""),
    (
        "a git directory",
        |out, _| {
            fs::create_dir(out.join(".git")).unwrap();
            fs::write(out.join(".git/config"), "[core]\n\tfsmonitor = id\n").unwrap();
        },
        "looks like a git repository",
    ),
    (
        "a git file",
        |out, _| fs::write(out.join(".git"), "gitdir: /x\n").unwrap(),
        "looks like a git repository",
    ),
    (
        "a git directory for another file system",
        |out, _| {
            fs::create_dir_all(out.join("deep/er/.GIT")).unwrap();
            fs::write(out.join("deep/er/.GIT/config"), "[core]\n\tfsmonitor = id\n").unwrap();
        },
        "looks like a git repository",
    ),
    (
        "a git directory's short name",
        |out, _| fs::create_dir(out.join("git~1")).unwrap(),
        "looks like a git repository",
    ),
    (
        "a git directory with a dot",
        |out, _| fs::create_dir(out.join(".git. ")).unwrap(),
        "looks like a git repository",
    ),
    (
        "a git directory's stream",
        |out, _| fs::write(out.join(".git::$DATA"), "").unwrap(),
        "looks like a git repository",
    ),
    (
        "a git directory with a soft hyphen",
        |out, _| fs::create_dir(out.join(".g\u{ad}it")).unwrap(),
        "looks like a git repository",
    ),
    ("a bare repository", |out, _| bare_repository(&out.join("a/b")), "looks like a git repository"),
    (
        "a bare repository over directories that differ in case",
        |out, _| split_repository(out, "b", "B"),
        "looks like a git repository",
    ),
    (
        "a bare repository over directories that differ in a dot",
        |out, _| split_repository(out, "a/b", "a/b."),
        "looks like a git repository",
    ),
    (
        "a bare repository over directories that differ in how an accent is written",
        |out, _| split_repository(out, "caf\u{e9}", "cafe\u{301}"),
        "looks like a git repository",
    ),
    (
        "a bare repository over a directory and its short name",
        |out, _| split_repository(out, "a-long-name", "A-LONG~1"),
        "looks like a git repository",
    ),
    (
        "a bare repository with backslashes in its names",
        |out, _| {
            for name in ["b\\HEAD", "b\\objects\\x", "b\\refs\\x", "b\\config"] {
                fs::write(out.join(name), "x").unwrap();
            }
        },
        "looks like a git repository",
    ),
    ("an output that is a bare repository", |out, _| bare_repository(out), "looks like a git repository"),
    (
        "a worktree's own directory",
        |out, _| {
            fs::write(out.join("HEAD"), "ref: refs/heads/main\n").unwrap();
            fs::write(out.join("commondir"), "../elsewhere\n").unwrap();
        },
        "looks like a git repository",
    ),
    (
        "a file that would run",
        |out, _| {
            fs::write(out.join("a"), "#!/bin/sh\nid\n").unwrap();
            fs::set_permissions(out.join("a"), fs::Permissions::from_mode(0o6777)).unwrap();
        },
        "",
    ),
    ("bytes that are no text", |out, _| fs::write(out.join("a.json"), b"\xff\xfe\x00").unwrap(), ""),
    ("an empty directory", |out, _| fs::create_dir(out.join("d")).unwrap(), ""),
    ("nothing", |_, _| {}, ""),
];

fn bare_repository(directory: &Path) {
    for name in ["objects", "refs"] {
        fs::create_dir_all(directory.join(name)).unwrap();
        fs::write(directory.join(name).join("x"), "").unwrap();
    }
    fs::write(directory.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(directory.join("config"), "[core]\n\tfsmonitor = id\n").unwrap();
}

/// A bare repository on a file system for which the two names are one.
fn split_repository(out: &Path, one: &str, other: &str) {
    bare_repository(&out.join(one));
    fs::create_dir(out.join(other)).unwrap();
    fs::rename(out.join(one).join("HEAD"), out.join(other).join("HEAD")).unwrap();
}

fn make_node(path: &Path, kind: rustix::fs::FileType) {
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

#[test]
fn no_hostile_output_escapes() {
    for (name, make, why) in CASES {
        let scene = Scene::new();
        make(&scene.output(), &scene.world.path("secret"));
        let place = scene.world.path("quarantine");
        match (scene.collect("quarantine"), *why) {
            (Ok(_), "") => {}
            (Err(QuarantineError::Refused { why: said, .. }), why) => {
                assert!(!why.is_empty() && said.contains(why), "{name}: {said}");
            }
            (found, _) => panic!("{name}: {found:?}"),
        }
        for path in all_files(&place) {
            let about = fs::symlink_metadata(&path).unwrap();
            assert!(about.is_file() && about.nlink() == 1 && about.mode() & 0o6111 == 0, "{name}: {path:?}");
            assert!(
                !String::from_utf8_lossy(&fs::read(&path).unwrap()).contains(SECRET),
                "{name}: it got out"
            );
        }
        assert_eq!(fs::read_to_string(scene.world.path("secret")).unwrap(), SECRET, "{name}");
    }
}

fn all_files(place: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(all_files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

/// Swaps one name between a harmless thing and a link to the secret, as fast as it can, while it is collected.
fn swapped(make: fn(&Path), link_to: &str) {
    let scene = Scene::new();
    let stop = AtomicBool::new(false);
    let output = scene.output();
    let secret = scene.world.path("secret");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let name = output.join("a");
            let spare = output.with_file_name("spare");
            while !stop.load(Ordering::Relaxed) {
                make(&name);
                symlink(secret.parent().unwrap().join(link_to), &spare).unwrap();
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(rustix::fs::CWD, &spare, rustix::fs::CWD, &name, flags).unwrap();
                for path in [&name, &spare] {
                    drop(fs::remove_file(path).or_else(|_| fs::remove_dir_all(path)));
                }
            }
        });
        for round in 0..300 {
            let place = format!("quarantine-{round}");
            drop(scene.collect(&place));
            for path in all_files(&scene.world.path(&place)) {
                assert!(!fs::read_to_string(path).unwrap().contains(SECRET), "a link was followed");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_file_that_becomes_a_link_while_it_is_read_is_not_followed() {
    swapped(|name| fs::write(name, "harmless").unwrap(), "secret");
}

#[test]
fn a_directory_that_becomes_a_link_while_it_is_read_is_not_followed() {
    swapped(
        |name| {
            fs::create_dir(name).unwrap();
            fs::write(name.join("secret"), "harmless").unwrap();
        },
        ".",
    );
}

#[test]
fn documents_that_are_bombs_or_no_documents_are_violations() {
    let world = World::new();
    let schema = world.write("schema.json", r#"{"type":"object","required":["a"]}"#);
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let wide = format!("{{\"a\":[{}0]}}", "0,".repeat(500_000));
    for (name, text, violations) in [
        ("deep", deep.as_str(), 1),
        ("wide", &wide, 0),
        ("nothing", "", 1),
        ("a mark before it", "\u{feff}{\"a\":1}", 1),
        ("two documents", "{\"a\":1}{\"a\":2}", 1),
        ("no number", "{\"a\":NaN}", 1),
        ("a number beyond all", "{\"a\":1e999999}", 1),
        ("half a pair", "{\"a\":\"\\ud800\"}", 1),
        ("not what is asked for", "[]", 1),
    ] {
        let file = world.write("output/agent-result.json", text);
        let found = validate::against(file.to_str().unwrap(), schema.to_str().unwrap()).unwrap();
        assert_eq!(found.len(), violations, "{name}: {found:?}");
        assert!(found.iter().all(|one| one.message.len() < 2_100), "{name}");
    }
}
