//! All credentials of one run, by the handle of their placeholder, and the endpoints that each is bound to.

use super::masks::{ResponseMasks, ResponseRedactors};
use super::placeholder::PREFIX;
use super::placement::{CredentialPlacement, RequestPart};
use super::{CredentialFetchError, CredentialSource, Secret};
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
    /// The parts of a request that it may be in.
    pub placements: Vec<CredentialPlacement>,
    /// Whether it may be sent without TLS.
    pub plain: bool,
}

/// Where a request goes, to choose the credentials that it may carry.
#[derive(Debug, Clone, Copy)]
pub struct CredentialScope<'a> {
    pub host: &'a Host,
    pub port: u16,
    pub path: &'a str,
    /// Other paths that the server may read in the request.
    pub readings: &'a [String],
    /// The provider that the policy binds to the endpoint.
    pub provider: Option<&'a str>,
    pub tls: bool,
}

impl CredentialScope<'_> {
    /// Whether the endpoint covers every path that the server may read.
    fn is_path_of(&self, endpoint: &Endpoint) -> bool {
        endpoint.covers_path(self.path) && self.readings.iter().all(|path| endpoint.covers_path(path))
    }
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
        error: CredentialFetchError,
    },
    /// The profile does not allow it in this part of the request.
    WrongPart {
        key: String,
        part: String,
        allowed: String,
    },
    /// Without TLS, everyone on the way could read it.
    NotEncrypted {
        key: String,
    },
    /// The value would change the meaning of the request here.
    Unsuitable {
        key: String,
        part: &'static str,
    },
    /// A placeholder in a part of the request where none is replaced.
    Misplaced {
        part: &'static str,
    },
    /// Two placeholders in one segment of the path.
    Twice,
    /// The endpoint's requests are signed, and nothing is bound to it to sign with.
    NoSigningKey,
}

impl fmt::Display for SubstituteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => {
                f.write_str("the request contains a placeholder that belongs to no credential of this run")
            }
            Self::NotBound { key } => write!(f, "the credential {key} is not bound to this endpoint"),
            Self::Source { key, error } => write!(f, "{key}: {error}"),
            Self::WrongPart { key, part, allowed } => {
                write!(f, "the credential {key} may not be in {part}; its profile allows {allowed}")
            }
            Self::NotEncrypted { key } => write!(
                f,
                "the credential {key} is not sent without TLS; use https, or say `plain: true` in its profile"
            ),
            Self::Unsuitable { key, part } => {
                write!(f, "the value of {key} contains characters that are not allowed in the {part}")
            }
            Self::Misplaced { part } => {
                write!(f, "placeholders in the {part} are not replaced here")
            }
            Self::Twice => f.write_str("one segment of the path contains two placeholders; at most one is replaced"),
            Self::NoSigningKey => f.write_str(
                "requests to this endpoint are signed, and AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not bound to it",
            ),
        }
    }
}

impl std::error::Error for SubstituteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Source { error, .. } => Some(error),
            Self::Unknown
            | Self::NotBound { .. }
            | Self::WrongPart { .. }
            | Self::NotEncrypted { .. }
            | Self::Unsuitable { .. }
            | Self::Misplaced { .. }
            | Self::Twice
            | Self::NoSigningKey => None,
        }
    }
}

#[derive(Default)]
pub struct CredentialStore {
    by_handle: HashMap<String, Credential>,
    /// Sent to an endpoint with every request, instead of the client's own authorization.
    tokens: Vec<Token>,
    masks: ResponseMasks,
}

struct Token {
    host: String,
    port: u16,
    secret: Secret,
}

impl CredentialStore {
    /// Handles are new for every run, so that a placeholder of another run is invalid.
    pub fn new(credentials: Vec<Credential>) -> Result<Self, getrandom::Error> {
        let mut number = [0; 8];
        getrandom::fill(&mut number)?;
        let revision = u64::from_be_bytes(number);
        let by_handle = credentials
            .into_iter()
            .map(|credential| (format!("v{revision}_{}", credential.key), credential))
            .collect();
        let store = Self { by_handle, tokens: Vec::new(), masks: ResponseMasks::default() };
        store.by_handle.values().filter_map(|credential| credential.source.known()).for_each(|secret| {
            store.masks.learn(&secret);
        });
        Ok(store)
    }

    /// Replaces the `Authorization` header of every request to this endpoint with this bearer token.
    pub fn authorize(&mut self, host: &str, port: u16, secret: Secret) {
        self.masks.learn(&secret);
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
        part: RequestPart<'_>,
    ) -> Result<(Secret, &str), SubstituteError> {
        let credential = self.by_handle.get(handle).ok_or(SubstituteError::Unknown)?;
        let key = credential.key.as_str();
        if !credential.is_bound_to(scope) {
            return Err(SubstituteError::NotBound { key: key.to_owned() });
        }
        credential.check_part(part)?;
        if !scope.tls && !credential.plain {
            return Err(SubstituteError::NotEncrypted { key: key.to_owned() });
        }
        let fetched = credential.source.secret().await;
        let secret = fetched.map_err(|error| SubstituteError::Source { key: key.to_owned(), error })?;
        self.learn_sent(&secret, scope);
        Ok((secret, key))
    }

    /// The credential of this name, if it is bound to the endpoint.
    pub(super) fn bound_credential(&self, name: &str, scope: &CredentialScope<'_>) -> Option<&Credential> {
        self.by_handle.values().find(|credential| credential.key == name && credential.is_bound_to(scope))
    }

    /// The value goes to this endpoint, and is masked in what comes back.
    pub(super) fn learn_sent(&self, secret: &Secret, scope: &CredentialScope<'_>) {
        self.masks.learn(secret);
        self.masks.record_sent(scope.host, scope.port);
    }

    /// Mask the values that are known so far and long enough to mask. `None`: there is none.
    pub(crate) fn response_redactors(&self) -> Option<ResponseRedactors> {
        self.masks.redactors()
    }

    /// Whether responses of this endpoint may contain a value.
    pub(crate) fn was_sent(&self, host: &Host, port: u16) -> bool {
        self.token(host, port).is_some() || self.masks.was_sent(host, port)
    }
}

impl Credential {
    fn check_part(&self, part: RequestPart<'_>) -> Result<(), SubstituteError> {
        // The policy, not the profile, allows credentials in bodies.
        let is_body = matches!(part, RequestPart::Body);
        if is_body || self.placements.iter().any(|placement| placement.allows(part)) {
            return Ok(());
        }
        let allowed: Vec<String> = self.placements.iter().map(ToString::to_string).collect();
        Err(SubstituteError::WrongPart {
            key: self.key.clone(),
            part: part.to_string(),
            allowed: allowed.join(", "),
        })
    }

    fn is_bound_to(&self, scope: &CredentialScope<'_>) -> bool {
        let reached =
            |endpoint: &Endpoint| reaches(endpoint, scope.host, scope.port) && scope.is_path_of(endpoint);
        self.is_named(scope.provider) || self.endpoints.iter().any(reached)
    }

    fn is_named(&self, provider: Option<&str>) -> bool {
        self.endpoints.is_empty() && provider == Some(self.provider.as_str())
    }
}

fn reaches(endpoint: &Endpoint, host: &Host, port: u16) -> bool {
    endpoint.ports.contains(&port) && endpoint.host.matches(host)
}
