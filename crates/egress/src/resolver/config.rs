//! The two files that configure name resolution on a host without `getent`. Invalid lines are skipped, as in every
//! resolver.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::Duration;

const DNS_PORT: u16 = 53;
const MAX_SERVERS: usize = 3;
const MAX_SEARCH: usize = 6;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct HostsFile {
    names: HashMap<String, Vec<IpAddr>>,
}

impl HostsFile {
    pub(super) fn parse(text: &str) -> Self {
        let mut names: HashMap<String, Vec<IpAddr>> = HashMap::new();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(address) = words.next().and_then(|word| word.parse().ok()) else { continue };
            for name in words {
                let addresses = names.entry(name.to_ascii_lowercase()).or_default();
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
        }
        Self { names }
    }

    pub(super) fn find(&self, host: &str) -> Option<&[IpAddr]> {
        self.names.get(&host.to_ascii_lowercase()).map(Vec::as_slice)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResolvConf {
    pub(super) servers: Vec<SocketAddr>,
    pub(super) search: Vec<String>,
    pub(super) dots: usize,
    pub(super) timeout: Duration,
    pub(super) attempts: u32,
}

impl ResolvConf {
    pub(super) fn parse(text: &str) -> Self {
        let mut out = Self {
            servers: Vec::new(),
            search: Vec::new(),
            dots: 1,
            timeout: Duration::from_secs(5),
            attempts: 2,
        };
        for line in text.lines() {
            let line = line.split(['#', ';']).next().unwrap_or_default();
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => out.servers.extend(words.next().and_then(server_address)),
                Some("search" | "domain") => {
                    out.search =
                        words.take(MAX_SEARCH).map(|word| word.trim_end_matches('.').to_owned()).collect();
                }
                Some("options") => words.for_each(|word| out.option(word)),
                _ => {}
            }
        }
        out.servers.truncate(MAX_SERVERS);
        if out.servers.is_empty() {
            out.servers.push((Ipv4Addr::LOCALHOST, DNS_PORT).into());
        }
        out
    }

    fn option(&mut self, word: &str) {
        let (name, value) = word.split_once(':').unwrap_or((word, ""));
        let Ok(value) = value.parse::<u32>() else { return };
        match name {
            "timeout" => self.timeout = Duration::from_secs(u64::from(value.clamp(1, 30))),
            "attempts" => self.attempts = value.clamp(1, 5),
            "ndots" => self.dots = value.min(15) as usize,
            _ => {}
        }
    }

    /// The full names to ask for, in order.
    pub(super) fn candidates(&self, host: &str) -> Vec<String> {
        if let Some(full) = host.strip_suffix('.') {
            return vec![full.to_owned()];
        }
        let dots = host.matches('.').count();
        let mut names: Vec<String> = self.search.iter().map(|suffix| format!("{host}.{suffix}")).collect();
        // A name with a dot is asked for as it is, whatever `ndots` says: an endpoint of a policy is a full name and must
        // not become another one through a search list.
        let position = if dots >= self.dots.min(1) { 0 } else { names.len() };
        names.insert(position, host.to_owned());
        if dots > 0 {
            names.truncate(1);
        }
        names
    }
}

fn server_address(word: &str) -> Option<SocketAddr> {
    if let Ok(address) = word.parse::<IpAddr>() {
        return Some((address, DNS_PORT).into());
    }
    let (address, scope) = word.split_once('%')?;
    let address: Ipv6Addr = address.parse().ok()?;
    Some(SocketAddrV6::new(address, DNS_PORT, 0, scope.parse().ok()?).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_as_everybody_reads_them() {
        let hosts = HostsFile::parse("# c\n127.0.0.1 localhost a # b\n::1\tLocalHost\nbroken x\n10.0.0.1\n");
        let localhost = hosts.find("LOCALHOST").unwrap();
        assert_eq!(localhost, [IpAddr::from([127, 0, 0, 1]), IpAddr::V6(Ipv6Addr::LOCALHOST)]);
        assert!(hosts.find("a").is_some() && hosts.find("b").is_none() && hosts.find("x").is_none());
    }

    #[test]
    fn servers_options_and_defaults_are_read() {
        let text = "nameserver 192.0.2.1\nnameserver fe80::1%2\nnameserver eth\nsearch a.test b.test.\noptions timeout:2 attempts:9 rotate\n";
        let servers = ResolvConf::parse(text);
        assert_eq!(servers.servers.len(), 2);
        assert_eq!(servers.servers[0], SocketAddr::from(([192, 0, 2, 1], 53)));
        assert_eq!((servers.timeout, servers.attempts), (Duration::from_secs(2), 5));
        assert_eq!(ResolvConf::parse("").servers, [SocketAddr::from(([127, 0, 0, 1], 53))]);
    }

    #[test]
    fn only_short_names_are_searched_for() {
        let servers = ResolvConf::parse("search a.test\noptions ndots:5\n");
        assert_eq!(servers.candidates("db"), ["db.a.test", "db"]);
        assert_eq!(servers.candidates("api.example.com"), ["api.example.com"]);
        assert_eq!(servers.candidates("db."), ["db"]);
    }
}
