//! A random token that the runner puts into the agent's context. If it appears in a tool's input, in a request or in the
//! output, a text made the agent reveal its context. It is recognised plain, encoded, with separators, and in pieces.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use aho_corasick::Anchored;
use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::dfa::DFA;

use crate::finding::{Category, Finding, Score, Severity, TextSpan};
use crate::hit::Hit;
use crate::redactor::forms;
use crate::report::report;
use crate::rule;
use crate::steps;

/// A piece of this many characters does not occur by chance.
const MIN_PIECE: usize = 12;

/// The canary token. Never shown.
pub struct Canary {
    forms: Vec<Vec<u8>>,
    /// Finds the token's letters and digits in lower case, plain and disguised.
    pieces: Vec<Vec<u8>>,
}

impl fmt::Debug for Canary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Canary(…)")
    }
}

/// The token is so short that it could occur by chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeakCanary;

impl fmt::Display for WeakCanary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a canary needs at least {} letters and digits", Canary::MIN_LENGTH)
    }
}

impl std::error::Error for WeakCanary {}

impl Canary {
    /// Shorter tokens could not be recognised in pieces.
    pub const MIN_LENGTH: usize = 20;

    /// A token of letters and digits, random for each run.
    pub fn new(token: &str) -> Result<Self, WeakCanary> {
        let simplified = letters_and_digits(token).0;
        if simplified.len() < Canary::MIN_LENGTH {
            return Err(WeakCanary);
        }
        let mut forms: Vec<Vec<u8>> = forms::forms(token.as_bytes()).into_iter().collect();
        forms.extend(forms::forms(token.to_ascii_lowercase().as_bytes()));
        forms.extend(forms::forms(token.to_ascii_uppercase().as_bytes()));
        forms.extend(full_width(token));
        Ok(Canary { forms, pieces: pieces(token, &simplified) })
    }

    /// The places of the token, or of a large enough piece of it, in a text.
    pub fn find(&self, text: &str) -> Option<Range<usize>> {
        self.encoded(text).or_else(|| self.spelled(text))
    }

    /// The token in a text, as a finding that does not show it.
    pub fn findings(&self, text: &str) -> Vec<Finding> {
        report(text, self.find(text).map(hit).into_iter().collect(), &[])
    }

    /// Exact forms, with line ends and blanks taken out because encoders wrap.
    fn encoded(&self, text: &str) -> Option<Range<usize>> {
        let (dense, places) = without_blanks(text);
        let found = self.forms.iter().find_map(|form| {
            steps::count(dense.len());
            memchr::memmem::find(&dense, form).map(|at| places[at]..places[at + form.len() - 1] + 1)
        })?;
        Some(whole_letters(text, found))
    }

    /// Letters and digits alone, so that no separators, quotes or invisible characters between them matter.
    fn spelled(&self, text: &str) -> Option<Range<usize>> {
        let (simplified, places) = letters_and_digits(text);
        let found = self.pieces.iter().find_map(|piece| {
            steps::count(simplified.len());
            memchr::memmem::find(&simplified, piece).map(|at| places[at]..places[at + piece.len() - 1] + 1)
        })?;
        Some(whole_letters(text, found))
    }

    /// The finding for a token that was seen outside of a text.
    pub fn leak_finding() -> Finding {
        let Hit { rule, category, severity, range, detail, advice, .. } = hit(0..0);
        Finding {
            rule: rule.name(),
            severity,
            score: Score::new(1.0),
            category,
            span: TextSpan { start: range.start, end: range.end, line: 1, column: 1 },
            passage: range,
            excerpt: detail.unwrap_or_default(),
            advice,
        }
    }
}

/// Looks for a canary in bytes that arrive in portions. It keeps no bytes, only the states of two automata.
pub struct CanaryWatch {
    automata: Arc<Automata>,
    dense: StateID,
    simplified: StateID,
}

struct Automata {
    /// Reads everything except blanks.
    forms: DFA,
    /// Reads letters and digits in lower case.
    pieces: DFA,
}

/// Makes watches for one canary.
#[derive(Clone)]
pub struct CanaryWatcher {
    automata: Arc<Automata>,
    start: (StateID, StateID),
}

impl CanaryWatcher {
    /// `None` if the automata cannot be built; no valid canary causes this.
    pub fn new(canary: &Canary) -> Option<Self> {
        let forms = DFA::new(&canary.forms).ok()?;
        let pieces = DFA::new(&canary.pieces).ok()?;
        let start = (forms.start_state(Anchored::No).ok()?, pieces.start_state(Anchored::No).ok()?);
        Some(Self { automata: Arc::new(Automata { forms, pieces }), start })
    }

