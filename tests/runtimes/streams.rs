//! What the programs print, recorded from real runs before a scripted model: read whole, cut at every byte, with noise
//! between the lines, with lines of ten megabytes, and with results that come twice.

use std::fs;

use fullsend::event::RunEvent;
use fullsend::internal::protocol::LoopEnd;
use fullsend::internal::stream::Lines;
use fullsend::internal::{claude, codex, native};

use crate::support::root;

fn recorded(name: &str) -> Vec<u8> {
    fs::read(root().join(format!("tests/data/runtimes/{name}.jsonl"))).unwrap()
}

/// What the readers have in common: what they know in the end.
trait Reader: Clone + Default {
    fn line(&mut self, line: &[u8]) -> Vec<RunEvent>;
    /// How it ended, in words; `None` while it goes on.
    fn end(&self) -> Option<String>;
}

impl Reader for claude::stream::ClaudeStream {
    fn line(&mut self, line: &[u8]) -> Vec<RunEvent> {
        self.line(line, 1)
    }

    fn end(&self) -> Option<String> {
        self.result
            .as_ref()
            .map(|result| format!("{} {:?} {}", result.is_error, result.output, result.reason))
    }
}

impl Reader for codex::stream::CodexStream {
    fn line(&mut self, line: &[u8]) -> Vec<RunEvent> {
        self.line(line, 1)
    }

    fn end(&self) -> Option<String> {
        (self.completed || self.failure.is_some()).then(|| format!("{:?} {}", self.failure, self.last_words))
    }
}

impl Reader for native::stream::AgentStream {
    fn line(&mut self, line: &[u8]) -> Vec<RunEvent> {
        self.line(line, 1).into_iter().collect()
    }

    fn end(&self) -> Option<String> {
        self.end.as_ref().map(|end| format!("{:?} {}", end.how, end.turns))
    }
}

/// Reads bytes as they would come from the program, in portions.
fn read<R: Reader>(reader: &mut R, bytes: &[u8], portion: usize) -> Vec<RunEvent> {
    let mut lines = Lines::default();
    let mut events = Vec::new();
    for part in bytes.chunks(portion) {
        lines.push(part, &mut |line| {
            events.extend(reader.line(&line));
            true
        });
    }
    lines.end(&mut |line| {
        events.extend(reader.line(&line));
        true
    });
    events
}

fn whole<R: Reader>(bytes: &[u8]) -> (R, Vec<RunEvent>) {
    let mut reader = R::default();
    let events = read(&mut reader, bytes, 4096);
    (reader, events)
}

fn count(events: &[RunEvent]) -> (usize, usize, usize) {
    let started = events.iter().filter(|event| matches!(event, RunEvent::ToolStarted { .. })).count();
    let failed = |event: &&RunEvent| matches!(event, RunEvent::ToolFinished { is_error: true, .. });
    let finished = events.iter().filter(|event| matches!(event, RunEvent::ToolFinished { .. })).count();
    (started, finished, events.iter().filter(failed).count())
}

#[test]
fn recorded_runs_are_read_as_they_ended() {
    let (claude, events) = whole::<claude::stream::ClaudeStream>(&recorded("claude-done"));
    let result = claude.result.unwrap();
    assert_eq!((result.is_error, result.output), (false, Some(serde_json::json!({ "fixed": true }))));
    assert!(claude.session.is_some() && result.turns > 1);
    // Two commands, one of which failed, a file that is not there, and the returned result.
    assert_eq!(count(&events), (4, 4, 2), "{events:?}");

    let (claude, _) = whole::<claude::stream::ClaudeStream>(&recorded("claude-max-turns"));
    let result = claude.result.unwrap();
    assert!(result.is_error && result.text.contains("maximum number of turns"), "{result:?}");
    let (claude, _) = whole::<claude::stream::ClaudeStream>(&recorded("claude-failed"));
    assert!(claude.result.unwrap().is_error);

    let (codex, events) = whole::<codex::stream::CodexStream>(&recorded("codex-done"));
    assert!(codex.completed && codex.failure.is_none() && codex.thread.is_some());
    assert_eq!(codex.last_words, "{\"fixed\": true}");
    assert_eq!(count(&events), (2, 2, 1), "{events:?}");
    let (codex, _) = whole::<codex::stream::CodexStream>(&recorded("codex-failed"));
    assert!(!codex.completed && codex.failure.unwrap().contains("high demand"));

    let (native, events) = whole::<native::stream::AgentStream>(&recorded("native-done"));
    let end = native.end.unwrap();
    assert_eq!((end.how, end.turns), (LoopEnd::Finished, 3));
    assert!(end.conversation["messages"].is_array());
    assert_eq!(count(&events), (3, 3, 1), "{events:?}");
    let (native, _) = whole::<native::stream::AgentStream>(&recorded("native-failed"));
    assert!(matches!(native.end.unwrap().how, LoopEnd::Failed { .. }));
}

/// Cut anywhere: the end is known exactly when its line is whole, and it is the same end.
fn cut_everywhere<R: Reader>(name: &str) {
    let bytes = recorded(name);
    let expected = whole::<R>(&bytes).0.end().unwrap();
    let mut before = R::default();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        for end in 0..line.len() {
            let mut cut = before.clone();
            read(&mut cut, &line[..end], 7);
            if let Some(found) = cut.end()
                && before.end().is_none()
            {
                assert!(end + 1 >= line.len(), "{name}: half a line ended it: {found}");
            }
        }
        read(&mut before, line, 4096);
    }
    assert_eq!(before.end().unwrap(), expected, "{name}");
}

