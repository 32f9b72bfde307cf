//! URLs, parsed once into host, port, path and query. A redirect is resolved against the address that sent it.

use std::fmt;
use std::net::IpAddr;

/// An http or https address without a user, a fragment or control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebAddress {
    pub is_tls: bool,
    /// Without brackets.
    pub host: String,
    pub port: u16,
    /// The path with the query.
    pub target: String,
}

/// Longer addresses are not sent.
const MAX_BYTES: usize = 8192;

impl WebAddress {
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            let shown: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
            format!("the address `{shown}` cannot be used: {why}")
        };
        let (is_tls, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return Err(wrong("it must begin with https://")),
        };
        let odd = |c: char| c.is_whitespace() || c.is_control() || !c.is_ascii() || "#\\".contains(c);
        if text.len() > MAX_BYTES || rest.contains(odd) {
            return Err(wrong("it is too long, or has characters that an address cannot have"));
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| wrong("its port is not a number"))?)
            }
            _ => (authority, if is_tls { 443 } else { 80 }),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_name = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
        let fine = bare.map_or_else(|| host.chars().all(is_name), |bare| bare.parse::<IpAddr>().is_ok());
        if host.is_empty() || !fine {
            return Err(wrong("it must name a host, without a user"));
        }
        Ok(Self { is_tls, host: bare.unwrap_or(host).to_ascii_lowercase(), port, target })
    }

    /// Where a redirect of this address leads.
    pub fn redirected(&self, location: &str) -> Result<Self, String> {
        if location.starts_with("//") {
            let scheme = if self.is_tls { "https:" } else { "http:" };
            return Self::parse(&format!("{scheme}{location}"));
        }
        if location.starts_with('/') {
            return Self::parse(&format!("{}{location}", self.origin()));
        }
        Self::parse(location)
    }

    /// The scheme, host and port.
    pub fn origin(&self) -> String {
        format!("{}://{}", if self.is_tls { "https" } else { "http" }, self.authority())
    }

    /// The host, with the port where it is not the usual one.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.is_tls, self.port) {
            (true, 443) | (false, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }

    pub fn is_this_machine(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    pub fn has_same_origin(&self, other: &Self) -> bool {
        self.origin() == other.origin()
    }
}

/// Without the query, which may hold a signature.
impl fmt::Display for WebAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.target.split('?').next().unwrap_or_default();
        write!(f, "{}{path}", self.origin())
    }
}

#[cfg(test)]
mod tests {
    use super::WebAddress;

    #[test]
    fn addresses_are_parsed_and_odd_ones_refused() {
        let check = |text: &str, expected: Option<(&str, u16, &str)>| {
            let parsed = WebAddress::parse(text).ok();
            let parts = parsed.as_ref().map(|it| (it.host.as_str(), it.port, it.target.as_str()));
            assert_eq!(parts, expected, "{text}");
        };
        check("https://Quay.io/v2/a?b=c", Some(("quay.io", 443, "/v2/a?b=c")));
        check("http://127.0.0.1:5000", Some(("127.0.0.1", 5000, "/")));
        check("https://[::1]:8443/x", Some(("::1", 8443, "/x")));
        check("https://a.example?x", Some(("a.example", 443, "/?x")));
        for wrong in [
            "ftp://a.example/",
            "https://user@a.example/",
            "https://a.example/\r\nx: y",
            "https://a.example/#x",
            "https:///x",
            "https://a.example:99999/",
            "https://[a]/",
            "file:///etc/passwd",
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn redirects_are_resolved_and_queries_not_shown() {
        let from = WebAddress::parse("https://a.example:8443/v2/x").unwrap();
        let to = |location: &str| from.redirected(location).map(|to| format!("{}{}", to.origin(), to.target));
        assert_eq!(to("/y?z"), Ok("https://a.example:8443/y?z".to_owned()));
        assert_eq!(to("//b.example/y"), Ok("https://b.example/y".to_owned()));
        assert_eq!(to("http://b.example/y"), Ok("http://b.example/y".to_owned()));
        assert!(to("y").is_err());
        let signed = WebAddress::parse("https://cdn.example/blob?signature=secret").unwrap();
        assert_eq!(signed.to_string(), "https://cdn.example/blob");
    }
}
