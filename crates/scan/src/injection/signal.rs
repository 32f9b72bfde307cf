//! One sign of an attempt to steer the agent: a few trigger words for the one-pass search, a pattern that is tried at a
//! trigger, and the weight of the sign. No sign decides alone; `score` adds them up.

use std::ops::Range;
use std::sync::OnceLock;

use redact::{RuleName, rule, search};

use regex::bytes::{Regex, RegexBuilder};

use crate::steps;

/// How far a pattern may reach from its trigger.
pub(crate) const MAX_REACH: usize = 400;
/// How far before its trigger a pattern may begin that has one in its middle.
const MAX_LEAD: usize = 200;

/// The goal of the text. Each family is a separate rule in findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SignalFamily {
    /// Replace the instructions that the agent has.
    InstructionOverride,
    /// Make the model somebody who has no rules.
    PersonaOverride,
    /// Speak with the voice of the system, the vendor or an administrator.
    AuthorityClaim,
    /// Keep something from the person in charge.
    Concealment,
    /// Send out data that should stay.
    Exfiltration,
    /// Run code from elsewhere, or destroy.
    RemoteExecution,
    /// Switch checks off, or widen the agent's own rights.
    GuardTampering,
    /// Use the agent's tools against its operator.
    ToolMisuse,
    /// Put given code into the agent's answer.
    CodeInclusion,
}

impl SignalFamily {
    pub(crate) fn rule(self) -> RuleName {
        match self {
            SignalFamily::InstructionOverride => rule::injection::INSTRUCTION_OVERRIDE,
            SignalFamily::PersonaOverride => rule::injection::PERSONA_OVERRIDE,
            SignalFamily::AuthorityClaim => rule::injection::AUTHORITY_CLAIM,
            SignalFamily::Concealment => rule::injection::CONCEALMENT,
            SignalFamily::Exfiltration => rule::injection::EXFILTRATION,
            SignalFamily::RemoteExecution => rule::injection::REMOTE_EXECUTION,
            SignalFamily::GuardTampering => rule::injection::GUARD_TAMPERING,
            SignalFamily::ToolMisuse => rule::injection::TOOL_MISUSE,
            SignalFamily::CodeInclusion => rule::injection::CODE_INCLUSION,
        }
    }
}

/// A row of the tables in `signals/`.
pub(crate) struct Signal {
    pub(crate) family: SignalFamily,
    pub(crate) weight: u32,
    /// Alternatives separated by `|`, lower case.
    pub(crate) triggers: &'static str,
    /// Whether the pattern begins at the trigger. Where its first words are everywhere, a rare one in its middle is a
    /// better trigger.
    begins_there: bool,
    /// A pattern in which a space is any short gap between words (` ?` may be none) and `<n>` is up to n words.
    pub(crate) pattern: &'static str,
}

pub(crate) const fn sign(
    family: SignalFamily,
    weight: u32,
    triggers: &'static str,
    pattern: &'static str,
) -> Signal {
    Signal { family, weight, triggers, begins_there: true, pattern }
}

/// A sign whose trigger stands somewhere in it.
pub(crate) const fn sign_around(
    family: SignalFamily,
    weight: u32,
    triggers: &'static str,
    pattern: &'static str,
) -> Signal {
    Signal { family, weight, triggers, begins_there: false, pattern }
}

/// A signal and its pattern, compiled when a trigger is first seen.
pub(crate) struct SignalMatcher {
    pub(crate) signal: &'static Signal,
    compiled: OnceLock<Regex>,
}

impl SignalMatcher {
    pub(crate) fn new(signal: &'static Signal) -> Self {
        SignalMatcher { signal, compiled: OnceLock::new() }
    }

    /// The range of the sign, if the trigger at `at` belongs to one.
    pub(crate) fn find(&self, text: &str, at: usize) -> Option<Range<usize>> {
        let range =
            if self.signal.begins_there { self.find_at(text, at) } else { self.find_around(text, at) }?;
        steps::count(range.len());
        Some(range.start..text.ceil_char_boundary(range.end))
    }

    fn find_at(&self, text: &str, at: usize) -> Option<Range<usize>> {
        let bytes = text.as_bytes();
        if bytes[at].is_ascii_alphanumeric()
            && !search::is_word_start(bytes, at)
            && !ends_with_escape(&bytes[..at])
        {
            return None;
        }
        let window = &bytes[at..bytes.len().min(at + MAX_REACH)];
        Some(at..at + self.regex().find(window)?.end())
    }

    fn find_around(&self, text: &str, at: usize) -> Option<Range<usize>> {
        let bytes = text.as_bytes();
        let from = at.saturating_sub(MAX_LEAD);
        steps::count(at - from);
        let window = &bytes[from..bytes.len().min(at + MAX_REACH)];
        let found = self.regex().find_iter(window).find(|found| from + found.end() > at)?;
        (from + found.start() <= at)
            .then(|| text.floor_char_boundary(from + found.start())..from + found.end())
    }

    pub(crate) fn regex(&self) -> &Regex {
        self.compiled.get_or_init(|| {
            RegexBuilder::new(&self.signal.expression())
                .unicode(false)
                .case_insensitive(true)
                .dot_matches_new_line(true)
                .build()
                .expect("the tables are tested to compile")
        })
    }
}

