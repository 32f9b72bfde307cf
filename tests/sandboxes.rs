//! `sandbox run` and `sandbox shell`: a command in a sandbox that a policy describes, as root and as an ordinary user.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use crate::attack_rows::{AttackRow, held};
use crate::image_builder::{Layer, Packing, archive_of, layout};
use crate::support::{Ran, Who, World, has_program, program, skip};

pub const BOTH: [Who; 2] = [Who::Caller, Who::User];

pub fn sandbox(world: &World, who: Who, options: &[&str], command: &[&str]) -> Option<Ran> {
    let arguments: Vec<&str> = ["sandbox", "run"]
        .into_iter()
        .chain(options.iter().copied())
        .chain(["--"])
        .chain(command.iter().copied())
        .collect();
    world.run_as(who, &arguments)
}

fn nothing_is_left(world: &World) {
    let left = fs::read_dir(world.path("state/fullsend/sandboxes")).into_iter().flatten().flatten();
    let left: Vec<_> = left.map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_command_s_code_streams_and_directory_are_its_own() {
    for who in BOTH {
        let world = World::new();
        world.write("repo/file", "contents\n");
        let script = "cat file; echo oops >&2; pwd; id -un; exit 7";
        let Some(ran) = sandbox(&world, who, &[], &["sh", "-c", script]) else { continue };
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (7, "contents\n/sandbox/workspace/repo\nsandbox\n"),
            "{}",
            ran.err
        );
        assert_eq!(ran.err, "oops\n");
        let killed = sandbox(&world, who, &[], &["sh", "-c", "kill -9 $$"]).unwrap();
        assert_eq!(killed.code, 137, "{}", killed.err);
        // What it leaves running goes with it.
        let left = sandbox(&world, who, &[], &["sh", "-c", "sleep 1000 & echo started"]).unwrap();
        assert_eq!((left.code, left.out.as_str()), (0, "started\n"), "{}", left.err);
        nothing_is_left(&world);
    }
}

#[test]
fn two_dashes_before_the_command_are_optional() {
    let world = World::new();
    world.write("repo/file", "");
    // Options after the command's name are the command's own.
    let ran = world.run(&["sandbox", "run", "--verbose", "ls", "--almost-all", "--", "file"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "file\n"), "{}", ran.err);
    let created = world.run(&["sandbox", "create", "--name", "plain", "--ttl", "60s"]);
    assert_eq!(created.code, 0, "{}", created.err);
    let ran = world.run(&["sandbox", "exec", "plain", "--cwd", "/usr", "sh", "-c", "pwd; exit 3"]);
    assert_eq!((ran.code, ran.out.as_str()), (3, "/usr\n"), "{}", ran.err);
    assert_eq!(world.run(&["sandbox", "rm", "plain"]).code, 0);
}

#[test]
fn input_reaches_the_command_and_no_descriptor_of_ours_does() {
    let world = World::new();
    let line = format!(
        "head -c 3000000 /dev/zero | {0} sandbox run -- sh -c 'wc -c; ls /proc/self/fd' </dev/stdin",
        program().display()
    );
    let ran = world.run_program(Path::new("/bin/sh"), &[OsStr::new("-c"), OsStr::new(&line)]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "3000000\n0\n1\n2\n3\n"), "{}", ran.err);
    // A directory of the host as standard input would be a way out.
    let line = format!(
        "{} sandbox run -- sh -c 'ls /proc/self/fd/0/ 2>/dev/null; cd /proc/self/fd/0 2>/dev/null && ls; echo end' </",
        program().display()
    );
    let ran = world.run_program(Path::new("/bin/sh"), &[OsStr::new("-c"), OsStr::new(&line)]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "end\n"), "{}", ran.err);
}

