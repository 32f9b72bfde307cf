//! Hosts that are addresses in disguise. Libraries accept `0x7f.1`, `017700000001` and `2130706433` for `127.0.0.1`; so
//! every spelling is read here as the address it will become, and what only looks like an address is refused.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiteralError {
    /// The last label is a number, but the whole is not an IPv4 address.
    NotAnAddress(String),
    /// A bad IPv6 address, or one with a zone.
    NotIpv6(String),
    /// A URL. Holds the URL and its host.
    Url(String, String),
    /// A name with a port. Holds both.
    Port(String, String),
}

impl fmt::Display for LiteralError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnAddress(host) => write!(f, "`{host}` ends in a number but is not an IPv4 address"),
            Self::NotIpv6(host) => write!(f, "`{host}` is not an IPv6 address"),
            Self::Url(url, host) => write!(f, "`{url}` is a URL; write the host alone: `{host}`"),
            Self::Port(host, port) => {
                write!(f, "`{host}:{port}` contains a port; write `{host}` here and `port: {port}` beside it")
            }
        }
    }
}

impl std::error::Error for LiteralError {}

/// The address that a host spells, or `None` when it is a name.
pub fn parse_literal(host: &str) -> Result<Option<IpAddr>, LiteralError> {
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if let Some((_, rest)) = host.split_once("://") {
        let name = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        return Err(LiteralError::Url(host.to_owned(), name.to_owned()));
    }
    if let Some((name, port)) = host.split_once(':')
        && bracketed.is_none()
        && name.contains('.')
        && all_digits(port)
    {
        return Err(LiteralError::Port(name.to_owned(), port.to_owned()));
    }
    if bracketed.is_some() || host.contains(':') {
        let text = bracketed.unwrap_or(host);
        let address: Ipv6Addr = text.parse().map_err(|_| LiteralError::NotIpv6(host.to_owned()))?;
        return Ok(Some(IpAddr::V6(address)));
    }
    let labels: Vec<&str> = host.strip_suffix('.').unwrap_or(host).split('.').collect();
    let numeric_end = labels.last().is_some_and(|last| number(last).is_some() || all_digits(last));
    if !numeric_end {
        return Ok(None);
    }
    spelled_v4(&labels)
        .map(|address| Some(IpAddr::V4(address)))
        .ok_or_else(|| LiteralError::NotAnAddress(host.to_owned()))
}

/// One to four numbers; the last fills all the bytes that are left.
fn spelled_v4(labels: &[&str]) -> Option<Ipv4Addr> {
    let (last, leading) = labels.split_last()?;
    if leading.len() > 3 {
        return None;
    }
    let mut address: u32 = 0;
    for (index, label) in leading.iter().enumerate() {
        let byte = u8::try_from(number(label)?).ok()?;
        address |= u32::from(byte) << (24 - 8 * index);
    }
    let rest = number(last)?;
    let room = 32 - 8 * leading.len();
    if rest >> room != 0 {
        return None;
    }
    Some(Ipv4Addr::from(address | u32::try_from(rest).ok()?))
}

/// Decimal, octal with a leading zero, or hexadecimal after `0x`.
fn number(label: &str) -> Option<u64> {
    let (digits, radix) = match label.strip_prefix("0x").or_else(|| label.strip_prefix("0X")) {
        Some("") => return Some(0),
        Some(hex) => (hex, 16),
        None if label.len() > 1 && label.starts_with('0') => (&label[1..], 8),
        None => (label, 10),
    };
    if !digits.bytes().all(|byte| char::from(byte).is_digit(radix)) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

fn all_digits(label: &str) -> bool {
    !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::parse_literal;

    #[test]
    fn every_spelling_is_the_address_it_becomes() {
        for (host, expected) in [
            ("127.0.0.1", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("127.1", "127.0.0.1"),
            ("127.0.1", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("017700000001", "127.0.0.1"),
            ("0x7f000001", "127.0.0.1"),
            ("0X7F.1", "127.0.0.1"),
            ("0x7f.0.0.0x1", "127.0.0.1"),
            ("0177.0.0.01", "127.0.0.1"),
            ("0", "0.0.0.0"),
            ("0x", "0.0.0.0"),
            ("010.0.0.1", "8.0.0.1"),
            ("10.65535", "10.0.255.255"),
            ("0xa9fea9fe", "169.254.169.254"),
            ("[::1]", "::1"),
            ("::1", "::1"),
            ("[::ffff:127.0.0.1]", "::ffff:127.0.0.1"),
        ] {
            assert_eq!(parse_literal(host), Ok(Some(expected.parse().unwrap())), "{host}");
        }
    }

    #[test]
    fn what_only_looks_like_an_address_is_refused() {
        for host in [
            "256.256.256.256",
            "1.2.3.4.5",
            "1.2.3.256",
            "4294967296",
            "127.0.0.08",
            "a.1",
            "example.0x1",
            "1..2",
            "99999999999999999999999",
            "[::1",
            "[::1%eth0]",
            "fe80::1%1",
            ":::",
            "[127.0.0.1]",
        ] {
            assert!(parse_literal(host).is_err(), "{host}");
        }
        for host in ["example.com", "1.example.com", "0x7f.com", "a1", "1a", "0xg", "x.0b1", "localhost", ""]
        {
            assert_eq!(parse_literal(host), Ok(None), "{host}");
        }
    }

    #[test]
    fn urls_and_ports_are_told_from_addresses() {
        let message = |host: &str| parse_literal(host).unwrap_err().to_string();
        assert_eq!(
            message("https://api.example.com/v1"),
            "`https://api.example.com/v1` is a URL; write the host alone: `api.example.com`"
        );
        assert_eq!(
            message("api.example.com:8443"),
            "`api.example.com:8443` contains a port; write `api.example.com` here and `port: 8443` beside it"
        );
        assert_eq!(message("fe80:::1"), "`fe80:::1` is not an IPv6 address");
    }
}
