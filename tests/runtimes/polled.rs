//! Codex gives what a command prints in several results, whenever it is asked. Text that crosses their boundaries is
//! handled as if it had come at once.

use serde_json::{Value as Json, json};

use super::guarded::{PASSWORD, TOKEN, base64, fragments};
use super::stage::{KEY, Stage, good};

/// A terminal that repeats nothing; each part is printed when the one before was looked at.
fn script(parts: usize) -> String {
    let shows: Vec<String> = (1..=parts).map(|number| format!("cat part-{number}")).collect();
    format!("stty -echo -onlcr; {}; echo SEEN-END", shows.join("; read x; "))
}

fn looks(parts: usize) -> Json {
    let start = json!({ "cmd": script(parts), "tty": true, "yield_time_ms": 3000 });
    let look =
        json!({ "session_id": { "found": "session ID (\\d+)" }, "chars": "\n", "yield_time_ms": 1500 });
    let mut turns = vec![json!([{ "tool": "exec_command", "input": start }])];
    turns.extend((1..parts).map(|_| json!([{ "tool": "write_stdin", "input": look }])));
    turns.extend([json!([{ "shell": "echo SEEN-AFTER" }]), json!([{ "finish": good() }])]);
    json!({ "turns": turns })
}

#[test]
fn secrets_stay_across_the_results_of_one_command() {
    let encoded = base64(format!("xx{KEY} and what follows it").as_bytes());
    let parts = [
        format!("SEEN-1 {}", &KEY[..9]),
        KEY[9..18].to_owned(),
        format!("{}\nSEEN-3 {}", &KEY[18..], &TOKEN[..14]),
        format!("{}\nSEEN-4 ordinary-wo", &TOKEN[14..]),
        format!("rds-survive\nDB_PASSWORD={}", &PASSWORD[..9]),
        format!("{}\nSEEN-6 DB_PASS", &PASSWORD[9..]),
        format!("WORD={PASSWORD}\nSEEN-7 {}", &encoded[..20]),
        format!("{}\nSEEN-8 {}", &encoded[20..], &KEY[..3]),
        // The last one has more to mask: the hook puts its own text in the result's place.
        format!("{}\n{KEY}\n", &KEY[3..]),
    ];
    let Some(stage) = Stage::new("codex", "several results", &looks(parts.len())) else { return };
    for (number, part) in parts.iter().enumerate() {
        stage.world.write(&format!("repo/part-{}", number + 1), part);
    }
    stage.ends(0);
    let words = stage.words();
    let sent = stage.raw() + &words.join("\n");
    let last = words.last().unwrap();
    for seen in ["1", "3", "4", "6", "7", "8", "END", "AFTER"] {
        assert!(last.contains(&format!("SEEN-{seen}")), "the result {seen}: {last}");
    }
    assert!(last.contains("ordinary-words-survive"), "{last}");
    assert_eq!(last.matches("Process running with session ID").count(), parts.len() - 1, "{last}");
    for fragment in fragments() {
        assert!(!sent.contains(&fragment), "{fragment}: {last}");
    }
    // What was once shown is not shown differently later: the model's cache would be lost, and the promise too.
    for (earlier, later) in words.iter().zip(&words[1..]) {
        let (earlier, later): (Json, Json) =
            (serde_json::from_str(earlier).unwrap(), serde_json::from_str(later).unwrap());
        let earlier = earlier["input"].as_array().unwrap();
        let later = later["input"].as_array().unwrap();
        assert_eq!(earlier[..], later[..earlier.len()]);
    }
}
