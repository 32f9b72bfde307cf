//! What the redactor promises: it masks known values, documents stay valid, portions make no difference, and masking twice
//! changes nothing.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use std::sync::LazyLock;

use super::*;

const VALUE: &str = "Kw9-correct/horse+Zq7";

static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| {
    let values = [("vault", VALUE), ("key", "line-one-of-a-long-key\nline-two-of-a-long-key")];
    Redactor::with_known(values).unwrap()
});

fn redactor() -> &'static Redactor {
    &REDACTOR
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(redactor().redact(text), expected);
}

#[test]
fn known_values_leave_in_no_form() {
    check(&format!("a {VALUE} b"), "a [REDACTED:vault] b");
    check("x=Kw9-correct%2Fhorse%2BZq7&y", "x=[REDACTED:vault]&y");
    let encoded = STANDARD.encode(format!("user:{VALUE}"));
    assert!(redactor().redact(&encoded).contains("[REDACTED:vault]"), "{encoded}");
    check("a\n  line-two-of-a-long-key\nb", "a\n  [REDACTED:key]\nb");
}

#[test]
fn wrapped_base64_is_searched_over_its_line_ends() {
    let encoded = STANDARD.encode(format!("{}{VALUE}{}", "x".repeat(45), "y".repeat(50)));
    let wrapped: Vec<&str> = encoded.as_bytes().chunks(76).map(|c| std::str::from_utf8(c).unwrap()).collect();
    let masked = redactor().redact(&wrapped.join("\n")).into_owned();
    assert!(masked.contains("[REDACTED:vault]"), "{masked}");
}

/// As scripts print them: by `fold`, `base64 -w`, `od`, `printf %q` and as lists, whole and in pieces.
#[test]
fn values_over_several_lines_leave_in_no_text_and_no_stream() {
    let redactor = Redactor::with_known([("vault", VALUE)]).unwrap();
    let chunks = |text: &str, width: usize, between: &str| -> String {
        let lines = text.as_bytes().chunks(width).map(|line| std::str::from_utf8(line).unwrap());
        lines.collect::<Vec<_>>().join(between)
    };
    let hex: String = VALUE.bytes().map(|byte| format!("{byte:02x}")).collect();
    let numbers: Vec<String> = VALUE.bytes().map(|byte| byte.to_string()).collect();
    let twice = STANDARD.encode(STANDARD.encode(VALUE));
    let texts = [
        chunks(VALUE, 5, "\n"),
        chunks(VALUE, 1, "\n"),
        chunks(&STANDARD.encode(VALUE), 10, "\n"),
        chunks(&hex, 2, " "),
        chunks(&hex, 8, "\r\n"),
        chunks(VALUE, 7, "\n\ndata: "),
        numbers.join(", "),
        numbers.join("\n"),
        chunks(&twice, 16, "\n"),
        format!("[\"{}\"]", chunks(VALUE, 4, "\",\"")),
        VALUE.chars().map(|letter| format!("\\{:03o}", u32::from(letter))).collect(),
        VALUE.replace('/', "\\x2f").replace('o', "%6f"),
    ];
    for text in texts {
        let whole = format!("before {text} after\n");
        let masked = redactor.redact(&whole).into_owned();
        assert!(masked.starts_with("before ") && masked.ends_with(" after\n"), "{text}: {masked}");
        assert!(masked.contains("[REDACTED:vault]"), "{text}: {masked}");
        for size in [1, 7, whole.len()] {
            let masked = String::from_utf8(stream(&redactor, whole.as_bytes(), &[size])).unwrap();
            let shown = broken::join(masked.as_bytes()).bytes;
            let plain = broken::join(text.as_bytes()).bytes;
            let is_shown = plain.windows(8).any(|part| memchr::memmem::find(&shown, part).is_some());
            assert!(!is_shown, "{text}: {masked}");
            assert!(masked.starts_with("before ") && masked.ends_with(" after\n"), "{text}: {masked}");
        }
    }
}

