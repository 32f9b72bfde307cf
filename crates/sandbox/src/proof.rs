//! The proof at the start: before anything else runs inside, a process there tries what must fail and what must work.
//! This shows the isolation instead of assuming it. After one unexpected result the caller must stop.

use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What to probe beyond the fixed list.
#[derive(Clone, Debug, Default)]
pub struct ProofSpec {
    /// Addresses outside that no direct connection may reach.
    pub unreachable: Vec<SocketAddr>,
    /// The resolver inside and a name that it must not resolve.
    pub unresolvable: Option<(SocketAddr, String)>,
    /// A file inside that must be readable.
    pub readable: Option<PathBuf>,
    /// A directory inside that must be writable.
    pub writable: Option<PathBuf>,
}

/// The same, and the secret that was planted, on its way to the process that tries.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ProbeRequest {
    pub(crate) secret_path: OsString,
    pub(crate) unreachable: Vec<SocketAddr>,
    pub(crate) unresolvable: Option<(SocketAddr, String)>,
    pub(crate) readable: Option<OsString>,
    pub(crate) writable: Option<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProbeName {
    ReadHostSecret,
    WriteOutside,
    ConnectDirectly,
    ResolveForbiddenName,
    SeeHostProcesses,
    GainCapability,
    NewNamespace,
    Mount,
    TracePidOne,
    VsockSocket,
    ReadListedFile,
    WriteListedDirectory,
}

/// One probe: whether it ended as it must, and the kernel's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeResult {
    pub name: ProbeName,
    pub held: bool,
    pub detail: String,
}

/// All probes, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    pub results: Vec<ProbeResult>,
}

/// Why the isolation is not proven.
#[derive(Debug)]
pub enum ProofError {
    /// A probe had the wrong result.
    NotHeld { proof: Proof },
    /// The proof could not be carried out.
    NotDone { why: String },
}

impl fmt::Display for ProbeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadHostSecret => "read-host-secret",
            Self::WriteOutside => "write-outside",
            Self::ConnectDirectly => "connect-directly",
            Self::ResolveForbiddenName => "resolve-forbidden-name",
            Self::SeeHostProcesses => "see-host-processes",
            Self::GainCapability => "gain-capability",
            Self::NewNamespace => "new-namespace",
            Self::Mount => "mount",
            Self::TracePidOne => "trace-pid-one",
            Self::VsockSocket => "vsock-socket",
            Self::ReadListedFile => "read-listed-file",
            Self::WriteListedDirectory => "write-listed-directory",
        })
    }
}

impl fmt::Display for ProofError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHeld { proof } => {
                let broken = proof.results.iter().filter(|result| !result.held);
                let broken: Vec<String> = broken.map(|r| format!("{} ({})", r.name, r.detail)).collect();
                write!(f, "sandbox: the isolation did not hold: {}", broken.join(", "))
            }
            Self::NotDone { why } => write!(f, "sandbox: the isolation could not be proven: {why}"),
        }
    }
}

impl std::error::Error for ProofError {}
