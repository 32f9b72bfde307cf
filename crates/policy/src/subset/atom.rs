//! One endpoint, port and program of the inner policy, and the endpoints of the outer policy that matter to it.

use yaml::Spanned;

use crate::glob::{Pattern, ProofBudget};
use crate::model::Endpoint;

/// One way in which an inner policy lets a program connect.
pub(super) struct Atom<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) port: u16,
    pub(super) binary: &'a Pattern,
    pub(super) budget: &'a ProofBudget,
}

/// The endpoints of the outer policy that matter to an atom.
pub(super) struct OuterEndpoints<'a> {
    /// Endpoints that admit the whole atom.
    pub(super) admitting: Vec<&'a Endpoint>,
    /// Endpoints that read requests and may come into play.
    pub(super) readers: Vec<Reader<'a>>,
}

/// An outer endpoint that reads requests, with its programs.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) binaries: &'a [Spanned<Pattern>],
}
