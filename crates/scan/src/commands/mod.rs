//! Shell commands that an agent is about to run. The line is parsed, not searched: a string or a here-document that
//! only mentions a command is no command. Each file of `rules` knows one kind of harm.

mod parse;
mod rules;
mod script;
mod split;
mod target;
mod unwrap;
mod word;

use std::ops::Range;

use crate::finding::{Category, Severity};
use crate::hit::Hit;
use crate::rule::{self, Rule};
use crate::unicode::{self, Letters};
use script::{Call, Redirect, Script};

/// Scripts inside scripts.
const MAX_NESTING: usize = 4;
/// More commands than this in one line are not looked at one by one.
const MAX_CALLS: usize = 2000;

/// One thing that is wrong with a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Harm {
    rule: Rule,
    severity: Severity,
    detail: String,
    advice: &'static str,
}

/// A parsed line with everything that its calls run.
pub(crate) struct View {
    script: Script,
    /// For each call the commands behind it, outermost first.
    layers: Vec<Vec<Call>>,
}

impl View {
    fn new(script: Script) -> Self {
        let layers = script.calls.iter().take(MAX_CALLS).map(unwrap::layers).collect();
        View { script, layers }
    }

    /// Every command of a stretch of calls, wrappers and wrapped alike.
    fn commands(&self, calls: Range<usize>) -> impl Iterator<Item = &Call> {
        self.layers.get(calls.start..calls.end.min(self.layers.len())).unwrap_or_default().iter().flatten()
    }

    fn all(&self) -> impl Iterator<Item = &Call> {
        self.layers.iter().flatten()
    }

    /// The commands whose output becomes part of a word of `call`.
    fn inside<'v>(&'v self, call: &'v Call) -> impl Iterator<Item = &'v Call> {
        let words = call.arguments.iter().chain([&call.name]);
        words.flat_map(|word| &word.inner).filter_map(|index| self.layers.get(*index)).flatten()
    }
}

/// What there is to say about a command line.
#[derive(Default)]
pub(crate) struct Reading {
    /// Everything harmful in it.
    pub(crate) hits: Vec<Hit>,
    /// Where its commands connect to, as absolute addresses, each with the place of its call.
    pub(crate) targets: Vec<(String, Range<usize>)>,
}

pub(crate) fn read(command: &str) -> Reading {
    let mut reading = Reading::default();
    hidden_characters(command, &mut reading.hits);
    read_script(command, 0..command.len(), 0, &mut reading);
    let hits = &mut reading.hits;
    hits.sort_by(|a, b| (a.rule, b.severity, &a.detail).cmp(&(b.rule, a.severity, &b.detail)));
    hits.dedup_by(|a, b| a.rule == b.rule && a.detail == b.detail);
    reading
}

/// A command line that runs one program with plain words, as checks are started.
pub(crate) struct SimpleCall {
    pub(crate) program: String,
    pub(crate) words: Vec<String>,
}

/// The one program of a command line whose status and output are those of the line; `cd x &&` before it is allowed,
/// anything else beside it is not.
pub(crate) fn simple_call(command: &str) -> Option<SimpleCall> {
    let script = parse::parse(command);
    let (call, before) = script.calls.split_last()?;
    let is_plain = script.pipelines.is_empty()
        && script.is_straight
        && !script.has_errors
        && !script.is_too_deep
        && before.iter().all(|call| call.is(&["cd"]))
        && call.redirects.iter().all(Redirect::joins);
    let is_known = call.arguments.iter().chain([&call.name]).all(|word| !word.is_dynamic);
    (is_plain && is_known).then(|| SimpleCall {
        program: call.program().to_owned(),
        words: call.words().map(str::to_owned).collect(),
    })
}

/// `outer` is where the script stands in the whole line.
fn read_script(source: &str, outer: Range<usize>, nesting: usize, reading: &mut Reading) {
    let script = parse::parse(source);
    if script.is_too_deep || script.calls.len() > MAX_CALLS || nesting > MAX_NESTING {
        let harm = Harm {
            rule: rule::command::UNREADABLE_COMMAND,
            severity: Severity::High,
            detail: "too long or too deep to be read".to_owned(),
            advice: "Write the command as a few short lines.",
        };
        reading.hits.push(hit(harm, outer));
        return;
    }
    let has_errors = script.has_errors;
    let view = View::new(script);
    let place = |call: &Call| if nesting == 0 { call.range.clone() } else { outer.clone() };
    for (harm, call) in rules::judge(&view) {
        reading.hits.push(hit(harm, call.map_or_else(|| outer.clone(), place)));
    }
    for call in view.all() {
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
            advice: "Write the command in plain words.",
        };
        reading.hits.push(hit(harm, outer.clone()));
        read_script(&words, outer.clone(), nesting + 1, reading);
    }
    // Where the grammar does not fit, each part that could be a command is read by itself.
    if has_errors && nesting == 0 {
        for part in split::parts(source) {
            read_script(part, outer.clone(), nesting + 1, reading);
        }
    }
}

/// What a person does not see in a command that they are asked about.
fn hidden_characters(command: &str, hits: &mut Vec<Hit>) {
    let mut hidden = Vec::new();
    unicode::scan(&Letters::new(command), &mut hidden);
    hits.extend(hidden.into_iter().filter(|hit| hit.severity >= Severity::Medium).map(|hit| Hit {
        category: Category::Commands,
        severity: hit.severity.max(Severity::High),
        ..hit
    }));
}

fn hit(harm: Harm, range: Range<usize>) -> Hit {
    let Harm { rule, severity, detail, advice } = harm;
    Hit { rule, category: Category::Commands, severity, range, detail: Some(detail), advice }
}

#[cfg(test)]
mod tests;
