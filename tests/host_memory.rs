//! The runner's memory under the worst that a program inside can send: questions to the guard and requests to the model
//! gateway that are large and hold as many values as fit. And the memory of the programs that the runner starts.

use std::fs;

use serde_json::json;

use crate::attack_rows::{AttackRow, held};
use crate::sandboxes::BOTH;
use crate::support::{World, has_program};

/// Three of each at the same time. A refusal in the middle is fine.
const FLOOD: &str = r#"import os, socket, threading
numbers = b"0," * (1 << 19)

def send(s, head, start, portions, end):
    try:
        s.sendall(head + start)
        for _ in range(portions):
            s.sendall(numbers)
        s.sendall(end)
        s.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    try:
        while s.recv(65536):
            pass
    except OSError:
        pass

def ask_guard():
    s = socket.socket(socket.AF_UNIX)
    s.connect(os.environ["FULLSEND_GUARD_SOCKET"])
    head = ("neutral %s\n" % os.environ["FULLSEND_GUARD_TOKEN"]).encode()
    start = b'{"phase": "pre", "only": null, "call": {"tool_name": "Bash", "tool_input": ['
    send(s, head, start, 60, b"0]}}")

def ask_model():
    s = socket.create_connection(("model.fullsend.internal", 80))
    start = b'{"model": "m", "messages": ['
    length = len(start) + 30 * len(numbers) + 3
    head = "POST /v1/messages HTTP/1.1\r\nHost: model.fullsend.internal\r\nContent-Length: %d\r\n\r\n" % length
    send(s, head.encode(), start, 30, b"0]}")

threads = [threading.Thread(target=what) for what in [ask_guard, ask_model] * 3]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print("flooded")
"#;

/// What docs/threat-model.md states.
const MAX_MEBIBYTES: u64 = 600;

#[test]
fn what_programs_inside_send_does_not_take_the_hosts_memory() {
    if !has_program("python3", "host_memory") {
        return;
    }
    for who in BOTH {
        let scenario = json!({ "turns": [
            [{ "shell": "/usr/bin/python3 flood.py" }],
            [{ "finish": { "summary": "asked" } }],
        ] });
        let more = "gateway: {allow: ['client:*']}\nvalidation_loop: {script: scripts/memory.sh}\n";
        let world = World::scripted(more, scenario);
        world.write("repo/flood.py", FLOOD);
        // The script's parent is the runner.
        world.script(
            "repo/.fullsend/scripts/memory.sh",
            "#!/bin/sh\ngrep VmHWM /proc/$PPID/status > \"$FULLSEND_RUN_DIR/memory\"\n",
        );
        let Some(ran) = world.run_as(who, &["run", "triage"]) else { continue };
        let runs = fs::read_dir(world.path("state/fullsend/runs/local")).unwrap();
        let measured = runs.flatten().map(|entry| entry.path().join("memory")).find(|path| path.exists());
        let text = fs::read_to_string(measured.unwrap_or_else(|| panic!("{}", ran.err))).unwrap();
        let kibibytes: u64 = text.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!(kibibytes < MAX_MEBIBYTES << 10, "{text}");
        println!("the runner's peak as {who:?}: {} MiB", kibibytes >> 10);
        held(AttackRow::HostMemory, who);
    }
}

/// `tail` keeps its whole input, because it never sees the end of a line. Without a bound the script succeeds.
#[test]
fn a_program_of_the_host_that_takes_too_much_memory_ends_and_the_runner_says_so() {
    for who in BOTH {
        let scenario = json!({ "turns": [[{ "finish": { "summary": "done" } }]] });
        let world =
            World::scripted("pre_script: scripts/pre.sh\n", scenario).env("FULLSEND_HOST_MEMORY_MB", "96");
        world.script(
            "repo/.fullsend/scripts/pre.sh",
            "#!/bin/sh\nhead -c 300000000 /dev/zero | tail > /dev/null\n",
        );
        let Some(ran) = world.run_as(who, &["run", "triage"]) else { continue };
        assert_eq!(ran.code, 1, "{}", ran.err);
        let last = ran.err.lines().last().unwrap();
        let is_bounded_together =
            last.contains("took more than 96 MiB; set FULLSEND_HOST_MEMORY_MB to allow more");
        // Without a cgroup `tail` is told that there is no memory for it.
        let is_bounded_alone = last.contains("exited with 1") && last.contains("memory exhausted");
        assert!(is_bounded_together || is_bounded_alone, "{}", ran.err);
        let runs = fs::read_dir(world.path("state/fullsend/runs/local")).unwrap();
        let record = runs.flatten().next().unwrap().path().join("run.json");
        let record: serde_json::Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
        assert_eq!(record["outcome"], "setup_failed", "the runner lives: {record}");
        let doctor = world.run_as(who, &["doctor"]).unwrap();
        let line = doctor.out.lines().find(|line| line.contains("host memory")).unwrap();
        let bound = if is_bounded_together {
            "have 96 MiB together, by cgroup"
        } else {
            "have 96 MiB each, by a resource limit"
        };
        assert!(line.contains(bound), "{line}");
    }
}

#[test]
fn a_bound_that_is_not_a_number_is_refused() {
    let world = World::with_harness().env("FULLSEND_HOST_MEMORY_MB", "4G");
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(ran.err.contains("`4G` is not a valid FULLSEND_HOST_MEMORY_MB"), "{}", ran.err);
}
