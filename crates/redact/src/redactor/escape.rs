//! Reads one character that is written as an escape: `%2b` of URLs, `&#43;` and `&plus;` of HTML, `\u002b` of JSON, `\x2b`, `\053` and
//! `\u{2b}` of source code.

/// The longest entity that is read: `&#x000002b;`.
const MAX_ENTITY: usize = 12;
/// The names of HTML for the characters that credentials have.
const NAMES: &[(&[u8], u8)] = &[
    (b"plus", b'+'),
    (b"sol", b'/'),
    (b"equals", b'='),
    (b"amp", b'&'),
    (b"lt", b'<'),
    (b"gt", b'>'),
    (b"quot", b'"'),
    (b"apos", b'\''),
    (b"num", b'#'),
    (b"lowbar", b'_'),
    (b"period", b'.'),
    (b"comma", b','),
    (b"colon", b':'),
    (b"semi", b';'),
    (b"percnt", b'%'),
    (b"dollar", b'$'),
    (b"excl", b'!'),
    (b"quest", b'?'),
    (b"ast", b'*'),
    (b"lpar", b'('),
    (b"rpar", b')'),
    (b"lsqb", b'['),
    (b"rsqb", b']'),
    (b"lcub", b'{'),
    (b"rcub", b'}'),
    (b"verbar", b'|'),
    (b"bsol", b'\\'),
    (b"commat", b'@'),
    (b"grave", b'`'),
];

/// The character and the length of its escape. Only ASCII is read: credentials have nothing else.
pub(super) fn read(rest: &[u8]) -> Option<(u8, usize)> {
    match rest.first()? {
        b'%' => Some((number(rest.get(1..3)?, 16)?, 3)),
        b'&' => {
            let end = rest.iter().take(MAX_ENTITY).position(|byte| *byte == b';')?;
            Some((entity(&rest[1..end])?, end + 1))
        }
        b'\\' => {
            let slashes = rest.iter().take_while(|byte| **byte == b'\\').count();
            let digits = match rest.get(slashes)? {
                b'0'..=b'7' => return Some((number(rest.get(slashes..slashes + 3)?, 8)?, slashes + 3)),
                b'u' if rest.get(slashes + 1) == Some(&b'{') => {
                    let start = slashes + 2;
                    let length = rest[start..].iter().take(MAX_ENTITY).position(|byte| *byte == b'}')?;
                    return Some((number(&rest[start..start + length], 16)?, start + length + 1));
                }
                b'u' | b'U' => 4,
                b'x' | b'X' => 2,
                _ => return None,
            };
            let end = slashes + 1 + digits;
            Some((number(rest.get(slashes + 1..end)?, 16)?, end))
        }
        _ => None,
    }
}

/// Whether the end cuts off what may be an escape.
pub(super) fn is_cut_off(rest: &[u8]) -> bool {
    let is_short = |max: usize| {
        rest.len() < max && rest[1..].iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'#')
    };
    match rest.first() {
        Some(b'%') => is_short(3),
        Some(b'&') => is_short(MAX_ENTITY),
        Some(b'\\') => {
            let slashes = rest.iter().take_while(|byte| **byte == b'\\').count();
            let digits =
                |most: usize, digits: &[u8]| digits.len() < most && digits.iter().all(u8::is_ascii_hexdigit);
            match &rest[slashes..] {
                [b'u', b'{', rest @ ..] => digits(6, rest),
                [b'u' | b'U', rest @ ..] => digits(4, rest),
                [b'0'..=b'7', rest @ ..] => digits(2, rest),
                [b'x' | b'X', rest @ ..] => digits(2, rest),
                _ => false,
            }
        }
        _ => false,
    }
}

fn entity(name: &[u8]) -> Option<u8> {
    match name {
        [b'#', b'x' | b'X', digits @ ..] => number(digits, 16),
        [b'#', digits @ ..] => number(digits, 10),
        _ => NAMES.iter().find(|(known, _)| *known == name).map(|(_, byte)| *byte),
    }
}

fn number(digits: &[u8], radix: u32) -> Option<u8> {
    let text = std::str::from_utf8(digits)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_alphanumeric()))?;
    u8::from_str_radix(text, radix).ok().filter(u8::is_ascii)
}
