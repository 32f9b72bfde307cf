//! A sandbox on an OpenShell gateway, over gRPC: made from an image with the policy of the run, filled by uploads, used by
//! commands, read by a download, and deleted. The host's files are never mounted there.

mod client;
pub(crate) mod endpoint;
pub(crate) mod files;
mod grpc;
mod policy;
pub(super) mod process;
mod protobuf;
pub(crate) mod providers;
pub(crate) mod sandbox;
pub(crate) mod tunnel;

pub use client::OpenshellError;
use client::OpenshellGateway;
use endpoint::OpenshellEndpoint;
use grpc::{CallError, Channel};

async fn connect(endpoint: OpenshellEndpoint) -> Result<OpenshellGateway, OpenshellError> {
    let unreachable = |why: String| CallError::Unreachable { endpoint: endpoint.to_string(), why };
    let dialer = endpoint.dialer().map_err(unreachable)?;
    OpenshellGateway::connect(Channel::new(endpoint, dialer)).await
}

/// The version of a gateway that answers and is supported.
pub async fn version(endpoint: OpenshellEndpoint) -> Result<String, OpenshellError> {
    connect(endpoint).await.map(|gateway| gateway.version)
}
