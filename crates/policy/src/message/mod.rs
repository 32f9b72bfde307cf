//! The operations in the body of a request, for protocols whose rules read bodies. An ambiguous body is an error, and
//! the request is refused: a server must not find an operation that was not decided. Bodies come whole, bounded and
//! decompressed.

mod content_type;
mod graphql;
mod json;
mod operation;
mod rpc;

use std::collections::BTreeMap;
use std::fmt;

use crate::file::Protocol;
use crate::query::Query;
pub use json::fold;
pub use operation::{GraphqlOperation, Operation, ParamValue, RpcCall};
pub use rpc::{RpcIds, rpc_ids};

/// Settings of protocols that read bodies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolSettings {
    pub max_body_bytes: u64,
    pub strict_tool_names: bool,
    /// Operations that a GraphQL request may name by an id.
    pub persisted_queries: Option<BTreeMap<String, GraphqlOperation>>,
}

/// A request for the body parsers.
#[derive(Clone, Copy, Debug)]
pub struct BodyRequest<'a> {
    pub method: &'a str,
    pub query: &'a Query,
    pub content_type: Option<&'a str>,
    /// Whole and decompressed.
    pub body: &'a [u8],
}

/// The operations of one request; empty if the rules do not read bodies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    protocol: Option<Protocol>,
    list: Vec<Operation>,
}

/// Why a body cannot be decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageError(String);

impl MessageError {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// For a request whose body is not read yet.
    pub(crate) fn unread() -> Self {
        Self::new("the body was not read")
    }

    /// The same problem, with the place of it.
    fn within(self, place: &str) -> Self {
        Self(format!("{place}: {}", self.0))
    }
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MessageError {}

impl Operations {
    /// Reads a request by a protocol.
    pub(crate) fn read(
        protocol: Protocol,
        settings: &ProtocolSettings,
        request: &BodyRequest<'_>,
    ) -> Result<Self, MessageError> {
        if request.body.len() as u64 > settings.max_body_bytes {
            return Err(too_large(settings.max_body_bytes));
        }
        let list = match protocol {
            Protocol::JsonRpc | Protocol::Mcp => rpc::read(protocol, settings, request)?,
            Protocol::Graphql => graphql::read(settings, request)?,
            _ => return Ok(Self::default()),
        };
        Ok(Self { protocol: Some(protocol), list })
    }

    /// One operation, as if it had been read.
    pub(crate) fn only(protocol: Protocol, operation: Operation) -> Self {
        Self { protocol: Some(protocol), list: vec![operation] }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Operation> {
        self.list.iter()
    }

    /// The operations, if they were read by this protocol.
    pub(crate) fn of(&self, protocol: Protocol) -> Option<&[Operation]> {
        (self.protocol == Some(protocol)).then_some(&self.list)
    }
}

/// For a body that is longer than the endpoint reads.
pub fn too_large(most: u64) -> MessageError {
    MessageError(format!(
        "the body is longer than {most} bytes, the limit of this endpoint (`max_body_bytes`)"
    ))
}
