//! A block of addresses as policies write it: one address, or an address and a prefix length.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::unmap;

/// The bits below the prefix are always zero, and a block of IPv4-mapped addresses is kept as its IPv4 block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    base: IpAddr,
    prefix: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkError {
    Address(String),
    Prefix(String),
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(text) => write!(f, "`{text}` is not an IP address"),
            Self::Prefix(text) => write!(f, "`/{text}` is not a prefix length of this kind of address"),
        }
    }
}

impl std::error::Error for NetworkError {}

impl Network {
    pub fn single(address: IpAddr) -> Self {
        let address = unmap(address);
        Self { base: address, prefix: width(address) }
    }

    fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        if prefix > width(address) {
            return None;
        }
        match (unmap(address), address) {
            (IpAddr::V4(v4), IpAddr::V6(_)) if prefix >= 96 => Self::new(IpAddr::V4(v4), prefix - 96),
            _ => Some(Self { base: mask(address, prefix), prefix }),
        }
    }

    pub fn is_ipv4(&self) -> bool {
        self.base.is_ipv4()
    }

    /// The address, when the block holds only one.
    pub fn as_single(&self) -> Option<IpAddr> {
        (self.prefix == width(self.base)).then_some(self.base)
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        let address = unmap(address);
        address.is_ipv4() == self.base.is_ipv4() && mask(address, self.prefix) == self.base
    }

    /// Whether every address of `other` is in this block.
    pub fn covers(&self, other: &Self) -> bool {
        self.prefix <= other.prefix && self.contains(other.base)
    }

    /// Whether the two blocks share an address. Two blocks either nest or are apart.
    pub fn touches(&self, other: &Self) -> bool {
        self.covers(other) || other.covers(self) || self.touches_mapped(other) || other.touches_mapped(self)
    }

    /// A wide IPv6 block holds the mapped form of every IPv4 address.
    fn touches_mapped(&self, other: &Self) -> bool {
        match (self.base, other.base) {
            (IpAddr::V6(_), IpAddr::V4(v4)) if self.prefix < 96 => {
                mask(IpAddr::V6(v4.to_ipv6_mapped()), self.prefix) == self.base
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NetworkError::Address(address.to_owned()))?;
        let Some(prefix) = prefix else { return Ok(Self::single(address)) };
        let digits = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
        digits
            .then(|| prefix.parse().ok())
            .flatten()
            .and_then(|length| Self::new(address, length))
            .ok_or_else(|| NetworkError::Prefix(prefix.to_owned()))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.prefix == width(self.base) {
            write!(f, "{}", self.base)
        } else {
            write!(f, "{}/{}", self.base, self.prefix)
        }
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn mask(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let keep = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from(u32::from(v4) & keep))
        }
        IpAddr::V6(v6) => {
            let keep = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(v6) & keep))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Network;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    #[test]
    fn blocks_are_read_and_written() {
        for (text, expected) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.1.2.3", "10.1.2.3"),
            ("10.1.2.3/32", "10.1.2.3"),
            ("fd00::/8", "fd00::/8"),
            ("::1", "::1"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("0.0.0.0/0", "0.0.0.0/0"),
        ] {
            assert_eq!(network(text).to_string(), expected, "{text}");
        }
        for text in [
            "",
            "10.0.0",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "::/129",
            "a/8",
            "010.0.0.1",
            "1.2.3.4/8/8",
        ] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }

    #[test]
    fn blocks_nest_or_are_apart() {
        for (outer, inner, covers, touches) in [
            ("10.0.0.0/8", "10.1.0.0/16", true, true),
            ("10.1.0.0/16", "10.0.0.0/8", false, true),
            ("10.0.0.0/8", "11.0.0.0/8", false, false),
            ("::/0", "127.0.0.1", false, true),
            ("::ffff:0:0/90", "127.0.0.1", false, true),
            ("fd00::/8", "127.0.0.1", false, false),
            ("0.0.0.0/0", "::1", false, false),
            ("0.0.0.0/0", "255.255.255.255", true, true),
        ] {
            assert_eq!(network(outer).covers(&network(inner)), covers, "{outer} covers {inner}");
            assert_eq!(network(outer).touches(&network(inner)), touches, "{outer} touches {inner}");
            assert_eq!(network(inner).touches(&network(outer)), touches, "{inner} touches {outer}");
        }
    }
}
