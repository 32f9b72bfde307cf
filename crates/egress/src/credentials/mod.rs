//! Credentials on the host: where they come from, how long they are valid, and memory that is wiped. The sandbox holds
//! placeholders; a value leaves this module only in a request to an endpoint that it is bound to.

mod masks;
mod placeholder;
mod placement;
mod secret;
mod source;
mod store;
mod substitute;
#[cfg(test)]
mod tests;

pub use placeholder::PlaceholderScanner;
pub use placement::CredentialPlacement;
pub use secret::Secret;
pub use source::{CredentialFetchError, CredentialSource, FetchedSecret};
pub use store::{Credential, CredentialScope, CredentialStore, SubstituteError};
pub(crate) use substitute::BodyFormat;
