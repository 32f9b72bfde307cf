//! Text and its origin in, findings out: injection, hidden characters, internal addresses and the learned scanner. This
//! crate does no I/O, reads no clock and no environment, and decides nothing about runs.

mod injection;
mod json_unescape;
mod measure;
mod model;
mod origin;
mod scanner;
pub mod ssrf;
mod steps;
mod toggles;
pub mod unicode;
mod waiver;

pub use json_unescape::{find_unescaped, redact_unescaped};
pub use measure::{Case, Counts, measure};
pub use model::{LlmGuard, MatchType, Model, ModelError, Score};
pub use origin::Origin;
pub use scanner::Scanner;
pub use toggles::Toggles;
pub use unicode::{clean, clean_json};
pub use waiver::{Day, InvalidWaiver, Waived, Waiver, apply_waivers};
