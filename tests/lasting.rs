//! A lasting sandbox through the real program: create, exec, put, get, list, show, logs, rm and the protocol, as root and as an
//! ordinary user; how it ends; and what a hostile process inside cannot do to the host's side.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::support::{Ran, Who, World};

/// A world whose sandboxes are removed when the test ends, however it ends.
struct Lasting {
    world: World,
}

impl Drop for Lasting {
    fn drop(&mut self) {
        self.world.run(&["sandbox", "rm", "--all"]);
    }
}

impl Lasting {
    fn new(who: Who) -> Option<Self> {
        let world = World::new();
        let is_user = who == Who::User && rustix::process::geteuid().is_root();
        Some(Self { world: if is_user { world.by_user()? } else { world } })
    }

    fn create(&self, options: &[&str]) -> String {
        let ran = self.world.run(&[&["sandbox", "create"], options].concat());
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
        ran.out.trim().to_owned()
    }

    fn exec(&self, sandbox: &str, options: &[&str], command: &[&str]) -> Ran {
        self.world.run(&[&["sandbox", "exec", sandbox], options, &["--"], command].concat())
    }

    fn sh(&self, sandbox: &str, script: &str) -> Ran {
        self.exec(sandbox, &[], &["sh", "-c", script])
    }

    fn show(&self, sandbox: &str) -> Json {
        serde_json::from_str(&self.world.run(&["sandbox", "show", sandbox]).out).unwrap()
    }

    /// Why it ended, if it has.
    fn reason(&self, sandbox: &str) -> Json {
        self.logs(sandbox).last().unwrap()["event"]["reason"].clone()
    }

