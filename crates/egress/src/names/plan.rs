//! Which sockets to open inside the sandbox. They are opened before it starts, because nothing can be bound there later.

use super::MODEL_HOST;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Reserved for benchmarks and never routed. Every sandbox has its own copy.
const RANGE: (Ipv4Addr, u8) = (Ipv4Addr::new(198, 18, 0, 0), 15);
const RESOLVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const FIRST_EXACT: u32 = u32::from_be_bytes([198, 18, 1, 1]);
const FIRST_POOLED: u32 = u32::from_be_bytes([198, 19, 0, 1]);
const PROXY_PORT: u16 = 3128;
const DNS_PORT: u16 = 53;
const GATEWAY_PORT: u16 = 80;
/// Each listener is a file descriptor on the host.
const MAX_LISTENERS: usize = 2048;
const MAX_POOLED: usize = 64;
const MAX_POOLED_LISTENERS: usize = 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketPurpose {
    /// The proxy's own port, which programs know from `HTTP_PROXY` and the like.
    Proxy,
    Gateway,
    ResolverUdp,
    ResolverTcp,
    /// For connections to the host that has this address.
    Direct,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedSocket {
    pub purpose: SocketPurpose,
    pub address: SocketAddr,
}

/// A server on the host that the sandbox may reach under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedService {
    pub host: String,
    pub port: u16,
}

#[derive(Debug, Clone)]
pub struct NamePlan {
    pub(super) names: BTreeMap<String, Ipv4Addr>,
    pub(super) literals: BTreeSet<Ipv4Addr>,
    pub(super) pool: Vec<Ipv4Addr>,
    sockets: Vec<PlannedSocket>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanError {
    TooManyListeners { wanted: usize },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyListeners { wanted } => write!(
                f,
                "the policy names {wanted} pairs of host and port; at most {MAX_LISTENERS} can be listened for"
            ),
        }
    }
}

impl std::error::Error for PlanError {}

impl NamePlan {
    /// Plans for the hosts that the policy writes out, the ports of its patterns, and the harness's own services.
    pub fn new(policy: &policy::Compiled, services: &[NamedService]) -> Result<Self, PlanError> {
        let mut named: BTreeSet<(String, u16)> = BTreeSet::new();
        let mut literals: BTreeSet<(Ipv4Addr, u16)> = BTreeSet::new();
        for (host, port) in policy.exact_hosts() {
            match host {
                policy::Host::Name(name) => drop(named.insert((name.clone(), port))),
                policy::Host::Address(IpAddr::V4(address)) => drop(literals.insert((*address, port))),
                // The sandbox has only IPv4; such a host is reached through the proxy's own port.
                policy::Host::Address(IpAddr::V6(_)) => {}
            }
        }
        named.extend(services.iter().map(|service| (service.host.clone(), service.port)));
        let ports: BTreeSet<u16> = policy.pattern_ports().collect();
        Self::from_parts(&named, literals, &ports)
    }

    fn from_parts(
        named: &BTreeSet<(String, u16)>,
        literals: BTreeSet<(Ipv4Addr, u16)>,
        pool_ports: &BTreeSet<u16>,
    ) -> Result<Self, PlanError> {
        let wanted = named.len() + literals.len();
        if wanted > MAX_LISTENERS {
            return Err(PlanError::TooManyListeners { wanted });
        }
        let own: BTreeSet<&String> =
            named.iter().map(|(name, _)| name).filter(|name| *name != MODEL_HOST).collect();
        let names: BTreeMap<String, Ipv4Addr> =
            own.into_iter().zip(FIRST_EXACT..).map(|(name, at)| (name.clone(), Ipv4Addr::from(at))).collect();
        let pooled = MAX_POOLED_LISTENERS.checked_div(pool_ports.len()).unwrap_or(0).min(MAX_POOLED);
        let pool: Vec<Ipv4Addr> = (FIRST_POOLED..).take(pooled).map(Ipv4Addr::from).collect();
        let mut sockets = vec![
            planned(SocketPurpose::Proxy, Ipv4Addr::LOCALHOST, PROXY_PORT),
            planned(SocketPurpose::Gateway, GATEWAY, GATEWAY_PORT),
            planned(SocketPurpose::ResolverUdp, RESOLVER, DNS_PORT),
            planned(SocketPurpose::ResolverTcp, RESOLVER, DNS_PORT),
        ];
        let exact = named.iter().filter_map(|(name, port)| Some((*names.get(name)?, *port)));
        let spare = pool.iter().flat_map(|address| pool_ports.iter().map(|port| (*address, *port)));
        let direct = exact.chain(literals.iter().copied()).chain(spare);
        sockets.extend(direct.map(|(address, port)| planned(SocketPurpose::Direct, address, port)));
        let literals = literals.into_iter().map(|(address, _)| address).collect();
        let names = names.into_iter().chain([(MODEL_HOST.to_owned(), GATEWAY)]).collect();
        Ok(Self { names, literals, pool, sockets })
    }