#[test]
fn a_value_over_several_strings_is_overwritten_in_each() {
    let redactor = Redactor::with_known([("vault", VALUE)]).unwrap();
    let parts: Vec<&str> =
        VALUE.as_bytes().chunks(7).map(|part| std::str::from_utf8(part).unwrap()).collect();
    let document = serde_json::json!({ "argv": parts, "n": 1 }).to_string();
    assert_eq!(redactor.redact_json(&document), r#"{"argv":["*******","*******","*******"],"n":1}"#);
}

#[test]
fn fragments_count_only_where_the_text_was_cut() {
    check("the end: Kw9-correct/ho", "the end: [REDACTED:vault]");
    check(
        "Kw9-correct/ho\n... [120 lines truncated] ...\nx",
        "[REDACTED:vault]\n... [120 lines truncated] ...\nx",
    );
    check("[cut] rse+Zq7 and /horse+Zq7", "[cut] rse+Zq7 and /horse+Zq7");
    check("[cut] t/horse+Zq7", "[cut] [REDACTED:vault]");
    check("Kw9-correct is a word here", "Kw9-correct is a word here");
}

#[test]
fn debug_output_hides_known_values() {
    let shown = format!("{:?}", redactor());
    assert!(shown.contains("vault") && !shown.contains("horse") && !shown.contains("line-one"), "{shown}");
    assert_eq!(Redactor::with_known([("pin", "123")]).unwrap_err().name, "pin");
}

#[test]
fn a_name_that_holds_a_value_is_not_printed() {
    let redactor = Redactor::with_known([("REDACTED-github", "github"), ("x", "REDACTED")]).unwrap();
    assert_eq!(redactor.redact("my github"), "my ***");
}

#[test]
fn json_stays_valid_and_otherwise_untouched() {
    let redactor = Redactor::with_known([("pin", "48213377"), ("vault", VALUE)]).unwrap();
    let text = r#"{ "a" : 1.50e3, "password":"p4ss\"w0rd!x", "n": 48213377, "nested": "{\"k\": \"Kw9-correct\/horse+Zq7\"}" }"#;
    let masked = redactor.redact_json(text);
    let expected = r#"{ "a" : 1.50e3, "password":"[REDACTED:password-assignment]", "n": "[REDACTED]", "nested": "{\"k\": \"[REDACTED:vault]\"}" }"#;
    assert_eq!(masked, expected);
    serde_json::from_str::<serde_json::Value>(&masked).unwrap();
    assert_eq!(
        redactor.redact_json(r#"{"author": "Jane", "issue_key": "AB-12345678"}"#),
        r#"{"author": "Jane", "issue_key": "AB-12345678"}"#
    );
    assert_eq!(
        redactor.redact_json("DB_PASSWORD=hunter2-rainbow"),
        "DB_PASSWORD=[REDACTED:password-assignment]"
    );
}

#[test]
fn a_value_over_several_tokens_takes_the_document_with_it() {
    let redactor = Redactor::with_known([("whole", r#""k": "v1", "w": "v2""#)]).unwrap();
    assert_eq!(redactor.redact_json(r#"{"k": "v1", "w": "v2"}"#), "\"***\"");
}

#[test]
fn binary_output_is_searched_too() {
    let mut bytes = vec![0xff, 0xfe, 0x00];
    bytes.extend_from_slice(VALUE.as_bytes());
    bytes.push(0xff);
    assert_eq!(&*redactor().redact_bytes(&bytes), b"\xff\xfe\x00[REDACTED:vault]\xff");
}

fn stream(redactor: &Redactor, text: &[u8], pieces: &[usize]) -> Vec<u8> {
    let mut stream = StreamRedactor::default();
    let mut masked = Vec::new();
    let mut rest = text;
    for size in pieces.iter().cycle().take(text.len() + 1) {
        let (piece, after) = rest.split_at((*size).min(rest.len()));
        masked.extend(stream.push(redactor, piece));
        assert!(stream.held_bytes() <= stream::bound(redactor));
        rest = after;
    }
    masked.extend(stream.push(redactor, rest));
    masked.extend(stream.finish(redactor));
    masked
}

#[test]
fn keys_and_known_values_over_lines_survive_no_stream() {
    let body = "MIIEpAIBAAKCAQEA7bq0Zk3p9XvLm2Rt8Ys5Wd1Fg6Hj4Kl0Qe7Uo3Ia9Pz";
    let text = format!(
        "k\n-----BEGIN RSA PRIVATE KEY-----\n{body}\n{body}\n-----END RSA PRIVATE KEY-----\nrest\nline-one-of-a-long-key\nline-two-of-a-long-key\n"
    );
    for size in 1..40 {
        let masked = String::from_utf8(stream(redactor(), text.as_bytes(), &[size])).unwrap();
        assert_eq!(masked, "k\n[REDACTED:private-key]\nrest\n[REDACTED:key]\n");
    }
}

#[test]
fn a_line_without_end_is_masked_in_bounded_parts() {
    let text = format!("{} {VALUE} {}", "word ".repeat(40_000), "x".repeat(300_000));
    let masked = stream(redactor(), text.as_bytes(), &[7919]);
    assert_eq!(masked, text.replace(VALUE, "[REDACTED:vault]").into_bytes());
}

/// Texts in which secrets, their encodings and look-alikes are frequent.
fn texts() -> impl Strategy<Value = String> {
    let encoded = STANDARD.encode(VALUE);
    let pieces = prop_oneof![
        "[ -~\\n]{0,12}",
        "\\PC{0,4}",
        Just(VALUE.to_owned()),
        Just(VALUE[..9].to_owned()),
        Just(encoded),
        Just("DB_PASSWORD=hunter2-rainbow".to_owned()),
        Just(["ghp_", "zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ", "0mLq17"].concat()),
        Just("-----BEGIN PRIVATE KEY-----\n".to_owned()),
        Just("postgres://app:S3cr3t!@db/x\n".to_owned()),
        Just("\n".to_owned()),
        Just("[REDACTED:vault]".to_owned()),
    ];
    proptest::collection::vec(pieces, 0..24).prop_map(|parts| parts.concat())
}

/// A value in an encoding, written without the redactor's code.
fn spellings(value: &str) -> Vec<String> {
    let each = |write: fn(u8) -> String| value.bytes().map(write).collect::<String>();
    let quoted = serde_json::to_string(value).unwrap();
    let twice = serde_json::to_string(&quoted).unwrap();
    let mut all = vec![
        value.to_owned(),
        quoted[1..quoted.len() - 1].to_owned(),
        twice[3..twice.len() - 3].to_owned(),
        each(|byte| format!("{byte:02x}")),
        each(|byte| format!("{byte:02X}")),
        each(|byte| format!("%{byte:02x}")),
        each(|byte| format!("%{byte:02X}")),
        each(|byte| {
            if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }
        }),
        each(|byte| {
            if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02x}") }
        }),
    ];
    // In base64, a value of four bytes fixes too few characters.
    for shift in ["", "x", "xy"].into_iter().filter(|_| value.len() > Redactor::MIN_KNOWN) {
        all.push(STANDARD.encode(format!("{shift}{value}tail")));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn masking_twice_is_masking_once(text in texts()) {
        let redactor = redactor();
        let once = redactor.redact(&text).into_owned();
        prop_assert_eq!(redactor.redact(&once), once.as_str());
    }

    #[test]
    fn no_known_value_stays(value in "[ -~é]{4,40}", before in texts(), after in texts()) {
        prop_assume!(value.trim().len() >= Redactor::MIN_KNOWN);
        let value = value.trim();
        let redactor = Redactor::with_known([("it", value)]).unwrap();
        let base64 = STANDARD.encode(format!("{before}{value}{after}"));
        for spelled in spellings(value).into_iter().chain([format!(" {base64}")]) {
            let masked = redactor.redact(&format!("{before}{spelled}{after}")).into_owned();
            let is_short = spelled.ends_with(&base64) && value.len() == Redactor::MIN_KNOWN;
            prop_assert!(is_short || !masked.contains(&spelled), "{} of {}", masked, spelled);
            for form in forms::forms(value.as_bytes()) {
                prop_assert!(memchr::memmem::find(masked.as_bytes(), &form).is_none(), "{}", masked);
            }
        }
        let document = serde_json::json!({ "a": format!("{before}{value}"), after.clone(): [value] }).to_string();
        let masked = redactor.redact_json(&document).into_owned();
        prop_assert!(!masked.contains(value) || value == "\"***\"", "{}", masked);
        prop_assert!(serde_json::from_str::<serde_json::Value>(&masked).is_ok(), "{}", masked);
    }

    #[test]
    fn pieces_do_not_matter(text in texts(), sizes in proptest::collection::vec(1usize..50, 1..8)) {
        let redactor = redactor();
        let whole = stream(redactor, text.as_bytes(), &[text.len().max(1)]);
        prop_assert_eq!(stream(redactor, text.as_bytes(), &sizes), whole);
    }

    #[test]
    fn a_stream_masks_all_that_the_whole_would(text in texts()) {
        let redactor = redactor();
        let masked = String::from_utf8(stream(redactor, text.as_bytes(), &[5])).unwrap();
        prop_assert!(!masked.contains(VALUE));
        prop_assert!(!masked.contains("hunter2-rainbow") || redactor.redact(&text).contains("hunter2-rainbow"));
    }
}