    fn logs(&self, sandbox: &str) -> Vec<Json> {
        let ran = self.world.run(&["sandbox", "logs", sandbox]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Until something holds; a slow machine gets its time.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn is_alive(pid: u64) -> bool {
    // A zombie of a test's own child does not run.
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn commands_share_a_sandbox_until_it_is_removed() {
    for who in [Who::Caller, Who::User] {
        let Some(lasting) = Lasting::new(who) else { continue };
        lasting.world.write("repo/file", "contents\n");
        let id = lasting.create(&["--name", "build", "--repo", ".", "--ttl", "10m"]);
        let first = lasting.sh(&id, "cat file; pwd; echo kept > new; echo oops >&2; exit 7");
        assert_eq!(
            (first.code, first.out.as_str()),
            (7, "contents\n/sandbox/workspace/repo\n"),
            "{}",
            first.err
        );
        assert_eq!(first.err, "oops\n");
        let second =
            lasting.exec("build", &["--env", "A=b c", "--cwd", "/tmp"], &["sh", "-c", "echo $A; pwd"]);
        assert_eq!((second.code, second.out.as_str()), (0, "b c\n/tmp\n"), "{}", second.err);
        assert_eq!(lasting.sh("build", "cat new").out, "kept\n");
        assert!(!lasting.world.path("repo/new").exists(), "the host's directory stays as it is");
        assert_eq!(lasting.sh(&id, "kill -9 $$").code, 137);
        let fed = lasting
            .world
            .run_fed(&["sandbox", "exec", "build", "--stdin", "--", "wc", "-c"], &vec![7; 300_000]);
        assert_eq!((fed.code, fed.out.trim()), (0, "300000"), "{}", fed.err);
        // What a command leaves running does not hold its caller, and is still there afterwards.
        assert_eq!(lasting.sh(&id, "sleep 1000 & echo $! > /tmp/pid").code, 0);
        assert_eq!(lasting.sh(&id, "kill -0 $(cat /tmp/pid) && echo runs").out, "runs\n");
        let missing = lasting.exec(&id, &[], &["no-such-command"]);
        assert_eq!(missing.code, 8);
        assert!(missing.err.starts_with("fullsend: sandbox: cannot run no-such-command"), "{}", missing.err);
        let other = lasting.exec(&id, &["--user", "root"], &["true"]);
        assert_eq!(
            other.err,
            "fullsend: the sandbox has no user `root`; its one user is `sandbox`, number 1000\n"
        );
        let shown = lasting.show("build");
        assert_eq!(
            (&shown["state"], &shown["name"], &shown["commands"]),
            (&json!("running"), &json!("build"), &json!(0))
        );
        let twice = lasting.world.run(&["sandbox", "create", "--name", "build"]);
        assert_eq!(twice.code, 8);
        assert!(twice.err.contains("is named `build` already"), "{}", twice.err);
        let owner = shown["owner_pid"].as_u64().unwrap();
        let removed = lasting.world.run(&["sandbox", "rm", "build"]);
        assert_eq!((removed.code, removed.err.as_str()), (0, ""));
        eventually("the owner ends", || !is_alive(owner));
        assert_eq!(lasting.world.run(&["sandbox", "list"]).out, "");
        assert!(lasting.world.run(&["sandbox", "list", "--all"]).out.contains("ended"));
        let gone = lasting.sh(&id, "true");
        assert_eq!(
            gone.err,
            format!("fullsend: the sandbox {id} has ended; `fullsend sandbox logs {id}` says why\n")
        );
        let state = lasting.world.path("state/fullsend/lasting").join(&id).join("state");
        assert_eq!(fs::read_dir(state).unwrap().count(), 0, "nothing of the sandbox is left");
    }
}

#[test]
fn a_timeout_kills_everything_that_the_command_started() {
    for who in [Who::Caller, Who::User] {
        let Some(lasting) = Lasting::new(who) else { continue };
        let id = lasting.create(&[]);
        // In the same group, in a session of its own, and twice forked into one.
        let script =
            "sleep 1111 & setsid sleep 1112 & (setsid sh -c 'sleep 1113 & sleep 1114' &) ; sleep 1115";
        let late = lasting.exec(&id, &["--timeout", "2s"], &["sh", "-c", script]);
        assert_eq!(late.code, 124, "{}", late.err);
        let left = lasting.sh(&id, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o 'sleep 11[0-9][0-9]'");
        assert_eq!(left.out, "", "they run on");
        // It does not kill another command's processes.
        assert_eq!(lasting.sh(&id, "setsid sleep 1200 >/dev/null 2>&1 & echo").code, 0);
        lasting.exec(&id, &["--timeout", "1s"], &["sleep", "1116"]);
        assert!(lasting.sh(&id, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").out.contains("sleep 1200"));
        // One that kills the process which keeps its tree together loses the tree at once.
        let killed = lasting.sh(&id, "setsid sleep 1300 & kill -9 $PPID; sleep 1301");
        assert_eq!(killed.code, 137, "{}", killed.err);
        let left = lasting.sh(&id, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").out;
        assert!(!left.contains("sleep 130") && left.contains("sleep 1200"), "{left}");
    }
}

#[test]
fn many_commands_run_at_once_and_one_whose_client_is_killed_ends() {
    let lasting = Lasting::new(Who::Caller).unwrap();
    let id = lasting.create(&[]);
    // Each waits for all others: they only end if they run at the same time.
    let script = "touch /tmp/here-$1; for i in $(seq 600); do [ $(ls /tmp | grep -c here-) = 8 ] && exit $1; sleep 0.1; done; exit 99";
    std::thread::scope(|scope| {
        let all: Vec<_> = (1..=8)
            .map(|number| {
                let lasting = &lasting;
                let id = &id;
                scope.spawn(move || {
                    lasting.exec(id, &[], &["sh", "-c", script, "sh", &number.to_string()]).code
                })
            })
            .collect();
        let codes: Vec<i32> = all.into_iter().map(|one| one.join().unwrap()).collect();
        assert_eq!(codes, [1, 2, 3, 4, 5, 6, 7, 8]);
    });
    let mut client =
        lasting.world.spawn(&["sandbox", "exec", &id, "--", "sh", "-c", "touch /tmp/up; sleep 1400"]);
    eventually("it starts", || lasting.sh(&id, "test -e /tmp/up").code == 0);
    client.kill().unwrap();
    client.wait().unwrap();
    eventually("it ends with its client", || lasting.show(&id)["commands"] == json!(0));
    assert!(!lasting.sh(&id, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").out.contains("sleep 1400"));
}

#[test]
fn files_go_in_and_out_with_their_modes_and_no_link_leads_out() {
    for who in [Who::Caller, Who::User] {
        let Some(lasting) = Lasting::new(who) else { continue };
        let world = &lasting.world;
        let id = lasting.create(&[]);
        let bytes: Vec<u8> = (0..=255_u8).cycle().take(300_000).collect();
        let local = world.write("repo/tree/sub/data.bin", &bytes);
        world.script("repo/tree/tool.sh", "#!/bin/sh\necho tool\n");
        let moved = |arguments: &[&str]| {
            let ran = world.run(arguments);
            assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{arguments:?}");
            ran.out
        };
        moved(&["sandbox", "put", &id, "tree", "tree"]);
        assert_eq!(
            lasting.sh(&id, "tree/tool.sh; stat -c %a tree/tool.sh; wc -c < tree/sub/data.bin").out,
            "tool\n755\n300000\n"
        );
        moved(&["sandbox", "put", &id, local.to_str().unwrap(), "deep/er/one.bin", "--mode", "640"]);
        assert_eq!(lasting.sh(&id, "stat -c %a deep/er/one.bin").out, "640\n");
        assert_eq!(
            lasting
                .sh(&id, "chmod 700 tree/sub; ln -s sub/data.bin tree/inner; ln -s /etc/passwd tree/outer")
                .code,
            0
        );
        let got = world.run(&["sandbox", "get", &id, "tree", "back"]);
        assert_eq!(got.err, "warning: 1 entries were left out: special files, or links that lead outside\n");
        assert_eq!(fs::read(world.path("repo/back/inner")).unwrap(), bytes);
        assert!(!world.path("repo/back/outer").exists());
        assert_eq!(
            fs::metadata(world.path("repo/back/tool.sh")).unwrap().permissions().mode() & 0o777,
            0o755
        );
        moved(&["sandbox", "get", &id, "deep/er/one.bin", "one.bin"]);
        assert_eq!(fs::read(world.path("repo/one.bin")).unwrap(), bytes);
        for (arguments, part) in [
            (&["get", "absent", "x"][..], "in the sandbox: absent: No such file"),
            (&["get", "/dev/null", "x"], "neither a file nor a directory"),
            (&["get", "tree", "back"], "back: File exists"),
            (&["get", "tree/sub/data.bin", "x", "--max-mb", "0"], "it has 300000 bytes, more than 0"),
            (&["put", "one.bin", "/etc/passwd"], "in the sandbox: /etc/passwd: "),
            (&["put", "one.bin", "tree"], "tree: it is a directory"),
            (&["put", "absent", "x"], "cannot read absent"),
        ] {
            let (verb, rest) = arguments.split_first().unwrap();
            let ran = world.run(&[&["sandbox", verb, &id], rest].concat());
            assert_eq!(ran.code, 8, "{arguments:?}");
            assert!(ran.err.contains(part), "{arguments:?}: {}", ran.err);
        }
        assert!(!world.path("repo/x").exists());
        // A link inside means what it means inside.
        assert_eq!(lasting.sh(&id, "ln -s /etc/hostname trap").code, 0);
        world.run(&["sandbox", "put", &id, "one.bin", "trap"]);
        assert_ne!(fs::read("/etc/hostname").unwrap_or_default(), bytes);
    }
}

#[test]
fn the_egress_policy_the_limits_and_the_record_hold_as_in_a_run() {
    let lasting = Lasting::new(Who::Caller).unwrap();
    let id = lasting.create(&["--pids", "64", "--name", "held"]);
    let refused =
        lasting.sh(&id, "getent hosts example.com || exec 3<>/dev/tcp/192.0.2.1/80 || echo refused");
    assert!(refused.out.contains("refused") || refused.code != 0, "{}", refused.out);
    let secret = ["ghp_", "zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ", "0mLq17"].concat();
    lasting.exec(&id, &[], &["echo", &secret]);
    let limits = lasting.exec(&id, &[], &["cat", "/proc/self/limits"]).out;
    let processes = limits.lines().find(|line| line.starts_with("Max processes")).unwrap();
    assert_eq!(processes.split_whitespace().nth(2), Some("64"));
    assert_eq!(lasting.world.run(&["sandbox", "rm", "held"]).code, 0);
    let events = lasting.logs(&id);
    let kind = |event: &Json| match event["type"].as_str() {
        Some("lasting") => event["event"]["kind"].as_str().unwrap().to_owned(),
        other => other.unwrap().to_owned(),
    };
    let kinds: Vec<String> = events.iter().map(kind).collect();
    assert_eq!((kinds[0].as_str(), kinds[kinds.len() - 1].as_str()), ("created", "closed"));
    for kind in ["sandbox_part", "proof", "egress", "command_started", "command_finished"] {
        assert!(kinds.iter().any(|other| other == kind), "{kind}: {kinds:?}");
    }
    let text =
        fs::read_to_string(lasting.world.path("state/fullsend/lasting").join(&id).join("events.jsonl"))
            .unwrap();
    assert!(!text.contains(&secret), "a secret of a command line is masked");
    let closed = &events[events.len() - 1]["event"];
    assert_eq!((&closed["reason"], &closed["detail"]), (&json!("removed"), &json!("")));
}

#[test]
fn sandbox_ends_by_ttl_with_its_parent_and_after_a_crash() {
    let lasting = Lasting::new(Who::Caller).unwrap();
    let reason = |id: &str| lasting.reason(id);
    let short = lasting.create(&["--ttl", "1s"]);
    eventually("its time is over", || reason(&short) == json!("expired"));

    let mut parent = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let child = lasting.create(&["--parent", &parent.id().to_string()]);
    assert_eq!(lasting.sh(&child, "true").code, 0);
    parent.kill().unwrap();
    parent.wait().unwrap();
    eventually("its parent is gone", || reason(&child) == json!("parent_ended"));
    let none = lasting.world.run(&["sandbox", "create", "--parent", "999999999"]);
    assert!(none.err.starts_with("fullsend: the parent process 999999999 cannot be watched"), "{}", none.err);

    let crashed = lasting.create(&[]);
    assert_eq!(lasting.sh(&crashed, "setsid sleep 1500 > /dev/null 2>&1 &").code, 0);
    let owner = lasting.show(&crashed)["owner_pid"].as_u64().unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(owner).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    eventually("the owner is gone", || !is_alive(owner));
    eventually("and the sandbox with it", || {
        let all = fs::read_dir("/proc").unwrap().flatten();
        !all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
            .any(|line| line == b"sleep\x001500\x00")
    });
    assert_eq!(lasting.world.run(&["sweep"]).code, 0);
    assert_eq!(reason(&crashed), json!("owner_died"));
    let state = lasting.world.path("state/fullsend/lasting").join(&crashed).join("state");
    assert_eq!(fs::read_dir(state).unwrap().count(), 0);
}

/// A program that speaks the protocol.
struct Peer {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Peer {
    fn new(world: &World) -> Self {
        let mut child = world.spawn_talking(&["sandbox", "serve", "--stdio"]);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn send(&mut self, message: &Json) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn receive(&mut self) -> Json {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }

    fn call(&mut self, method: &str, params: &Json) -> Json {
        self.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }));
        self.receive()
    }
}

#[test]
fn another_program_uses_it_through_the_protocol() {
    let lasting = Lasting::new(Who::Caller).unwrap();
    let mut peer = Peer::new(&lasting.world);
    assert_eq!(peer.call("initialize", &json!({ "protocol": 1 }))["result"]["protocol"], json!(1));
    assert_eq!(
        peer.call("initialize", &json!({ "protocol": 2 }))["error"]["data"]["kind"],
        json!("invalid_params")
    );
    let created = peer.call("create", &json!({ "name": "served" }));
    let id = created["result"]["sandbox"].as_str().unwrap().to_owned();
    assert_eq!(created["result"]["workspace"], json!("/sandbox/workspace"));
    let put = peer.call("put", &json!({ "sandbox": id, "path": "a/b", "data": "aGVsbG8=", "mode": 0o600 }));
    assert_eq!(put["result"], json!({ "files": 1, "bytes": 5, "left_out": 0 }));
    let got = peer.call("get", &json!({ "sandbox": id, "path": "a/b" }));
    assert_eq!(got["result"], json!({ "kind": "file", "mode": 0o600, "data": "aGVsbG8=" }));
    let ran = peer.call("exec", &json!({
        "sandbox": "served", "command": ["sh", "-c", "cat; echo err >&2; exit 3"], "stdin": "aW4=", "env": { "A": "b" },
    }));
    assert_eq!(
        ran["result"],
        json!({ "exit_code": 3, "signal": null, "timed_out": false, "stdout": "aW4=", "stderr": "ZXJyCg==", "truncated": false })
    );
    for (method, params, kind) in [
        ("exec", json!({ "sandbox": id, "command": ["/etc/passwd"] }), "permission_denied"),
        ("exec", json!({ "sandbox": id, "command": ["no-such-command"] }), "command_not_found"),
        ("exec", json!({ "sandbox": id, "command": ["true"], "user": "root" }), "user_unsupported"),
        ("exec", json!({ "sandbox": id, "command": ["true"], "unknown": 1 }), "invalid_params"),
        ("exec", json!({ "sandbox": "nobody", "command": ["true"] }), "unavailable"),
        ("get", json!({ "sandbox": id, "path": "absent" }), "not_found"),
        ("put", json!({ "sandbox": id, "path": "a", "data": "" }), "is_a_directory"),
        ("get", json!({ "sandbox": id, "path": "/etc", "file_only": true }), "is_a_directory"),
        ("dance", json!({}), "method_not_found"),
    ] {
        let answer = peer.call(method, &params);
        assert_eq!(answer["error"]["data"]["kind"], json!(kind), "{method} {params}: {answer}");
    }
    // A second request is answered while the first one runs, and the first can be cancelled.
    peer.send(
        &json!({ "id": "slow", "method": "exec", "params": { "sandbox": id, "command": ["sleep", "1600"] } }),
    );
    eventually("it runs", || lasting.show(&id)["commands"] == json!(1));
    // The two answers come in any order, and the server may hear of the cancellation before it has the command.
    let mut slow = None;
    let mut is_cancelled = false;
    while !is_cancelled || slow.is_none() {
        if !is_cancelled {
            peer.send(&json!({ "id": "cancel", "method": "cancel", "params": { "request": "slow" } }));
        }
        let answer = peer.receive();
        match answer["id"].as_str() {
            Some("slow") => slow = Some(answer),
            _ => is_cancelled = is_cancelled || answer["result"] == json!({ "cancelled": true }),
        }
    }
    assert!(slow.is_some_and(|slow| slow["error"].is_object()), "a cancelled command has no result");
    // Its sandboxes end with it.
    drop(peer.child.stdin.take());
    assert!(peer.child.wait().unwrap().success());
    eventually("it ends with its server", || lasting.reason(&id) == json!("parent_ended"));
}

#[test]
fn what_cannot_be_created_leaves_nothing() {
    let lasting = Lasting::new(Who::Caller).unwrap();
    lasting.world.write("repo/broken.yaml", "version: 1\nfilesystem_policy: {read_writ: []}\n");
    for (options, part) in [
        (&["--policy", "broken.yaml"][..], "broken.yaml is not a valid policy"),
        (&["--policy", "absent.yaml"], "cannot read the policy absent.yaml"),
        (&["--repo", "absent"], "cannot use absent"),
        (&["--image", "/absent.tar"], "cannot use /absent.tar"),
        (&["--name", "a/b"], "`a/b` is not a valid name"),
    ] {
        let ran = lasting.world.run(&[&["sandbox", "create"], options].concat());
        assert_eq!((ran.code, ran.out.as_str()), (8, ""), "{options:?}: {}", ran.err);
        assert!(ran.err.contains(part), "{options:?}: {}", ran.err);
    }
    let ttl = lasting.world.run(&["sandbox", "create", "--ttl", "soon"]);
    assert!(ttl.code == 2 && ttl.err.contains("write 90s, 30m, 2h or 7d"), "{}", ttl.err);
    let none = lasting.sh("nobody", "true");
    assert_eq!(
        none.err,
        "fullsend: there is no sandbox `nobody`; `fullsend sandbox list --all` shows them\n"
    );
    let left = fs::read_dir(lasting.world.path("state/fullsend/lasting")).into_iter().flatten().count();
    assert_eq!(left, 0);
}
