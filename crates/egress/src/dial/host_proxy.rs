//! The proxy that this machine must use for outgoing connections, from `HTTPS_PROXY` and `NO_PROXY`.

use super::DialError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use std::fmt;
use std::net::IpAddr;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The head of a proxy's answer to CONNECT.
const MAX_HEAD: usize = 16 << 10;

#[derive(Clone)]
pub struct HostProxy {
    pub(super) host: String,
    pub(super) port: u16,
    /// The connection to the proxy itself uses TLS.
    pub(super) is_tls: bool,
    /// Of the header `Proxy-Authorization`.
    authorization: Option<String>,
    bypass: Vec<Bypass>,
}

/// Without the password.
impl fmt::Debug for HostProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostProxy({}:{})", self.host, self.port)
    }
}

/// Hosts that are reached without the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Bypass {
    All,
    /// The name and everything below it.
    Name {
        suffix: String,
        port: Option<u16>,
    },
    Network {
        address: IpAddr,
        bits: u8,
    },
}

#[derive(Debug, PartialEq, Eq)]
pub struct ProxyUrlError {
    /// Without its user and password.
    pub url: String,
}

impl fmt::Display for ProxyUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTPS_PROXY is {:?}, not the http:// or https:// address of a proxy", self.url)
    }
}

impl std::error::Error for ProxyUrlError {}

impl HostProxy {
    /// `None`: the variables name no proxy.
    pub fn from_variables(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>, ProxyUrlError> {
        let first = |names: &[&str]| names.iter().find_map(|name| variable(name).filter(|v| !v.is_empty()));
        // Often a SOCKS proxy for other programs.
        let of_all = || first(&["ALL_PROXY", "all_proxy"]).filter(|url| scheme(url).is_some_and(is_http));
        let Some(url) = first(&["HTTPS_PROXY", "https_proxy"]).or_else(of_all) else { return Ok(None) };
        let bypass = first(&["NO_PROXY", "no_proxy"]).unwrap_or_default();
        Self::parse(&url, &bypass).map(Some)
    }

    fn parse(url: &str, bypass: &str) -> Result<Self, ProxyUrlError> {
        let shown = || {
            let end = url.rsplit('@').next().unwrap_or_default();
            ProxyUrlError { url: end.to_owned() }
        };
        let scheme = scheme(url);
        if scheme.is_some_and(|scheme| !is_http(scheme)) {
            return Err(shown());
        }
        let is_tls = scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
        let rest = scheme.map_or(url, |scheme| &url[scheme.len() + "://".len()..]);
        let rest = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (user, place) = rest.rsplit_once('@').map_or((None, rest), |(user, place)| (Some(user), place));
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| shown())?),
            _ => (place, if is_tls { 443 } else { 80 }),
        };
        if host.is_empty() {
            return Err(shown());
        }
        let authorization = user.map(|user| {
            let decoded: Vec<u8> = percent_decode_str(user).collect();
            format!("Basic {}", STANDARD.encode(decoded))
        });
        let entries = bypass.split(|c: char| c == ',' || c.is_whitespace());
        let bypass = entries.filter(|entry| !entry.is_empty()).map(Bypass::parse).collect();
        Ok(Self { host: host.to_owned(), port, is_tls, authorization, bypass })
    }

    /// Whether this host is reached through the proxy. Hosts on this machine never are.
    pub(super) fn serves(&self, host: &str, port: u16) -> bool {
        let bare = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
        let address = bare.parse::<IpAddr>().ok();
        let is_local = bare.eq_ignore_ascii_case("localhost") || address.is_some_and(|it| it.is_loopback());
        !is_local && !self.bypass.iter().any(|entry| entry.covers(bare, address, port))
    }

    /// Asks the proxy for a connection to the host. Everything that is sent later goes there.
    pub(super) async fn tunnel<S>(&self, mut stream: S, host: &str, port: u16) -> Result<S, DialError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let refused = |reason: String| DialError::Proxy {
            proxy: format!("{}:{}", self.host, self.port),
            host: host.to_owned(),
            reason,
        };
        let authorization = self.authorization.as_ref();
        let authorization =
            authorization.map_or_else(String::new, |value| format!("proxy-authorization: {value}\r\n"));
        let head = format!("CONNECT {host}:{port} HTTP/1.1\r\nhost: {host}:{port}\r\n{authorization}\r\n");
        stream.write_all(head.as_bytes()).await.map_err(|error| refused(error.to_string()))?;
        let mut answer = Vec::new();
        // Byte by byte: what follows the head belongs to the host.
        while !answer.ends_with(b"\r\n\r\n") {
            let byte = stream.read_u8().await.map_err(|error| refused(error.to_string()))?;
            answer.push(byte);
            if answer.len() > MAX_HEAD {
                return Err(refused("its answer is too long".to_owned()));
            }
        }
        let head = String::from_utf8_lossy(&answer);
        let first = head.lines().next().unwrap_or_default();
        match first.split(' ').nth(1) {
            Some("200") => Ok(stream),
            _ => Err(refused(first.chars().filter(|c| !c.is_control()).take(200).collect())),
        }
    }
}

/// What is before `://`.
fn scheme(url: &str) -> Option<&str> {
    url.split_once("://").map(|(scheme, _)| scheme)
}

