//! A program inside that causes events without end does not fill the host's disk: the first of each kind are in the log, the
//! others are counted, and the record is whole.

use std::fs;

use serde_json::{Value, json};

use crate::attack_rows::{AttackRow, held};
use crate::sandboxes::BOTH;
use crate::support::{World, has_program};

const ASKED: u64 = 12_000;

/// Asks the sandbox's name server for names that no rule allows.
const STORM: &str = r#"import socket
lines = [line.split() for line in open("/etc/resolv.conf")]
server = [words[1] for words in lines if words[:1] == ["nameserver"]][0]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(20)
for number in range(12000):
    name = b"n%d" % number
    head = number.to_bytes(2, "big") + b"\1\0\0\1\0\0\0\0\0\0"
    s.sendto(head + bytes([len(name)]) + name + b"\7example\0\0\1\0\1", (server, 53))
    s.recv(512)
print("asked")
"#;

#[test]
fn events_without_end_are_counted_and_the_record_is_whole() {
    if !has_program("python3", "counted_events") {
        return;
    }
    for who in BOTH {
        let scenario = json!({ "turns": [
            [{ "shell": "/usr/bin/python3 storm.py" }],
            [{ "finish": { "summary": "asked" } }],
        ] });
        let world = World::scripted("", scenario);
        world.write("repo/storm.py", STORM);
        let Some(ran) = world.run_as(who, &["run", "triage"]) else { continue };
        assert_eq!(ran.code, 0, "{}", ran.err.lines().last().unwrap_or_default());
        let mut runs = fs::read_dir(world.path("state/fullsend/runs/local")).unwrap().flatten();
        let run = runs.find(|entry| entry.path().join("run.json").exists()).unwrap().path();
        let record: Value = serde_json::from_slice(&fs::read(run.join("run.json")).unwrap()).unwrap();
        let counted = record["counted_events"]["name_refused"].as_u64().unwrap_or_default();
        assert_eq!(counted, ASKED - 10_000, "{}", record["counted_events"]);
        for (file, most) in [("events.jsonl", 10_200), ("egress.jsonl", 10_000)] {
            let lines = fs::read_to_string(run.join(file)).unwrap().lines().count();
            assert!(lines <= most, "{file}: {lines}");
        }
        assert!(ran.err.len() < 4 << 20, "{}", ran.err.len());
        let shown = world.run_as(who, &["runs", "show"]).unwrap();
        let words = format!("{counted} more events of the kind name_refused");
        assert!(shown.out.contains(&words), "{}{}", shown.out, shown.err);
        let verified = world.run_as(who, &["runs", "verify"]).unwrap();
        assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
        held(AttackRow::EventsWithoutEnd, who);
    }
}
