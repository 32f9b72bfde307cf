//! Carriers: places where text is hidden from people but not from models. They are comments and invisible elements of
//! HTML, titles and descriptions of links and images, and lines in a disguised spelling.

use std::ops::Range;

use super::encoding;
use crate::steps;

/// Longer contents are read up to here.
const MAX_CONTENT: usize = 16 * 1024;
const MAX_TAG: usize = 512;

/// A hidden text and where it was hidden.
pub(super) struct HiddenText {
    pub(super) kind: CarrierKind,
    pub(super) range: Range<usize>,
    pub(super) content: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CarrierKind {
    Comment,
    HiddenElement,
    MarkdownComment,
    ImageText,
    LinkTitle,
    Base64,
    Hexadecimal,
    PercentEncoded,
    Rotated,
    Reversed,
    Digits,
    Joined,
    Escaped,
}

pub(super) const KINDS: usize = CarrierKind::Escaped as usize + 1;

/// The literals that start a carrier.
pub(super) const LITERALS: &[(&str, CarrierKind)] = &[
    ("<!--", CarrierKind::Comment),
    ("[//]: #", CarrierKind::MarkdownComment),
    ("[comment]: #", CarrierKind::MarkdownComment),
    ("display:none", CarrierKind::HiddenElement),
    ("display: none", CarrierKind::HiddenElement),
    ("visibility:hidden", CarrierKind::HiddenElement),
    ("visibility: hidden", CarrierKind::HiddenElement),
    ("font-size:0", CarrierKind::HiddenElement),
    ("font-size: 0", CarrierKind::HiddenElement),
    ("opacity:0", CarrierKind::HiddenElement),
    ("opacity: 0", CarrierKind::HiddenElement),
    ("color:white", CarrierKind::HiddenElement),
    ("color: white", CarrierKind::HiddenElement),
    ("color:#fff", CarrierKind::HiddenElement),
    ("color: #fff", CarrierKind::HiddenElement),
    ("![", CarrierKind::ImageText),
    ("](", CarrierKind::LinkTitle),
    ("\\u00", CarrierKind::Escaped),
    ("\\u{", CarrierKind::Escaped),
    ("\\1", CarrierKind::Escaped),
    ("\\x", CarrierKind::Escaped),
    ("&#", CarrierKind::Escaped),
    // Words that such messages need, rotated by thirteen letters and written backwards.
    ("vafgehpgvba", CarrierKind::Rotated),
    ("vtaber", CarrierKind::Rotated),
    ("flfgrz cebzcg", CarrierKind::Rotated),
    ("perqragvny", CarrierKind::Rotated),
    ("noitcurtsni", CarrierKind::Reversed),
    ("erongi", CarrierKind::Reversed),
    ("tpmorp metsys", CarrierKind::Reversed),
    ("slaitnederc", CarrierKind::Reversed),
    // The same words with digits for letters, in their usual spellings. None begins like a word that is common in
    // source code.
    ("1gnore", CarrierKind::Digits),
    ("1gnor3", CarrierKind::Digits),
    ("1gn0re", CarrierKind::Digits),
    ("1gn0r3", CarrierKind::Digits),
    ("ign0re", CarrierKind::Digits),
    ("ign0r3", CarrierKind::Digits),
    ("1nstruct", CarrierKind::Digits),
    ("1n5truct", CarrierKind::Digits),
    ("1nstruc7", CarrierKind::Digits),
    ("1n57ruc7", CarrierKind::Digits),
    ("1ns7ruc7", CarrierKind::Digits),
    ("in5truct", CarrierKind::Digits),
    ("in57ruc7", CarrierKind::Digits),
    ("ins7ruc7", CarrierKind::Digits),
    ("uct10n", CarrierKind::Digits),
    ("uct1on", CarrierKind::Digits),
    ("pr3vi", CarrierKind::Digits),
    ("pr3v1", CarrierKind::Digits),
    // And without spaces between them.
    ("ignore_all_", CarrierKind::Joined),
    ("disregard_all_", CarrierKind::Joined),
    ("forget_all_", CarrierKind::Joined),
    ("previous_instruction", CarrierKind::Joined),
    ("previous-instruction", CarrierKind::Joined),
    ("previous.instruction", CarrierKind::Joined),
    ("previousinstruction", CarrierKind::Joined),
    ("do_not_tell_", CarrierKind::Joined),
    ("do.not.tell.", CarrierKind::Joined),
    ("do-not-tell-", CarrierKind::Joined),
    ("donottellthe", CarrierKind::Joined),
];

impl CarrierKind {
    /// The carrier that the literal at `hit` starts.
    pub(super) fn open(
        self,
        text: &str,
        hit: Range<usize>,
        endings: &mut ClosingCaches,
    ) -> Option<HiddenText> {
        let range = match self {
            CarrierKind::Comment => hit.end..endings.comment.after(text, hit.end)?,
            CarrierKind::MarkdownComment => hit.end..endings.line.after(text, hit.end).unwrap_or(text.len()),
            CarrierKind::HiddenElement => element(text, hit.end, &mut endings.element)?,
            CarrierKind::ImageText => hit.end..image_text_end(text, hit.end, endings)?,
            CarrierKind::LinkTitle => title(text, hit.end, endings)?,
            CarrierKind::Rotated | CarrierKind::Reversed | CarrierKind::Digits => {
                encoding::line_around(text, hit.start)
            }
            CarrierKind::Joined => run_around(text, hit),
            CarrierKind::Escaped => return self.escaped(text, hit.start, endings),
            CarrierKind::Base64 | CarrierKind::Hexadecimal | CarrierKind::PercentEncoded => return None,
        };
        let inside = &text[range.clone()];
        let content = match self {
            CarrierKind::Rotated => inside.chars().map(encoding::rotate).collect(),
            CarrierKind::Reversed => inside.chars().rev().collect(),
            CarrierKind::Digits => inside.chars().map(letter_for).collect(),
            CarrierKind::Joined => split_joined_words(inside),
            _ => inside.to_owned(),
        };
        (content.len() > 12).then_some(HiddenText { kind: self, range, content })
    }

