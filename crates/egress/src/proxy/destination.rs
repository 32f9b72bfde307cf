//! A host and a port, as a CONNECT, an absolute target or a Host header names them.

use super::refusal::Refusal;
use policy::Host;
use std::fmt;
use std::net::IpAddr;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Destination {
    pub(super) host: Host,
    pub(super) port: u16,
}

impl Destination {
    /// Reads `host:port` and nothing else.
    pub(super) fn from_authority(authority: &str, default_port: Option<u16>) -> Result<Self, Refusal> {
        let bad = |reason: &str| Refusal::host(&format!("{authority:?}: {reason}"));
        let bracket = authority.rfind(']').map_or(0, |at| at + 1);
        let (host, port) = match authority[bracket..].rfind(':') {
            Some(at) => {
                let (host, port) = authority.split_at(bracket + at);
                (host, Some(&port[1..]))
            }
            None => (authority, None),
        };
        let port = match (port, default_port) {
            (Some(port), _) if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) => {
                return Err(bad("the port is not a number"));
            }
            (Some(port), _) => port.parse().map_err(|_| bad("the port is too large"))?,
            (None, Some(port)) => port,
            (None, None) => return Err(bad("the port is missing")),
        };
        if port == 0 {
            return Err(bad("the port is 0"));
        }
        if bracket == 0 && host.contains(':') {
            return Err(bad("an IPv6 address needs brackets"));
        }
        let host = Host::parse(host).map_err(|error| bad(&error.to_string()))?;
        Ok(Self { host, port })
    }

    /// For the Host header and the TLS server name: an IPv6 address is in brackets.
    pub(super) fn host_text(&self) -> String {
        match self.host {
            Host::Address(IpAddr::V6(address)) => format!("[{address}]"),
            _ => self.host.to_string(),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host_text(), self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_read_strictly() {
        let read = |text: &str| {
            Destination::from_authority(text, None).map(|it| it.to_string()).map_err(|it| it.code)
        };
        for (text, expected) in [
            ("Api.Test:443", "api.test:443"),
            ("api.test.:443", "api.test:443"),
            ("[::1]:80", "[::1]:80"),
            ("127.1:80", "127.0.0.1:80"),
            ("0x7f.1:80", "127.0.0.1:80"),
            ("[::ffff:169.254.169.254]:80", "169.254.169.254:80"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(expected), "{text}");
        }
        for text in [
            "api.test",
            "api.test:",
            "api.test:+1",
            "api.test:99999",
            "api.test:0",
            ":443",
            "",
            "a@b:1",
            "a b:1",
            "evil\0.test:443",
            "a/b:1",
            "a%2eb:1",
            "::1:80",
            "[::1]80",
            "api.test:443:443",
            "..:1",
        ] {
            assert!(read(text).is_err(), "{text:?} {:?}", read(text));
        }
        assert_eq!(Destination::from_authority("a.test", Some(80)).unwrap().port, 80);
    }
}
