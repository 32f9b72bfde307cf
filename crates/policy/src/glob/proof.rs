//! Proofs over all texts: whether one pattern is a subset of another, and whether both may match one text. Both
//! automata are walked together; if the walk takes too long, it stops with the safe answer.

use std::cell::Cell;
use std::collections::{HashSet, VecDeque};

use super::automaton::Automaton;
use super::machine::Machine;

/// How many pairs of states one proof may visit.
const MAX_PAIRS: usize = 4096;
/// How many steps all proofs about one or two policies may take together.
const ALL_STEPS: u64 = 400_000;

/// The remaining budget for proofs, which bounds the comparison of patterns over a whole policy.
#[derive(Debug)]
pub struct ProofBudget(Cell<u64>);

impl Default for ProofBudget {
    fn default() -> Self {
        Self(Cell::new(ALL_STEPS))
    }
}

impl ProofBudget {
    /// Whether a proof was stopped because the budget was used up.
    pub fn is_spent(&self) -> bool {
        self.0.get() == 0
    }

    fn spend(&self, steps: usize) -> bool {
        let left = self.0.get().saturating_sub(steps as u64);
        self.0.set(left);
        left > 0
    }
}

enum Visit {
    Enter,
    Leave,
    Stop,
}

/// Proves that everything `inner` accepts, `outer` accepts.
pub(super) fn within(inner: &Automaton, outer: &Automaton, budget: &ProofBudget) -> bool {
    if !compatible_ends(inner, outer) {
        return false;
    }
    let alphabet = alphabet(inner, outer, budget);
    match (inner.bitmask(), outer.bitmask()) {
        (Some(inner), Some(outer)) => all_within(inner, outer, &alphabet, budget),
        _ => all_within(inner, outer, &alphabet, budget),
    }
}

/// Whether some text may be accepted by both.
pub(super) fn overlaps(one: &Automaton, two: &Automaton, budget: &ProofBudget) -> bool {
    if !compatible_ends(one, two) {
        return false;
    }
    let alphabet = alphabet(one, two, budget);
    match (one.bitmask(), two.bitmask()) {
        (Some(one), Some(two)) => some_in_both(one, two, &alphabet, budget),
        _ => some_in_both(one, two, &alphabet, budget),
    }
}

fn all_within<L: Machine, U: Machine>(inner: &L, outer: &U, alphabet: &[u8], budget: &ProofBudget) -> bool {
    explore(inner, outer, alphabet, budget, |below, above| {
        if inner.is_dead(below) {
            Visit::Leave
        } else if inner.accepting(below) && !outer.accepting(above) {
            Visit::Stop
        } else {
            Visit::Enter
        }
    })
}

fn some_in_both<A: Machine, B: Machine>(one: &A, two: &B, alphabet: &[u8], budget: &ProofBudget) -> bool {
    !explore(one, two, alphabet, budget, |left, right| {
        if one.is_dead(left) || two.is_dead(right) {
            Visit::Leave
        } else if one.accepting(left) && two.accepting(right) {
            Visit::Stop
        } else {
            Visit::Enter
        }
    })
}

/// Patterns with different literal starts or ends do not overlap; this settles most pairs.
fn compatible_ends(one: &Automaton, two: &Automaton) -> bool {
    let starts = (&one.literal_start, &two.literal_start);
    let ends = (&one.literal_end, &two.literal_end);
    (starts.0.starts_with(starts.1) || starts.1.starts_with(starts.0))
        && (ends.0.ends_with(ends.1) || ends.1.ends_with(ends.0))
}

/// Walks both machines over every text. False when `visit` stops it, or when there is too much to walk.
fn explore<A: Machine, B: Machine>(
    one: &A,
    two: &B,
    alphabet: &[u8],
    budget: &ProofBudget,
    visit: impl Fn(&A::State, &B::State) -> Visit,
) -> bool {
    let start = (one.start(), two.start());
    let mut known = HashSet::from([start.clone()]);
    let mut open = VecDeque::from([start]);
    while let Some((left, right)) = open.pop_front() {
        match visit(&left, &right) {
            Visit::Stop => return false,
            Visit::Leave => continue,
            Visit::Enter => {}
        }
        if known.len() > MAX_PAIRS || !budget.spend(alphabet.len()) {
            return false;
        }
        for byte in alphabet {
            let pair = (one.step(&left, *byte), two.step(&right, *byte));
            if known.insert(pair.clone()) {
                open.push_back(pair);
            }
        }
    }
    true
}

/// One representative of each class of bytes that these two automata distinguish.
fn alphabet(one: &Automaton, two: &Automaton, budget: &ProofBudget) -> Vec<u8> {
    let mut class_of = [0u8; 256];
    budget.spend(8 * (one.sets.len() + two.sets.len()));
    for set in one.sets.iter().chain(&two.sets) {
        let mut renamed: Vec<(u8, bool)> = Vec::new();
        for byte in 0..=u8::MAX {
            let class = &mut class_of[usize::from(byte)];
            let key = (*class, set.has(byte));
            let index = renamed.iter().position(|known| *known == key).unwrap_or_else(|| {
                renamed.push(key);
                renamed.len() - 1
            });
            *class = u8::try_from(index).unwrap_or(u8::MAX);
        }
    }
    let mut seen = [false; 256];
    (0..=u8::MAX)
        .filter(|byte| !std::mem::replace(&mut seen[usize::from(class_of[usize::from(*byte)])], true))
        .collect()
}