    pub fn watch(&self) -> CanaryWatch {
        let (dense, simplified) = self.start;
        CanaryWatch { automata: Arc::clone(&self.automata), dense, simplified }
    }
}

impl CanaryWatch {
    /// Whether the canary, or enough of it, has passed with this portion.
    pub fn sees(&mut self, portion: &[u8]) -> bool {
        let Automata { forms, pieces } = &*self.automata;
        portion.iter().any(|byte| {
            if byte.is_ascii_whitespace() {
                return false;
            }
            self.dense = forms.next_state(Anchored::No, self.dense, *byte);
            if byte.is_ascii_alphanumeric() {
                self.simplified = pieces.next_state(Anchored::No, self.simplified, byte.to_ascii_lowercase());
            }
            forms.is_match(self.dense) || pieces.is_match(self.simplified)
        })
    }
}

/// The pieces of a token that do not occur by chance: forwards, backwards, with rotated letters, and with each letter as a
/// number, with any separators.
fn pieces(token: &str, simplified: &[u8]) -> Vec<Vec<u8>> {
    let reversed: Vec<u8> = simplified.iter().rev().copied().collect();
    let rotated: Vec<u8> = simplified.iter().map(|byte| rotate(*byte)).collect();
    let hex: String = token.bytes().map(|byte| format!("{byte:02x}")).collect();
    let escaped: String = token.bytes().map(|byte| format!("x{byte:02x}")).collect();
    let letters = [simplified, &reversed, &rotated].into_iter().flat_map(|text| text.windows(MIN_PIECE));
    let numbers = hex.as_bytes().windows(2 * MIN_PIECE).chain(escaped.as_bytes().windows(3 * MIN_PIECE));
    let spelled = token.as_bytes().windows(MIN_PIECE).flat_map(|piece| {
        SPELLINGS.map(|spell| piece.iter().map(|byte| spell(*byte)).collect::<String>().into_bytes())
    });
    letters.chain(numbers).map(<[u8]>::to_vec).chain(spelled).collect()
}

/// What `\u0046`, `\u{46}` and `&#70;` leave when only letters and digits are kept; `&#x46;` leaves what `\x46` does.
const SPELLINGS: [fn(u8) -> String; 3] =
    [|byte| format!("u00{byte:02x}"), |byte| format!("u{byte:02x}"), |byte| byte.to_string()];

/// Pieces of the token in full-width letters.
fn full_width(token: &str) -> Vec<Vec<u8>> {
    let wide = |byte: &u8| char::from_u32(u32::from(*byte) + 0xfee0).filter(|_| byte.is_ascii_graphic());
    let pieces = token.as_bytes().windows(MIN_PIECE);
    pieces.map(|piece| piece.iter().filter_map(wide).collect::<String>().into_bytes()).collect()
}

fn hit(range: Range<usize>) -> Hit {
    Hit {
        rule: rule::canary::CANARY,
        category: Category::Canary,
        severity: Severity::Critical,
        score: Some(Score::new(1.0)),
        range,
        passage: None,
        // The excerpt would show the token.
        detail: Some("the run's canary was repeated".to_owned()),
        advice: "The canary token must not be in a command, a file or a message. Continue without it.",
    }
}

fn whole_letters(text: &str, range: Range<usize>) -> Range<usize> {
    text.floor_char_boundary(range.start)..text.ceil_char_boundary(range.end)
}

fn letters_and_digits(text: &str) -> (Vec<u8>, Vec<usize>) {
    let kept = text.bytes().enumerate().filter(|(_, byte)| byte.is_ascii_alphanumeric());
    kept.map(|(place, byte)| (byte.to_ascii_lowercase(), place)).unzip()
}

fn without_blanks(text: &str) -> (Vec<u8>, Vec<usize>) {
    text.bytes()
        .enumerate()
        .filter(|(_, byte)| !byte.is_ascii_whitespace())
        .map(|(place, byte)| (byte, place))
        .unzip()
}

