//! Which resolved addresses may be dialled. All of a name's addresses must pass, so that a name server cannot mix a
//! forbidden address among good ones; the caller dials only an address that was checked here.

use std::fmt;
use std::net::IpAddr;

use super::{Class, Network, classify, special_v4_ranges, unmap};

/// The address rule of the endpoint that admitted a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressScope {
    /// A pattern, or no host: public addresses only.
    Public,
    /// A host written out in full may also resolve to RFC 1918, carrier-grade NAT and unique local addresses.
    Declared,
    /// `allowed_ips` replaces the check of classes, and nothing else passes.
    Listed(Vec<Network>),
    /// A host that is an address allows itself.
    Literal(IpAddr),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressDenied {
    pub refusal: AddressRefusal,
    pub address: Option<IpAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressRefusal {
    /// The name has no address at all.
    NoAddress,
    /// Loopback, link-local, metadata, unspecified: no policy can open them.
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
            AddressRefusal::NoAddress => f.write_str("the name has no address"),
            AddressRefusal::Never(class) => write!(f, "a {class} address is never allowed"),
            AddressRefusal::Internal(class) => write!(f, "a {class} address is not allowed by this endpoint"),
            AddressRefusal::NotListed => f.write_str("not in the endpoint's `allowed_ips`"),
            AddressRefusal::ControlPlane(port) => {
                write!(f, "port {port} of an internal address is never allowed")
            }
        }
    }
}

impl std::error::Error for AddressDenied {}

/// etcd, the Kubernetes API server, the kubelet.
const CONTROL_PLANE_PORTS: [u16; 5] = [2379, 2380, 6443, 10250, 10255];

/// The networks of an organisation: RFC 1918, the shared range that overlay networks use, and IPv6 unique local addresses.
/// An IPv6 address that embeds a private IPv4 address does not count.
fn is_internal_network(class: Class, address: IpAddr) -> bool {
    match class {
        Class::Private | Class::SharedNat => unmap(address).is_ipv4(),
        Class::UniqueLocal => true,
        _ => false,
    }
}

impl AddressScope {
    /// Checks all addresses of one name.
    pub fn check(&self, port: u16, addresses: &[IpAddr]) -> Result<(), AddressDenied> {
        if addresses.is_empty() {
            return Err(AddressDenied { refusal: AddressRefusal::NoAddress, address: None });
        }
        addresses.iter().try_for_each(|address| {
            self.check_one(port, *address)
                .map_err(|refusal| AddressDenied { refusal, address: Some(*address) })
        })
    }

    fn check_one(&self, port: u16, address: IpAddr) -> Result<(), AddressRefusal> {
        let class = classify(address);
        if class.never_allowed() {
            return Err(AddressRefusal::Never(class));
        }
        let overrides = match self {
            Self::Public | Self::Declared if class == Class::Public => false,
            Self::Declared if is_internal_network(class, address) => true,
            Self::Public | Self::Declared => return Err(AddressRefusal::Internal(class)),
            Self::Listed(networks) if networks.iter().any(|network| network.contains(address)) => true,
            Self::Literal(literal) if unmap(*literal) == unmap(address) => true,
            Self::Listed(_) | Self::Literal(_) => return Err(AddressRefusal::NotListed),
        };
        if overrides && CONTROL_PLANE_PORTS.contains(&port) {
            return Err(AddressRefusal::ControlPlane(port));
        }
        Ok(())
    }

