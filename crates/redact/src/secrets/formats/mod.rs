//! The tables of token formats, one file per kind of vendor. A row is a name, a literal, and the shape around it;
//! lengths and alphabets are those the vendors document or issue today.

mod cloud;
mod collaboration;
mod deployment;
mod forge;
mod model;
mod payment;

use super::format::Format;

pub(crate) fn all() -> impl Iterator<Item = &'static Format> {
    [
        forge::FORMATS,
        cloud::FORMATS,
        deployment::FORMATS,
        model::FORMATS,
        payment::FORMATS,
        collaboration::FORMATS,
    ]
    .into_iter()
    .flatten()
}
