//! Values that stand after the name of a secret: environment files, source code, YAML, JSON fields, command-line flags
//! and headers. It checks the name first and then the value; a word, a reference or a call is not a secret.

use std::ops::Range;

use super::name::{self, NameHint};
use super::{Confidence, SecretMatch, randomness};
use crate::rule;
use crate::steps;

/// Names, gaps and values are short; looking further would let one text be read many times.
const MAX_NAME: usize = 64;
const MAX_GAP: usize = 8;
const MAX_VALUE: usize = 512;
const MIN_VALUE: usize = 8;
/// The shortest value in an environment file: `DB_PASSWORD=abc123` is a password although it is short.
const MIN_PASSWORD: usize = 6;
const MIN_ENTROPY: f64 = 3.0;

/// How the value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// `NAME=value` with an upper-case name, as in environment files and the output of `env`.
    Environment,
    /// Between quotes.
    Quoted,
    /// A bare word, as in YAML or in source code.
    Bare,
}

/// The value that belongs to the name around `hit`. `last` is what was found before: in a long sequence of names and
/// separators, each name would otherwise read as far as the first one.
pub(super) fn find(text: &str, hit: Range<usize>, last: Option<&SecretMatch>) -> Option<SecretMatch> {
    let identifier = identifier_around(text, &hit);
    // A name with two of our literals in it (`secret_api_key`) is looked at once, at the last of them.
    let rest_of_name = &text[hit.end..identifier.end];
    if rest_of_name.len() > 24 {
        return None;
    }
    let naming = name::naming(&text[identifier.clone()])?;
    let (start, after_operator) = value_start(text, &identifier)?;
    if last.is_some_and(|last| last.range.contains(&start)) {
        return None;
    }
    let (range, quoted) = value_range(text, start)?;
    let style = match quoted || after_operator == b'>' {
        true => Style::Quoted,
        false if after_operator == b'=' && is_environment_name(&text[identifier]) => Style::Environment,
        false => Style::Bare,
    };
    is_secret_value(&text[range.clone()], naming, style).then(|| secret(naming, range))
}

/// The password after `-u NAME:` or `--user NAME:` of a `curl` command.
pub(super) fn of_curl(text: &str, hit: Range<usize>) -> Option<SecretMatch> {
    let end = text.ceil_char_boundary((hit.end + MAX_VALUE).min(text.len()));
    let line = text[hit.end..end].lines().next()?;
    steps::count(line.len());
    let flag = [" -u ", " --user ", " -u", " --user="].into_iter().find_map(|flag| {
        // The words of `curl` end with a space, and the flag begins with it.
        let at = text[hit.end - 1..hit.end + line.len()].find(flag)?;
        Some(hit.end - 1 + at + flag.len())
    })?;
    let start = flag + usize::from(matches!(text.as_bytes().get(flag), Some(b'"' | b'\'')));
    let word = text[start..hit.end + line.len()].bytes().take_while(|byte| !ends_bare_value(*byte)).count();
    let colon = text[start..start + word].find(':')?;
    let range = start + colon + 1..start + word;
    let is_secret = is_secret_value(&text[range.clone()], NameHint::Password, Style::Quoted);
    is_secret.then(|| secret(NameHint::Password, range))
}

/// For callers that know the field: the whole value is one.
pub(super) fn in_field(field: &str, value: &str) -> Option<SecretMatch> {
    let naming = name::naming(field)?;
    is_secret_value(value, naming, Style::Quoted).then(|| secret(naming, 0..value.len()))
}

fn secret(naming: NameHint, range: Range<usize>) -> SecretMatch {
    let format = match naming {
        NameHint::Password => rule::secret::PASSWORD_ASSIGNMENT.name(),
        NameHint::Generated => rule::secret::SECRET_ASSIGNMENT.name(),
    };
    SecretMatch { format, confidence: Confidence::Structural, range }
}

