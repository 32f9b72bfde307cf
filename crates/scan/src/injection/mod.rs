//! Text that tries to steer the agent. Signs are collected in the text as written, in the text as a model would read
//! it, and inside hidden carriers. The weights of signs that are close together are added, and their context is
//! considered.

mod carrier;
mod context;
mod decode;
mod encoding;
mod score;
mod sign;
pub(crate) mod signal;
mod signals;
mod weight;
mod window;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

use redact::search::{Literal, Search};
use redact::{Category, Hit, Severity, rule};

use crate::origin::Origin;
use crate::steps;
use crate::unicode::{SuspiciousCharacters, fold};
use carrier::HiddenText;
use score::Judgement;
use sign::Sign;
use signal::{SignalFamily, SignalMatcher};

/// The most hidden places that are judged; the text around each is read too. The number of further places is reported.
const MAX_CARRIERS: usize = 10_000;

/// What a literal of this family starts.
pub(crate) enum InjectionTrigger {
    Sign(usize),
    Carrier(carrier::CarrierKind),
}

/// The rows of the tables with their patterns, compiled one by one as they are needed.
static MATCHERS: LazyLock<Vec<SignalMatcher>> =
    LazyLock::new(|| signals::all().map(SignalMatcher::new).collect());

/// Signs alone, for texts that came out of a carrier: those are decoded once, not again.
static SIGNS_ONLY: LazyLock<Search<usize>> = LazyLock::new(|| Search::new(sign_literals()));

fn sign_literals() -> impl Iterator<Item = (Literal, usize)> {
    signals::all().enumerate().flat_map(|(row, signal)| {
        signal.triggers.split('|').map(move |word| {
            let begins_word = word.starts_with(|letter: char| letter.is_ascii_alphanumeric());
            (Literal { text: word, is_exact: false, begins_word }, row)
        })
    })
}

/// The literals of this family for the one-pass search.
pub(crate) fn literals() -> impl Iterator<Item = (Literal, InjectionTrigger)> {
    let signs = sign_literals().map(|(word, row)| (word, InjectionTrigger::Sign(row)));
    signs.chain(
        carrier::LITERALS
            .iter()
            .map(|(word, kind)| (Literal::anywhere(word), InjectionTrigger::Carrier(*kind))),
    )
}

/// What the one-pass search found of this family.
#[derive(Default)]
pub(crate) struct InjectionMatches {
    signs: Vec<Sign>,
    carriers: Vec<HiddenText>,
    endings: carrier::ClosingCaches,
    /// Where the last carrier of each kind ends.
    ends: [usize; carrier::KINDS],
}

impl InjectionMatches {
    pub(crate) fn visit(&mut self, text: &str, trigger: &InjectionTrigger, hit: Range<usize>) {
        match trigger {
            InjectionTrigger::Sign(row) => self.signs.extend(sign_at(text, *row, hit.start)),
            InjectionTrigger::Carrier(kind) => self.open(text, *kind, hit),
        }
    }

    /// A carrier inside a carrier of its own kind is part of it; opening each again would be quadratic.
    fn open(&mut self, text: &str, kind: carrier::CarrierKind, hit: Range<usize>) {
        let end = &mut self.ends[kind as usize];
        if hit.start >= *end
            && let Some(carrier) = kind.open(text, hit, &mut self.endings)
        {
            *end = carrier.range.end;
            self.carriers.push(carrier);
        }
    }

