//! Attacks with hidden characters, and languages that need the same characters.

use proptest::prelude::*;

use super::*;

fn marks(text: &str) -> Vec<Mark> {
    super::marks(&SuspiciousCharacters::new(text))
}

#[track_caller]
fn check(text: &str, expected: &[(&str, Severity)]) {
    let found: Vec<_> = marks(text).into_iter().map(|mark| (mark.rule.name(), mark.severity)).collect();
    assert_eq!(found, expected, "{text:?}");
}

#[track_caller]
fn survives(text: &str) {
    check(text, &[]);
    assert_eq!(clean(text), text);
}

fn tags(text: &str) -> String {
    text.chars().map(|letter| char::from_u32(u32::from(letter) + 0xe0000).unwrap()).collect()
}

#[test]
fn hidden_text_is_found_and_decoded() {
    let text = format!("hello{}", tags("run it"));
    check(&text, &[("tag-characters", Severity::Critical)]);
    assert_eq!(marks(&text)[0].detail.as_deref(), Some("hidden text: run it"));
    assert_eq!(clean(&text), "hello");
    let bits: String = b"rm"
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1))
        .map(|bit| if bit == 1 { '\u{200c}' } else { '\u{200b}' })
        .collect();
    let hidden = marks(&format!("a {bits} b"));
    assert_eq!(hidden[0].rule.name(), "zero-width-channel");
    assert!(hidden[0].detail.as_deref().unwrap().ends_with(": rm"));
    let selectors: String =
        b"do it now".iter().map(|byte| char::from_u32(0xe0100 + u32::from(*byte) - 16).unwrap()).collect();
    let hidden = marks(&format!("😀{selectors}"));
    assert_eq!((hidden[0].rule.name(), hidden[0].severity), ("variation-selectors", Severity::Critical));
    assert!(hidden[0].detail.as_deref().unwrap().ends_with(": do it now"));
}

#[test]
fn copies_of_one_character_carry_no_bits() {
    let copies = "\u{200b}".repeat(8);
    check(&format!("a {copies} b"), &[("zero-width", Severity::Medium)]);
    check(&format!("a{copies}b"), &[("zero-width", Severity::High)]);
    check(&format!("a {copies}\u{200c} b"), &[("zero-width-channel", Severity::Critical)]);
}

#[test]
fn disguises_in_words() {
    check("ig\u{200b}nore", &[("zero-width", Severity::High)]);
    check("glpat-\u{200b}x7", &[("zero-width", Severity::Medium)]);
    assert_eq!(clean("glpat-\u{200b}x7 sk-ant\u{200b}-api"), "glpat-x7 sk-ant-api");
    check("a\u{3164}b", &[("invisible-letter", Severity::High)]);
    check("if admin\u{202e} {", &[("bidirectional-control", Severity::High)]);
    check("https://gіthub.com/x", &[("confusable-letters", Severity::High)]);
    check("the раypal page", &[("confusable-letters", Severity::Medium)]);
    check(&format!("a{}", "\u{301}".repeat(30)), &[("combining-flood", Severity::High)]);
}

#[test]
fn terminals() {
    check(
        "\u{1b}[31mred\u{1b}[0m",
        &[("terminal-colour", Severity::Low), ("terminal-colour", Severity::Low)],
    );
    check("a\u{1b}]52;c;cm0gLXJm\u{7}b", &[("terminal-command", Severity::High)]);
    check("x\u{1b}[2J", &[("terminal-escape", Severity::Medium)]);
    check("a\0b", &[("nul", Severity::High)]);
    check("\u{9b}31m", &[("control-character", Severity::High)]);
    assert_eq!(clean("\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7}x\0y"), "red xy");
}

#[test]
fn ordinary_text_is_unchanged() {
    survives("plain\ttext\r\n\u{c}next page");
    survives("👩‍👩‍👧‍👦 ❤️ 1️⃣ 🏴󠁧󠁢󠁥󠁮󠁧󠁿 👍🏽 ⚠️ ©️ 🏳️‍🌈");
    survives("½ ﬁ ① ™ Ⅷ ｆｕｌｌ，width。 naïve café Ångström");
    survives("漢字かな交じり文 한국어 中文，标点。");
    survives("שלום עולם — العربية مع \u{2067}نص\u{2069} مختلط");
    survives("می‌خواهم हिन्दी क्‍ष ภาษาไทย");
    survives("Привет, мир: Docker и Python, Ελληνικά κείμενα, Δt = 5 μs, σ_x");
    survives("\u{feff}# title");
    survives("⠋⠙⠹ ⠀⠿ → ✓ │ └── █ \u{e0b0}");
    survives("葛\u{e0100}飾区");
}

proptest! {
    #[test]
    fn cleaning_is_idempotent(text in "[a-b\\x00-\\x1f\u{80}-\u{9f}\u{200b}-\u{200f}\u{202a}-\u{202e}\u{2066}-\u{2069}\u{fe00}-\u{fe0f}\u{e0000}-\u{e01ef}\u{300}-\u{305}\u{3164}\u{1f3f4}א漢\\n\\[\\];m]{0,40}") {
        let cleaned = clean(&text).into_owned();
        prop_assert_eq!(clean(&cleaned), cleaned.as_str());
    }

    #[test]
    fn cleaning_only_takes_away(text in "\\PC{0,60}") {
        let cleaned = clean(&text).into_owned();
        let mut rest = text.chars();
        prop_assert!(cleaned.chars().all(|letter| rest.any(|other| other == letter)));
    }

    #[test]
    fn folded_places_are_in_the_text(text in "[a-c\u{200b}\u{e0061}-\u{e0063}\u{430}\u{ff41}\u{301}é]{0,30}", from in 0usize..30, to in 0usize..30) {
        for folded in fold::fold(&SuspiciousCharacters::new(&text)) {
            let from = folded.text.floor_char_boundary(from.min(folded.text.len()));
            let to = folded.text.floor_char_boundary(to.min(folded.text.len())).max(from);
            let range = folded.original(&(from..to));
            prop_assert!(text.get(range).is_some());
        }
    }

    /// Text hidden in invisible characters is decoded.
    #[test]
    fn hidden_channels_are_decoded(text in "[ -~]{1,40}", other in "\\PC{0,40}") {
        prop_assert_eq!(tag::decode(&tags(&text)), text.as_str());
        let selectors: String = other.bytes().map(|byte| {
            let code = if byte < 16 { 0xfe00 + u32::from(byte) } else { 0xe0100 + u32::from(byte) - 16 };
            char::from_u32(code).unwrap()
        }).collect();
        prop_assert_eq!(variation::decode(&selectors), other.as_str());
        for [zero, one] in [['\u{200b}', '\u{200c}'], ['\u{2060}', '\u{feff}']] {
            let bits = text.bytes().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
            let hidden: String = bits.map(|bit| if bit == 0 { zero } else { one }).collect();
            prop_assert_eq!(invisible::decode_bits(&hidden), text.as_str());
        }
    }

    #[test]
    fn decoders_of_channels_take_any_text(text in "(\\PC|[\u{200b}-\u{200f}\u{fe00}-\u{fe0f}\u{e0000}-\u{e01ef}]){0,40}") {
        let longest = text.chars().count();
        prop_assert!(tag::decode(&text).chars().count() <= longest);
        prop_assert!(variation::decode(&text).chars().count() <= longest);
        prop_assert!(invisible::decode_bits(&text).chars().count() <= longest.max("(not text)".len()));
    }
}
