//! An index of a policy: endpoints by port, then by exact host; only patterns are tried one by one.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use yaml::{Span, Spanned};

use super::lookup::Lookup;
use super::{Admitted, CallingProgram, ConnectionRequest, DecidingRule, Denial, Fix, Reason};
use crate::glob::Pattern;
use crate::host::Host;
use crate::model::{Endpoint, HostPattern, Policy, RequestRule, RuleSubject};

/// An endpoint with the name and programs of its rule.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) rule: Arc<Owner>,
    pub(super) endpoint: Endpoint,
    pub(super) allow: Lookup,
    pub(super) deny: Lookup,
}

#[derive(Debug)]
pub(super) struct Owner {
    pub(super) name: String,
    pub(super) at: Span,
    binaries: Vec<Spanned<Pattern>>,
}

/// The network rules of a policy, ready to decide with.
#[derive(Clone, Debug, Default)]
pub struct Compiled {
    ports: HashMap<u16, Hosts>,
}

#[derive(Clone, Debug, Default)]
struct Hosts {
    exact: HashMap<Host, Vec<Arc<Entry>>>,
    patterns: Vec<Arc<Entry>>,
    lookup: Lookup,
}

impl Compiled {
    pub fn new(policy: &Policy) -> Self {
        let mut compiled = Self::default();
        for network in &policy.networks {
            let owner = Arc::new(Owner {
                name: network.name.clone(),
                at: network.key.at,
                binaries: network.binaries.clone(),
            });
            for endpoint in &network.endpoints {
                compiled.insert(&Arc::new(Entry::new(&owner, endpoint)));
            }
        }
        for hosts in compiled.ports.values_mut() {
            hosts.lookup = Lookup::new(hosts.patterns.iter().map(|entry| match &entry.endpoint.host {
                HostPattern::Glob(pattern) => Some(pattern),
                HostPattern::Any | HostPattern::Name(_) | HostPattern::Address(_) => None,
            }));
        }
        compiled
    }

    fn insert(&mut self, entry: &Arc<Entry>) {
        for port in &entry.endpoint.ports {
            let hosts = self.ports.entry(*port).or_default();
            let exact = match &entry.endpoint.host {
                HostPattern::Name(name) => Some(Host::Name(name.clone())),
                HostPattern::Address(address) => Some(Host::Address(*address)),
                HostPattern::Any | HostPattern::Glob(_) => None,
            };
            match exact {
                Some(host) => hosts.exact.entry(host).or_default().push(Arc::clone(entry)),
                None => hosts.patterns.push(Arc::clone(entry)),
            }
        }
    }

    /// The first step: whether this program may connect there at all.
    pub fn admit(&self, connection: &ConnectionRequest<'_>) -> Result<Admitted, Denial> {
        let named: Vec<&Arc<Entry>> = self.named(connection.host, connection.port).collect();
        let admitting: Vec<Arc<Entry>> = named
            .iter()
            .filter(|entry| entry.rule.allows(&connection.caller))
            .map(|entry| Arc::clone(entry))
            .collect();
        if !admitting.is_empty() {
            return Ok(Admitted::new(admitting));
        }
        Err(match named.first() {
            None => Denial {
                reason: Reason::NoEndpoint,
                cause: None,
                fix: Some(Box::new(Fix::Rule {
                    host: connection.host.clone(),
                    port: connection.port,
                    binary: connection.caller.binary.to_owned(),
                })),
                operation: None,
            },
            Some(entry) => Denial {
                reason: Reason::NoBinary,
                cause: Some(entry.rule.cause()),
                fix: Some(Box::new(Fix::Binary {
                    rule: entry.rule.cause(),
                    binary: connection.caller.binary.to_owned(),
                })),
                operation: None,
            },
        })
    }

    /// Whether some rule, for any program, allows a connection to this host: then the resolver may answer.
    pub fn names_host(&self, host: &Host) -> bool {
        self.ports.keys().any(|port| self.named(host, *port).next().is_some())
    }

    /// Whether some rule, for any program, allows a connection to this host and port.
    pub fn names_endpoint(&self, host: &Host, port: u16) -> bool {
        self.named(host, port).next().is_some()
    }

    /// The hosts that are written out in full, with their ports: what can be listened for ahead of time.
    pub fn exact_hosts(&self) -> impl Iterator<Item = (&Host, u16)> {
        self.ports.iter().flat_map(|(port, hosts)| hosts.exact.keys().map(|host| (host, *port)))
    }

    /// The ports of patterns, not of exact hosts.
    pub fn pattern_ports(&self) -> impl Iterator<Item = u16> {
        self.ports.iter().filter(|(_, hosts)| !hosts.patterns.is_empty()).map(|(port, _)| *port)
    }

    fn named(&self, host: &Host, port: u16) -> impl Iterator<Item = &Arc<Entry>> {
        self.ports.get(&port).into_iter().flat_map(move |hosts| {
            let name = match host {
                Host::Name(name) => name.as_bytes(),
                Host::Address(_) => b"",
            };
            let candidates = hosts.lookup.candidates(name, b'.').into_iter();
            let patterns = candidates
                .map(|position| &hosts.patterns[position])
                .filter(move |entry| entry.endpoint.host.matches(host));
            hosts.exact.get(host).into_iter().flatten().chain(patterns)
        })
    }
}

impl Owner {
    fn allows(&self, caller: &CallingProgram<'_>) -> bool {
        let matches =
            |path: &Path| self.binaries.iter().any(|binary| binary.matches(path.as_os_str().as_bytes()));
        matches(caller.binary) || caller.ancestors.iter().any(|ancestor| matches(ancestor))
    }

    pub(super) fn cause(&self) -> DecidingRule {
        DecidingRule { rule: self.name.clone(), at: self.at }
    }
}

impl Entry {
    fn new(owner: &Arc<Owner>, endpoint: &Endpoint) -> Self {
        let lookup = |rules: &[RequestRule]| {
            Lookup::new(rules.iter().map(|rule| match &rule.on {
                RuleSubject::Http(http) => Some(&http.path),
                RuleSubject::Graphql(_) | RuleSubject::Rpc(_) | RuleSubject::Sql { .. } => None,
            }))
        };
        Self {
            rule: Arc::clone(owner),
            allow: lookup(&endpoint.allow),
            deny: lookup(&endpoint.deny),
            endpoint: endpoint.clone(),
        }
    }

    pub(super) fn cause(&self) -> DecidingRule {
        DecidingRule { rule: self.rule.name.clone(), at: self.endpoint.at }
    }

    pub(super) fn cause_of(&self, rule: &RequestRule) -> DecidingRule {
        DecidingRule { rule: self.rule.name.clone(), at: rule.at.0 }
    }
}
