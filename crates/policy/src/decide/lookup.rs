//! Which of many patterns are worth trying on a text. Each pattern is filed under its rarest literal segment; a text is
//! only tried on the patterns filed under one of its own segments, and on those without any.

use std::collections::HashMap;

use crate::glob::Pattern;

/// Below this many patterns trying all of them is quicker.
const WORTH_FILING: usize = 8;

#[derive(Clone, Debug, Default)]
pub(super) struct Lookup {
    filed: HashMap<Vec<u8>, Vec<u32>>,
    unfiled: Vec<u32>,
}

impl Lookup {
    /// Files patterns by their position; `None` is always tried.
    pub(super) fn new<'a>(patterns: impl Iterator<Item = Option<&'a Pattern>>) -> Self {
        let segments: Vec<Vec<Vec<u8>>> =
            patterns.map(|pattern| pattern.map(Pattern::literal_segments).unwrap_or_default()).collect();
        let mut lookup = Self::default();
        if segments.len() < WORTH_FILING {
            lookup.unfiled = (0..).take(segments.len()).collect();
            return lookup;
        }
        let mut frequency: HashMap<&[u8], usize> = HashMap::new();
        for segment in segments.iter().flatten() {
            *frequency.entry(segment).or_default() += 1;
        }
        for (position, segments) in (0..).zip(&segments) {
            match segments.iter().min_by_key(|segment| frequency[segment.as_slice()]) {
                Some(rarest) => lookup.filed.entry(rarest.clone()).or_default().push(position),
                None => lookup.unfiled.push(position),
            }
        }
        lookup
    }

    /// The positions to try, in order.
    pub(super) fn candidates(&self, text: &[u8], separator: u8) -> Vec<usize> {
        let mut found = self.unfiled.clone();
        if !self.filed.is_empty() {
            let filed = text.split(|byte| *byte == separator).filter_map(|segment| self.filed.get(segment));
            found.extend(filed.flatten());
            found.sort_unstable();
            found.dedup();
        }
        found.into_iter().map(|position| position as usize).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, prop, prop_assert};

    use super::Lookup;
    use crate::glob::{Pattern, Separator};

    fn texts(pieces: &'static [&'static str]) -> impl Strategy<Value = String> {
        prop::collection::vec(prop::sample::select(pieces), 0..6).prop_map(|pieces| pieces.concat())
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn no_pattern_that_matches_is_left_out(
            patterns in prop::collection::vec(texts(&["/", "a", "b", "/**", "**/", "*", "[!a]", "{a/b,c}", "?", "\\*"]), 8..20),
            text in texts(&["/", "a", "b", "c", "/a", "/b/", "*"]),
        ) {
            let patterns: Vec<Pattern> =
                patterns.iter().filter_map(|text| Pattern::glob(text, Separator::Slash).ok()).collect();
            let lookup = Lookup::new(patterns.iter().map(Some));
            let candidates = lookup.candidates(text.as_bytes(), b'/');
            for (position, pattern) in patterns.iter().enumerate() {
                prop_assert!(!pattern.matches(text.as_bytes()) || candidates.contains(&position), "{} on {}", pattern, text);
            }
        }
    }
}