fn is_identifier_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn identifier_around(text: &str, hit: &Range<usize>) -> Range<usize> {
    let bytes = text.as_bytes();
    let before = bytes[hit.start.saturating_sub(MAX_NAME)..hit.start].iter().rev();
    let after = bytes[hit.end..bytes.len().min(hit.end + MAX_NAME)].iter();
    let is_part = |byte: &&u8| is_identifier_byte(**byte);
    let mut start = hit.start - before.take_while(is_part).count();
    let end = hit.end + after.take_while(is_part).count();
    // In `\nPASSWORD=` of an escaped text the `n` belongs to the escape.
    if start > 0
        && bytes[start - 1] == b'\\'
        && matches!(bytes[start], b'n' | b'r' | b't')
        && start < hit.start
    {
        start += 1;
    }
    start..end
}

/// Where the value begins, and the operator before it.
fn value_start(text: &str, identifier: &Range<usize>) -> Option<(usize, u8)> {
    let bytes = text.as_bytes();
    let is_flag = text[identifier.clone()].starts_with("--");
    let mut at = identifier.end;
    at += usize::from(bytes.get(at) == Some(&b'\\'));
    let is_quoted = matches!(bytes.get(at), Some(b'"' | b'\'' | b'`'));
    at += usize::from(is_quoted);
    at += usize::from(bytes.get(at) == Some(&b']'));
    let after_gap = skip_blanks(bytes, at);
    let operator = match bytes.get(after_gap..)? {
        [b':' | b'?', b'=', ..] | [b'=', b'>' | b'=', ..] => 2,
        [b'=' | b':', ..] => 1,
        [b'>', ..] if is_element(bytes, identifier.start) => return Some((after_gap + 1, b'>')),
        [b',', ..] if is_quoted && is_set_by_call(text, identifier.start) => {
            return quoted_at(bytes, skip_blanks(bytes, after_gap + 1));
        }
        _ if is_flag && after_gap > at => return Some((after_gap, b' ')),
        _ if after_gap > at => return quoted_at(bytes, skip_type(bytes, after_gap)),
        _ => return None,
    };
    let sign = if bytes[after_gap] == b'?' { b'=' } else { bytes[after_gap] };
    let mut value = skip_blanks(bytes, after_gap + operator);
    if sign == b':' && operator == 1 {
        value = skip_type(bytes, value);
    }
    Some((value, sign))
}

/// A place where only a value between quotes counts.
fn quoted_at(bytes: &[u8], at: usize) -> Option<(usize, u8)> {
    matches!(bytes.get(at), Some(b'"' | b'\'')).then_some((at, b'='))
}

/// `<password>` and `<db.password>`.
fn is_element(bytes: &[u8], name: usize) -> bool {
    let before = bytes[name.saturating_sub(MAX_NAME)..name].iter().rev();
    let mut prefix = before.skip_while(|byte| is_identifier_byte(**byte) || matches!(byte, b'.' | b':'));
    prefix.next() == Some(&b'<')
}

/// `setProperty("db.password", …)` and similar calls that store the value under the name.
fn is_set_by_call(text: &str, name: usize) -> bool {
    const VERBS: [&str; 5] = ["set", "put", "property", "setenv", "add"];
    let before = &text.as_bytes()[name.saturating_sub(MAX_NAME)..name];
    let prefix = before.iter().rev().take_while(|byte| is_identifier_byte(**byte) || **byte == b'.').count();
    let [call @ .., b'(', b'"' | b'\''] = &before[..before.len() - prefix] else { return false };
    let function = call.iter().rev().take_while(|byte| is_identifier_byte(**byte)).count();
    let function = String::from_utf8_lossy(&call[call.len() - function..]).to_ascii_lowercase();
    VERBS.iter().any(|verb| function.starts_with(verb) || function.ends_with(verb))
}

/// `password: str = "…"`: the value is behind the type.
fn skip_type(bytes: &[u8], at: usize) -> usize {
    let word = bytes[at..].iter().take(32).take_while(|byte| is_identifier_byte(**byte)).count();
    let sign = skip_blanks(bytes, at + word);
    let is_typed = word > 0 && bytes.get(sign) == Some(&b'=') && bytes.get(sign + 1) != Some(&b'=');
    if is_typed { skip_blanks(bytes, sign + 1) } else { at }
}

