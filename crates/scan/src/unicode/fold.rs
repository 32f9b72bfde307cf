//! The text as a model reads it: without hidden characters and terminal sequences, with tags decoded, and with styled and
//! lookalike letters made plain. Rules about words run over this text too. Ranges point back into the original.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_security::skeleton;

use crate::injection::signal::MAX_REACH;

use super::{SuspiciousCharacters, bidirectional, confusable, invisible, letter_before, tag, variation};

/// How far a rule about words reaches from a changed letter.
const REACH: usize = MAX_REACH + 64;

pub(crate) struct FoldedText {
    pub(crate) text: String,
    /// Where each changed part starts, in the folded and in the original text.
    anchors: Vec<(usize, usize)>,
}

impl FoldedText {
    /// The bytes of the original that a range of the folded text came from.
    pub(crate) fn original(&self, range: &Range<usize>) -> Range<usize> {
        let start = self.place(range.start);
        start..self.place(range.end).max(start)
    }

    fn place(&self, at: usize) -> usize {
        let index = self.anchors.partition_point(|(folded, _)| *folded <= at) - 1;
        let (folded, original) = self.anchors[index];
        let next = self.anchors.get(index + 1).map_or(usize::MAX, |(_, next)| *next);
        (original + (at - folded)).min(next)
    }
}

/// The parts of the text that read differently: one for each group of changed letters, with as much text around them as a
/// rule about words reaches.
pub(crate) fn fold(letters: &SuspiciousCharacters<'_>) -> Vec<FoldedText> {
    let text = letters.text;
    let mut stretches: Vec<FoldedText> = Vec::new();
    let mut words = Words::default();
    let mut at = 0;
    for (place, letter) in places(letters) {
        if place.start < at {
            continue;
        }
        // The folded text before it.
        let before = match stretches.last() {
            Some(folded) if place.start == at => folded.text.chars().next_back(),
            _ => letter_before(text, place.start),
        };
        let Some(plain) =
            letter.map_or(Some(String::new()), |letter| plain(text, place.start, letter, before, &mut words))
        else {
            continue;
        };
        match stretches.last_mut() {
            Some(folded) if place.start <= at + 2 * REACH => folded.text.push_str(&text[at..place.start]),
            last => {
                let start = word_start(text, place.start.saturating_sub(REACH));
                if let Some(folded) = last {
                    folded.text.push_str(&text[at..text.ceil_char_boundary(at + REACH)]);
                }
                stretches.push(FoldedText {
                    text: text[start..place.start].to_owned(),
                    anchors: vec![(0, start)],
                });
            }
        }
        let folded = stretches.last_mut().expect("one was just there");
        folded.text.push_str(&plain);
        at = place.end;
        folded.anchors.push((folded.text.len(), at));
    }
    if let Some(folded) = stretches.last_mut() {
        folded.text.push_str(&text[at..text.ceil_char_boundary((at + REACH).min(text.len()))]);
    }
    stretches
}

/// Letters and terminal sequences that may read differently, in order. Cleaning removes terminal sequences, which joins the
/// words around them.
fn places(letters: &SuspiciousCharacters<'_>) -> Vec<(Range<usize>, Option<char>)> {
    let controls = letters.controls.iter().map(|mark| (mark.range.clone(), None));
    let odd = letters.odd.iter().map(|(at, letter)| (*at..at + letter.len_utf8(), Some(*letter)));
    let mut places: Vec<_> = controls.chain(odd).collect();
    places.sort_by_key(|(place, _)| place.start);
    places
}

/// Where the word around `at` starts. Half a word could be read as another word.
fn word_start(text: &str, at: usize) -> usize {
    const MAX_WORD: usize = 64;
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
    let before = text.as_bytes()[at.saturating_sub(MAX_WORD)..at].iter().rev();
    text.floor_char_boundary(at - before.take_while(is_part).count())
}

/// What a letter reads as, if that differs. `before` is the folded text before it.
fn plain(text: &str, at: usize, letter: char, before: Option<char>, words: &mut Words) -> Option<String> {
    if tag::is_tag(letter) {
        return Some(tag::decode(letter.encode_utf8(&mut [0; 4])));
    }
    if variation::is_selector(letter) || bidirectional::is_control(letter) || invisible::is_invisible(letter)
    {
        return Some(String::new());
    }
    if is_styled(letter) {
        return Some(letter.nfkc().collect());
    }
    if let Some(drawn) = drawn(letter) {
        return Some(drawn.to_string());
    }
    if is_combining_mark(letter) && before.is_some_and(|before| before.is_ascii()) {
        return Some(String::new());
    }
    if confusable::looks_latin(letter) && words.is_latin(text, at) { ascii_lookalike(letter) } else { None }
}

/// Bold, italic, circled, raised and full-width copies of letters and digits.
fn is_styled(letter: char) -> bool {
    matches!(u32::from(letter), 0x1d400..=0x1d7ff | 0xff01..=0xff5e | 0x2460..=0x24ff | 0x1f110..=0x1f149 | 0x2100..=0x214f
        | 0x2b0..=0x2b8 | 0x2e0..=0x2e3 | 0x1d2c..=0x1d6a | 0x2071 | 0x207f | 0x2090..=0x209c)
        && letter.is_alphanumeric()
}

