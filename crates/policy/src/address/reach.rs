//! Which resolved addresses a connection may be made to. All of a name's addresses must pass, so that a name server
//! cannot mix a forbidden address among good ones; the caller dials only an address that was checked here.

use std::fmt;
use std::net::IpAddr;

use super::{Class, Network, classify, special_v4_ranges, unmap};

/// What the endpoint that admitted a connection says about addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// A pattern, or no host: public addresses only.
    Public,
    /// A host written out in full may also resolve to RFC 1918.
    Declared,
    /// `allowed_ips` replaces the check of classes, and nothing else passes.
    Listed(Vec<Network>),
    /// A host that is an address allows itself.
    Literal(IpAddr),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressDenied {
    pub refusal: Refusal,
    pub address: Option<IpAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The name has no address at all.
    NoAddress,
    /// Loopback, link-local, metadata, unspecified: closed to every policy.
    Never(Class),
    /// Not public, and nothing in the policy opens it.
    Internal(Class),
    /// `allowed_ips` is there, and this address is not in it.
    NotListed,
    /// A port of a cluster's control plane, where a policy reaches beyond public addresses.
    ControlPlane(u16),
}

impl fmt::Display for AddressDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(address) = self.address {
            write!(f, "{address}: ")?;
        }
        match self.refusal {
            Refusal::NoAddress => f.write_str("the name has no address"),
            Refusal::Never(class) => write!(f, "a {class} address is never allowed"),
            Refusal::Internal(class) => write!(f, "a {class} address is not allowed by this endpoint"),
            Refusal::NotListed => f.write_str("not in the endpoint's `allowed_ips`"),
            Refusal::ControlPlane(port) => write!(f, "port {port} of an internal address is never allowed"),
        }
    }
}

impl std::error::Error for AddressDenied {}

/// etcd, the Kubernetes API server, the kubelet.
const CONTROL_PLANE_PORTS: [u16; 5] = [2379, 2380, 6443, 10250, 10255];

impl Reach {
    /// Checks all addresses of one name.
    pub fn check(&self, port: u16, addresses: &[IpAddr]) -> Result<(), AddressDenied> {
        if addresses.is_empty() {
            return Err(AddressDenied { refusal: Refusal::NoAddress, address: None });
        }
        addresses.iter().try_for_each(|address| {
            self.check_one(port, *address)
                .map_err(|refusal| AddressDenied { refusal, address: Some(*address) })
        })
    }

    fn check_one(&self, port: u16, address: IpAddr) -> Result<(), Refusal> {
        let class = classify(address);
        if class.never_allowed() {
            return Err(Refusal::Never(class));
        }
        let overrides = match self {
            Self::Public | Self::Declared if class == Class::Public => false,
            Self::Declared if class == Class::Private && unmap(address).is_ipv4() => true,
            Self::Public | Self::Declared => return Err(Refusal::Internal(class)),
            Self::Listed(networks) if networks.iter().any(|network| network.contains(address)) => true,
            Self::Literal(literal) if unmap(*literal) == unmap(address) => true,
            Self::Listed(_) | Self::Literal(_) => return Err(Refusal::NotListed),
        };
        if overrides && CONTROL_PLANE_PORTS.contains(&port) {
            return Err(Refusal::ControlPlane(port));
        }
        Ok(())
    }