    /// Names at given addresses, without sockets.
    #[cfg(test)]
    pub(crate) fn with_names(names: &[(&str, Ipv4Addr)], pool: &[Ipv4Addr]) -> Self {
        let names = names.iter().map(|(name, address)| ((*name).to_owned(), *address)).collect();
        Self { names, literals: BTreeSet::new(), pool: pool.to_vec(), sockets: Vec::new() }
    }

    /// In the order in which they are opened.
    pub fn sockets(&self) -> &[PlannedSocket] {
        &self.sockets
    }

    /// Ranges that the sandbox's loopback device must have.
    pub fn local_ranges(&self) -> Vec<(IpAddr, u8)> {
        let literals = self.literals.iter().map(|address| (IpAddr::V4(*address), 32));
        std::iter::once((IpAddr::V4(RANGE.0), RANGE.1)).chain(literals).collect()
    }

    /// For the sandbox's `resolv.conf`.
    pub fn resolver_address(&self) -> IpAddr {
        RESOLVER.into()
    }

    /// For the proxy variables.
    pub fn proxy_address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, PROXY_PORT).into()
    }

    pub fn gateway_address(&self) -> SocketAddr {
        (GATEWAY, GATEWAY_PORT).into()
    }
}

fn planned(purpose: SocketPurpose, address: Ipv4Addr, port: u16) -> PlannedSocket {
    PlannedSocket { purpose, address: (address, port).into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(named: &[(&str, u16)], pool_ports: &[u16]) -> NamePlan {
        let named = named.iter().map(|(name, port)| ((*name).to_owned(), *port)).collect();
        let literals = BTreeSet::from([(Ipv4Addr::new(10, 1, 2, 3), 5432)]);
        NamePlan::from_parts(&named, literals, &pool_ports.iter().copied().collect()).unwrap()
    }

    #[test]
    fn every_host_has_its_own_address_and_a_listener_per_port() {
        let plan = plan(&[("a.test", 443), ("a.test", 80), ("b.test", 443)], &[443, 8443]);
        let a = plan.names["a.test"];
        let b = plan.names["b.test"];
        assert_ne!(a, b);
        let addresses: BTreeSet<SocketAddr> = plan.sockets().iter().map(|socket| socket.address).collect();
        for expected in [(a, 443), (a, 80), (b, 443), (Ipv4Addr::new(10, 1, 2, 3), 5432)] {
            assert!(addresses.contains(&expected.into()), "{expected:?}");
        }
        assert_eq!(plan.pool.len(), 64);
        assert_eq!(plan.sockets().len(), 4 + 4 + 64 * 2);
        // The resolver's two sockets share an address; all others differ.
        assert_eq!(addresses.len(), plan.sockets().len() - 1);
        assert_eq!(plan.local_ranges().len(), 2);
    }

    #[test]
    fn listeners_are_bounded() {
        let many: BTreeSet<u16> = (1..=512).collect();
        let plan = NamePlan::from_parts(&BTreeSet::new(), BTreeSet::new(), &many).unwrap();
        assert_eq!(plan.pool.len(), 1);
        let named = (0..3000).map(|number| (format!("h{number}.test"), 443)).collect();
        let refused = NamePlan::from_parts(&named, BTreeSet::new(), &BTreeSet::new()).err();
        assert_eq!(refused, Some(PlanError::TooManyListeners { wanted: 3000 }));
    }
}