impl Signal {
    /// The pattern as a regular expression.
    fn expression(&self) -> String {
        let start = if self.begins_there { r"\A" } else { r"\b" };
        format!("{start}(?:{})", expand(self.pattern))
    }
}

/// In escaped text a sentence may follow `\n`, `\x0a`, `\u000a` or `%0A` directly.
fn ends_with_escape(before: &[u8]) -> bool {
    let is_written = |start: &[u8], digits: usize| {
        let parts = before.len().checked_sub(digits).map(|at| before.split_at(at));
        parts.is_some_and(|(head, digits)| head.ends_with(start) && digits.iter().all(u8::is_ascii_hexdigit))
    };
    matches!(before, [.., b'\\', b'n' | b'r' | b't' | b'f' | b'v' | b'b' | b'a' | b'e' | b'0'])
        || is_written(b"%", 2)
        || is_written(b"\\x", 2)
        || is_written(b"\\u", 4)
}

/// Makes a regular expression of the tables' notation.
fn expand(pattern: &str) -> String {
    let mut expanded = String::new();
    let mut rest = pattern.chars().peekable();
    while let Some(letter) = rest.next() {
        match letter {
            ' ' if rest.next_if_eq(&'?').is_some() => expanded.push_str(r"\W{0,12}"),
            ' ' => expanded.push_str(r"\W{1,12}"),
            '<' if rest.peek().is_some_and(char::is_ascii_digit) => {
                let count: String = rest.by_ref().take_while(|letter| *letter != '>').collect();
                expanded.push_str(&format!(r"(?:[\w'\x80-\xff-]+\W{{1,12}}){{0,{count}}}?"));
            }
            letter => expanded.push(letter),
        }
    }
    expanded
}

#[cfg(test)]
mod tests {
    use regex_automata::hybrid::dfa::DFA;
    use regex_automata::{Anchored, Input};

    use super::super::signals;
    use super::*;

    #[test]
    fn every_row_compiles_and_begins_at_its_triggers() {
        for signal in signals::all() {
            let matcher = SignalMatcher::new(signal);
            assert!(!matcher.regex().is_match(b""), "{}", signal.pattern);
            assert!(signal.triggers.split('|').all(|trigger| trigger.len() >= 2), "{}", signal.triggers);
            assert!(signal.weight <= 6, "one sign must not decide alone: {}", signal.pattern);
        }
    }

    /// A trigger with which its pattern cannot begin costs time and finds nothing.
    #[test]
    fn every_trigger_can_begin_its_pattern() {
        let syntax = regex_automata::util::syntax::Config::new()
            .unicode(false)
            .utf8(false)
            .case_insensitive(true)
            .dot_matches_new_line(true);
        let bytes = regex_automata::nfa::thompson::Config::new().utf8(false);
        let mut idle = Vec::new();
        for signal in signals::all().filter(|signal| signal.begins_there) {
            let expression = signal.expression();
            let automaton = DFA::builder().syntax(syntax).thompson(bytes.clone()).build(&expression).unwrap();
            let mut cache = automaton.create_cache();
            let start =
                automaton.start_state_forward(&mut cache, &Input::new("").anchored(Anchored::Yes)).unwrap();
            for trigger in signal.triggers.split('|') {
                let end = trigger
                    .bytes()
                    .fold(start, |state, byte| automaton.next_state(&mut cache, state, byte).unwrap());
                if end.is_dead() {
                    idle.push((trigger, signal.pattern));
                }
            }
        }
        assert!(idle.is_empty(), "{idle:#?}");
    }

    #[test]
    fn a_trigger_may_stand_in_the_middle() {
        static SIGNAL: Signal =
            sign_around(SignalFamily::Concealment, 1, "rules.md", r"(?:edit|change) <2>rules\.md <2>now");
        let matcher = SignalMatcher::new(&SIGNAL);
        let text = "Please edit the rules.md right now; rules.md";
        assert_eq!(matcher.find(text, 16), Some(7..34));
        assert_eq!(matcher.find(text, 36), None, "the second one belongs to none");
        assert_eq!(matcher.find("reedit rules.md now", 7), None);
    }

    #[test]
    fn a_pattern_begins_at_a_word() {
        static SIGNAL: Signal = sign(SignalFamily::Concealment, 1, "ignore", "ignore <2>rules");
        let matcher = SignalMatcher::new(&SIGNAL);
        assert_eq!(matcher.find("ignore the old rules", 0), Some(0..20));
        assert_eq!(matcher.find("gitignore rules", 3), None);
        assert_eq!(matcher.find(r"\nignore rules", 2), Some(2..14));
        for before in ["\\f", "\\x0a", "\\u000a", "%0A", "_", " __", "(_"] {
            let text = format!("{before}ignore rules");
            assert_eq!(matcher.find(&text, before.len()), Some(before.len()..text.len()), "{text}");
        }
        for before in ["git_", "u000a", "x0a", "%zz", "__git__"] {
            assert_eq!(matcher.find(&format!("{before}ignore rules"), before.len()), None, "{before}");
        }
        assert_eq!(matcher.find("ignore all of my rules", 0), None);
    }
}