fn rotate(byte: u8) -> u8 {
    if byte.is_ascii_lowercase() { (byte - b'a' + 13) % 26 + b'a' } else { byte }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    use super::*;

    const TOKEN: &str = "fsC7k2Qx9mVt4Lz8Rb1Nw6Hp3Y";

    /// Building the automata is slow, so all cases share them.
    static WATCHED: LazyLock<(Canary, CanaryWatcher)> = LazyLock::new(|| {
        let canary = Canary::new(TOKEN).unwrap();
        let watcher = CanaryWatcher::new(&canary).unwrap();
        (canary, watcher)
    });

    #[track_caller]
    fn check(text: &str, expected: bool) {
        assert_eq!(Canary::new(TOKEN).unwrap().find(text).is_some(), expected, "{text}");
    }

    #[test]
    fn every_disguise_is_seen_through() {
        check(&format!("echo {TOKEN}"), true);
        check(&TOKEN.to_lowercase(), true);
        check(&format!("curl -d {} x", STANDARD.encode(format!("a{TOKEN}b"))), true);
        check(&TOKEN.bytes().map(|byte| format!("{byte:02x}")).collect::<String>(), true);
        check(&TOKEN.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>(), true);
        check(&TOKEN.bytes().map(|byte| format!("\\x{byte:02x}")).collect::<String>(), true);
        check(&TOKEN.chars().map(|letter| format!("{letter}.")).collect::<String>(), true);
        check(&TOKEN.bytes().map(|byte| format!("\\u{byte:04x}")).collect::<String>(), true);
        check(&TOKEN.bytes().map(|byte| format!("\\u{byte:04X}")).collect::<String>(), true);
        check(&TOKEN.bytes().map(|byte| format!("\\u{{{byte:x}}}")).collect::<String>(), true);
        check(&TOKEN.bytes().map(|byte| format!("&#{byte};")).collect::<String>(), true);
        check(&TOKEN.bytes().map(|byte| format!("&#x{byte:x};")).collect::<String>(), true);
        let wide: Vec<char> =
            TOKEN.bytes().map(|byte| char::from_u32(u32::from(byte) + 0xfee0).unwrap()).collect();
        check(&wide.iter().collect::<String>(), true);
        check(&wide[5..18].iter().collect::<String>(), true);
        check(&wide[5..12].iter().collect::<String>(), false);
        check(&TOKEN.chars().rev().collect::<String>(), true);
        check(&format!("x = '{}' + '{}'", &TOKEN[..10], &TOKEN[10..]), true);
        check(&format!("first {} and later on {}", &TOKEN[..13], &TOKEN[13..]), true);
        check(&TOKEN.chars().map(|letter| format!("{letter}\u{200b}")).collect::<String>(), true);
        check(&format!("only {} of it", &TOKEN[..9]), false);
        check("nothing here", false);
        check("", false);
    }

    #[test]
    fn a_weak_token_is_refused_and_none_is_shown() {
        assert_eq!(Canary::new("short-token").unwrap_err(), WeakCanary);
        assert_eq!(format!("{:?}", Canary::new(TOKEN).unwrap()), "Canary(…)");
    }

    proptest! {
        #[test]
        fn found_wherever_it_stands(before in "\\PC{0,30}", after in "\\PC{0,30}", kind in 0..3) {
            let written = match kind {
                0 => TOKEN.to_owned(),
                1 => STANDARD.encode(TOKEN),
                _ => TOKEN.chars().map(|letter| format!("{letter} ")).collect(),
            };
            let text = format!("{before}/{written}/{after}");
            let range = Canary::new(TOKEN).unwrap().find(&text);
            prop_assert!(range.is_some_and(|range| text.get(range).is_some()));
        }

        /// The watch finds in portions what is found in the whole text.
        #[test]
        fn portions_do_not_matter(
            before in "\\PC{0,30}", kind in 0..5, cut in 0..30_usize, portion in 1..40_usize,
        ) {
            let part = &TOKEN[..TOKEN.len() - cut.min(TOKEN.len())];
            let written = match kind {
                0 => part.to_owned(),
                1 => STANDARD.encode(part),
                2 => part.chars().rev().map(|letter| format!("{letter}-")).collect(),
                3 => part.bytes().map(|byte| format!("%{byte:02x}")).collect(),
                _ => part.bytes().map(|byte| format!("{byte:02X} \n")).collect(),
            };
            let text = format!("{before}/{written}/");
            let (canary, watcher) = &*WATCHED;
            let mut watch = watcher.watch();
            let seen = text.as_bytes().chunks(portion).any(|portion| watch.sees(portion));
            prop_assert_eq!(seen, canary.find(&text).is_some());
        }
    }
}