#[test]
fn what_we_cannot_do_is_8_and_a_line_of_ours() {
    let world = World::new();
    let policy = |name: &str, text: &str| world.write(&format!("repo/{name}.yaml"), text);
    policy("broken", "version: 1\nfilesystem_policy: {read_writ: []}\n");
    policy("root", "version: 1\nfilesystem_policy: {read_write: [/]}\n");
    policy("whole", "version: 1\nfilesystem_policy: {read_only: [/]}\n");
    let many: Vec<String> = (0..10_000).map(|number| format!("/p/{number}")).collect();
    policy("many", &format!("version: 1\nfilesystem_policy: {{read_only: [{}]}}\n", many.join(", ")));
    let run = |options: &[&str], command: &[&str]| sandbox(&world, Who::Caller, options, command).unwrap();
    for (options, command, part) in [
        (&["--policy", "absent.yaml"][..], "true", "cannot read the policy absent.yaml"),
        (&["--policy", "broken.yaml"], "true", "did you mean"),
        (&["--policy", "root.yaml"], "true", "`filesystem_policy.read_write` cannot hold `/`"),
        (&["--policy", "whole.yaml"], "true", "would show the whole host"),
        (&["--policy", "many.yaml"], "true", "has 10000 items"),
        (
            &["--image", "ghcr.io/acme/tools:1", "--offline"],
            "true",
            "ghcr.io/acme/tools:1 is not in the cache",
        ),
        (&["--image", "/absent.tar"], "true", "the image /absent.tar cannot be read"),
        (&[], "no-such-command", "cannot run no-such-command"),
    ] {
        let ran = run(options, &[command]);
        assert_eq!(ran.code, 8, "{options:?}: {}", ran.err);
        assert!(
            ran.err.contains(part) && ran.err.lines().any(|line| line.starts_with("fullsend: ")),
            "{}",
            ran.err
        );
        assert_eq!(ran.out, "");
    }
    let shell = world.run(&["sandbox", "shell"]);
    assert_eq!(shell.code, 8);
    assert!(shell.err.starts_with("fullsend: `sandbox shell` needs a terminal"), "{}", shell.err);
    nothing_is_left(&world);
}

#[test]
fn paths_of_a_policy_that_are_twice_absent_or_links_mean_what_they_say() {
    for who in BOTH {
        let world = World::new();
        // Not in /tmp, which is the sandbox's own.
        let place = tempfile::Builder::new().prefix("fullsend-test-").tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let at = |path: &str| place.path().join(path).display().to_string();
        for (path, text) in
            [("tools/real/tool", "the tool\n"), ("tools/other/secret", "hidden\n"), ("data/file", "old\n")]
        {
            fs::create_dir_all(Path::new(&at(path)).parent().unwrap()).unwrap();
            fs::write(at(path), text).unwrap();
        }
        symlink(at("tools/real"), at("tools/link")).unwrap();
        let link = at("tools/link");
        let data = at("data");
        let text = format!(
            "version: 1\nfilesystem_policy:\n  read_only: [/usr, /usr, /usr/share, /lib, /lib/firmware, {link}, /no/such/path, {data}]\n  read_write: [{data}, /new/place]\n"
        );
        world.write("repo/p.yaml", text);
        let script = format!(
            "cat {link}/tool; ls {}; ls -d /no; echo new > {data}/file && cat {data}/file; touch /new/place/x && echo made; touch {link}/x",
            at("tools")
        );
        let Some(ran) = sandbox(&world, who, &["--policy", "p.yaml"], &["sh", "-c", &script]) else {
            continue;
        };
        assert_eq!(ran.out, "the tool\nlink\nnew\nmade\n", "{}", ran.err);
        assert!(ran.code != 0 && ran.err.contains("`/usr` is listed twice"), "{}", ran.err);
        assert_eq!(fs::read_to_string(at("data/file")).unwrap(), "old\n");
        nothing_is_left(&world);
    }
}

/// Every path below with its kind, mode, owner, time and contents.
pub fn picture(root: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(path) = open.pop() {
        let about = fs::symlink_metadata(&path).unwrap();
        let contents = if about.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            String::new()
        } else if about.is_symlink() {
            fs::read_link(&path).unwrap().display().to_string()
        } else {
            crate::image_builder::sha256(&fs::read(&path).unwrap())
        };
        let facts = (about.mode(), about.uid(), about.mtime_nsec(), about.ino(), about.nlink());
        all.insert(path.display().to_string(), format!("{facts:?} {contents}"));
    }
    all
}

