//! "Did you mean": the known word nearest to a misspelt one.

/// The candidate that is close enough to be what the writer meant.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = normalized(word);
    let allowed = (word.len() / 3).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, &normalized(candidate)), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The most common mistakes are case, and `-` instead of `_`.
fn normalized(word: &str) -> Vec<char> {
    word.chars().take(64).map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
}

/// Edits between two words, a swap of neighbours counting once.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn near_words_are_offered_and_far_ones_are_not() {
        let known = ["timeout_minutes", "pre_script", "post_script", "model", "agent"];
        for (word, expected) in [
            ("timeout-minutes", Some("timeout_minutes")),
            ("time_out_minutes", Some("timeout_minutes")),
            ("Model", Some("model")),
            ("agnet", Some("agent")),
            ("pre_scirpt", Some("pre_script")),
            ("zebra", None),
            ("", None),
        ] {
            assert_eq!(closest(word, known), expected, "{word}");
        }
    }
}
