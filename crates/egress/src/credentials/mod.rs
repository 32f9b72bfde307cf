//! Credentials on the host's side: where they come from, how long they are good, and memory that forgets them. A value
//! leaves this module only to be written into a request to the endpoint that it is bound to.

mod secret;
mod source;

pub use secret::Secret;
pub use source::{Fetched, Source, SourceError};
