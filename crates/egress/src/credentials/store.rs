//! All credentials of one run, by the handle of their placeholder, and the endpoints that each is bound to.

use super::placeholder::PREFIX;
use super::{CredentialSource, FetchError, Secret};
use policy::Host;
use policy::model::Endpoint;
use std::collections::HashMap;
use std::fmt;

pub struct Credential {
    /// The provider that it belongs to.
    pub provider: String,
    /// The variable under which the sandbox has its placeholder.
    pub key: String,
    pub source: CredentialSource,
    /// Where it may go. Empty: where the policy binds the provider by name.
    pub endpoints: Vec<Endpoint>,
}

/// Where a request goes, to choose the credentials that it may carry.
#[derive(Debug, Clone, Copy)]
pub struct CredentialScope<'a> {
    pub host: &'a Host,
    pub port: u16,
    pub path: &'a str,
    /// The provider that the policy binds to the endpoint.
    pub provider: Option<&'a str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubstituteError {
    /// A placeholder of another run, or an invented one.
    Unknown,
    /// A credential that is not bound to this endpoint.
    NotBound {
        key: String,
    },
    Source {
        key: String,
        error: FetchError,
    },
    /// The value would change the meaning of the request here.
    Unfit {
        key: String,
        part: &'static str,
    },
    /// A placeholder in a part of the request where none is replaced.
    Misplaced {
        part: &'static str,
    },
}

impl fmt::Display for SubstituteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => {
                f.write_str("the request holds a placeholder that belongs to no credential of this run")
            }
            Self::NotBound { key } => write!(f, "the credential {key} is not bound to this endpoint"),
            Self::Source { key, error } => write!(f, "{key}: {error}"),
            Self::Unfit { key, part } => {
                write!(f, "the value of {key} holds characters that are not allowed in the {part}")
            }
            Self::Misplaced { part } => write!(
                f,
                "the request holds a placeholder in its {part}, where this endpoint does not have them replaced"
            ),
        }
    }
}

impl std::error::Error for SubstituteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Source { error, .. } => Some(error),
            Self::Unknown | Self::NotBound { .. } | Self::Unfit { .. } | Self::Misplaced { .. } => None,
        }
    }
}

#[derive(Default)]
pub struct CredentialStore {
    by_handle: HashMap<String, Credential>,
    /// Sent to an endpoint with every request, instead of the client's own authorization.
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

    /// Authorizes every request to this endpoint with the token, and with nothing else.
    pub fn authorize(&mut self, host: &str, port: u16, secret: Secret) {
        self.tokens.push(Token { host: host.to_owned(), port, secret });
    }

    pub(super) fn token(&self, host: &Host, port: u16) -> Option<&Secret> {
        let Host::Name(name) = host else { return None };
        self.tokens.iter().find(|token| token.host == *name && token.port == port).map(|token| &token.secret)
    }

    /// The variables of the sandbox's environment, with placeholders as values.
    pub fn placeholders(&self) -> Vec<(String, String)> {
        let prefix = String::from_utf8_lossy(PREFIX);
        let pair = |(handle, credential): (&String, &Credential)| {
            (credential.key.clone(), format!("{prefix}{handle}"))
        };
        let mut pairs: Vec<(String, String)> = self.by_handle.iter().map(pair).collect();
        pairs.sort();
        pairs
    }

    /// Whether a credential is bound to this endpoint: then requests must be read.
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
        scope: &CredentialScope<'_>,
    ) -> Result<(Secret, &str), SubstituteError> {
        let credential = self.by_handle.get(handle).ok_or(SubstituteError::Unknown)?;
        let key = credential.key.as_str();
        let bound = credential.is_named(scope.provider)
            || credential
                .endpoints
                .iter()
                .any(|endpoint| reaches(endpoint, scope.host, scope.port) && endpoint.speaks_for(scope.path));
        if !bound {
            return Err(SubstituteError::NotBound { key: key.to_owned() });
        }
        let secret = credential.source.secret().await;
        secret
            .map(|secret| (secret, key))
            .map_err(|error| SubstituteError::Source { key: key.to_owned(), error })
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