    /// Whether every address that passes here passes `other` too. May say no where it cannot tell.
    pub fn within(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Public, Self::Public | Self::Declared) | (Self::Declared, Self::Declared) => true,
            (Self::Public | Self::Declared, _) => false,
            (Self::Listed(networks), _) => networks.iter().all(|network| other.holds(network)),
            (Self::Literal(address), _) => other.holds(&Network::single(*address)),
        }
    }

    /// Whether a whole network passes, apart from what never passes anywhere.
    fn holds(&self, network: &Network) -> bool {
        let special = || special_v4_ranges().filter(|(range, _)| range.touches(network));
        match self {
            // An IPv6 block may hold addresses that carry others: only a single one can be judged.
            Self::Public | Self::Declared if !network.is_ipv4() => {
                network.as_single().is_some_and(|address| classify(address) == Class::Public)
            }
            Self::Public => special().next().is_none(),
            Self::Declared => {
                special().all(|(range, class)| class == Class::Private && range.covers(network))
            }
            Self::Listed(networks) => networks.iter().any(|listed| listed.covers(network)),
            Self::Literal(address) => Network::single(*address).covers(network),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::{Class, Reach, Refusal};

    fn listed(networks: &[&str]) -> Reach {
        Reach::Listed(networks.iter().map(|network| network.parse().unwrap()).collect())
    }

    fn literal(address: &str) -> Reach {
        Reach::Literal(address.parse().unwrap())
    }

    fn check(reach: &Reach, port: u16, addresses: &str) -> Result<(), Refusal> {
        let addresses: Vec<IpAddr> = addresses.split_whitespace().map(|one| one.parse().unwrap()).collect();
        reach.check(port, &addresses).map_err(|denied| denied.refusal)
    }

    #[test]
    fn addresses_pass_or_are_refused_by_the_endpoint_that_admitted() {
        let ten = listed(&["10.0.0.0/8", "fd00::/8"]);
        for (reach, port, addresses, expected) in [
            (Reach::Public, 443, "8.8.8.8", Ok(())),
            (Reach::Public, 443, "8.8.8.8 2606:4700::1", Ok(())),
            (Reach::Public, 443, "", Err(Refusal::NoAddress)),
            (Reach::Public, 443, "8.8.8.8 10.0.0.1", Err(Refusal::Internal(Class::Private))),
            (Reach::Public, 443, "100.64.0.1", Err(Refusal::Internal(Class::SharedNat))),
            (Reach::Public, 443, "127.0.0.1", Err(Refusal::Never(Class::Loopback))),
            (Reach::Public, 443, "::ffff:10.0.0.1", Err(Refusal::Internal(Class::Private))),
            (Reach::Public, 6443, "8.8.8.8", Ok(())),
            (Reach::Declared, 443, "10.0.0.1", Ok(())),
            (Reach::Declared, 443, "192.168.0.1 8.8.8.8", Ok(())),
            (Reach::Declared, 443, "::ffff:10.0.0.1", Ok(())),
            (Reach::Declared, 443, "64:ff9b::10.0.0.1", Err(Refusal::Internal(Class::Private))),
            (Reach::Declared, 443, "100.64.0.1", Err(Refusal::Internal(Class::SharedNat))),
            (Reach::Declared, 443, "fd00::1", Err(Refusal::Internal(Class::UniqueLocal))),
            (Reach::Declared, 443, "169.254.169.254", Err(Refusal::Never(Class::Metadata))),
            (Reach::Declared, 443, "10.0.0.1 127.0.0.1", Err(Refusal::Never(Class::Loopback))),
            (Reach::Declared, 6443, "10.0.0.1", Err(Refusal::ControlPlane(6443))),
            (Reach::Declared, 6443, "8.8.8.8", Ok(())),
            (ten.clone(), 443, "10.9.8.7", Ok(())),
            (ten.clone(), 443, "fd12::1", Ok(())),
            (ten.clone(), 443, "8.8.8.8", Err(Refusal::NotListed)),
            (ten.clone(), 443, "10.0.0.1 11.0.0.1", Err(Refusal::NotListed)),
            (ten.clone(), 443, "fd00:ec2::254", Err(Refusal::Never(Class::Metadata))),
            (ten.clone(), 2379, "10.0.0.1", Err(Refusal::ControlPlane(2379))),
            (literal("10.0.0.1"), 443, "10.0.0.1", Ok(())),
            (literal("10.0.0.1"), 443, "::ffff:10.0.0.1", Ok(())),
            (literal("10.0.0.1"), 443, "10.0.0.2", Err(Refusal::NotListed)),
            (literal("127.0.0.1"), 443, "127.0.0.1", Err(Refusal::Never(Class::Loopback))),
            (literal("10.0.0.1"), 10250, "10.0.0.1", Err(Refusal::ControlPlane(10250))),
        ] {
            assert_eq!(check(&reach, port, addresses), expected, "{reach:?} {port} {addresses}");
        }
    }

    #[test]
    fn one_reach_lies_within_another_only_when_it_is_certain() {
        for (inner, outer, expected) in [
            (Reach::Public, Reach::Public, true),
            (Reach::Public, Reach::Declared, true),
            (Reach::Declared, Reach::Public, false),
            (Reach::Declared, Reach::Declared, true),
            (Reach::Public, listed(&["8.0.0.0/8"]), false),
            (listed(&["10.1.0.0/16"]), listed(&["10.0.0.0/8"]), true),
            (listed(&["10.0.0.0/8"]), listed(&["10.1.0.0/16"]), false),
            (listed(&["8.8.0.0/16"]), Reach::Public, true),
            (listed(&["8.0.0.0/8"]), Reach::Public, true),
            (listed(&["168.0.0.0/8"]), Reach::Public, false),
            (listed(&["10.0.0.0/8"]), Reach::Declared, true),
            (listed(&["10.0.0.0/7"]), Reach::Declared, false),
            (listed(&["10.0.0.0/8", "8.8.8.8"]), Reach::Declared, true),
            (listed(&["fd00::/8"]), Reach::Declared, false),
            (listed(&["2000::/3"]), Reach::Public, false),
            (listed(&["2606:4700::/32"]), Reach::Public, false),
            (listed(&["2606:4700::1"]), Reach::Public, true),
            (literal("8.8.8.8"), Reach::Public, true),
            (literal("10.0.0.1"), Reach::Public, false),
            (literal("10.0.0.1"), Reach::Declared, true),
            (literal("10.0.0.1"), literal("10.0.0.1"), true),
            (literal("10.0.0.1"), literal("10.0.0.2"), false),
            (literal("10.0.0.1"), listed(&["10.0.0.0/8"]), true),
        ] {
            assert_eq!(inner.within(&outer), expected, "{inner:?} within {outer:?}");
        }
    }
}
