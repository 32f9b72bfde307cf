//! All credentials of one run, by the handle of their placeholder, and what each is bound to.

use super::placeholder::PREFIX;
use super::{Secret, Source, SourceError};
use policy::Host;
use policy::model::Endpoint;
use std::collections::HashMap;
use std::fmt;

pub struct Credential {
    /// The provider that it belongs to.
    pub provider: String,
    /// The variable under which the sandbox has its placeholder.
    pub key: String,
    pub source: Source,
    /// Where it may go. None: where the policy binds the provider by name.
    pub endpoints: Vec<Endpoint>,
}

/// Where a request goes, as far as credentials are concerned.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub host: &'a Host,
    pub port: u16,
    pub path: &'a str,
    /// The provider that the policy binds to the endpoint.
    pub provider: Option<&'a str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialError {
    /// A placeholder of another run, or one that somebody made up.
    Unknown,
    /// A credential that is not bound to this place.
    NotBound {
        key: String,
    },
    Source {
        key: String,
        error: SourceError,
    },
    /// The value cannot stand here without changing what the request means.
    Unfit {
        key: String,
        place: &'static str,
    },
    /// A placeholder where none is replaced.
    Misplaced {
        place: &'static str,
    },
}

impl fmt::Display for CredentialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => {
                f.write_str("the request holds a placeholder that stands for no credential of this run")
            }
            Self::NotBound { key } => write!(f, "the credential {key} is not bound to this endpoint"),
            Self::Source { key, error } => write!(f, "{key}: {error}"),
            Self::Unfit { key, place } => {
                write!(f, "the value of {key} holds characters that cannot stand in the {place}")
            }
            Self::Misplaced { place } => write!(
                f,
                "the request holds a placeholder in its {place}, where this endpoint does not have them replaced"
            ),
        }
    }
}

impl std::error::Error for CredentialError {}

#[derive(Default)]
pub struct CredentialStore {
    by_handle: HashMap<String, Credential>,
    /// Said to a place with every request, whatever the client says there.
    tokens: Vec<Token>,
}

struct Token {
    host: String,
    port: u16,
    secret: Secret,
}

impl CredentialStore {
    /// Handles are new for every run, so that a placeholder of another one means nothing.
    pub fn new(credentials: Vec<Credential>) -> Result<Self, getrandom::Error> {
        let mut number = [0; 8];
        getrandom::fill(&mut number)?;
        let revision = u64::from_be_bytes(number);
        let by_handle = credentials
            .into_iter()
            .map(|credential| (format!("v{revision}_{}", credential.key), credential))
            .collect();
        Ok(Self { by_handle, tokens: Vec::new() })
    }

    /// From here on every request to this place is authorized with the token, and with nothing else.
    pub fn authorize(&mut self, host: &str, port: u16, secret: Secret) {
        self.tokens.push(Token { host: host.to_owned(), port, secret });
    }

    pub(super) fn token(&self, host: &Host, port: u16) -> Option<&Secret> {
        let Host::Name(name) = host else { return None };
        self.tokens.iter().find(|token| token.host == *name && token.port == port).map(|token| &token.secret)
    }

    /// What the sandbox's environment holds.
    pub fn placeholders(&self) -> Vec<(String, String)> {
        let prefix = String::from_utf8_lossy(PREFIX);
        let pair = |(handle, credential): (&String, &Credential)| {
            (credential.key.clone(), format!("{prefix}{handle}"))
        };
        let mut pairs: Vec<(String, String)> = self.by_handle.iter().map(pair).collect();
        pairs.sort();
        pairs
    }

    /// Whether some credential may go there: then requests must be read.
    pub fn is_bound(&self, host: &Host, port: u16, provider: Option<&str>) -> bool {
        self.token(host, port).is_some()
            || self.by_handle.values().any(|credential| {
                credential.is_named(provider)
                    || credential.endpoints.iter().any(|endpoint| reaches(endpoint, host, port))
            })
    }

    pub(super) async fn secret(
        &self,
        handle: &str,
        place: &Place<'_>,
    ) -> Result<(Secret, &str), CredentialError> {
        let credential = self.by_handle.get(handle).ok_or(CredentialError::Unknown)?;
        let key = credential.key.as_str();
        let bound = credential.is_named(place.provider)
            || credential
                .endpoints
                .iter()
                .any(|endpoint| reaches(endpoint, place.host, place.port) && endpoint.speaks_for(place.path));
        if !bound {
            return Err(CredentialError::NotBound { key: key.to_owned() });
        }
        let secret = credential.source.secret().await;
        secret
            .map(|secret| (secret, key))
            .map_err(|error| CredentialError::Source { key: key.to_owned(), error })
    }
}

impl Credential {
    fn is_named(&self, provider: Option<&str>) -> bool {
        self.endpoints.is_empty() && provider == Some(self.provider.as_str())
    }
}

fn reaches(endpoint: &Endpoint, host: &Host, port: u16) -> bool {
    endpoint.ports.contains(&port) && endpoint.host.matches(host)
}
