//! Credentials on the host: where they come from, how long they are valid, and memory that is wiped. The sandbox holds
//! placeholders; a value leaves this module only in a request to an endpoint that it is bound to.

mod masks;
mod placeholder;
mod placement;
mod secret;
mod signing_key;
mod source;
mod store;
mod substitute;
#[cfg(test)]
mod tests;

pub(crate) use masks::ResponseRedactors;
pub use placeholder::PlaceholderScanner;
pub use placement::CredentialPlacement;
pub use secret::Secret;
pub use signing_key::{
    ACCESS_KEY_ID, AWS_CREDENTIALS, SECRET_ACCESS_KEY, SESSION_TOKEN, has_signing_key, is_part_of_signing_key,
};
pub use source::{CredentialFetchError, CredentialSource, FetchedSecret};
pub use store::{Credential, CredentialScope, CredentialStore, SubstituteError};
pub(crate) use substitute::BodyFormat;
