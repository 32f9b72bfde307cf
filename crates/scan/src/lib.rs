//! Text and its origin in, findings out: injection, hidden characters, internal addresses and the learned scanner. This
//! crate does no I/O, reads no clock and no environment, and decides nothing about runs.

mod injection;
mod json_unescape;
mod learned;
mod measure;
mod origin;
mod ranking;
mod scanner;
pub mod ssrf;
mod steps;
mod toggles;
pub mod unicode;
mod waiver;

pub use json_unescape::{find_unescaped, redact_unescaped};
pub use learned::{
    LearnedModel, LearnedScanner, LearnedScannerError, OriginThresholds, ScoredUnit, TextScore,
};
pub use measure::{CaseCounts, LabelledText, measure};
pub use origin::Origin;
pub use ranking::{Estimate, Ranking, rank};
pub use scanner::Scanner;
pub use toggles::Toggles;
pub use unicode::{clean, clean_json};
pub use waiver::{Day, InvalidWaiver, Waiver, WaiverResult, apply_waivers};
