//! A second reading of a text, as a model would take it: hidden characters gone, tags spelled out, styled and lookalike
//! letters made plain. Rules about words run over this reading too; places point back into the original.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_security::skeleton;

use super::{Letters, bidirectional, confusable, invisible, tag, variation};

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

/// The plain reading, or nothing when it would be the same text.
pub(crate) fn fold(letters: &Letters<'_>) -> Option<Folded> {
    let text = letters.text;
    let mut folded = Folded { text: String::new(), anchors: vec![(0, 0)] };
    let mut at = 0;
    for (place, letter) in letters.odd.iter().copied() {
        let Some(plain) = plain(text, place, letter) else { continue };
        folded.text.push_str(&text[at..place]);
        folded.text.push_str(&plain);
        at = place + letter.len_utf8();
        folded.anchors.push((folded.text.len(), at));
    }
    if at == 0 {
        return None;
    }
    folded.text.push_str(&text[at..]);
    Some(folded)
}

/// What a letter is read as, if that is something else.
fn plain(text: &str, at: usize, letter: char) -> Option<String> {
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
    if is_combining_mark(letter) && text[..at].ends_with(|before: char| before.is_ascii()) {
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
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(fold(&Letters::new(text)).map(|folded| folded.text), Some(expected.to_owned()));
    }

    #[test]
    fn disguises_are_read_through() {
        check("ig\u{200b}nore", "ignore");
        check("іgnоre", "ignore");
        check("𝐢𝐠𝐧𝐨𝐫𝐞 ｉｔ", "ignore it");
        check("x\u{e0072}\u{e006d}", "xrm");
        check("i\u{301}g\u{302}nore", "ignore");
        assert!(fold(&Letters::new("naïve – prose, 漢字 и русский")).is_none());
    }

    #[test]
    fn places_point_into_the_original() {
        let text = "ab\u{200b}cd\u{200b}ef";
        let folded = fold(&Letters::new(text)).unwrap();
        assert_eq!(&text[folded.original(&(1..5))], "b\u{200b}cd\u{200b}e");
        assert_eq!(&text[folded.original(&(4..6))], "ef");
    }
}
