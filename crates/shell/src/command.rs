//! Shell commands that an agent is about to run. The line is parsed, not searched: a string or a here-document that
//! mentions a command is not a command. Each file of `rules` knows one kind of harm.

use std::ops::Range;

use redact::{Category, Finding, Hit, Severity, report, rule, secrets};
use scan::unicode;

use crate::harm::{Harm, HarmReach};
use crate::isolation::Isolation;
use crate::parsed::{MAX_CALLS, ParsedLine};
use crate::script::Call;
use crate::{parse, rules, split, target, unwrap};

/// Scripts inside scripts.
const MAX_NESTING: usize = 4;

/// The result of judging a command line.
#[derive(Default)]
pub(crate) struct CommandReading {
    isolation: Isolation,
    /// Everything harmful in it.
    pub(crate) hits: Vec<Hit>,
    /// Where its commands connect to, as absolute addresses, each with the place of its call.
    pub(crate) targets: Vec<(String, Range<usize>)>,
}

/// What a shell command would do, without knowing where it runs.
pub fn scan_command(command: &str) -> Vec<Finding> {
    scan_command_in(command, Isolation::None)
}

/// The same for a command that runs in a known place.
pub fn scan_command_in(command: &str, isolation: Isolation) -> Vec<Finding> {
    report(command, read(command, isolation).hits, &secrets::find_secrets(command))
}

pub(crate) fn read(command: &str, isolation: Isolation) -> CommandReading {
    let mut reading = CommandReading { isolation, ..CommandReading::default() };
    hidden_characters(command, &mut reading.hits);
    read_script(command, 0..command.len(), 0, &mut reading);
    let hits = &mut reading.hits;
    hits.sort_by(|a, b| (a.rule, b.severity, &a.detail).cmp(&(b.rule, a.severity, &b.detail)));
    hits.dedup_by(|a, b| a.rule == b.rule && a.detail == b.detail);
    reading
}

/// `outer` is the range of the script in the whole line.
fn read_script(source: &str, outer: Range<usize>, nesting: usize, reading: &mut CommandReading) {
    let script = parse::parse(source);
    if script.is_too_deep || script.calls.len() > MAX_CALLS || nesting > MAX_NESTING {
        let harm = Harm {
            rule: rule::command::UNREADABLE_COMMAND,
            severity: Severity::High,
            detail: "too long or too deep to be read".to_owned(),
            advice: "Write the command as a few short lines.",
            reach: HarmReach::Beyond,
        };
        reading.add(harm, outer);
        return;
    }
    let has_errors = script.has_errors;
    let line = ParsedLine::new(script);
    let place = |call: &Call| if nesting == 0 { call.range.clone() } else { outer.clone() };
    for (harm, call) in rules::judge(&line) {
        reading.add(harm, call.map_or_else(|| outer.clone(), place));
    }
    for call in line.all() {
        reading.targets.extend(target::targets(call).into_iter().map(|target| (target, place(call))));
        for inner in unwrap::scripts(call) {
            read_script(&inner, place(call), nesting + 1, reading);
        }
    }
    if nesting <= MAX_NESTING && source.contains("IFS") {
        let spaced = source.replace("${IFS}", " ").replace("$IFS", " ");
        if spaced != source {
            read_script(&spaced, outer.clone(), nesting + 1, reading);
        }
    }
    for words in split::brace_commands(source).filter(|_| nesting == 0) {
        let detail = "a command is built by brace expansion".to_owned();
        let harm = Harm {
            rule: rule::command::OBFUSCATION,
            severity: Severity::High,
            detail,
            advice: "Write the command without encoding or escapes.",
            reach: HarmReach::Beyond,
        };
        reading.add(harm, outer.clone());
        read_script(&words, outer.clone(), nesting + 1, reading);
    }
    // If the grammar does not match, each part that could be a command is parsed alone.
    if has_errors && nesting == 0 {
        for part in split::parts(source) {
            read_script(part, outer.clone(), nesting + 1, reading);
        }
    }
}

/// Hidden characters in a command.
fn hidden_characters(command: &str, hits: &mut Vec<Hit>) {
    let hidden = unicode::hidden_characters(command);
    hits.extend(hidden.into_iter().filter(|hit| hit.severity >= Severity::Medium).map(|hit| Hit {
        category: Category::Commands,
        severity: hit.severity.max(Severity::High),
        ..hit
    }));
}

impl CommandReading {
    fn add(&mut self, harm: Harm, range: Range<usize>) {
        let Harm { rule, severity, detail, advice, reach } = harm;
        let is_everyday = reach == HarmReach::Sandbox && self.isolation == Isolation::Sandbox;
        self.hits.push(Hit {
            rule,
            category: Category::Commands,
            severity: if is_everyday { Severity::Low } else { severity },
            score: None,
            range,
            passage: None,
            detail: Some(detail),
            advice,
        });
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
