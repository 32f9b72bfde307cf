//! Bytes and their origin in, findings out. This crate knows the rules; it does no I/O, has no clock and no
//! environment, and decides nothing about runs: what a finding means is its callers' business.

mod commands;
mod excerpt;
mod finding;
mod hit;
mod injection;
mod origin;
mod position;
mod redact;
mod report;
mod scanner;
mod search;
mod secrets;
mod ssrf;
mod toggles;
mod unicode;

pub use finding::{Category, FINDING_VERSION, Finding, Severity, Span};
pub use origin::Origin;
pub use redact::{Redactor, StreamRedactor, TooShort};
pub use scanner::Scanner;
pub use secrets::{Confidence, SecretMatch, find_secret, find_secret_in_field, find_secrets, format_count};
pub use toggles::Toggles;
pub use unicode::clean;
