//! A second reading of a text, as a model would take it: hidden characters and what terminals act on gone, tags spelled
//! out, styled and lookalike letters made plain. Rules about words run over this reading too; places point back into the original.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_security::skeleton;

use crate::injection::signal::MAX_REACH;

use super::{Letters, bidirectional, confusable, invisible, letter_before, tag, variation};

/// Further from a changed letter nothing depends on it.
const REACH: usize = MAX_REACH + 64;

pub(crate) struct Folded {
    pub(crate) text: String,
    /// Where each changed stretch begins, in the folded and in the original text.
    anchors: Vec<(usize, usize)>,
}

impl Folded {
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

/// The plain reading of every stretch in which it is another than the text's: one for each group of changed letters, with
/// as much of the text around them as a rule about words can reach.
pub(crate) fn fold(letters: &Letters<'_>) -> Vec<Folded> {
    let text = letters.text;
    let mut stretches: Vec<Folded> = Vec::new();
    let mut at = 0;
    for (place, letter) in places(letters) {
        if place.start < at {
            continue;
        }
        // What stands before it, as it is read.
        let before = match stretches.last() {
            Some(folded) if place.start == at => folded.text.chars().next_back(),
            _ => letter_before(text, place.start),
        };
        let Some(plain) =
            letter.map_or(Some(String::new()), |letter| plain(text, place.start, letter, before))
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
                stretches
                    .push(Folded { text: text[start..place.start].to_owned(), anchors: vec![(0, start)] });
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

/// What may be read as something else, in order of place: letters, and what terminals act on. Cleaning takes the latter
/// away, and the words around it grow together.
fn places(letters: &Letters<'_>) -> Vec<(Range<usize>, Option<char>)> {
    let controls = letters.controls.iter().map(|mark| (mark.range.clone(), None));
    let odd = letters.odd.iter().map(|(at, letter)| (*at..at + letter.len_utf8(), Some(*letter)));
    let mut places: Vec<_> = controls.chain(odd).collect();
    places.sort_by_key(|(place, _)| place.start);
    places
}

/// Where the word around `at` begins: cut in two, its second half could be taken for another word.
fn word_start(text: &str, at: usize) -> usize {
    const MAX_WORD: usize = 64;
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
    let before = text.as_bytes()[at.saturating_sub(MAX_WORD)..at].iter().rev();
    text.floor_char_boundary(at - before.take_while(is_part).count())
}

/// What a letter is read as, if that is something else. `before` is what was read before it.
fn plain(text: &str, at: usize, letter: char, before: Option<char>) -> Option<String> {
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
    if is_combining_mark(letter) && before.is_some_and(|before| before.is_ascii()) {
        return Some(String::new());
    }
    if confusable::looks_latin(letter) && touches_latin(text, at, letter) {
        let likeness: String = skeleton(letter.encode_utf8(&mut [0; 4])).collect();
        return likeness.is_ascii().then_some(likeness);
    }
    None
}

/// Bold, italic, circled and full-width copies of letters and digits.
fn is_styled(letter: char) -> bool {
    matches!(u32::from(letter), 0x1d400..=0x1d7ff | 0xff01..=0xff5e | 0x2460..=0x24ff | 0x1f110..=0x1f16c | 0x2100..=0x214f)
        && letter.is_alphanumeric()
}

fn touches_latin(text: &str, at: usize, letter: char) -> bool {
    let is_latin = |side: Option<char>| side.is_some_and(|letter| letter.is_ascii_alphabetic());
    is_latin(text[..at].chars().next_back()) || is_latin(text[at + letter.len_utf8()..].chars().next())
}

#[cfg(test)]
mod tests {
    use super::super::clean;
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let folded: Vec<String> = fold(&Letters::new(text)).into_iter().map(|folded| folded.text).collect();
        assert_eq!(folded, [expected]);
    }

    #[test]
    fn disguises_are_read_through() {
        check("ig\u{200b}nore", "ignore");
        check("іgnоre", "ignore");
        check("𝐢𝐠𝐧𝐨𝐫𝐞 ｉｔ", "ignore it");
        check("x\u{e0072}\u{e006d}", "xrm");
        check("i\u{301}g\u{302}nore", "ignore");
        check("ign\u{301}\u{302}ore i\u{200b}\u{301}t", "ignore it");
        assert!(fold(&Letters::new("naïve – prose, 漢字 и русский")).is_empty());
    }

    /// As cleaning leaves it; also where one sequence hides letters that would be read by themselves.
    #[test]
    fn what_terminals_act_on_is_read_as_nothing() {
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
        assert!(fold(&Letters::new("one page\u{c}and the next")).is_empty());
    }

    #[test]
    fn places_point_into_the_original() {
        let text = "ab\u{200b}cd\u{200b}ef";
        let folded = &fold(&Letters::new(text))[0];
        assert_eq!(&text[folded.original(&(1..5))], "b\u{200b}cd\u{200b}e");
        assert_eq!(&text[folded.original(&(4..6))], "ef");
    }

    /// Far apart, they are read each with what is around it, and no word is cut in two.
    #[test]
    fn only_what_is_near_is_read_again() {
        let far = "some words ".repeat(400);
        let text = format!("{far}ig\u{200b}nore{far}\u{200b}all{far}");
        let folded = fold(&Letters::new(&text));
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
