//! Credentials on the host's side: where they come from, how long they are good, and memory that forgets them. Inside the
//! sandbox there are placeholders; a value leaves this module only into a request to an endpoint that it is bound to.

mod placeholder;
mod secret;
mod source;
mod store;
mod substitute;
#[cfg(test)]
mod tests;

pub use placeholder::PlaceholderWatch;
pub use secret::Secret;
pub use source::{Fetched, Source, SourceError};
pub use store::{Credential, CredentialError, CredentialStore, Place};
pub(crate) use substitute::BodyKind;