#[test]
fn the_directory_is_as_it_was_after_everything_in_it_was_rewritten() {
    for who in BOTH {
        let world = World::new();
        for (path, text) in [
            ("src/a.rs", "a"),
            (".git/config", "[core]\n"),
            (".git/HEAD", "ref: refs/heads/main\n"),
            (".env", "KEY=secret"),
        ] {
            world.write(&format!("repo/{path}"), text);
        }
        symlink("src/a.rs", world.path("repo/link")).unwrap();
        fs::hard_link(world.path("repo/src/a.rs"), world.path("repo/src/b.rs")).unwrap();
        // As the user, the first run gives everything to them.
        if sandbox(&world, who, &[], &["true"]).is_none() {
            continue;
        }
        let before = picture(&world.path("repo"));
        let script = "test ! -e .env || exit 3
            find . -type f -exec sh -c 'echo owned > \"$1\"' _ {} \\;
            chmod -R 777 src; mv src moved; rm -rf .git; mkdir -p .git/hooks
            printf '#!/bin/sh\\ntouch /tmp/ran\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit
            echo '[core]\n\tfsmonitor = /tmp/x' > .git/config; ln -sf /etc/passwd link; rm -rf ./* ; ls -A";
        let ran = sandbox(&world, who, &[], &["sh", "-c", script]).unwrap();
        assert_eq!((ran.code, ran.out.as_str()), (0, ".git\n"), "{}", ran.err);
        assert_eq!(picture(&world.path("repo")), before);
        nothing_is_left(&world);
    }
}

#[test]
fn unlisted_request_is_refused_with_a_reason() {
    if !has_program("curl", "sandboxes") {
        return;
    }
    let world = World::new();
    let script = "curl -sS -m 5 https://example.com; curl -sS -m 5 --noproxy '*' http://192.0.2.1; getent hosts example.com; true";
    let ran = sandbox(&world, Who::Caller, &[], &["sh", "-c", script]).unwrap();
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{}", ran.err);
    assert!(ran.err.contains("egress: example.com:443 was refused"), "{}", ran.err);
    assert!(ran.err.contains("egress: the name example.com was refused"), "{}", ran.err);
    assert!(!ran.err.contains("proof"), "{}", ran.err);
}

#[test]
fn a_shell_has_a_terminal_of_the_sandbox_s_own() {
    for who in BOTH {
        let world = World::new();
        // A first run gives the user a copy of the program.
        if sandbox(&world, who, &[], &["true"]).is_none() {
            continue;
        }
        let (run, prefix) = match who {
            Who::User if rustix::process::geteuid().is_root() => (
                world.path("fullsend"),
                "setpriv --reuid fullsend-tester --regid fullsend-tester --clear-groups ".to_owned(),
            ),
            _ => (program(), String::new()),
        };
        let shell =
            format!("stty rows 33 cols 99; {prefix}{} sandbox shell; echo code $?; stty -a", run.display());
        let typed = "tty; stty size; echo $((6*7)); exit 5\n";
        let line =
            format!("(sleep 2; printf '{typed}'; sleep 6) | timeout 60 script -qec \"{shell}\" /dev/null");
        let line = line.replace("code $?", "code \\$?");
        let ran = world.run_program(Path::new("/bin/sh"), &[OsStr::new("-c"), OsStr::new(&line)]);
        let out = ran.out.replace('\r', "");
        for part in ["/dev/pts/0\n", "33 99\n", "42\n", "code 5\n"] {
            assert!(out.contains(part), "{part}: {out} {}", ran.err);
        }
        let after = out.rsplit("code 5").next().unwrap();
        assert!(after.contains(" icanon") && after.contains(" echo "), "the terminal is as it was: {after}");
        nothing_is_left(&world);
    }
}

#[test]
fn an_image_without_any_library_is_a_root_and_shows_what_the_policy_lists() {
    let Some(base) = busybox() else { return };
    for who in BOTH {
        let world = World::new();
        let layers = [
            base.clone().file("usr/share/a", "one").file("usr/share/gone", "x").directory("sandbox/"),
            Layer::default()
                .file("usr/share/a", "two")
                .file("usr/share/.wh.gone", "")
                .file("opt/not-listed", "x"),
        ];
        layout(&world.path("image"), &layers, Packing::Gzip, &["PATH=/bin", "LD_PRELOAD=/evil.so"]);
        world.write("image.tar", archive_of(&world.path("image")));
        let script = "cat /usr/share/a; ls /usr/share; ls -d /opt/not-listed /sandbox; test -z \"$LD_PRELOAD\" && test $PATH = /bin";
        for image in ["../image", "../image.tar", "oci-archive:../image.tar"] {
            let Some(ran) = sandbox(&world, who, &["--image", image, "--verbose"], &["sh", "-c", script])
            else {
                continue;
            };
            assert_eq!((ran.code, ran.out.as_str()), (0, "twoa\n/sandbox\n"), "{image}: {}", ran.err);
            // Our own program ran in there too: it is who proved it.
            assert!(ran.err.contains("proved: "), "{}", ran.err);
        }
        nothing_is_left(&world);
    }
}

/// A layer with a static busybox, as small distributions have it.
pub fn busybox() -> Option<Layer> {
    let path = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| Path::new(path).exists());
    let Some(bytes) = path.map(|path| fs::read(path).unwrap()) else {
        skip("busybox", "no busybox on this machine");
        return None;
    };
    let names = ["sh", "cat", "ls", "id", "env", "touch", "readlink", "true", "mount", "wget"];
    let layer = Layer::default().program("bin/busybox", bytes);
    Some(names.into_iter().fold(layer, |layer, name| layer.link(&format!("bin/{name}"), "/bin/busybox")))
}

#[test]
fn a_hostile_image_changes_nothing_but_itself() {
    let Some(base) = busybox() else { return };
    for who in BOTH {
        let world = World::new();
        let hostile = Layer::default()
            .file("etc/passwd", "sandbox:x:0:0::/:/bin/sh\n")
            .link("etc/resolv.conf", "/sandbox/workspace/evil")
            .link("etc/hosts", "/proc/1/environ")
            .file("etc/ld.so.preload", "/evil.so\n")
            .link("proc", "/tmp")
            .link("sandbox", "/tmp")
            .link("dev", "tmp")
            .link("opt", "/")
            .link("app", "/sandbox")
            .link("usr", "/../../../../..")
            .entry(b'0', "bin/su", "", 0o4755, b"#!/bin/sh\nid\n");
        layout(&world.path("image"), &[base.clone(), hostile], Packing::Zstd, &["PATH=/bin"]);
        let script = "cat /etc/passwd | head -2; id -u; readlink /opt /etc/resolv.conf; cat /etc/resolv.conf | head -1; ls -d /proc/1 /dev/null /sandbox/workspace; \
                      su; touch /bin/x /etc/x; touch here && echo wrote; ls /usr/home /usr/root /opt/home; env | grep LD_";
        let script = script.replace("| head -2", "").replace("| head -1", "");
        let Some(ran) = sandbox(&world, who, &["--image", "../image"], &["sh", "-c", &script]) else {
            continue;
        };
        assert!(ran.out.contains("sandbox:x:1000:1000"), "{} {}", ran.out, ran.err);
        assert!(ran.out.contains("nameserver "), "{}", ran.out);
        assert!(
            ran.out.contains("/proc/1\n/dev/null\n/sandbox/workspace\n")
                || ran.out.contains("/dev/null\n/proc/1\n/sandbox/workspace\n"),
            "{}",
            ran.out
        );
        assert!(ran.out.contains("wrote\n") && !ran.out.contains("LD_"), "{}", ran.out);
        assert!(!ran.out.contains("uid=0"), "{}", ran.out);
        for part in ["/bin/x: Read-only", "/etc/x: Read-only"] {
            assert!(ran.err.contains(part), "{part}: {}", ran.err);
        }
        nothing_is_left(&world);
    }
}

#[test]
fn a_program_of_another_libc_runs_in_its_image() {
    let world = World::new();
    let source = world.write("hello.c", "#include <stdio.h>\n#include <netdb.h>\nint main(void){printf(\"%d\\n\", gethostbyname(\"localhost\") != 0);return 3;}\n");
    let binary = world.path("hello");
    let made = std::process::Command::new("musl-gcc").arg("-o").arg(&binary).arg(&source).status();
    let loader = "lib/ld-musl-x86_64.so.1";
    if !made.is_ok_and(|status| status.success()) {
        return skip("musl", "no musl-gcc on this machine");
    }
    let libc = fs::read(Path::new("/").join(loader)).unwrap();
    let layer = Layer::default().program("bin/hello", fs::read(&binary).unwrap()).program(loader, libc);
    layout(&world.path("image"), &[layer], Packing::Gzip, &[]);
    for who in BOTH {
        let Some(ran) = sandbox(&world, who, &["--image", "../image"], &["/bin/hello"]) else { continue };
        assert_eq!((ran.code, ran.out.as_str()), (3, "1\n"), "{}", ran.err);
    }
}

/// Every endpoint is a listening socket of the host side.
#[test]
fn a_policy_with_many_endpoints_starts_under_the_usual_limit_of_open_files() {
    let world = World::new();
    let endpoint = |number: u32| format!("      - {{host: h{number}.example.com, port: 443}}\n");
    let endpoints: String = (0..1_500).map(endpoint).collect();
    world.write(
        "repo/p.yaml",
        format!(
            "version: 1\nfilesystem_policy: {{read_only: [/usr, /lib]}}\nnetwork_policies:\n  many:\n    endpoints:\n{endpoints}    binaries: [{{path: /usr/bin/curl}}]\n"
        ),
    );
    let line = format!("ulimit -S -n 1024; {} sandbox run --policy p.yaml -- true", program().display());
    let ran = world.run_program(Path::new("/bin/sh"), &[OsStr::new("-c"), OsStr::new(&line)]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn the_hosts_logs_are_not_readable_unless_a_policy_names_them() {
    for who in BOTH {
        let world = World::new();
        let Some(ran) = sandbox(&world, who, &[], &["sh", "-c", "ls /var/log; cat /var/log/*"]) else {
            continue;
        };
        assert!(ran.code != 0 && ran.out.is_empty(), "{}", ran.out);
        held(AttackRow::HostLogs, who);
    }
}

#[test]
fn a_socket_below_a_readable_directory_cannot_be_used() {
    for who in BOTH {
        let world = World::new();
        let place = tempfile::Builder::new().prefix("fullsend-test-").tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(place.path().join("deep")).unwrap();
        fs::write(place.path().join("deep/file"), "readable\n").unwrap();
        let listeners: Vec<_> = ["engine.sock", "deep/bus.sock"]
            .iter()
            .map(|name| std::os::unix::net::UnixListener::bind(place.path().join(name)).unwrap())
            .collect();
        for name in ["engine.sock", "deep/bus.sock"] {
            fs::set_permissions(place.path().join(name), fs::Permissions::from_mode(0o666)).unwrap();
        }
        let at = place.path().display().to_string();
        for listed in [at.clone(), format!("{at}/engine.sock, {at}/deep")] {
            world.write(
                "repo/p.yaml",
                format!("version: 1\nfilesystem_policy: {{read_only: [/usr, /lib, {listed}]}}\n"),
            );
            let script = format!(
                "cat {at}/deep/file; for s in {at}/engine.sock {at}/deep/bus.sock {at}/deep/later.sock; do \
                 python3 -c 'import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(\"connected\")' $s; done"
            );
            let later = std::os::unix::net::UnixListener::bind(place.path().join("deep/later.sock"));
            let Some(ran) = sandbox(&world, who, &["--policy", "p.yaml"], &["sh", "-c", &script]) else {
                continue;
            };
            assert!(
                ran.out.contains("readable\n") && !ran.out.contains("connected"),
                "{} {}",
                ran.out,
                ran.err
            );
            assert!(ran.err.contains("Unix socket"), "it is not said: {}", ran.err);
            held(AttackRow::HostSockets, who);
            drop(later);
            drop(fs::remove_file(place.path().join("deep/later.sock")));
        }
        drop(listeners);
    }
}

/// Too many files are below `/usr` to be looked at, so that the kernel is asked which sockets are bound.
#[test]
fn a_socket_below_the_programs_of_the_host_cannot_be_used() {
    for who in BOTH {
        let Ok(place) = tempfile::Builder::new().prefix("fullsend-test-").tempdir_in("/usr/local") else {
            return skip(
                "sandboxes::a_socket_below_the_programs_of_the_host_cannot_be_used",
                "/usr is not writable",
            );
        };
        let world = World::new();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(place.path().join("file"), "readable\n").unwrap();
        let socket = place.path().join("engine.sock");
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
        world.write("repo/p.yaml", "version: 1\nfilesystem_policy: {read_only: [/usr, /lib, /usr/local]}\n");
        let at = place.path().display();
        let script = format!(
            "cat {at}/file; python3 -c 'import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); \
             print(\"connected\")' {at}/engine.sock"
        );
        let ran = sandbox(&world, who, &["--policy", "p.yaml"], &["sh", "-c", &script]);
        drop(listener);
        let Some(ran) = ran else { continue };
        assert!(
            ran.out.contains("readable\n") && !ran.out.contains("connected"),
            "{who:?} {} {}",
            ran.out,
            ran.err
        );
        held(AttackRow::HostSockets, who);
    }
}
