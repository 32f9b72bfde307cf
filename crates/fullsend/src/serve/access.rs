//! Who may use the server: a request must name this server as its host, must not come from a page of another site, and
//! must have a token. A viewer reads; an operator also acts.

use std::net::SocketAddr;

use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue, ORIGIN};
use hyper::http::request::Parts;
use schemars::JsonSchema;
use serde::Serialize;

use super::header;
use super::problem::Problem;
use crate::event::log::sha256;

/// What a caller may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Viewer,
    Operator,
}

impl Role {
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "viewer" => Some(Self::Viewer),
            "operator" => Some(Self::Operator),
            _ => None,
        }
    }
}

/// The caller. Events name the caller of an action.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Caller {
    pub name: String,
    pub role: Role,
}

impl Caller {
    pub(super) fn check_may_act(&self) -> Result<(), Problem> {
        match self.role {
            Role::Operator => Ok(()),
            Role::Viewer => {
                let why = format!("`{}` is a viewer: only an operator may act", self.name);
                Err(Problem::new(StatusCode::FORBIDDEN, "not-an-operator", why))
            }
        }
    }
}

/// A caller's token. Only its digest is kept.
#[derive(Clone)]
pub struct AccessToken {
    digest: String,
    caller: Caller,
}

impl AccessToken {
    pub fn new(token: &str, caller: Caller) -> Self {
        Self { digest: sha256(token.as_bytes()), caller }
    }

    /// The digests are compared, so that the duration of the comparison reveals nothing about the token.
    fn is(&self, shown: &str) -> bool {
        self.digest == sha256(shown.as_bytes())
    }
}

/// Which requests are answered.
#[derive(Clone)]
pub struct AccessRules {
    tokens: Vec<AccessToken>,
    /// The values of `Host` that mean this server.
    hosts: Vec<String>,
}

impl AccessRules {
    /// `names` are further names under which a proxy or a browser reaches the server.
    pub fn new(address: SocketAddr, names: &[String], tokens: Vec<AccessToken>) -> Self {
        let port = address.port();
        let mut hosts = vec![address.to_string()];
        if address.ip().is_loopback() {
            hosts.extend([format!("localhost:{port}"), format!("127.0.0.1:{port}"), format!("[::1]:{port}")]);
        }
        hosts.extend(names.iter().flat_map(|name| [name.clone(), format!("{name}:{port}")]));
        Self { tokens, hosts }
    }

    /// Refuses DNS rebinding (a foreign host name for this address) and requests of foreign pages in a person's
    /// browser.
    pub(super) fn check_origin(&self, head: &Parts) -> Result<(), Problem> {
        // A request in proxy form also names the host in its first line.
        let named = head.uri.authority().map(|authority| authority.as_str());
        let host = named.or_else(|| header(head, &HOST)).unwrap_or_default();
        if !self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host)) {
            let why = format!("`{host}` is not a name of this server; start it with --host to add one");
            return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "unknown-host", why));
        }
        let own = |origin: &str| {
            let name = origin.split_once("://").map_or(origin, |(_, name)| name);
            self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
        };
        // An unreadable value counts as foreign.
        let is_own = |origin: &HeaderValue| origin.to_str().is_ok_and(own);
        let is_same_site =
            |site: &HeaderValue| site.to_str().is_ok_and(|site| ["none", "same-origin"].contains(&site));
        let headers = &head.headers;
        if !headers.get_all(ORIGIN).iter().all(is_own)
            || !headers.get_all(&SEC_FETCH_SITE).iter().all(is_same_site)
        {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "cross-site",
                "the request comes from a page of another site",
            ));
        }
        Ok(())
    }

    pub(super) fn check_token(&self, head: &Parts) -> Result<Caller, Problem> {
        let shown = header(head, &AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        let shown =
            shown.ok_or_else(|| Problem::unauthorized("`Authorization: Bearer TOKEN` is missing"))?.trim();
        let known = self.tokens.iter().find(|token| token.is(shown));
        let known = known.ok_or_else(|| Problem::unauthorized("the token is not one of this server"))?;
        Ok(known.caller.clone())
    }
}

static SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