fn skip_blanks(bytes: &[u8], at: usize) -> usize {
    at + bytes[at..].iter().take(MAX_GAP).take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// The value's bytes, and whether it stands between quotes. `\"` opens a quote inside an escaped text.
fn value_range(text: &str, start: usize) -> Option<(Range<usize>, bool)> {
    let bytes = text.as_bytes();
    let escapes = usize::from(bytes.get(start) == Some(&b'\\'));
    let quote = bytes.get(start + escapes).copied().filter(|byte| matches!(byte, b'"' | b'\'' | b'`'));
    let begin = if quote.is_some() { start + escapes + 1 } else { start };
    let window = &bytes[begin.min(bytes.len())..bytes.len().min(begin + MAX_VALUE)];
    let length = match quote {
        Some(quote) => end_of_quoted(window, quote, escapes == 1)?,
        None => window.iter().take_while(|byte| !ends_bare_value(**byte)).count(),
    };
    steps::count(length);
    let range = begin..begin + length;
    (length > 0 && text.is_char_boundary(range.end)).then_some((range, quote.is_some()))
}

fn end_of_quoted(window: &[u8], quote: u8, is_escaped: bool) -> Option<usize> {
    let mut at = 0;
    while at < window.len() {
        match window[at] {
            b'\n' => return None,
            b'\\' if is_escaped && window.get(at + 1) == Some(&quote) => return Some(at),
            b'\\' => at += 1,
            byte if byte == quote => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

fn ends_bare_value(byte: u8) -> bool {
    byte.is_ascii_whitespace()
        || matches!(byte, b'"' | b'\'' | b'`' | b',' | b';' | b'\\' | b'|' | b'<' | b'>')
}

fn is_environment_name(name: &str) -> bool {
    name.len() >= 4
        && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

fn is_secret_value(value: &str, naming: NameHint, style: Style) -> bool {
    // The cheap checks that decide most values come first; the others read the value several times.
    if naming == NameHint::Generated && !value.bytes().any(|byte| byte.is_ascii_digit()) {
        return false;
    }
    if value.len() > MAX_VALUE || value.starts_with("[REDACTED") || is_reference(value, style) {
        return false;
    }
    if randomness::is_common_value(value) || value.contains(char::is_whitespace) {
        return false;
    }
    match (naming, style) {
        (NameHint::Password, Style::Environment) => value.len() >= MIN_PASSWORD,
        (NameHint::Password, _) => value.len() >= MIN_VALUE && randomness::is_mixed(value),
        (NameHint::Generated, _) => {
            value.len() >= MIN_VALUE
                && randomness::is_mixed(value)
                && randomness::entropy(value) >= if value.len() < 12 { 2.75 } else { MIN_ENTROPY }
        }
    }
}

/// Names, paths, addresses, calls and variables refer to a secret; they are not one.
fn is_reference(value: &str, style: Style) -> bool {
    let begins =
        ["$", "/", "./", "../", "~", "@", "&", "*", "!", "env.", "env:", "secret:", "vault:", "op://", "%"];
    let parts = ["://", "process.env", "environ", "getenv", "secrets.", "config.", "arn:aws", "]["];
    begins.iter().any(|begin| value.starts_with(begin))
        || (style == Style::Bare && is_code(value))
        || parts.iter().any(|part| value.contains(part))
        || (style != Style::Environment && is_file_name(value))
}

/// A bare value with brackets is an expression; dotted or snake-case words are names.
fn is_code(value: &str) -> bool {
    let is_name_byte = |byte: u8| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'.' | b'-');
    value.contains(['(', ')', '[', ']', '{', '}', '?']) || value.bytes().all(is_name_byte)
}

fn is_file_name(value: &str) -> bool {
    let endings =
        [".txt", ".json", ".yaml", ".yml", ".env", ".pem", ".key", ".md", ".toml", ".py", ".js", ".ts"];
    endings.iter().any(|ending| value.ends_with(ending))
}