#[test]
fn a_stream_cut_at_any_byte_has_no_end_that_it_did_not_say() {
    for name in ["claude-done", "claude-max-turns", "claude-failed"] {
        cut_everywhere::<claude::stream::ClaudeStream>(name);
    }
    for name in ["codex-done", "codex-failed"] {
        cut_everywhere::<codex::stream::CodexStream>(name);
    }
    for name in ["native-done", "native-failed"] {
        cut_everywhere::<native::stream::AgentStream>(name);
    }
}

const NOISE: &[&[u8]] = &[
    b"warning: something\n",
    b"\n",
    b"{\"type\":\n",
    b"[1,2,3]\n",
    b"null\n",
    b"{}\n",
    b"{\"type\":7,\"message\":{\"content\":\"x\"}}\n",
    b"{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"tool_use\"},null,3]}}\n",
    b"{\"type\":\"user\",\"message\":null}\n",
    b"{\"type\":\"item.completed\"}\n{\"type\":\"item.started\",\"item\":[]}\n",
    b"\xff\xfe\x00\x01\n",
    b"{\"a\":\"\xf0\x28\x8c\x28\"}\n",
];

fn noise_changes_nothing<R: Reader>(name: &str) {
    let bytes = recorded(name);
    let (expected, events) = whole::<R>(&bytes);
    let mut noisy = Vec::new();
    for (line, noise) in bytes.split_inclusive(|byte| *byte == b'\n').zip(NOISE.iter().cycle()) {
        noisy.extend_from_slice(noise);
        noisy.extend_from_slice(line);
    }
    NOISE.iter().for_each(|noise| noisy.extend_from_slice(noise));
    for portion in [1, 13, 65536] {
        let mut reader = R::default();
        let found = read(&mut reader, &noisy, portion);
        assert_eq!((reader.end(), found), (expected.end(), events.clone()), "{name}");
    }
}

#[test]
fn noise_between_the_lines_changes_nothing() {
    for name in ["claude-done", "claude-max-turns"] {
        noise_changes_nothing::<claude::stream::ClaudeStream>(name);
    }
    for name in ["codex-done", "codex-failed"] {
        noise_changes_nothing::<codex::stream::CodexStream>(name);
    }
    for name in ["native-done", "native-failed"] {
        noise_changes_nothing::<native::stream::AgentStream>(name);
    }
}

/// One line of ten megabytes before each of the last three: what follows is still read, and the line itself is too.
fn large_lines<R: Reader>(name: &str, make: impl Fn(&str) -> String) {
    let bytes = recorded(name);
    let expected = whole::<R>(&bytes).0.end();
    let large = make(&"x".repeat(10 << 20));
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let mut reader = R::default();
    let mut seen = 0;
    for (index, line) in lines.iter().enumerate() {
        if index + 3 >= lines.len() {
            let events = read(&mut reader, large.as_bytes(), 64 << 10);
            seen += count(&events).1;
        }
        read(&mut reader, line, 64 << 10);
    }
    assert_eq!(reader.end(), expected);
    assert_eq!(seen, 3, "a result of ten megabytes is a result");
}

#[test]
fn lines_of_ten_megabytes_are_lines() {
    large_lines::<claude::stream::ClaudeStream>("claude-done", |text| {
        format!(
            "{{\"type\":\"user\",\"message\":{{\"content\":[{{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":\"{text}\"}}]}}}}\n"
        )
    });
    large_lines::<codex::stream::CodexStream>("codex-done", |text| {
        format!(
            "{{\"type\":\"item.completed\",\"item\":{{\"id\":\"i\",\"type\":\"command_execution\",\"aggregated_output\":\"{text}\"}}}}\n"
        )
    });
    large_lines::<native::stream::AgentStream>("native-done", |text| {
        format!("{{\"type\":\"tool_finished\",\"call\":\"{text}\",\"is_error\":false,\"bytes\":1}}\n")
    });
}

#[test]
fn of_several_results_the_last_counts() {
    let done = recorded("claude-done");
    let failed = recorded("claude-max-turns");
    for (first, second, is_error) in [(&done, &failed, true), (&failed, &done, false)] {
        let (reader, _) = whole::<claude::stream::ClaudeStream>(&[&first[..], &second[..]].concat());
        assert_eq!(reader.result.unwrap().is_error, is_error);
    }
    let done = recorded("codex-done");
    let failed = recorded("codex-failed");
    for (first, second, completed) in [(&done, &failed, false), (&failed, &done, true)] {
        let (reader, _) = whole::<codex::stream::CodexStream>(&[&first[..], &second[..]].concat());
        assert_eq!((reader.completed, reader.failure.is_none()), (completed, completed));
    }
    let done = recorded("native-done");
    let failed = recorded("native-failed");
    for (first, second, finished) in [(&done, &failed, false), (&failed, &done, true)] {
        let (reader, _) = whole::<native::stream::AgentStream>(&[&first[..], &second[..]].concat());
        assert_eq!(reader.end.unwrap().how == LoopEnd::Finished, finished);
    }
}
