//! What kind of place an IP address is: public, or one of the many ranges that a sandbox must not reach by accident.
//! Addresses that carry an IPv4 address inside (mapped, NAT64, ...) are judged by what they carry.

mod literal;
mod network;
mod scope;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

pub use literal::{LiteralError, parse_literal};
pub use network::{Network, NetworkError};
pub use scope::{AddressDenied, AddressRefusal, AddressScope};

/// The kind of an address. Only `Public` is outside every special range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    Public,
    /// `0.0.0.0/8` and `::`.
    Unspecified,
    Loopback,
    LinkLocal,
    /// Metadata services, where clouds return the machine's own credentials.
    Metadata,
    /// RFC 1918.
    Private,
    /// Carrier-grade NAT, `100.64.0.0/10`.
    SharedNat,
    /// `fc00::/7`.
    UniqueLocal,
    /// `fec0::/10`, deprecated but still routed by some.
    SiteLocal,
    Multicast,
    Broadcast,
    /// `192.0.0.0/24`.
    Protocol,
    Documentation,
    Benchmark,
    /// 6to4, Teredo, IPv4-compatible, local NAT64: a tunnel to an address that cannot be judged from here.
    Tunnel,
    Reserved,
}

impl Class {
    /// In the words of a message.
    pub fn word(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Unspecified => "unspecified",
            Self::Loopback => "loopback",
            Self::LinkLocal => "link-local",
            Self::Metadata => "cloud metadata",
            Self::Private => "private",
            Self::SharedNat => "carrier-grade NAT",
            Self::UniqueLocal => "unique local",
            Self::SiteLocal => "site-local",
            Self::Multicast => "multicast",
            Self::Broadcast => "broadcast",
            Self::Protocol => "protocol assignment",
            Self::Documentation => "documentation",
            Self::Benchmark => "benchmarking",
            Self::Tunnel => "tunnelled",
            Self::Reserved => "reserved",
        }
    }

    /// Classes that no policy can open.
    pub fn never_allowed(self) -> bool {
        matches!(self, Self::Unspecified | Self::Loopback | Self::LinkLocal | Self::Metadata)
    }
}

impl std::fmt::Display for Class {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

/// The metadata services of the large clouds that lie outside the link-local ranges, or would be taken for something
/// milder than they are.
const METADATA: &[IpAddr] = &[
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x254)),
];

const V4_RANGES: &[(&str, Class)] = &[
    ("0.0.0.0/8", Class::Unspecified),
    ("10.0.0.0/8", Class::Private),
    ("100.64.0.0/10", Class::SharedNat),
    ("127.0.0.0/8", Class::Loopback),
    ("169.254.0.0/16", Class::LinkLocal),
    ("172.16.0.0/12", Class::Private),
    ("192.0.0.0/24", Class::Protocol),
    ("192.0.2.0/24", Class::Documentation),
    ("192.31.196.0/24", Class::Reserved),
    ("192.52.193.0/24", Class::Reserved),
    ("192.88.99.0/24", Class::Tunnel),
    ("192.168.0.0/16", Class::Private),
    ("192.175.48.0/24", Class::Reserved),
    ("198.18.0.0/15", Class::Benchmark),
    ("198.51.100.0/24", Class::Documentation),
    ("203.0.113.0/24", Class::Documentation),
    ("224.0.0.0/4", Class::Multicast),
    ("255.255.255.255/32", Class::Broadcast),
    ("240.0.0.0/4", Class::Reserved),
];

/// Narrow ranges come before the wide ones that contain them.
const V6_RANGES: &[(&str, Class)] = &[
    ("::/128", Class::Unspecified),
    ("::1/128", Class::Loopback),
    ("64:ff9b:1::/48", Class::Tunnel),
    ("100::/64", Class::Reserved),
    ("2001::/32", Class::Tunnel),
    ("2001:2::/48", Class::Benchmark),
    ("2001:db8::/32", Class::Documentation),
    ("2001::/23", Class::Reserved),
    ("2002::/16", Class::Tunnel),
    ("3fff::/20", Class::Documentation),
    ("5f00::/16", Class::Reserved),
    ("fc00::/7", Class::UniqueLocal),
    ("fe80::/10", Class::LinkLocal),
    ("fec0::/10", Class::SiteLocal),
    ("ff00::/8", Class::Multicast),
];

