//! The sum of the weights of related signs, from each sign on. A window slides over the signs: each enters once and
//! leaves once.

use std::collections::HashMap;

use super::sign::Sign;
use super::signal::SignalFamily;
use super::weight::{REACH, same_place, weight};
use crate::origin::Origin;

/// The first sign that is too far from `first`. Signs are in order of place.
pub(super) fn end(signs: &[Sign], first: usize) -> usize {
    let limit = signs[first].range.start + REACH;
    first + signs[first..].partition_point(|sign| sign.range.start < limit)
}

/// The sum of the window that begins at each sign.
pub(super) fn sums(text: &str, signs: &[Sign], origin: Origin) -> Vec<u32> {
    let weights: Vec<u32> =
        signs.chunk_by(same_place).flat_map(|signs| weights(text, signs, origin)).collect();
    let mut window = Window::default();
    let mut last = 0;
    let mut sums = Vec::with_capacity(signs.len());
    for first in 0..signs.len() {
        while last < signs.len() && signs[last].range.start < signs[first].range.start + REACH {
            window.change(&signs[last], weights[last], |count| count + 1);
            last += 1;
        }
        sums.push(window.sum());
        window.change(&signs[first], weights[first], |count| count - 1);
    }
    sums
}

/// Of the signs at one place the heaviest counts.
fn weights(text: &str, signs: &[Sign], origin: Origin) -> impl Iterator<Item = u32> {
    let heaviest = signs.iter().enumerate().max_by_key(|(_, sign)| sign.weight).map_or(0, |(index, _)| index);
    let weight = weight(text, &signs[heaviest], origin);
    (0..signs.len()).map(move |index| if index == heaviest { weight } else { 0 })
}

/// The highest weight of a sign.
const HEAVIEST: usize = 6;

#[derive(Default)]
struct Window {
    /// For each row, how many of its signs have which weight.
    rows: HashMap<usize, [u32; HEAVIEST + 1]>,
    families: HashMap<SignalFamily, u32>,
}

impl Window {
    /// A row counts as much as its heaviest sign.
    fn change(&mut self, sign: &Sign, weight: u32, count: impl Fn(u32) -> u32) {
        let counts = self.rows.entry(sign.row).or_default();
        let heaviest = |counts: &[u32]| counts.iter().rposition(|count| *count > 0).unwrap_or(0) as u32;
        let before = heaviest(counts);
        let slot = &mut counts[(weight as usize).min(HEAVIEST)];
        *slot = count(*slot);
        let sum = self.families.entry(sign.family).or_default();
        *sum = *sum + heaviest(counts) - before;
    }

    /// Different families together add weight.
    fn sum(&self) -> u32 {
        let plan = self.families.values().filter(|sum| **sum >= 2).count().saturating_sub(1);
        self.families.values().sum::<u32>() + plan as u32
    }
}
