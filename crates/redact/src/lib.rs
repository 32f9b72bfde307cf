//! Credentials in text: finds them, masks them, and describes what was found without showing it. The event log, the
//! gateway and the proxy use this crate, so it has no C code, no async code and no I/O.

mod canary;
mod excerpt;
mod finding;
mod hit;
pub mod json;
mod position;
mod redactor;
mod report;
pub mod rule;
pub mod search;
pub mod secrets;
mod steps;

pub use canary::{Canary, CanaryWatch, CanaryWatcher, WeakCanary};
pub use finding::{Category, FINDING_VERSION, Finding, Score, Severity, TextSpan};
pub use hit::Hit;
pub use position::LineIndex;
pub use redactor::{Redactor, StreamMasker, StreamRedactor, ValueTooShort, unfinished};
pub use report::report;
pub use rule::{RuleName, rules};
pub use secrets::{
    Confidence, SecretMatch, find_secret, find_secret_in_field, find_secrets, format_names, names_secret,
};