fn is_http(scheme: &str) -> bool {
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

impl Bypass {
    fn parse(entry: &str) -> Self {
        if entry == "*" {
            return Self::All;
        }
        let bare = entry.trim_start_matches('[').trim_end_matches(']');
        let (address, bits) = bare.split_once('/').map_or((bare, None), |(it, bits)| (it, Some(bits)));
        if let Ok(address) = address.parse::<IpAddr>() {
            let most = if address.is_ipv4() { 32 } else { 128 };
            let bits = bits.and_then(|bits| bits.parse().ok()).filter(|bits| *bits <= most).unwrap_or(most);
            return Self::Network { address, bits };
        }
        let (name, port) = match entry.rsplit_once(':') {
            Some((name, port)) if port.parse::<u16>().is_ok() => (name, port.parse().ok()),
            _ => (entry, None),
        };
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let suffix = name.trim_start_matches('*').trim_start_matches('.').to_ascii_lowercase();
        Self::Name { suffix, port }
    }

    fn covers(&self, host: &str, address: Option<IpAddr>, port: u16) -> bool {
        match self {
            Self::All => true,
            Self::Name { suffix, port: only } => {
                let host = host.to_ascii_lowercase();
                let below = host.strip_suffix(suffix.as_str());
                let is_named = below.is_some_and(|above| above.is_empty() || above.ends_with('.'));
                !suffix.is_empty() && is_named && only.is_none_or(|only| only == port)
            }
            Self::Network { address: network, bits } => {
                address.is_some_and(|address| same_network(*network, address, *bits))
            }
        }
    }
}

fn same_network(network: IpAddr, address: IpAddr, bits: u8) -> bool {
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let differ = network.to_bits() ^ address.to_bits();
            differ.leading_zeros() >= u32::from(bits)
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let differ = network.to_bits() ^ address.to_bits();
            differ.leading_zeros() >= u32::from(bits)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_proxies_are_read() {
        let place = |url: &str| HostProxy::parse(url, "").map(|proxy| (proxy.host.clone(), proxy.port));
        let here = |host: &str, port: u16| Ok((host.to_owned(), port));
        assert_eq!(place("http://proxy.corp:3128/"), here("proxy.corp", 3128));
        assert_eq!(place("proxy.corp:8080"), here("proxy.corp", 8080));
        assert_eq!(place("http://me:p%40ss@proxy"), here("proxy", 80));
        assert_eq!(place("http://[::1]:9"), here("[::1]", 9));
        assert_eq!(place("HTTP://proxy.corp:3128"), here("proxy.corp", 3128));
        assert_eq!(place("https://proxy.corp"), here("proxy.corp", 443));
        let is_tls = |url: &str| HostProxy::parse(url, "").unwrap().is_tls;
        assert!(is_tls("https://x") && is_tls("HTTPS://me@x:8443") && !is_tls("http://x") && !is_tls("x:1"));
        for wrong in ["socks5://me:secret@x:1", "https://", "http://", "http://x:port", "ftp://x"] {
            let error = place(wrong).unwrap_err().to_string();
            assert!(error.starts_with("HTTPS_PROXY is") && !error.contains("secret"), "{error}");
        }
        let proxy = HostProxy::parse("http://me:p%40ss@proxy", "").unwrap();
        assert_eq!(proxy.authorization.as_deref(), Some("Basic bWU6cEBzcw=="));
        assert!(!format!("{proxy:?}").contains("ss"));
    }

    #[test]
    fn a_socks_proxy_for_all_is_for_others() {
        let named = |name: &'static str, url: &'static str| {
            HostProxy::from_variables(&move |asked| (asked == name).then(|| url.to_owned()))
        };
        assert!(named("ALL_PROXY", "socks5://proxy:1080").unwrap().is_none());
        assert!(named("ALL_PROXY", "http://proxy:3128").unwrap().is_some());
        assert!(named("all_proxy", "HTTPS://proxy:3128").unwrap().is_some());
        assert!(named("https_proxy", "socks5://proxy:1080").is_err());
        assert!(named("HTTP_PROXY", "http://proxy").unwrap().is_none());
    }

    #[test]
    fn some_hosts_are_reached_without_it() {
        let list = "internal, .corp.example,*.dev.example api.example:8443,10.0.0.0/8,fd00::/8,\t192.0.2.7,192.0.2.8:8443,[2001:db8::1]:8443";
        let proxy = HostProxy::parse("http://proxy", list).unwrap();
        for (host, port, served) in [
            ("api.anthropic.com", 443, true),
            ("localhost", 443, false),
            ("127.0.0.1", 443, false),
            ("[::1]", 443, false),
            ("internal", 443, false),
            ("a.internal", 443, false),
            ("notinternal", 443, true),
            ("Git.Corp.Example.", 443, false),
            ("x.dev.example", 443, false),
            ("api.example", 443, true),
            ("api.example", 8443, false),
            ("10.1.2.3", 443, false),
            ("11.1.2.3", 443, true),
            ("fd00::1", 443, false),
            ("192.0.2.7", 443, false),
            ("192.0.2.70", 443, true),
            ("192.0.2.8", 8443, false),
            ("192.0.2.8", 443, true),
            ("[2001:db8::1]", 8443, false),
            ("2001:db8::1", 443, true),
        ] {
            assert_eq!(proxy.serves(host, port), served, "{host}:{port}");
        }
        assert!(!HostProxy::parse("http://proxy", "*").unwrap().serves("a.example", 443));
    }
}