    /// A sequence of escapes is read only once.
    fn escaped(self, text: &str, at: usize, endings: &mut ClosingCaches) -> Option<HiddenText> {
        if at < endings.escapes {
            return None;
        }
        let (range, content) = encoding::escapes(text, at);
        endings.escapes = range.end;
        content.map(|content| HiddenText { kind: self, range, content })
    }

    pub(super) fn description(self) -> &'static str {
        match self {
            CarrierKind::Comment | CarrierKind::MarkdownComment => "in a comment",
            CarrierKind::HiddenElement => "in an invisible element",
            CarrierKind::ImageText => "in the text of an image",
            CarrierKind::LinkTitle => "in the title of a link",
            CarrierKind::Base64 => "encoded as base64",
            CarrierKind::Hexadecimal => "encoded as hexadecimal",
            CarrierKind::PercentEncoded => "percent-encoded",
            CarrierKind::Rotated => "with rotated letters",
            CarrierKind::Reversed => "written backwards",
            CarrierKind::Digits => "with digits for letters",
            CarrierKind::Joined => "with words run together",
            CarrierKind::Escaped => "written in escapes",
        }
    }

    /// How much hiding adds to the weight of a text. Comments are normal; nobody rotates letters by accident.
    pub(super) fn score_bonus(self) -> u32 {
        match self {
            CarrierKind::ImageText | CarrierKind::LinkTitle => 1,
            // Programmers join words all day.
            CarrierKind::Joined => 0,
            CarrierKind::Comment
            | CarrierKind::MarkdownComment
            | CarrierKind::Escaped
            | CarrierKind::PercentEncoded => 2,
            CarrierKind::HiddenElement
            | CarrierKind::Base64
            | CarrierKind::Hexadecimal
            | CarrierKind::Rotated
            | CarrierKind::Reversed
            | CarrierKind::Digits => 4,
        }
    }
}

/// The letter that a digit or a sign stands for.
fn letter_for(letter: char) -> char {
    match letter {
        '0' => 'o',
        '1' | '!' => 'i',
        '3' => 'e',
        '4' | '@' => 'a',
        '5' | '$' => 's',
        '7' => 't',
        other => other,
    }
}

