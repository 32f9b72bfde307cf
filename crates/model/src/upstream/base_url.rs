//! The address of a service: `https://HOST[:PORT][/PATH]`. Plain HTTP is accepted for the loopback address, and for private
//! addresses where the provider file allows it.

use hyper::Uri;
use hyper::header::HeaderValue;
use std::fmt;
use std::net::IpAddr;

#[derive(Debug, Clone)]
pub(super) struct BaseUrl {
    pub(super) secure: bool,
    pub(super) host: String,
    pub(super) port: u16,
    /// Before every path, without a slash at its end.
    pub(super) prefix: String,
    pub(super) host_header: HeaderValue,
}

/// Where a service may be without TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlainHttp {
    #[default]
    Loopback,
    /// The provider file says `plain_http: private`.
    Private,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UrlError {
    NotAUrl {
        url: String,
    },
    /// Plain HTTP would show the key to the network.
    PlainHttp {
        url: String,
    },
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAUrl { url } => {
                write!(
                    f,
                    "`base_url` {url:?} is not of the form https://HOST[:PORT][/PATH], without query or user"
                )
            }
            Self::PlainHttp { url } => write!(
                f,
                "`base_url` {url:?} is plain http, which is accepted only for the loopback address, and for a private \
                 address with `plain_http: private`"
            ),
        }
    }
}

impl std::error::Error for UrlError {}

impl BaseUrl {
    pub(super) fn parse(url: &str, plain: PlainHttp) -> Result<Self, UrlError> {
        Self::parse_scheme(url, |host| may_be_plain(host, plain))
    }

    fn parse_scheme(url: &str, may_be_plain: impl Fn(&str) -> bool) -> Result<Self, UrlError> {
        let wrong = || UrlError::NotAUrl { url: url.to_owned() };
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let authority =
            uri.authority().filter(|authority| !authority.as_str().contains('@')).ok_or_else(wrong)?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong()),
        };
        if uri.query().is_some() || authority.host().is_empty() {
            return Err(wrong());
        }
        let host = authority.host().to_owned();
        if !secure && !may_be_plain(&host) {
            return Err(UrlError::PlainHttp { url: url.to_owned() });
        }
        let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let host_header = HeaderValue::from_str(authority.as_str()).map_err(|_| wrong())?;
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { secure, host, port, prefix, host_header })
    }

    /// The address of a machine's metadata server, which is plain HTTP on a link-local address.
    pub(super) fn parse_metadata(url: &str) -> Result<Self, UrlError> {
        Self::parse_scheme(url, |_| true)
    }

    /// A base that already ends in the version part of the path does not get it twice.
    pub(super) fn target(&self, path: &str, query: Option<&str>) -> String {
        let path = if self.prefix.ends_with("/v1") { path.strip_prefix("/v1").unwrap_or(path) } else { path };
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        format!("{}{path}{query}", self.prefix)
    }

    /// Whether a connection to this address may be used. A name can resolve to anything.
    pub(super) fn accepts(&self, address: IpAddr) -> bool {
        self.secure || is_private(address)
    }
}

fn may_be_plain(host: &str, plain: PlainHttp) -> bool {
    let literal = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let address = literal.parse::<IpAddr>().ok();
    match plain {
        PlainHttp::Loopback => {
            host.eq_ignore_ascii_case("localhost") || address.is_some_and(|address| address.is_loopback())
        }
        // A name's addresses are checked when it is dialled.
        PlainHttp::Private => address.is_none_or(is_private),
    }
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private(),
        IpAddr::V6(v6) => {
            v6.to_ipv4_mapped().map_or(v6.is_loopback() || v6.is_unique_local(), |v4| is_private(v4.into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_are_checked() {
        let check = |url: &str| BaseUrl::parse(url, PlainHttp::Loopback).map(|_| ());
        for url in [
            "https://api.test",
            "https://api.test:8443/x/",
            "http://127.0.0.1:8080",
            "http://[::1]:1/",
            "http://localhost",
        ] {
            assert_eq!(check(url), Ok(()), "{url}");
        }
        for url in
            ["", "api.test", "ftp://api.test", "https://", "https://u:p@api.test", "https://api.test/?a=b"]
        {
            assert_eq!(check(url), Err(UrlError::NotAUrl { url: url.to_owned() }), "{url}");
        }
        for url in ["http://api.test", "http://10.0.0.1", "http://localhost.evil.test"] {
            assert_eq!(check(url), Err(UrlError::PlainHttp { url: url.to_owned() }), "{url}");
        }
    }

    #[test]
    fn private_hosts_need_the_setting_and_public_ones_need_tls() {
        let check = |url: &str| BaseUrl::parse(url, PlainHttp::Private).is_ok();
        for url in ["http://10.0.0.1:11434", "http://192.168.1.2", "http://[fd00::1]", "http://ollama.lan"] {
            assert!(check(url), "{url}");
        }
        for url in ["http://8.8.8.8", "http://[2001:db8::1]", "http://169.254.169.254"] {
            assert!(!check(url), "{url}");
        }
        let named = BaseUrl::parse("http://ollama.lan", PlainHttp::Private).unwrap();
        assert!(named.accepts("192.168.1.2".parse().unwrap()));
        assert!(!named.accepts("8.8.8.8".parse().unwrap()));
        assert!(!named.accepts("::ffff:8.8.8.8".parse().unwrap()));
    }
}
