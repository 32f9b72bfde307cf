//! The host of a request: a name in lower case, or an address in any spelling.

use std::fmt;
use std::net::IpAddr;

use crate::address::{LiteralError, parse_literal, unmap};

/// Two hosts are equal when they are the same place by name or by number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    Name(String),
    /// Never an IPv4-mapped one: those are kept as the IPv4 address they mean.
    Address(IpAddr),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostError {
    Literal(LiteralError),
    Empty,
    TooLong,
    Label(String),
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(error) => error.fmt(f),
            Self::Empty => f.write_str("the host is empty"),
            Self::TooLong => f.write_str("the host is longer than 253 bytes"),
            Self::Label(label) => write!(f, "`{label}` cannot be a part of a host name"),
        }
    }
}

impl std::error::Error for HostError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Literal(error) => Some(error),
            Self::Empty | Self::TooLong | Self::Label(_) => None,
        }
    }
}

impl Host {
    /// Reads the host of a request: an IPv6 address may be in brackets, a name may end in one dot.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if let Some(address) = parse_literal(text).map_err(HostError::Literal)? {
            return Ok(Self::Address(unmap(address)));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        if name.is_empty() {
            return Err(HostError::Empty);
        }
        if name.len() > 253 {
            return Err(HostError::TooLong);
        }
        match name.split('.').find(|label| !is_label(label)) {
            Some(label) => Err(HostError::Label(label.to_owned())),
            None => Ok(Self::Name(name.to_ascii_lowercase())),
        }
    }
}

/// The characters of a host name. Underscores are not allowed in host names, but some hosts have them.
pub(crate) fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Host;

    #[test]
    fn hosts_are_names_or_addresses() {
        for (text, expected) in [
            ("Api.Example.COM", "api.example.com"),
            ("api.example.com.", "api.example.com"),
            ("_srv.example.com", "_srv.example.com"),
            ("127.1", "127.0.0.1"),
            ("[::FFFF:10.0.0.1]", "10.0.0.1"),
            ("[2606:4700::1]", "2606:4700::1"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ] {
            assert_eq!(Host::parse(text).unwrap().to_string(), expected, "{text}");
        }
        for text in [
            "",
            ".",
            "a..b",
            ".a",
            "a.com..",
            "b\u{fc}cher.example",
            "a b",
            "a/b",
            "a@b",
            "*.com",
            "1.2.3.4.5",
            "[::1%1]",
        ] {
            assert!(Host::parse(text).is_err(), "{text}");
        }
        assert!(Host::parse(&"a".repeat(64)).is_err());
        assert!(Host::parse(&vec!["a"; 128].join(".")).is_err());
    }
}