    /// Whether every address that passes here passes `other` too. Returns false if this cannot be decided.
    pub fn within(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Public, Self::Public | Self::Declared) | (Self::Declared, Self::Declared) => true,
            (Self::Public | Self::Declared, _) => false,
            (Self::Listed(networks), _) => networks.iter().all(|network| other.allows_all(network)),
            (Self::Literal(address), _) => other.allows_all(&Network::single(*address)),
        }
    }

    /// Whether a whole network passes, apart from addresses that no policy can open.
    fn allows_all(&self, network: &Network) -> bool {
        let special = || special_v4_ranges().filter(|(range, _)| range.touches(network));
        match self {
            // An IPv6 block may hold addresses that carry others: only a single one can be judged.
            Self::Public | Self::Declared if !network.is_ipv4() => {
                network.as_single().is_some_and(|address| classify(address) == Class::Public)
            }
            Self::Public => special().next().is_none(),
            Self::Declared => {
                let is_declared = |class| matches!(class, Class::Private | Class::SharedNat);
                special().all(|(range, class)| is_declared(class) && range.covers(network))
            }
            Self::Listed(networks) => networks.iter().any(|listed| listed.covers(network)),
            Self::Literal(address) => Network::single(*address).covers(network),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::{AddressRefusal, AddressScope, Class};

    fn listed(networks: &[&str]) -> AddressScope {
        AddressScope::Listed(networks.iter().map(|network| network.parse().unwrap()).collect())
    }

    fn literal(address: &str) -> AddressScope {
        AddressScope::Literal(address.parse().unwrap())
    }

    fn check(reach: &AddressScope, port: u16, addresses: &str) -> Result<(), AddressRefusal> {
        let addresses: Vec<IpAddr> = addresses.split_whitespace().map(|one| one.parse().unwrap()).collect();
        reach.check(port, &addresses).map_err(|denied| denied.refusal)
    }

    #[test]
    fn addresses_pass_or_are_refused_by_the_endpoint_that_admitted() {
        let ten = listed(&["10.0.0.0/8", "fd00::/8"]);
        for (reach, port, addresses, expected) in [
            (AddressScope::Public, 443, "8.8.8.8", Ok(())),
            (AddressScope::Public, 443, "8.8.8.8 2606:4700::1", Ok(())),
            (AddressScope::Public, 443, "", Err(AddressRefusal::NoAddress)),
            (AddressScope::Public, 443, "8.8.8.8 10.0.0.1", Err(AddressRefusal::Internal(Class::Private))),
            (AddressScope::Public, 443, "100.64.0.1", Err(AddressRefusal::Internal(Class::SharedNat))),
            (AddressScope::Public, 443, "127.0.0.1", Err(AddressRefusal::Never(Class::Loopback))),
            (AddressScope::Public, 443, "::ffff:10.0.0.1", Err(AddressRefusal::Internal(Class::Private))),
            (AddressScope::Public, 6443, "8.8.8.8", Ok(())),
            (AddressScope::Declared, 443, "10.0.0.1", Ok(())),
            (AddressScope::Declared, 443, "192.168.0.1 8.8.8.8", Ok(())),
            (AddressScope::Declared, 443, "::ffff:10.0.0.1", Ok(())),
            (AddressScope::Declared, 443, "64:ff9b::10.0.0.1", Err(AddressRefusal::Internal(Class::Private))),
            (AddressScope::Declared, 443, "100.64.0.1", Ok(())),
            (AddressScope::Declared, 443, "fd00::1", Ok(())),
            (AddressScope::Declared, 443, "fd00:ec2::254", Err(AddressRefusal::Never(Class::Metadata))),
            (AddressScope::Declared, 443, "100.100.100.200", Err(AddressRefusal::Never(Class::Metadata))),
            (AddressScope::Declared, 443, "198.18.0.1", Err(AddressRefusal::Internal(Class::Benchmark))),
            (
                AddressScope::Declared,
                443,
                "64:ff9b::100.64.0.1",
                Err(AddressRefusal::Internal(Class::SharedNat)),
            ),
            (AddressScope::Declared, 6443, "fd00::1", Err(AddressRefusal::ControlPlane(6443))),
            (AddressScope::Public, 443, "fd00::1", Err(AddressRefusal::Internal(Class::UniqueLocal))),
            (AddressScope::Declared, 443, "169.254.169.254", Err(AddressRefusal::Never(Class::Metadata))),
            (AddressScope::Declared, 443, "10.0.0.1 127.0.0.1", Err(AddressRefusal::Never(Class::Loopback))),
            (AddressScope::Declared, 6443, "10.0.0.1", Err(AddressRefusal::ControlPlane(6443))),
            (AddressScope::Declared, 6443, "8.8.8.8", Ok(())),
            (ten.clone(), 443, "10.9.8.7", Ok(())),
            (ten.clone(), 443, "fd12::1", Ok(())),
            (ten.clone(), 443, "8.8.8.8", Err(AddressRefusal::NotListed)),
            (ten.clone(), 443, "10.0.0.1 11.0.0.1", Err(AddressRefusal::NotListed)),
            (ten.clone(), 443, "fd00:ec2::254", Err(AddressRefusal::Never(Class::Metadata))),
            (ten.clone(), 2379, "10.0.0.1", Err(AddressRefusal::ControlPlane(2379))),
            (literal("10.0.0.1"), 443, "10.0.0.1", Ok(())),
            (literal("10.0.0.1"), 443, "::ffff:10.0.0.1", Ok(())),
            (literal("10.0.0.1"), 443, "10.0.0.2", Err(AddressRefusal::NotListed)),
            (literal("127.0.0.1"), 443, "127.0.0.1", Err(AddressRefusal::Never(Class::Loopback))),
            (literal("10.0.0.1"), 10250, "10.0.0.1", Err(AddressRefusal::ControlPlane(10250))),
        ] {
            assert_eq!(check(&reach, port, addresses), expected, "{reach:?} {port} {addresses}");
        }
    }

    #[test]
    fn address_scope_is_a_subset_only_if_proven() {
        for (inner, outer, expected) in [
            (AddressScope::Public, AddressScope::Public, true),
            (AddressScope::Public, AddressScope::Declared, true),
            (AddressScope::Declared, AddressScope::Public, false),
            (AddressScope::Declared, AddressScope::Declared, true),
            (AddressScope::Public, listed(&["8.0.0.0/8"]), false),
            (listed(&["10.1.0.0/16"]), listed(&["10.0.0.0/8"]), true),
            (listed(&["10.0.0.0/8"]), listed(&["10.1.0.0/16"]), false),
            (listed(&["8.8.0.0/16"]), AddressScope::Public, true),
            (listed(&["8.0.0.0/8"]), AddressScope::Public, true),
            (listed(&["168.0.0.0/8"]), AddressScope::Public, false),
            (listed(&["10.0.0.0/8"]), AddressScope::Declared, true),
            (listed(&["10.0.0.0/7"]), AddressScope::Declared, false),
            (listed(&["10.0.0.0/8", "8.8.8.8"]), AddressScope::Declared, true),
            (listed(&["100.64.0.0/16"]), AddressScope::Declared, true),
            // A metadata address is in it.
            (listed(&["100.64.0.0/10"]), AddressScope::Declared, false),
            (listed(&["fd00::/8"]), AddressScope::Declared, false),
            (listed(&["2000::/3"]), AddressScope::Public, false),
            (listed(&["2606:4700::/32"]), AddressScope::Public, false),
            (listed(&["2606:4700::1"]), AddressScope::Public, true),
            (literal("8.8.8.8"), AddressScope::Public, true),
            (literal("10.0.0.1"), AddressScope::Public, false),
            (literal("10.0.0.1"), AddressScope::Declared, true),
            (literal("10.0.0.1"), literal("10.0.0.1"), true),
            (literal("10.0.0.1"), literal("10.0.0.2"), false),
            (literal("10.0.0.1"), listed(&["10.0.0.0/8"]), true),
        ] {
            assert_eq!(inner.within(&outer), expected, "{inner:?} within {outer:?}");
        }
    }
}
