//! YAML documents that remember where everything was written.
//!
//! A file becomes a [`Node`] tree in which every key and value keeps its [`Span`]; trees of several files are merged
//! with each value keeping its origin and what it replaced; a merged tree is decoded into typed records whose one
//! definition also gives the JSON Schema and the merge rule. This crate does no I/O and prints nothing: problems are
//! [`Diagnostic`] values.

mod diagnostic;
mod emit;
mod merge;
mod node;
mod parse;
mod record;
mod scalar;
mod schema;
mod shape;
mod source;
mod suggest;
#[cfg(test)]
mod tests;

pub use diagnostic::{Diagnostic, DiagnosticSeverity};
pub use emit::emit;
pub use merge::{ItemKey, append_unique, by_key, by_name, replace, restore_defaults};
pub use node::{MapEntry, Node, Value};
pub use parse::{ParseLimits, parse, parse_part};
pub use scalar::decode_choice;
pub use schema::{Schemas, document, schema_field};
pub use shape::{Decoder, Map, Partial, Shape, Spanned, Unmerged};
pub use source::{Location, Source, SourceId, Sources, Span};
pub use suggest::closest;

#[doc(hidden)]
pub mod macros {
    //! What the macros of this crate expand to; not for direct use.
    pub use serde_json::{Map as Object, Value as Json, json};
}