struct Tables {
    v4: Vec<(Network, Class)>,
    v6: Vec<(Network, Class)>,
}

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let read = |ranges: &[(&str, Class)]| {
        ranges.iter().map(|(range, class)| (range.parse().expect("a range of the table"), *class)).collect()
    };
    Tables { v4: read(V4_RANGES), v6: read(V6_RANGES) }
});

pub fn classify(address: IpAddr) -> Class {
    let address = unmap(address);
    if METADATA.contains(&address) {
        return Class::Metadata;
    }
    match address {
        IpAddr::V4(v4) => range_of(&TABLES.v4, IpAddr::V4(v4)).unwrap_or(Class::Public),
        IpAddr::V6(v6) => classify_v6(v6),
    }
}

/// An IPv4-mapped address is the IPv4 address: the kernel dials the same machine.
pub fn unmap(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

fn classify_v6(address: Ipv6Addr) -> Class {
    let own = range_of(&TABLES.v6, IpAddr::V6(address));
    // `::` and `::1` look IPv4-compatible but are not.
    let carried = if own.is_some_and(Class::never_allowed) { None } else { carried(address) };
    match (carried.map(|inner| classify(IpAddr::V4(inner))), own) {
        (Some(inner), _) if inner != Class::Public => inner,
        (Some(_), None) if is_nat64(address) => Class::Public,
        (Some(_), _) => Class::Tunnel,
        (None, Some(class)) => class,
        // Only `2000::/3` and the NAT64 prefix are handed out to the public internet.
        (None, None) if address.segments()[0] >> 13 == 1 => Class::Public,
        (None, None) => Class::Reserved,
    }
}

/// The IPv4 address that packets to this one end up at. With several candidates the one that must not be reached is
/// preferred.
fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let octets = address.octets();
    let at = |start: usize| Ipv4Addr::from([0, 1, 2, 3].map(|i| octets[start + i]));
    let segments = address.segments();
    match segments {
        [0, 0, 0, 0, 0, 0, _, _] | [0x64, 0xff9b, 0, 0, 0, 0, _, _] => Some(at(12)),
        // IPv4-translated, RFC 2765.
        [0, 0, 0, 0, 0xffff, 0, _, _] => Some(at(12)),
        [0x64, 0xff9b, 1, ..] => Some(at(12)),
        [0x2002, ..] => Some(at(2)),
        // Teredo hides the client's address by inverting it; the server's is in the clear.
        [0x2001, 0, ..] => {
            let client = Ipv4Addr::from(u32::from(at(12)) ^ u32::MAX);
            Some(if classify(IpAddr::V4(client)) == Class::Public { at(4) } else { client })
        }
        // ISATAP, with the group bit either way.
        [_, _, _, _, 0x0000 | 0x0200, 0x5efe, _, _] => Some(at(12)),
        _ => None,
    }
}

fn is_nat64(address: Ipv6Addr) -> bool {
    matches!(address.segments(), [0x64, 0xff9b, 0, 0, 0, 0, _, _])
}

fn range_of(ranges: &[(Network, Class)], address: IpAddr) -> Option<Class> {
    ranges.iter().find(|(range, _)| range.contains(address)).map(|(_, class)| *class)
}

/// Every special IPv4 range, for questions about whole networks.
pub(crate) fn special_v4_ranges() -> impl Iterator<Item = (Network, Class)> {
    let metadata = METADATA.iter().filter(|address| address.is_ipv4());
    let metadata = metadata.map(|address| (Network::single(*address), Class::Metadata));
    TABLES.v4.iter().copied().chain(metadata)
}

#[cfg(test)]
mod tests {
    use super::{Class, classify};