/// The words that are joined with those at `hit`.
fn run_around(text: &str, hit: Range<usize>) -> Range<usize> {
    let bytes = text.as_bytes();
    let joins = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let before = bytes[hit.start.saturating_sub(MAX_TAG)..hit.start].iter().rev().take_while(joins).count();
    let after = bytes[hit.end..bytes.len().min(hit.end + MAX_TAG)].iter().take_while(joins).count();
    steps::count(before + after);
    hit.start - before..hit.end + after
}

/// Words that signs or capitals join, with spaces between them.
fn split_joined_words(joined: &str) -> String {
    let mut words = String::with_capacity(joined.len() + joined.len() / 4);
    let mut before = ' ';
    for letter in joined.chars() {
        if letter.is_ascii_uppercase() && before.is_ascii_lowercase() {
            words.push(' ');
        }
        words.push(if matches!(letter, '_' | '.' | '-') { ' ' } else { letter });
        before = letter;
    }
    words
}

/// Caches the last position of each text that ends a carrier. A text with many openings would otherwise search for the
/// same ending again and again, over `MAX_CONTENT` bytes each.
pub(super) struct ClosingCaches {
    comment: ClosingCache,
    element: ClosingCache,
    line: ClosingCache,
    link: ClosingCache,
    title: ClosingCache,
    /// The range in which no address of a link ends, except at its last byte.
    address: Range<usize>,
    /// Where the last row of escapes ended.
    escapes: usize,
}

impl Default for ClosingCaches {
    fn default() -> Self {
        let ending = |closing| ClosingCache { closing, searched: 0..0, found: None };
        ClosingCaches {
            comment: ending("-->"),
            element: ending("</"),
            line: ending("\n"),
            link: ending("]("),
            title: ending("\")"),
            address: 0..0,
            escapes: 0,
        }
    }
}

impl ClosingCaches {
    /// The end of the link's address that begins at `from`, if it is near and on the same line.
    fn address_end(&mut self, text: &str, from: usize) -> Option<usize> {
        let to = (from + MAX_TAG).min(text.len());
        let known = &mut self.address;
        if from < known.start || from > known.end {
            *known = from..from;
        }
        let unread = text.as_bytes().get(known.end..to)?;
        let found = memchr::memchr3(b')', b' ', b'\n', unread);
        steps::count(found.unwrap_or(unread.len()));
        known.end += found.unwrap_or(unread.len());
        found.map(|_| known.end)
    }
}

struct ClosingCache {
    closing: &'static str,
    /// The range that was searched; `found` is the only ending, at its end.
    searched: Range<usize>,
    found: Option<usize>,
}

impl ClosingCache {
    /// Where the first ending at or after `from` begins, if that is near.
    fn after(&mut self, text: &str, from: usize) -> Option<usize> {
        let to = text.floor_char_boundary((from + MAX_CONTENT).min(text.len()));
        if !self.searched.contains(&from) {
            self.searched = from..from;
            self.found = None;
        }
        if self.found.is_none() && self.searched.end < to {
            let unread = &text.as_bytes()[self.searched.end..to];
            let found = memchr::memmem::find(unread, self.closing.as_bytes());
            steps::count(found.unwrap_or(unread.len()));
            self.found = found.map(|at| self.searched.end + at);
            // An ending may begin in the last bytes and continue after them.
            let unread = text.floor_char_boundary(to.saturating_sub(self.closing.len() - 1));
            self.searched.end = self.found.map_or(unread.max(self.searched.end), |at| at + 1);
        }
        self.found.filter(|at| *at < to)
    }
}

/// The end of an image's text, on the line where it begins.
fn image_text_end(text: &str, from: usize, endings: &mut ClosingCaches) -> Option<usize> {
    let line_end = endings
        .line
        .after(text, from)
        .unwrap_or_else(|| text.floor_char_boundary((from + MAX_TAG).min(text.len())));
    endings.link.after(text, from).filter(|at| *at < line_end)
}

/// From the end of the tag that hides to the next closing tag.
fn element(text: &str, style: usize, ending: &mut ClosingCache) -> Option<Range<usize>> {
    let to = text.floor_char_boundary((style + MAX_TAG).min(text.len()));
    steps::count(to - style);
    let start = style + text[style..to].find('>')? + 1;
    // A style sheet hides elements that are elsewhere.
    if text[style..start].contains(['{', '}', ';', '\n']) && !text[style..start].contains(['"', '\'']) {
        return None;
    }
    let end = ending.after(text, start)?;
    Some(start..end)
}

