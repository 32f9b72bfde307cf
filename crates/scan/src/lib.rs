//! Bytes and their origin in, findings out. This crate knows the rules; it does no I/O, has no clock and no
//! environment, and decides nothing about runs: what a finding means is its callers' business.

mod allowlist;
mod canary;
mod commands;
mod excerpt;
mod finding;
mod hit;
mod injection;
mod meant;
mod measure;
mod model;
mod origin;
mod position;
mod redact;
mod report;
mod rule;
mod scanner;
mod search;
mod secrets;
mod ssrf;
mod steps;
mod suppress;
mod suppression;
mod toggles;
mod tool;
mod unicode;

pub use allowlist::{Allowlist, EmptyAllowlist};
pub use canary::{Canary, CanaryWatch, CanaryWatcher, WeakCanary};
pub use finding::{Category, FINDING_VERSION, Finding, Severity, Span};
pub use meant::find_as_meant;
pub use measure::{Case, Tally, measure};
pub use model::{LlmGuard, MatchType, Model, ModelBroke, Score};
pub use origin::Origin;
pub use redact::{Redactor, StreamRedactor, TooShort, unfinished};
pub use rule::rules;
pub use scanner::Scanner;
pub use secrets::{Confidence, SecretMatch, find_secret, find_secret_in_field, find_secrets, format_names};
pub use suppress::suppress;
pub use suppression::{BadSuppression, Day, Sorted, Suppression, sort};
pub use toggles::Toggles;
pub use tool::{Surroundings, ToolCall, ToolResult, denies};
pub use unicode::{clean, clean_json};