    const ROWS: &[(&str, Class)] = &[
        ("8.8.8.8", Class::Public),
        ("1.1.1.1", Class::Public),
        ("100.63.255.255", Class::Public),
        ("100.128.0.0", Class::Public),
        ("172.15.255.255", Class::Public),
        ("172.32.0.0", Class::Public),
        ("198.17.255.255", Class::Public),
        ("198.20.0.0", Class::Public),
        ("223.255.255.255", Class::Public),
        ("0.0.0.0", Class::Unspecified),
        ("0.1.2.3", Class::Unspecified),
        ("127.0.0.1", Class::Loopback),
        ("127.255.255.254", Class::Loopback),
        ("169.254.0.1", Class::LinkLocal),
        ("169.254.169.254", Class::Metadata),
        ("169.254.170.2", Class::Metadata),
        ("100.100.100.200", Class::Metadata),
        ("168.63.129.16", Class::Metadata),
        ("192.0.0.192", Class::Metadata),
        ("10.0.0.0", Class::Private),
        ("10.255.255.255", Class::Private),
        ("172.16.0.1", Class::Private),
        ("172.31.255.255", Class::Private),
        ("192.168.1.1", Class::Private),
        ("100.64.0.1", Class::SharedNat),
        ("192.0.0.1", Class::Protocol),
        ("192.0.2.1", Class::Documentation),
        ("198.51.100.1", Class::Documentation),
        ("203.0.113.1", Class::Documentation),
        ("198.18.0.1", Class::Benchmark),
        ("198.19.255.255", Class::Benchmark),
        ("224.0.0.1", Class::Multicast),
        ("239.255.255.255", Class::Multicast),
        ("240.0.0.1", Class::Reserved),
        ("255.255.255.255", Class::Broadcast),
        ("192.88.99.1", Class::Tunnel),
        ("::", Class::Unspecified),
        ("::1", Class::Loopback),
        ("fe80::1", Class::LinkLocal),
        ("febf::1", Class::LinkLocal),
        ("fec0::1", Class::SiteLocal),
        ("fc00::1", Class::UniqueLocal),
        ("fdff::1", Class::UniqueLocal),
        ("fd00:ec2::254", Class::Metadata),
        ("fd20:ce::254", Class::Metadata),
        ("ff02::1", Class::Multicast),
        ("2001:db8::1", Class::Documentation),
        ("3fff::1", Class::Documentation),
        ("2001:2::1", Class::Benchmark),
        ("100::1", Class::Reserved),
        ("4000::1", Class::Reserved),
        ("2606:4700:4700::1111", Class::Public),
        ("2a00:1450:4001::200e", Class::Public),
        // Addresses that carry another one.
        ("::ffff:8.8.8.8", Class::Public),
        ("::ffff:127.0.0.1", Class::Loopback),
        ("::ffff:169.254.169.254", Class::Metadata),
        ("::ffff:10.1.2.3", Class::Private),
        ("::127.0.0.1", Class::Loopback),
        ("::8.8.8.8", Class::Tunnel),
        ("::ffff:0:127.0.0.1", Class::Loopback),
        ("64:ff9b::8.8.8.8", Class::Public),
        ("64:ff9b::127.0.0.1", Class::Loopback),
        ("64:ff9b::169.254.169.254", Class::Metadata),
        ("64:ff9b::10.0.0.1", Class::Private),
        ("64:ff9b:1::10.0.0.1", Class::Private),
        ("64:ff9b:1::8.8.8.8", Class::Tunnel),
        ("2002:7f00:1::", Class::Loopback),
        ("2002:a00:1::", Class::Private),
        ("2002:808:808::", Class::Tunnel),
        ("2001:0:808:808::80ff:fffe", Class::Loopback),
        ("2001:0:7f00:1::f7f7:f7f7", Class::Loopback),
        ("2001:0:808:808::f7f7:f7f7", Class::Tunnel),
        ("2606:4700::5efe:10.0.0.1", Class::Private),
        ("2606:4700::200:5efe:127.0.0.1", Class::Loopback),
    ];

    #[test]
    fn every_range_has_its_class() {
        for (address, expected) in ROWS {
            assert_eq!(classify(address.parse().unwrap()), *expected, "{address}");
        }
    }
}
