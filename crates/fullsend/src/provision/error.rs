//! Why a sandbox, or something that it needs, could not be set up.

use std::path::PathBuf;

use sandbox::{ProofError, StartError};

use super::image::RunImageError;
use super::servers::ServerError;
use super::{gateway, host_files};
use crate::backend::openshell::OpenshellError;
use crate::git::RepositoryError;
use crate::guard::Blocked;
use crate::runtime::programs::ProgramError;

#[derive(Debug)]
pub enum ProvisionError {
    Model(gateway::ModelSetupError),
    Program(ProgramError),
    Guard(std::io::Error),
    Network(String),
    /// `sandbox_timeout_seconds` passed.
    NotReady {
        seconds: u64,
    },
    Image(RunImageError),
    Server(ServerError),
    HostFile(host_files::HostFileError),
    /// The guard blocked a file that was to go in.
    Blocked(Blocked),
    Repository(RepositoryError),
    Staging {
        path: PathBuf,
        source: std::io::Error,
    },
    Sandbox(StartError),
    /// No OpenShell gateway is known.
    NoGateway(String),
    Openshell(OpenshellError),
    Serve(std::io::Error),
    Proof(ProofError),
}

impl std::fmt::Display for ProvisionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Model(error) => error.fmt(f),
            Self::Program(error) => error.fmt(f),
            Self::Guard(error) => write!(f, "the guard cannot listen: {error}"),
            Self::NotReady { seconds } => write!(
                f,
                "the sandbox was not ready after {seconds} seconds: raise `sandbox_timeout_seconds`"
            ),
            Self::Network(why) => write!(f, "the network of the sandbox cannot be planned: {why}"),
            Self::Image(error) => error.fmt(f),
            Self::Server(error) => error.fmt(f),
            Self::HostFile(error) => error.fmt(f),
            Self::Blocked(blocked) => blocked.fmt(f),
            Self::Repository(error) => error.fmt(f),
            Self::Staging { path, source } => write!(f, "cannot prepare {}: {source}", path.display()),
            Self::Sandbox(error) => write!(f, "the sandbox could not be started: {error}"),
            Self::NoGateway(why) => f.write_str(why),
            Self::Openshell(error) => error.fmt(f),
            Self::Serve(error) => write!(f, "the proxy or the model gateway could not start: {error}"),
            Self::Proof(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ProvisionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Model(error) => Some(error),
            Self::Program(error) => Some(error),
            Self::Guard(error) | Self::Serve(error) | Self::Staging { source: error, .. } => Some(error),
            Self::Image(error) => Some(error),
            Self::Server(error) => Some(error),
            Self::HostFile(error) => Some(error),
            Self::Repository(error) => Some(error),
            Self::Sandbox(error) => Some(error),
            Self::Openshell(error) => Some(error),
            Self::Proof(error) => Some(error),
            Self::Blocked(_) | Self::Network(_) | Self::NoGateway(_) | Self::NotReady { .. } => None,
        }
    }
}
