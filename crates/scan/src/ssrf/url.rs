//! Parses an address as clients do, with backslashes, missing slashes, encoded and styled letters in the host, and user names
//! before an `@`. Judges nothing.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedUrl {
    /// Lower case, without the colon.
    pub scheme: String,
    pub has_user: bool,
    /// As a client would look it up: decoded, folded, lower case, without a final dot.
    pub host: String,
    /// Whether the host reads differently from how it is written.
    pub is_disguised: bool,
    /// Path, query and fragment.
    pub rest: String,
}

/// The parts of an absolute address; `None` without a scheme.
pub fn parse(text: &str) -> Option<ParsedUrl> {
    let text = without_breaks(text.trim());
    let (scheme, after) = text.split_once(':')?;
    let is_scheme = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.');
    if scheme.is_empty()
        || !scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
        || !scheme.chars().all(is_scheme)
    {
        return None;
    }
    let scheme = scheme.to_ascii_lowercase();
    // For web schemes the host may follow any number of slashes and backslashes.
    let is_web = matches!(scheme.as_str(), "http" | "https" | "ws" | "wss" | "ftp");
    let after =
        if is_web { after.trim_start_matches(['/', '\\']) } else { after.strip_prefix("//").unwrap_or("") };
    let end = after.find(['/', '\\', '?', '#']).unwrap_or(after.len());
    let (authority, rest) = after.split_at(end);
    let (user, host_and_port) =
        authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    let written = without_port(host_and_port);
    let host = read_host(written);
    let is_disguised = !written.trim_end_matches('.').eq_ignore_ascii_case(&host);
    Some(ParsedUrl { scheme, has_user: user.is_some(), host, is_disguised, rest: rest.to_owned() })
}

/// Clients leave tabs and line breaks out.
fn without_breaks(text: &str) -> Cow<'_, str> {
    let is_break = |letter: char| matches!(letter, '\t' | '\n' | '\r');
    if text.contains(is_break) { Cow::Owned(text.replace(is_break, "")) } else { Cow::Borrowed(text) }
}

fn without_port(host: &str) -> &str {
    if let Some(end) = host.find(']').filter(|_| host.starts_with('[')) {
        return &host[..=end];
    }
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.contains(':') => name,
        _ => host,
    }
}

fn read_host(written: &str) -> String {
    // Most hosts are plain and need no decoding.
    if written.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'%') {
        return written.trim_end_matches('.').to_ascii_lowercase();
    }
    let decoded = decode_percent(written);
    let folded: String = decoded
        .nfkc()
        .flat_map(char::to_lowercase)
        .map(|letter| if letter == '。' { '.' } else { letter })
        .collect();
    let visible: String = folded
        .chars()
        .filter(|letter| !matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{ad}'))
        .collect();
    visible.trim_end_matches('.').to_owned()
}

pub(super) fn decode_percent(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes
            .get(at + 1..at + 3)
            .filter(|pair| bytes[at] == b'%' && pair.iter().all(u8::is_ascii_hexdigit))
            .and_then(|pair| std::str::from_utf8(pair).ok());
        match digits.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, scheme: &str, host: &str, is_disguised: bool) {
        let url = parse(text).unwrap();
        assert_eq!(
            (url.scheme.as_str(), url.host.as_str(), url.is_disguised),
            (scheme, host, is_disguised),
            "{text}"
        );
    }

    #[test]
    fn hosts_are_read_as_clients_read_them() {
        check("https://Example.com:443/x", "https", "example.com", false);
        check("http:\\\\127.0.0.1\\x", "http", "127.0.0.1", false);
        check("http:/internal/x", "http", "internal", false);
        check("http://%6c%6f%63alhost/", "http", "localhost", true);
        check("http://①②⑦.0.0.1/", "http", "127.0.0.1", true);
        check("http://a.com@169.254.169.254/", "http", "169.254.169.254", false);
        check("http://[::1]:80/", "http", "[::1]", false);
        check("file:///etc/passwd", "file", "", false);
        check("gopher://x:70/_a", "gopher", "x", false);
        assert_eq!(parse("no address"), None);
        assert!(parse("https://user:p@host/").unwrap().has_user);
    }

    /// One way to write a letter of a host that a client reads as that letter.
    fn disguised(letter: char, way: usize) -> String {
        match way {
            0 => letter.to_string(),
            1 => format!("%{:02x}", letter as u8),
            2 => format!("%{:02X}", letter as u8),
            3 => letter.to_ascii_uppercase().to_string(),
            4 => format!("{letter}\u{200b}"),
            5 if letter == '.' => "。".to_owned(),
            _ => char::from_u32(letter as u32 - 0x21 + 0xff01).unwrap().to_string(),
        }
    }

    proptest! {
        #[test]
        fn hosts_are_read_through_every_disguise(host in "[a-z0-9]{1,9}(\\.[a-z0-9-]{1,9}){0,3}", ways in proptest::collection::vec(0..7_usize, 40)) {
            let written: String = host.chars().zip(ways).map(|(letter, way)| disguised(letter, way)).collect();
            let url = parse(&format!("http://{written}:80/x")).unwrap();
            prop_assert_eq!(&url.host, &host);
            prop_assert_eq!(url.is_disguised, !written.eq_ignore_ascii_case(&host));
        }

        #[test]
        fn percent_signs_are_read_and_others_stay(text in "\\PC{0,30}") {
            let encoded: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
            prop_assert_eq!(decode_percent(&encoded), text.as_str());
            let plain = text.replace('%', "%+1%zz%");
            let rest = decode_percent(&plain);
            prop_assert!(rest.contains("%+1%zz") || !text.contains('%'));
        }

        #[test]
        fn no_address_breaks_the_reader(text in "(http:|//|\\PC|[@:%\\[\\]?#/\\\\.0-9]){0,40}") {
            let _found = (parse(&text), crate::ssrf::check(&text), crate::ssrf::addresses(&text));
        }
    }
}
