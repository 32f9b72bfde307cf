//! The weight of a sign in its context, and which signs belong together.

use super::context;
use super::sign::Sign;
use super::signal::SignalFamily;
use crate::origin::Origin;

/// Signs further apart than this are unrelated.
pub(super) const REACH: usize = 2500;

pub(super) fn same_place(a: &Sign, b: &Sign) -> bool {
    a.range.start == b.range.start
}

/// A sign that the harness itself quotes is mostly mentioned, and a role is nothing special in an instruction file.
pub(super) fn weight(text: &str, sign: &Sign, origin: Origin) -> u32 {
    // Quotes around code do not make it a quotation.
    let is_prose = !matches!(sign.family, SignalFamily::RemoteExecution | SignalFamily::CodeInclusion);
    let is_expected = !origin.is_foreign() && sign.family == SignalFamily::PersonaOverride;
    let is_mentioned = origin == Origin::Harness && is_prose && context::is_quoted(text, &sign.range);
    let divisor = 1 + u32::from(is_mentioned) + u32::from(is_expected);
    sign.weight / divisor
}
