//! A program inside that causes events without end does not fill the host's disk: the first of each kind are in the log, the
//! others are counted, and the record is whole.

use std::fs;

use serde_json::{Value, json};

use crate::attack_rows::{AttackRow, held};
use crate::sandboxes::BOTH;
use crate::support::{World, has_program};

const ASKED: u64 = 2_300;

/// Asks the proxy for a host that no rule allows.
const STORM: &str = r#"import os, socket, urllib.parse
proxy = urllib.parse.urlparse(os.environ["HTTPS_PROXY"])
for number in range(2300):
    s = socket.create_connection((proxy.hostname, proxy.port))
    s.sendall(b"CONNECT refused.example:443 HTTP/1.1\r\nHost: refused.example:443\r\n\r\n")
    while s.recv(4096):
        pass
    s.close()
print("asked")
"#;

#[test]
fn excess_events_are_counted_and_the_record_is_complete() {
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
        let counted = record["counted_events"]["egress_denied"].as_u64().unwrap_or_default();
        assert_eq!(counted, ASKED - 2_000, "{record}");
        assert_eq!(record["egress"]["denied"], ASKED);
        for (file, most) in [("events.jsonl", 2_200), ("egress.jsonl", 2_100)] {
            let lines = fs::read_to_string(run.join(file)).unwrap().lines().count();
            assert!(lines <= most, "{file}: {lines}");
        }
        assert!(ran.err.len() < 4 << 20, "{}", ran.err.len());
        let shown = world.run_as(who, &["runs", "show"]).unwrap();
        let words = format!("{counted} more events of the kind egress_denied");
        assert!(shown.out.contains(&words), "{}{}", shown.out, shown.err);
        let verified = world.run_as(who, &["runs", "verify"]).unwrap();
        assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
        held(AttackRow::EventsWithoutEnd, who);
    }
}
