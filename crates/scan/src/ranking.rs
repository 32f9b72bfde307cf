//! How well scores tell attacks from benign texts, whatever the threshold: AUROC, and recall at a given share of benign texts
//! that are flagged.

/// What scores of labelled texts add up to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranking {
    /// The probability that an attack scores higher than a benign text; equal scores count half.
    pub auroc: f64,
    /// At one benign text in a hundred.
    pub at_1_percent: Recall,
    /// At one benign text in a thousand.
    pub at_01_percent: Recall,
}

/// The share of attacks above a threshold, with its 95 % interval (Wilson).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recall {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

/// `None` without an attack or without a benign text.
pub fn rank(attacks: &[f64], benign: &[f64]) -> Option<Ranking> {
    if attacks.is_empty() || benign.is_empty() {
        return None;
    }
    let mut sorted = benign.to_vec();
    sorted.sort_by(f64::total_cmp);
    let wins: f64 = attacks.iter().map(|attack| wins(*attack, &sorted)).sum();
    let auroc = wins / (attacks.len() * benign.len()) as f64;
    let recall = |share: f64| {
        // So many benign texts may lie above the threshold.
        let above = (share * sorted.len() as f64).floor() as usize;
        let threshold = sorted[sorted.len() - 1 - above.min(sorted.len() - 1)];
        let found = attacks.iter().filter(|attack| **attack > threshold).count();
        interval(found, attacks.len())
    };
    Some(Ranking { auroc, at_1_percent: recall(0.01), at_01_percent: recall(0.001) })
}

/// The benign texts that an attack outscores.
fn wins(attack: f64, sorted: &[f64]) -> f64 {
    let below = sorted.partition_point(|benign| *benign < attack);
    let not_above = sorted.partition_point(|benign| *benign <= attack);
    below as f64 + (not_above - below) as f64 / 2.0
}

fn interval(found: usize, of: usize) -> Recall {
    const Z: f64 = 1.96;
    let count = of as f64;
    let value = found as f64 / count;
    let centre = value + Z * Z / (2.0 * count);
    let reach = Z * (value * (1.0 - value) / count + Z * Z / (4.0 * count * count)).sqrt();
    let scale = 1.0 + Z * Z / count;
    Recall { value, low: ((centre - reach) / scale).max(0.0), high: ((centre + reach) / scale).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-3
    }

    #[test]
    fn scores_that_separate_everything_are_perfect_and_equal_ones_a_coin() {
        let perfect = rank(&[0.9, 0.8], &[0.1, 0.2]).unwrap();
        assert!(near(perfect.auroc, 1.0) && near(perfect.at_1_percent.value, 1.0));
        assert!(near(rank(&[0.5, 0.5], &[0.5]).unwrap().auroc, 0.5));
        assert!(near(rank(&[0.1], &[0.9, 0.05]).unwrap().auroc, 0.5));
        assert_eq!(rank(&[], &[0.1]), None);
    }

    #[test]
    fn recall_is_measured_where_few_benign_texts_are_flagged() {
        // One of a hundred benign texts scores high: at 1 % it may, at 0.1 % it may not.
        let benign: Vec<f64> = (0..100).map(|number| if number == 7 { 0.95 } else { 0.1 }).collect();
        let ranking = rank(&[0.9, 0.97, 0.05, 0.5], &benign).unwrap();
        assert!(near(ranking.at_1_percent.value, 0.75), "{ranking:?}");
        assert!(near(ranking.at_01_percent.value, 0.25), "{ranking:?}");
        assert!(ranking.at_1_percent.low < 0.75 && ranking.at_1_percent.high > 0.75);
    }

    #[test]
    fn an_interval_is_that_of_wilson() {
        let Recall { low, high, .. } = interval(8, 10);
        assert!(near(low, 0.490) && near(high, 0.943), "{low} {high}");
    }
}
