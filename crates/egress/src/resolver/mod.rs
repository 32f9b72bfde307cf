//! Resolves names on the host. The host's own resolver answers (`getent`); where there is none, the hosts file and the
//! name servers of `resolv.conf` are asked directly. Whether an address may be dialled is decided elsewhere.

mod config;
mod getent;
mod query;
mod system;

pub use system::SystemResolver;

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;

pub type ResolveFuture<'a> = Pin<Box<dyn Future<Output = Result<Vec<IpAddr>, ResolveError>> + Send + 'a>>;

/// Injectable, so that tests need no network.
pub trait Resolve: Send + Sync {
    /// Never empty when it is `Ok`. Address literals are not names and never come here.
    fn resolve<'a>(&'a self, host: &'a str) -> ResolveFuture<'a>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolveError {
    NoSuchName {
        host: String,
    },
    BadName {
        host: String,
    },
    /// There was no usable answer in time.
    NoAnswer {
        host: String,
        reason: String,
    },
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchName { host } => write!(f, "the name {host} has no address"),
            Self::BadName { host } => write!(f, "{host:?} is not a host name"),
            Self::NoAnswer { host, reason } => write!(f, "the name {host} could not be resolved: {reason}"),
        }
    }
}

impl std::error::Error for ResolveError {}

/// Knows only the names that it was made with.
#[derive(Debug, Default)]
pub struct FixedResolver {
    names: HashMap<String, Vec<IpAddr>>,
}

impl FixedResolver {
    pub fn new<'a>(names: impl IntoIterator<Item = (&'a str, Vec<IpAddr>)>) -> Self {
        Self { names: names.into_iter().map(|(name, addresses)| (name.to_owned(), addresses)).collect() }
    }
}

impl Resolve for FixedResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> ResolveFuture<'a> {
        let found =
            self.names.get(&host.to_ascii_lowercase()).filter(|addresses| !addresses.is_empty()).cloned();
        let answer = found.ok_or_else(|| ResolveError::NoSuchName { host: host.to_owned() });
        Box::pin(std::future::ready(answer))
    }
}
