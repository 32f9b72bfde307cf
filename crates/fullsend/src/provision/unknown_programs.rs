//! Programs behind a tunnel: they cannot be identified, so only a rule for every program admits them.

use std::net::SocketAddr;

use egress::identity::{IdentifiedCaller, Identify, IdentityError, ProgramFile, Sha256};

/// The path of every program, because none is known.
pub(super) const UNKNOWN: &str = "/unknown";

pub(super) struct UnknownPrograms;

impl Identify for UnknownPrograms {
    fn identify(&self, _peer: SocketAddr, _local: SocketAddr) -> Result<IdentifiedCaller, IdentityError> {
        let program = ProgramFile { path: UNKNOWN.to_owned(), sha256: Sha256([0; 32]) };
        Ok(IdentifiedCaller { pid: 0, program, ancestors: Vec::new() })
    }
}
