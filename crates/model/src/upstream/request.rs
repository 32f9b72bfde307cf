//! A request as it goes to an upstream.

use crate::wire::{ModelRequest, Wire};
use bytes::Bytes;
use hyper::HeaderMap;

#[derive(Clone, Copy)]
pub(crate) struct UpstreamRequest<'a> {
    pub(crate) wire: Wire,
    pub(crate) request: &'a ModelRequest,
    pub(crate) body: &'a Bytes,
    /// As the client sent them; each upstream uses those that it knows.
    pub(crate) headers: &'a HeaderMap,
    pub(crate) query: Option<&'a str>,
}
