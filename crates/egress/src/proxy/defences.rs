//! The checks that an attack has to get past, one method each. Every run uses `AllDefences`. A test replaces one method
//! with a weak one, to show that the attack works without it.

use super::destination::Destination;
use super::refusal::Refusal;
use crate::http1::{HeadError, RequestHead};
use policy::address::{AddressDenied, AddressScope};
use policy::{Admitted, CanonicalPath, EncodedSlash, PathError, PolicyDecision};
use std::net::IpAddr;

pub(super) trait Defences: Send + Sync {
    /// A name may be allowed and still lead to a private address.
    fn check_addresses(
        &self,
        reach: &AddressScope,
        port: u16,
        addresses: &[IpAddr],
    ) -> Result<(), AddressDenied> {
        reach.check(port, addresses)
    }

    /// A head has exactly one reading, or it is refused.
    fn parse_head(&self, bytes: &[u8]) -> Result<RequestHead, HeadError> {
        RequestHead::parse(bytes)
    }

    /// The Host header names the server that the connection was admitted for.
    fn check_host(
        &self,
        head: &RequestHead,
        destination: &Destination,
        default_port: u16,
    ) -> Result<(), Refusal> {
        let wrong = || Refusal::head(HeadError::Host);
        let Some(host) = head.host().map_err(Refusal::head)? else { return Ok(()) };
        let named = Destination::from_authority(host, Some(default_port)).map_err(|_| wrong())?;
        if named == *destination { Ok(()) } else { Err(wrong()) }
    }

    /// The policy sees exactly the path that is sent.
    fn canonical_path(&self, path: &str, slash: EncodedSlash) -> Result<CanonicalPath, PathError> {
        CanonicalPath::new(path, slash)
    }

    /// The policy decides about every request, not only the first, in plain connections and in tunnels.
    fn decide(&self, admitted: &Admitted, request: &policy::InspectedRequest<'_>) -> PolicyDecision {
        admitted.decide(request)
    }

    /// The head is written anew from its parsed form.
    fn write_head(&self, head: &RequestHead, host: &str, target: &str) -> Vec<u8> {
        head.write_upstream(host, target)
    }
}

pub(super) struct AllDefences;

impl Defences for AllDefences {}