/// `](address "title")`.
fn title(text: &str, start: usize, endings: &mut ClosingCaches) -> Option<Range<usize>> {
    let address_end = endings.address_end(text, start)?;
    let begin = address_end + 2;
    text[address_end..].strip_prefix(" \"")?;
    let end = endings.title.after(text, begin)?;
    let line_end = endings.line.after(text, begin).unwrap_or(text.len());
    (end < line_end && end - start < MAX_TAG).then_some(begin..end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The content of a carrier with the text `text`, opened at its word `word`.
    fn content(kind: CarrierKind, text: &str, word: &str) -> Option<String> {
        let at = text.find(word)?;
        kind.open(text, at..at + word.len(), &mut ClosingCaches::default()).map(|carrier| carrier.content)
    }

    proptest! {
        /// Each spelling of a line is read as the line that was spelled.
        #[test]
        fn spellings_are_read(words in proptest::collection::vec("[a-z]{1,8}", 1..6), sign in "[_.-]") {
            let line = format!("ignore {} all of it", words.join(" "));
            let reversed: String = line.chars().rev().collect();
            prop_assert_eq!(content(CarrierKind::Reversed, &reversed, "erongi"), Some(line.clone()));
            let rotated: String = line.chars().map(encoding::rotate).collect();
            prop_assert_eq!(content(CarrierKind::Rotated, &rotated, "vtaber"), Some(line.clone()));
            let digits = line.replace('i', "1").replace('o', "0").replace('e', "3").replace('a', "4");
            prop_assert_eq!(content(CarrierKind::Digits, &digits, "1gn0r3"), Some(line.clone()));
            let joined = format!("see {} there", line.replace(' ', &sign));
            prop_assert_eq!(content(CarrierKind::Joined, &joined, "ignore"), Some(line.clone()));
            let capitals: String = line
                .split(' ')
                .map(|word| word[..1].to_uppercase() + &word[1..])
                .collect();
            let read = content(CarrierKind::Joined, &capitals, "Ignore").unwrap().to_lowercase();
            // Two capitals in a row are one word: `AI` is.
            prop_assert!(words.iter().any(|word| word.len() == 1) || read == line, "{}", read);
        }
    }

    #[test]
    fn titles_of_links() {
        let check = |text: &str, expected: &[&str]| {
            let mut endings = ClosingCaches::default();
            let hits = text.match_indices("](").map(|(at, _)| at + 2);
            let titles: Vec<_> = hits.filter_map(|at| title(text, at, &mut endings)).collect();
            assert_eq!(titles.into_iter().map(|range| &text[range]).collect::<Vec<_>>(), expected, "{text}");
        };
        check("[a](b \"one two\") [c](d) [e](f \"three\")", &["one two", "three"]);
        check("[a](b [c](d \"one\")", &["one"]);
        check("[a](b\n \"one\") [a](b \"o\nne\")", &[]);
        check(&format!("](x](é{}](b \"one\")", "x".repeat(MAX_TAG)), &["one"]);
    }

    /// The cache never changes a result.
    #[test]
    fn remembered_endings_are_the_ones_that_a_search_finds() {
        let far = "x".repeat(MAX_CONTENT - 1);
        for text in
            ["", "-->", "a-->b-->c", "<!-- <!-- -->", &format!("{far}-->"), &format!("é{far}-->{far}é--")]
        {
            let mut remembered = ClosingCaches::default().comment;
            for from in (0..=text.len()).filter(|from| text.is_char_boundary(*from)) {
                let to = text.floor_char_boundary((from + MAX_CONTENT).min(text.len()));
                let expected = text[from..].find("-->").map(|at| from + at).filter(|at| *at + 3 <= to);
                let found = remembered.after(text, from);
                assert!(found == expected || found.is_some_and(|at| text[at..].starts_with("-->")), "{from}");
                assert!(expected.is_none() || found == expected, "{from}: {found:?} instead of {expected:?}");
            }
        }
    }
}