/// Letters in filled circles and squares, regional indicators, and small capitals: readable, but without a plain form in
/// the tables.
fn drawn(letter: char) -> Option<char> {
    const SMALL: &str = "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘꞯʀꜱᴛᴜᴠᴡ_ʏᴢ";
    let first = match u32::from(letter) {
        0x1f150..=0x1f169 => 0x1f150,
        0x1f170..=0x1f189 => 0x1f170,
        0x1f1e6..=0x1f1ff => 0x1f1e6,
        0x261 => return Some('g'),
        0x250..=0x2af | 0x1d00..=0x1d22 | 0xa730..=0xa731 | 0xa7af => {
            return ('a'..='z')
                .zip(SMALL.chars())
                .find(|(_, small)| *small == letter)
                .map(|(plain, _)| plain);
        }
        _ => return None,
    };
    char::from_u32(u32::from('a') + u32::from(letter) - first)
}

/// The plain letter that one of another script looks like. The tables know `I` as `l`.
fn ascii_lookalike(letter: char) -> Option<String> {
    let likeness: String = skeleton(letter.encode_utf8(&mut [0; 4])).collect();
    let is_capital = likeness == "l" && !letter.is_lowercase();
    likeness.is_ascii().then(|| if is_capital { "I".to_owned() } else { likeness })
}

/// The answer for the last word, reused for its other letters.
#[derive(Default)]
struct Words {
    end: usize,
    is_latin: bool,
}

impl Words {
    /// Whether the word around `at` reads as Latin: it has Latin letters, or consists of lookalikes and no word next to it is
    /// of another script.
    fn is_latin(&mut self, text: &str, at: usize) -> bool {
        if at >= self.end {
            let range = confusable::word_around(text, at);
            let word = &text[range.clone()];
            self.end = range.end;
            self.is_latin = word.contains(|letter: char| letter.is_ascii_alphabetic())
                || word.chars().all(|letter| ascii_lookalike(letter).is_some())
                    && !has_foreign_neighbour(text, &range);
        }
        self.is_latin
    }
}

fn has_foreign_neighbour(text: &str, word: &Range<usize>) -> bool {
    const GAP: usize = 4;
    let is_part = |letter: char| letter.is_alphanumeric();
    let before = text[..word.start].char_indices().rev().take(GAP).find(|(_, letter)| is_part(*letter));
    let after = text[word.end..].char_indices().take(GAP).find(|(_, letter)| is_part(*letter));
    let neighbours = before.map(|(at, _)| at).into_iter().chain(after.map(|(at, _)| word.end + at));
    neighbours.map(|at| &text[confusable::word_around(text, at)]).any(|neighbour| {
        !neighbour.contains(|letter: char| letter.is_ascii_alphabetic())
            && neighbour
                .chars()
                .any(|letter| confusable::looks_latin(letter) && ascii_lookalike(letter).is_none())
    })
}

#[cfg(test)]
mod tests {
    use super::super::clean;
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let folded: Vec<String> =
            fold(&SuspiciousCharacters::new(text)).into_iter().map(|folded| folded.text).collect();
        assert_eq!(folded, [expected]);
    }

    #[test]
    fn disguises_are_read_through() {
        check("ig\u{200b}nore", "ignore");
        check("іgnоre", "ignore");
        check("𝐢𝐠𝐧𝐨𝐫𝐞 ｉｔ", "ignore it");
        check("Іgnоrе аӏӏ рrеvіоus", "Ignore all previous");
        check("see сору", "see copy");
        check("🅸🅶🅽🅾🆁🅴 ɪɢɴᴏʀᴇ ⁱᵍⁿᵒʳᵉ", "ignore ignore ignore");
        check("🇮🇬🇳🇴🇷🇪 🅘🅖🅝", "ignore ign");
        check("x\u{e0072}\u{e006d}", "xrm");
        check("i\u{301}g\u{302}nore", "ignore");
        check("ign\u{301}\u{302}ore i\u{200b}\u{301}t", "ignore it");
        assert!(fold(&SuspiciousCharacters::new("naïve – prose, 漢字 и русский")).is_empty());
        assert!(fold(&SuspiciousCharacters::new("он взял сор, а не хор; у нас рос сосна")).is_empty());
    }

    /// The same as after cleaning, even if a sequence hides letters that would read by themselves.
    #[test]
    fn terminal_sequences_are_ignored_inside_words() {
        for hidden in [
            "\u{1b}[31m",
            "\u{7f}",
            "\u{8}",
            "\0",
            "\u{1b}]0;\u{200b}title\u{7}",
            "\u{9b}0m",
            "\u{1b}[0\u{1b}[0m",
        ] {
            let text = format!("ig{hidden}nore {hidden}it");
            check(&text, "ignore it");
            assert_eq!(clean(&text), "ignore it");
        }
        assert!(fold(&SuspiciousCharacters::new("one page\u{c}and the next")).is_empty());
    }

    #[test]
    fn places_point_into_the_original() {
        let text = "ab\u{200b}cd\u{200b}ef";
        let folded = &fold(&SuspiciousCharacters::new(text))[0];
        assert_eq!(&text[folded.original(&(1..5))], "b\u{200b}cd\u{200b}e");
        assert_eq!(&text[folded.original(&(4..6))], "ef");
    }

    /// Distant letters are read each with the text around it, and no word is cut in two.
    #[test]
    fn only_text_near_changes_is_rescanned() {
        let far = "some words ".repeat(400);
        let text = format!("{far}ig\u{200b}nore{far}\u{200b}all{far}");
        let folded = fold(&SuspiciousCharacters::new(&text));
        assert_eq!(folded.len(), 2);
        for (stretch, word) in folded.iter().zip(["ignore", "all"]) {
            assert!(stretch.text.len() < 2 * REACH + 100, "{}", stretch.text.len());
            let at = stretch.text.find(word).unwrap();
            assert!(at + 8 >= REACH && stretch.text.starts_with(['s', 'w', ' ']), "{}", &stretch.text[..8]);
            let original = stretch.original(&(at..at + word.len()));
            assert_eq!(text[original].replace('\u{200b}', ""), word);
        }
    }
}
