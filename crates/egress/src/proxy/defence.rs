//! The layers of the proxy that a test can leave out, to see the attack that each of them stops. It exists in tests alone.

use super::admission::Destination;
use super::outgoing::Outgoing;
use super::refusal::Refusal;
use super::requests::{Decided, Site};
use super::{Proxy, ProxyConfig};
use crate::http1::{Fields, HeadError, RequestHead, Target, Version};
use crate::identity::Caller;
use policy::Host;
use std::sync::atomic::{AtomicUsize, Ordering};
use zeroize::Zeroizing;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Defence {
    /// Resolved addresses are checked.
    Addresses,
    /// Host, server name and connection must agree.
    Agreement,
    /// The program is what the kernel runs, not what it calls itself.
    Binary,
    /// Nothing is looked up before the policy allows it.
    DecidedFirst,
    /// Every request of a connection is decided, not only the first.
    EveryRequest,
    /// Heads have one reading.
    Heads,
    /// What was checked is what is dialled.
    OneLookup,
    /// Paths are made canonical before they are decided.
    Paths,
    /// Plain requests are decided like those in tunnels.
    PlainRequests,
}

#[derive(Default)]
pub(super) struct Weakness {
    without: Vec<Defence>,
    decided: AtomicUsize,
    /// A path at which the proxy's own code panics.
    panics_at: Option<&'static str>,
}

impl Proxy {
    pub(super) fn weakened(
        config: ProxyConfig,
        without: Vec<Defence>,
        panics_at: Option<&'static str>,
    ) -> Self {
        let weakness = Weakness { without, panics_at, ..Weakness::default() };
        Self { weakness, ..Self::new(config) }
    }

    pub(super) fn lacks(&self, defence: Defence) -> bool {
        self.weakness.without.contains(&defence)
    }

    /// `instead` of a refusal by a layer that is left out.
    pub(super) fn unless_lacking<T>(
        &self,
        defence: Defence,
        result: Result<T, Refusal>,
        instead: T,
    ) -> Result<T, Refusal> {
        if self.lacks(defence) { Ok(instead) } else { result }
    }

    pub(super) fn named_by_itself(&self, mut caller: Caller) -> Caller {
        if self.lacks(Defence::Binary) {
            let line = std::fs::read(format!("/proc/{}/cmdline", caller.pid)).unwrap();
            let name = line.split(|byte| *byte == 0).next().unwrap();
            caller.program.path = String::from_utf8_lossy(name).into_owned();
        }
        caller
    }

    pub(super) async fn look_up_early(&self, destination: &Destination) {
        if let (true, Host::Name(name)) = (self.lacks(Defence::DecidedFirst), &destination.host) {
            drop(self.dialer.resolve(name).await);
        }
    }

    /// As a forgiving parser reads it: the last of several lengths counts.
    pub(super) fn read_forgivingly(
        &self,
        parsed: Result<RequestHead, HeadError>,
        bytes: &[u8],
    ) -> Result<RequestHead, HeadError> {
        if !self.lacks(Defence::Heads) || parsed.is_ok() {
            return parsed;
        }
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut request = httparse::Request::new(&mut headers);
        request.parse(bytes).unwrap();
        let lengths = request.headers.iter().rev().filter(|header| header.name == "Content-Length");
        let last = lengths.map(|header| header.value).next();
        let others = request.headers.iter().filter(|header| header.name != "Content-Length");
        let fields = others.map(|header| (header.name.as_bytes(), header.value));
        let fields = Fields::of(fields.chain(last.map(|length| (&b"Content-Length"[..], length))))?;
        let (method, path) = (request.method.unwrap(), request.path.unwrap());
        RequestHead::of(method.as_bytes(), path.as_bytes(), Version::Http11, fields)
    }

    /// What was not understood is passed on as it came.
    pub(super) fn as_it_came(&self, mut outgoing: Outgoing, bytes: &[u8]) -> Outgoing {
        if [Defence::Heads, Defence::Agreement, Defence::Paths].into_iter().any(|defence| self.lacks(defence))
        {
            outgoing.head = Zeroizing::new(bytes.to_vec());
        }
        outgoing
    }

    pub(super) fn panic_where_asked(&self, path: &str) {
        assert_ne!(self.weakness.panics_at, Some(path), "asked for");
    }

    /// Every byte of a path for itself, as if it had no other spelling.
    pub(super) fn taken_literally(&self, path: &str) -> String {
        if self.lacks(Defence::Paths) {
            path.replace("..", "dots").replace('%', "percent").replace("//", "/slash/")
        } else {
            path.to_owned()
        }
    }
}

impl Site {
    pub(super) async fn look_up_again(&mut self) {
        if let (true, Host::Name(name)) =
            (self.proxy.lacks(Defence::OneLookup), &self.admission.destination.host)
        {
            self.admission.addresses = self.proxy.dialer.resolve(name).await.unwrap();
        }
    }

    pub(super) fn decided_once(
        &self,
        decided: Result<Decided, Refusal>,
        head: &RequestHead,
    ) -> Result<Decided, Refusal> {
        let before = self.proxy.weakness.decided.fetch_add(1, Ordering::Relaxed);
        match &head.target {
            Target::Origin { path, .. } if before > 0 => {
                let (path, path_and_query) = (path.clone(), path.clone());
                self.proxy.unless_lacking(Defence::EveryRequest, decided, Decided { path, path_and_query })
            }
            _ => decided,
        }
    }
}
