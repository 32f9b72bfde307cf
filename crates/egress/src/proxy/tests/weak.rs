//! A proxy that lacks one defence, to see the attack that the defence stops.

use crate::http1::{Fields, HeadError, HttpVersion, RequestHead};
use crate::identity::{IdentifiedCaller, Identify, IdentityError, ProcIdentifier};
use crate::proxy::defences::{AllDefences, Defences};
use crate::proxy::destination::Destination;
use crate::proxy::refusal::Refusal;
use policy::address::{AddressDenied, AddressScope};
use policy::{Admitted, CanonicalPath, EncodedSlash, PathError, PolicyDecision};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Defence {
    /// Resolved addresses are checked.
    Addresses,
    /// Host header and connection must agree.
    Agreement,
    /// Every request of a connection is decided, not only the first.
    EveryRequest,
    /// Heads have one reading.
    Heads,
    /// Paths are made canonical before they are decided.
    Paths,
    /// Plain requests are decided like those in tunnels.
    PlainRequests,
}

pub(super) struct WithoutDefence {
    defence: Defence,
    /// The last head as it came: without this defence, it is passed on unparsed.
    received: Mutex<Vec<u8>>,
    decided: AtomicUsize,
}

impl WithoutDefence {
    pub(super) fn new(defence: Defence) -> Self {
        Self { defence, received: Mutex::default(), decided: AtomicUsize::new(0) }
    }
}

impl Defences for WithoutDefence {
    fn check_addresses(
        &self,
        reach: &AddressScope,
        port: u16,
        addresses: &[IpAddr],
    ) -> Result<(), AddressDenied> {
        if self.defence == Defence::Addresses { Ok(()) } else { reach.check(port, addresses) }
    }

    fn parse_head(&self, bytes: &[u8]) -> Result<RequestHead, HeadError> {
        *self.received.lock().unwrap() = bytes.to_vec();
        match RequestHead::parse(bytes) {
            Err(_) if self.defence == Defence::Heads => parse_forgivingly(bytes),
            parsed => parsed,
        }
    }

    fn check_host(
        &self,
        head: &RequestHead,
        destination: &Destination,
        default_port: u16,
    ) -> Result<(), Refusal> {
        if self.defence == Defence::Agreement {
            return Ok(());
        }
        AllDefences.check_host(head, destination, default_port)
    }

    fn canonical_path(&self, path: &str, slash: EncodedSlash) -> Result<CanonicalPath, PathError> {
        if self.defence == Defence::Paths {
            // Every byte as it is, as if the path had no other spelling.
            let literal = path.replace("..", "dots").replace('%', "percent").replace("//", "/slash/");
            return CanonicalPath::new(&literal, slash);
        }
        CanonicalPath::new(path, slash)
    }

    fn decide(&self, admitted: &Admitted, request: &policy::InspectedRequest<'_>) -> PolicyDecision {
        let earlier = self.decided.fetch_add(1, Ordering::Relaxed);
        match self.defence {
            Defence::PlainRequests => PolicyDecision::Allow(admitted.cause()),
            Defence::EveryRequest if earlier > 0 => PolicyDecision::Allow(admitted.cause()),
            _ => admitted.decide(request),
        }
    }

    fn write_head(&self, head: &RequestHead, host: &str, target: &str) -> Vec<u8> {
        if matches!(self.defence, Defence::Heads | Defence::Agreement | Defence::Paths) {
            return self.received.lock().unwrap().clone();
        }
        head.write_upstream(host, target)
    }
}

/// The last of several lengths counts.
fn parse_forgivingly(bytes: &[u8]) -> Result<RequestHead, HeadError> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut request = httparse::Request::new(&mut headers);
    request.parse(bytes).unwrap();
    let lengths = request.headers.iter().rev().filter(|header| header.name == "Content-Length");
    let last = lengths.map(|header| header.value).next();
    let others = request.headers.iter().filter(|header| header.name != "Content-Length");
    let fields = others.map(|header| (header.name.as_bytes(), header.value));
    let fields = Fields::of(fields.chain(last.map(|length| (&b"Content-Length"[..], length))))?;
    let method = request.method.unwrap();
    let path = request.path.unwrap();
    RequestHead::of(method.as_bytes(), path.as_bytes(), HttpVersion::Http11, fields)
}

/// Trusts the name that a program gives itself.
pub(super) struct ByOwnName(pub(super) Arc<ProcIdentifier>);

impl Identify for ByOwnName {
    fn identify(&self, peer: SocketAddr, local: SocketAddr) -> Result<IdentifiedCaller, IdentityError> {
        let mut caller = self.0.identify(peer, local)?;
        let line = std::fs::read(format!("/proc/{}/cmdline", caller.pid)).unwrap();
        let name = line.split(|byte| *byte == 0).next().unwrap();
        caller.program.path = String::from_utf8_lossy(name).into_owned();
        Ok(caller)
    }
}