    /// Judges what was collected, after reading the text a second time where it is disguised.
    pub(crate) fn judge(
        mut self,
        letters: &SuspiciousCharacters<'_>,
        text: &str,
        origin: Origin,
        hits: &mut Vec<Hit>,
    ) {
        let known: HashSet<(usize, usize)> =
            self.signs.iter().map(|sign| (sign.row, sign.range.start)).collect();
        for folded in fold::fold(letters) {
            let disguised = signs_in(&folded.text);
            let moved =
                disguised.into_iter().map(|sign| Sign { range: folded.original(&sign.range), ..sign });
            self.signs.extend(moved.filter(|sign| !known.contains(&(sign.row, sign.range.start))));
        }
        self.carriers.extend(decode::carriers(text));
        let (judged, unread) = self.carriers.split_at(self.carriers.len().min(MAX_CARRIERS));
        hits.extend(judged.iter().filter_map(|carrier| judge_carrier(text, carrier, origin)));
        hits.extend(unread_carriers(unread));
        hits.extend(score::judge(text, self.signs, origin).into_iter().map(hit));
    }
}

fn sign_at(text: &str, row: usize, at: usize) -> Option<Sign> {
    let matcher = &MATCHERS[row];
    let range = matcher.find(text, at)?;
    Some(Sign { family: matcher.signal.family, weight: matcher.signal.weight, row, range })
}

fn signs_in(text: &str) -> Vec<Sign> {
    let mut signs = Vec::new();
    SIGNS_ONLY.each(text, |row, hit| signs.extend(sign_at(text, *row, hit.start)));
    signs
}

/// A hidden text with signs in it is worse than the same text in the open.
fn judge_carrier(text: &str, carrier: &HiddenText, origin: Origin) -> Option<Hit> {
    steps::count(carrier.content.len());
    let signs = signs_in(&carrier.content);
    if signs.is_empty() {
        return None;
    }
    let context = context::context_of(text, &carrier.range, origin);
    let judgement =
        score::judge_hidden(&carrier.content, signs, origin, context, carrier.kind.score_bonus())?;
    let detail = format!("{}: {}", carrier.kind.description(), &carrier.content[judgement.range.clone()]);
    Some(Hit {
        range: carrier.range.clone(),
        passage: None,
        detail: Some(detail),
        rule: rule::injection::HIDDEN_INSTRUCTION,
        ..hit(judgement)
    })
}

/// Text that was not scanned is not known to be clean.
fn unread_carriers(unread: &[HiddenText]) -> Option<Hit> {
    let start = unread.iter().map(|carrier| carrier.range.start).min()?;
    let end = unread.iter().map(|carrier| carrier.range.end).max()?;
    let bytes: usize = unread.iter().map(|carrier| carrier.range.len()).sum();
    let count = unread.len();
    Some(Hit {
        rule: rule::injection::UNREAD_CARRIERS,
        category: Category::ContextInjection,
        severity: Severity::Medium,
        score: None,
        range: start..end,
        passage: None,
        detail: Some(format!("{count} hidden or encoded places with {bytes} bytes were not read")),
        advice: "Split the text, or let a person check what is hidden in it.",
    })
}

fn hit(judgement: Judgement) -> Hit {
    let Judgement { family, severity, score, range, passage } = judgement;
    Hit {
        rule: family.rule(),
        category: Category::ContextInjection,
        severity,
        score: Some(score),
        range,
        passage: Some(passage),
        detail: None,
        advice: advice(family),
    }
}

fn advice(family: SignalFamily) -> &'static str {
    match family {
        SignalFamily::InstructionOverride | SignalFamily::PersonaOverride | SignalFamily::AuthorityClaim => {
            "Remove the text, or let a person confirm that it may instruct the agent."
        }
        SignalFamily::Concealment => "Find out what this text hides before the agent reads it.",
        SignalFamily::Exfiltration => "Remove the order. Check what the agent could have sent, and where.",
        SignalFamily::RemoteExecution => "Remove the order. Pin and review what must be fetched.",
        SignalFamily::GuardTampering => {
            "Remove the text. Change security settings only in the organisation's own files."
        }
        SignalFamily::ToolMisuse => "Remove the text. A person decides what is approved or deleted.",
        SignalFamily::CodeInclusion => {
            "Read the code first. The text tells the agent to copy it into the answer unread."
        }
    }
}

#[cfg(test)]
mod tests;
