//! Sequence numbers: the positions in a session's log, from 1 and without gaps. They alone define the order of events.

use serde::{Deserialize, Serialize};

/// The position of an event in its session's log. The first event has 1; 0 is before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A set of positions, stored as ranges: inputs arrive one after the other, so thousands of them are a few ranges.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<(Seq, Seq)>", into = "Vec<(Seq, Seq)>")]
pub struct SeqSet(Vec<(Seq, Seq)>);

impl SeqSet {
    /// Adds a position that is higher than all before it.
    pub(crate) fn push(&mut self, seq: Seq) {
        match self.0.last_mut() {
            Some((_, last)) if last.next() == seq => *last = seq,
            _ => self.0.push((seq, seq)),
        }
    }

    pub(crate) fn remove_all(&mut self, gone: &Self) {
        let kept = self.iter().filter(|seq| !gone.contains(*seq)).collect();
        *self = kept;
    }

    /// The union with positions that are all higher.
    pub(crate) fn with_later(mut self, later: &Self) -> Self {
        later.iter().for_each(|seq| self.push(seq));
        self
    }

    /// The union with any positions.
    pub(crate) fn merge(&mut self, other: &Self) {
        let all: std::collections::BTreeSet<Seq> = self.iter().chain(other.iter()).collect();
        *self = all.into_iter().collect();
    }

    /// Keeps the highest `count` positions.
    pub(crate) fn keep_last(&mut self, count: usize) {
        let surplus = self.len().saturating_sub(count);
        *self = self.iter().skip(surplus).collect();
    }

    /// The lowest `count` positions.
    pub(crate) fn first(&self, count: usize) -> Self {
        self.iter().take(count).collect()
    }

    #[must_use]
    pub fn contains(&self, seq: Seq) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < seq);
        self.0.get(at).is_some_and(|(first, _)| *first <= seq)
    }

    /// Whether every position of `part` is in the set. The cost grows with the ranges, not the positions.
    pub(crate) fn includes(&self, part: &Self) -> bool {
        part.0.iter().all(|(first, last)| {
            let at = self.0.partition_point(|(_, end)| end < first);
            self.0.get(at).is_some_and(|(start, end)| start <= first && last <= end)
        })
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        let count = |(first, last): &(Seq, Seq)| usize::try_from(last.0 - first.0 + 1).unwrap_or(usize::MAX);
        self.0.iter().map(count).fold(0, usize::saturating_add)
    }

    pub fn iter(&self) -> impl Iterator<Item = Seq> + '_ {
        self.0.iter().flat_map(|(first, last)| (first.0..=last.0).map(Seq))
    }

    /// The ranges, lowest first, both ends included.
    #[must_use]
    pub fn ranges(&self) -> &[(Seq, Seq)] {
        &self.0
    }
}

impl FromIterator<Seq> for SeqSet {
    /// From positions in rising order.
    fn from_iter<I: IntoIterator<Item = Seq>>(positions: I) -> Self {
        let mut set = Self::default();
        positions.into_iter().for_each(|seq| set.push(seq));
        set
    }
}

impl TryFrom<Vec<(Seq, Seq)>> for SeqSet {
    type Error = &'static str;

    fn try_from(ranges: Vec<(Seq, Seq)>) -> Result<Self, Self::Error> {
        let ordered = ranges.iter().all(|(first, last)| 1 <= first.0 && first <= last && last.0 < u64::MAX);
        let apart = ranges.windows(2).all(|pair| pair[0].1.0 + 1 < pair[1].0.0);
        if ordered && apart {
            Ok(Self(ranges))
        } else {
            Err("positions must be rising ranges with gaps between")
        }
    }
}

impl From<SeqSet> for Vec<(Seq, Seq)> {
    fn from(set: SeqSet) -> Self {
        set.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(positions: &[u64]) -> SeqSet {
        positions.iter().copied().map(Seq).collect()
    }

    #[test]
    fn neighbours_join() {
        assert_eq!(set(&[1, 2, 3, 7, 8]).ranges(), [(Seq(1), Seq(3)), (Seq(7), Seq(8))]);
        assert_eq!(set(&[1, 2, 3, 7, 8]).len(), 5);
    }

    #[test]
    fn contains_what_was_put_in() {
        let some = set(&[2, 3, 7]);
        let found: Vec<u64> = (0..10).filter(|n| some.contains(Seq(*n))).collect();
        assert_eq!(found, [2, 3, 7]);
    }

    #[test]
    fn takes_out_of_the_middle() {
        let mut some = set(&[1, 2, 3, 4, 9]);
        some.remove_all(&set(&[2, 3, 5, 9]));
        assert_eq!(some, set(&[1, 4]));
        assert_eq!(some.first(1), set(&[1]));
    }

    #[test]
    fn includes_only_its_own() {
        let some = set(&[1, 2, 3, 7]);
        for (part, expected) in [
            (set(&[]), true),
            (set(&[2, 3]), true),
            (set(&[1, 7]), true),
            (set(&[3, 4]), false),
            (set(&[8]), false),
        ] {
            assert_eq!(some.includes(&part), expected, "{part:?}");
        }
    }

    #[test]
    fn reads_only_ranges_that_it_could_have_written() {
        assert_eq!(serde_json::from_str::<SeqSet>("[[1,3],[5,5]]").unwrap(), set(&[1, 2, 3, 5]));
        for bad in ["[[0,1]]", "[[3,1]]", "[[1,2],[3,4]]", "[[5,6],[1,2]]", "[[1,18446744073709551615]]"] {
            assert!(serde_json::from_str::<SeqSet>(bad).is_err(), "{bad}");
        }
    }
}
