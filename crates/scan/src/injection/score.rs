//! Adds the weights of signs that are close together and derives a severity. One sign alone is weak; several from
//! different families are strong. In text that is about attacks, the sum counts less.

use std::collections::BTreeMap;
use std::ops::Range;

use redact::{Score, Severity};

use super::context::{TextContext, context_of};
use super::sign::Sign;
use super::signal::SignalFamily;
use super::weight::{same_place, weight};
use super::window;
use crate::origin::Origin;

const MEDIUM: u32 = 5;
const HIGH: u32 = 8;
const CRITICAL: u32 = 14;

pub(super) struct Judgement {
    pub(super) family: SignalFamily,
    pub(super) severity: Severity,
    pub(super) score: Score,
    /// The strongest sign.
    pub(super) range: Range<usize>,
    /// From the first sign to the last.
    pub(super) passage: Range<usize>,
}

pub(super) fn judge(text: &str, mut signs: Vec<Sign>, origin: Origin) -> Vec<Judgement> {
    signs.sort_by_key(|sign| sign.range.start);
    let sums = window::sums(text, &signs, origin);
    let mut judgements = Vec::new();
    let mut first = 0;
    while first < signs.len() {
        let end = window::end(&signs, first);
        // An earlier sign must not split an attack: the group begins where the sum is greatest. Each iteration without
        // progress finds a greater sum, and sums are small, so the loop ends.
        let best = (first..end).max_by_key(|at| (sums[*at], usize::MAX - at)).unwrap_or(first);
        let group = &signs[first..if best == first { end } else { best }];
        judgements.extend(judge_group(text, group, origin, context_of(text, &extent(group), origin), 0));
        first += group.len();
    }
    judgements
}

/// The signs of one hidden text, with the extra weight for hiding.
pub(super) fn judge_hidden(
    content: &str,
    mut signs: Vec<Sign>,
    origin: Origin,
    context: TextContext,
    bonus: u32,
) -> Option<Judgement> {
    signs.sort_by_key(|sign| sign.range.start);
    judge_group(content, &signs, origin, context, bonus)
}

fn judge_group(
    text: &str,
    group: &[Sign],
    origin: Origin,
    context: TextContext,
    bonus: u32,
) -> Option<Judgement> {
    let mut rows: BTreeMap<usize, u32> = BTreeMap::new();
    let mut families: BTreeMap<SignalFamily, u32> = BTreeMap::new();
    let mut strongest: Option<(&Sign, u32)> = None;
    for sign in strongest_by_place(group) {
        let weight = weight(text, sign, origin);
        let counted = rows.entry(sign.row).or_default();
        let gain = weight.saturating_sub(*counted);
        *counted += gain;
        *families.entry(sign.family).or_default() += gain;
        if strongest.is_none_or(|(_, most)| weight > most) {
            strongest = Some((sign, weight));
        }
    }
    let (strongest, _) = strongest?;
    let rows = rows.values().filter(|weight| **weight > 0).count();
    let plan =
        u32::try_from(families.values().filter(|sum| **sum >= 2).count()).unwrap_or(0).saturating_sub(1);
    let sum = families.values().sum::<u32>() + plan + bonus;
    let severity = severity(sum, rows, origin)?;
    let severity = if context.is_about_attacks { severity.lowered() } else { severity };
    let score = score(if context.is_about_attacks { sum / 2 } else { sum }, origin);
    let family = families.into_iter().max_by_key(|(_, sum)| *sum)?.0;
    Some(Judgement { family, severity, score, range: strongest.range.clone(), passage: extent(group) })
}

/// From the first sign of a group to its last.
fn extent(group: &[Sign]) -> Range<usize> {
    let start = group.iter().map(|sign| sign.range.start).min().unwrap_or(0);
    start..group.iter().map(|sign| sign.range.end).max().unwrap_or(start)
}

/// Several rows may recognise the same words; they count once, at their heaviest.
fn strongest_by_place(group: &[Sign]) -> impl Iterator<Item = &Sign> {
    group.chunk_by(same_place).filter_map(|signs| signs.iter().max_by_key(|sign| sign.weight))
}

/// One sign alone never blocks, whatever its weight.
fn severity(sum: u32, rows: usize, origin: Origin) -> Option<Severity> {
    let sum = sum + if origin.is_foreign() { 2 } else { 0 };
    match sum {
        CRITICAL.. if rows >= 2 => Some(Severity::Critical),
        HIGH.. => Some(Severity::High),
        MEDIUM.. => Some(Severity::Medium),
        3.. => Some(Severity::Low),
        _ => None,
    }
}

/// The sum as a score from 0 to 1: a logistic curve, set by hand so that the thresholds of the severities lie on it. It is
/// not fitted to data.
fn score(sum: u32, origin: Origin) -> Score {
    let sum = sum + if origin.is_foreign() { 2 } else { 0 };
    Score::new(1.0 / (1.0 + (-0.45 * (sum as f32 - 6.5)).exp()))
}
