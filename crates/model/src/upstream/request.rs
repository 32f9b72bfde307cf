//! A request as it goes to an upstream.

use crate::wire::{ModelRequest, Wire};
use bytes::Bytes;
use hyper::HeaderMap;

/// What the upstream does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Answer,
    /// Says how many tokens the request has. Free of charge at every service that has it.
    CountTokens,
}

#[derive(Clone, Copy)]
pub(crate) struct UpstreamRequest<'a> {
    pub(crate) wire: Wire,
    pub(crate) operation: Operation,
    pub(crate) request: &'a ModelRequest,
    pub(crate) body: &'a Bytes,
    /// As the client sent them; each upstream uses those that it knows.
    pub(crate) headers: &'a HeaderMap,
    pub(crate) query: Option<&'a str>,
}
