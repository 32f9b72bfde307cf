//! Distinguishes a secret from a word, a placeholder and an example. In doubt, a value with a vendor's prefix is a
//! secret, and a value after `password =` is a word.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

/// Parts that occur in example values only.
const EXAMPLE_PARTS: &[&str] = &[
    "example",
    "placeholder",
    "redacted",
    "changeme",
    "change_me",
    "change-me",
    "xxxx",
    "****",
    "....",
    "your_",
    "your-",
    "yourapi",
    "yourtoken",
    "yourkey",
    "_here",
    "-here",
    "insert",
    "replace",
    "dummy",
    "sample",
    "abcdefgh",
    "abcd1234",
    "1234567890",
    "0123456789",
    "deadbeef",
    "fake",
    "todo",
    "<",
    ">",
    "${",
    "{{",
    "$(",
    "%(",
    "…",
];

/// Whole values that are settings or defaults, not secrets.
const COMMON_VALUES: &[&str] = &[
    "password",
    "passwd",
    "secret",
    "token",
    "postgres",
    "postgresql",
    "mysql",
    "mariadb",
    "mongodb",
    "redis",
    "root",
    "admin",
    "administrator",
    "guest",
    "rabbitmq",
    "minio",
    "minioadmin",
    "user",
    "username",
    "test",
    "testing",
    "test123",
    "testpass",
    "testpassword",
    "password123",
    "pass123",
    "secret123",
    "mysecret",
    "mypassword",
    "mytoken",
    "my-secret",
    "my_secret",
    "my-token",
    "supersecret",
    "super-secret",
    "super_secret",
    "string",
    "boolean",
    "number",
    "integer",
    "object",
    "null",
    "none",
    "nil",
    "true",
    "false",
    "undefined",
    "optional",
    "required",
    "default",
    "unset",
    "empty",
    "value",
    "hidden",
    "masked",
    "removed",
    "secrets",
    "inherit",
    "disabled",
    "enabled",
    "localhost",
    "development",
    "production",
    "staging",
    "something",
    "anything",
    "whatever",
    "foobar",
    "foobarbaz",
];

/// Well-known tokens of public documentation.
const FAMOUS: &[&str] = &["SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c", "wJalrXUtnFEMI"];

/// Finds all parts in one pass, because there may be many long values.
static EXAMPLES: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let builder = AhoCorasick::builder().ascii_case_insensitive(true).build(EXAMPLE_PARTS);
    builder.expect("a few words fit in an automaton")
});

/// Shannon entropy in bits per character.
pub(crate) fn entropy(text: &str) -> f64 {
    let mut counts = [0u32; 256];
    for byte in text.bytes() {
        counts[usize::from(byte)] += 1;
    }
    let total = text.len() as f64;
    let share = |count: &u32| f64::from(*count) / total;
    counts.iter().filter(|count| **count > 0).map(|count| -share(count) * share(count).log2()).sum()
}

/// Whether the body of a token is an example: a placeholder word, or few different characters.
pub(crate) fn is_example(body: &str) -> bool {
    EXAMPLES.is_match(body)
        || FAMOUS.iter().any(|famous| body.contains(famous))
        || (body.len() >= 8 && entropy(body) < 2.2)
        || longest_run(body.as_bytes()) >= 6
}

/// Whether a value is a setting, a default or a reference instead of a secret.
pub(crate) fn is_common_value(value: &str) -> bool {
    COMMON_VALUES.iter().any(|common| value.eq_ignore_ascii_case(common)) || is_example(value)
}

/// Letters with digits, or several kinds of characters: typical of generated values, not of prose.
pub(crate) fn is_mixed(value: &str) -> bool {
    let has = |test: fn(&u8) -> bool| u8::from(value.bytes().any(|byte| test(&byte)));
    let kinds = has(u8::is_ascii_lowercase)
        + has(u8::is_ascii_uppercase)
        + has(u8::is_ascii_digit)
        + has(|byte| byte.is_ascii_punctuation() && !matches!(byte, b'-' | b'_' | b'.' | b'/'));
    kinds >= 2 && value.bytes().any(|byte| byte.is_ascii_digit() || byte.is_ascii_punctuation())
}

/// Whether the body of a token is a name made of words: `repeat-container`, `LIVE_VIEW_2`,
/// `ConnectionFactory`. Generators mix cases and digits within a few letters.
pub(crate) fn is_name(body: &str) -> bool {
    let mut parts = body.split(['-', '_', '.', '/', '=']).filter(|part| !part.is_empty());
    let is_number = |part: &str| part.len() <= 4 && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_version = |part: &str| part.strip_prefix('v').is_some_and(is_number);
    let letters = body.bytes().filter(u8::is_ascii_alphabetic).count();
    let capitals = body.bytes().filter(u8::is_ascii_uppercase).count();
    let is_one_case = capitals == 0 || capitals == letters;
    let is_joined = body.bytes().any(|byte| matches!(byte, b'-' | b'_' | b'.'));
    parts.all(|part| {
        part.bytes().all(|byte| byte.is_ascii_alphabetic()) || is_number(part) || is_version(part)
    }) && letters > 0
        && if is_one_case { is_joined } else { capitals * 4 <= letters + 4 }
}

fn longest_run(bytes: &[u8]) -> usize {
    let mut longest = 0;
    let mut run = 0;
    let mut previous = None;
    for byte in bytes {
        run = if previous == Some(byte) { run + 1 } else { 1 };
        previous = Some(byte);
        longest = longest.max(run);
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_told_from_tokens() {
        assert!(is_example("IOSFODNN7EXAMPLE"));
        assert!(is_example("xxxxxxxxxxxxxxxxxxxx"));
        assert!(is_example("aaaaaaabbbbbbb"));
        assert!(!is_example("zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ"));
    }

    #[test]
    fn names_are_told_from_tokens() {
        for name in
            ["repeat-container-of-a-page", "LIVE_VIEW_2_TABLE", "ValueLabelBorderFirst", "view-v2-of-x"]
        {
            assert!(is_name(name), "{name}");
        }
        for token in [
            "zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ",
            "QZRYXGFTVDWSJNKHCEMUAL",
            "a8f5-f167",
            "aKdBqXzRtYpL",
            "kqzvjx",
        ] {
            assert!(!is_name(token), "{token}");
        }
    }

    #[test]
    fn settings_are_no_secrets() {
        assert!(is_common_value("Postgres"));
        assert!(is_common_value("${DB_PASSWORD}"));
        assert!(!is_common_value("hunter2-rainbow"));
        assert!(is_mixed("hunter2") && !is_mixed("required") && !is_mixed("multi-word-value"));
    }

    #[test]
    fn entropy_grows_with_variety() {
        assert!(entropy("aaaaaaaa") < 0.1);
        assert!((entropy("abcdefgh") - 3.0).abs() < 0.001);
    }
}
