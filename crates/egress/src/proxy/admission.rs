//! Whether a connection may be made at all: who asks, by the policy, to which addresses. In this order, because a name is
//! looked up only after the policy has allowed it.

use super::Proxy;
use super::attempt::Attempt;
use super::refusal::Refusal;
use crate::identity::Caller;
use policy::{Admitted, Host};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// Where a connection wants to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Destination {
    pub(super) host: Host,
    pub(super) port: u16,
}

pub(super) struct Admission {
    pub(super) destination: Destination,
    pub(super) admitted: Admitted,
    /// Checked; what is dialled is one of these.
    pub(super) addresses: Vec<IpAddr>,
}

impl Destination {
    /// `host:port`, and nothing else.
    pub(super) fn from_authority(authority: &str, default_port: Option<u16>) -> Result<Self, Refusal> {
        let bad = |reason: &str| Refusal::host(&format!("{authority:?}: {reason}"));
        let bracket = authority.rfind(']').map_or(0, |at| at + 1);
        let (host, port) = match authority[bracket..].rfind(':') {
            Some(at) => {
                let (host, port) = authority.split_at(bracket + at);
                (host, Some(&port[1..]))
            }
            None => (authority, None),
        };
        let port = match (port, default_port) {
            (Some(port), _) if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) => {
                return Err(bad("the port is not a number"));
            }
            (Some(port), _) => port.parse().map_err(|_| bad("the port is too large"))?,
            (None, Some(port)) => port,
            (None, None) => return Err(bad("the port is missing")),
        };
        if port == 0 {
            return Err(bad("the port is 0"));
        }
        if bracket == 0 && host.contains(':') {
            return Err(bad("an IPv6 address stands in brackets"));
        }
        let host = Host::parse(host).map_err(|error| bad(&error.to_string()))?;
        Ok(Self { host, port })
    }

    /// For the Host field and the server's name: an IPv6 address stands in brackets.
    pub(super) fn host_text(&self) -> String {
        match self.host {
            Host::Address(IpAddr::V6(address)) => format!("[{address}]"),
            _ => self.host.to_string(),
        }
    }
}

impl std::fmt::Display for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host_text(), self.port)
    }
}

impl Proxy {
    pub(super) async fn caller(
        &self,
        peer: SocketAddr,
        local: SocketAddr,
        attempt: &mut Attempt,
    ) -> Result<Caller, Refusal> {
        let caller =
            self.identifier.identify_away(peer, local).await.map_err(|error| Refusal::identity(&error))?;
        #[cfg(test)]
        let caller = self.named_by_itself(caller);
        attempt.caller(&caller);
        Ok(caller)
    }

    pub(super) async fn admit(
        &self,
        destination: Destination,
        caller: &Caller,
    ) -> Result<Admission, Refusal> {
        #[cfg(test)]
        self.look_up_early(&destination).await;
        let ancestors: Vec<PathBuf> =
            caller.ancestors.iter().map(|program| PathBuf::from(&program.path)).collect();
        let connection = policy::Connection {
            host: &destination.host,
            port: destination.port,
            caller: policy::Caller { binary: Path::new(&caller.program.path), ancestors: &ancestors },
        };
        let admitted = self
            .policy
            .admit(&connection)
            .map_err(|denial| Refusal::policy(&denial, &self.locate, &destination.to_string()))?;
        if let Some(service) = self.dialer.service(&destination.host.to_string(), destination.port) {
            let addresses = vec![service.address.ip()];
            return Ok(Admission { destination, admitted, addresses });
        }
        let addresses = match &destination.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.dialer.resolve(name).await.map_err(|error| Refusal::dial(&error))?,
        };
        let checked = admitted
            .reach()
            .check(destination.port, &addresses)
            .map_err(|denied| Refusal::address(&denied, &destination.host));
        #[cfg(test)]
        let checked = self.unless_lacking(super::defence::Defence::Addresses, checked, ());
        checked?;
        Ok(Admission { destination, admitted, addresses })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_read_strictly() {
        let read = |text: &str| {
            Destination::from_authority(text, None).map(|it| it.to_string()).map_err(|it| it.code)
        };
        for (text, expected) in [
            ("Api.Test:443", "api.test:443"),
            ("api.test.:443", "api.test:443"),
            ("[::1]:80", "[::1]:80"),
            ("127.1:80", "127.0.0.1:80"),
            ("0x7f.1:80", "127.0.0.1:80"),
            ("[::ffff:169.254.169.254]:80", "169.254.169.254:80"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(expected), "{text}");
        }
        for text in [
            "api.test",
            "api.test:",
            "api.test:+1",
            "api.test:99999",
            "api.test:0",
            ":443",
            "",
            "a@b:1",
            "a b:1",
            "evil\0.test:443",
            "a/b:1",
            "a%2eb:1",
            "::1:80",
            "[::1]80",
            "api.test:443:443",
            "..:1",
        ] {
            assert!(read(text).is_err(), "{text:?} {:?}", read(text));
        }
        assert_eq!(Destination::from_authority("a.test", Some(80)).unwrap().port, 80);
    }
}
