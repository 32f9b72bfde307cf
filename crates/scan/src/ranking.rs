//! How well scores separate attacks from benign texts: AUROC, recall at a given share of benign texts that are flagged,
//! and calibration.

/// Measures of the scores of labelled texts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranking {
    /// The probability that an attack scores higher than a benign text; equal scores count half.
    pub auroc: Estimate,
    /// The share of attacks above the threshold of one benign text in a hundred.
    pub at_1_percent: Estimate,
    /// The same for one benign text in a thousand.
    pub at_01_percent: Estimate,
    /// The average difference between scores and the share of attacks among texts with that score: 0 is perfectly
    /// calibrated.
    pub calibration_error: f64,
}

/// A measured share with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

/// For a 95 % interval.
const Z: f64 = 1.96;

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
        // The number of benign texts that may be above the threshold.
        let above = (share * sorted.len() as f64).floor() as usize;
        let threshold = sorted[sorted.len() - 1 - above.min(sorted.len() - 1)];
        let found = attacks.iter().filter(|attack| **attack > threshold).count();
        interval(found, attacks.len())
    };
    Some(Ranking {
        auroc: auroc_interval(auroc, attacks.len() as f64, benign.len() as f64),
        at_1_percent: recall(0.01),
        at_01_percent: recall(0.001),
        calibration_error: calibration_error(attacks, benign),
    })
}

/// By Hanley and McNeil.
fn auroc_interval(value: f64, attacks: f64, benign: f64) -> Estimate {
    let two_attacks = value / (2.0 - value) - value * value;
    let two_benign = 2.0 * value * value / (1.0 + value) - value * value;
    let variance = value * (1.0 - value) + (attacks - 1.0) * two_attacks + (benign - 1.0) * two_benign;
    let reach = Z * (variance.max(0.0) / (attacks * benign)).sqrt();
    Estimate { value, low: (value - reach).max(0.0), high: (value + reach).min(1.0) }
}

/// The expected calibration error over ten equal bins.
fn calibration_error(attacks: &[f64], benign: &[f64]) -> f64 {
    const BINS: usize = 10;
    let mut score_sums = [0.0; BINS];
    let mut attack_counts = [0.0; BINS];
    for (scores, is_attack) in [(attacks, 1.0), (benign, 0.0)] {
        for score in scores {
            let bin = ((score * BINS as f64) as usize).min(BINS - 1);
            score_sums[bin] += score;
            attack_counts[bin] += is_attack;
        }
    }
    let gaps = score_sums.iter().zip(attack_counts).map(|(scores, attacks)| (scores - attacks).abs());
    gaps.sum::<f64>() / (attacks.len() + benign.len()) as f64
}

/// The benign texts that an attack outscores.
fn wins(attack: f64, sorted: &[f64]) -> f64 {
    let below = sorted.partition_point(|benign| *benign < attack);
    let not_above = sorted.partition_point(|benign| *benign <= attack);
    below as f64 + (not_above - below) as f64 / 2.0
}

/// By Wilson.
fn interval(found: usize, of: usize) -> Estimate {
    let count = of as f64;
    let value = found as f64 / count;
    let centre = value + Z * Z / (2.0 * count);
    let reach = Z * (value * (1.0 - value) / count + Z * Z / (4.0 * count * count)).sqrt();
    let scale = 1.0 + Z * Z / count;
    Estimate { value, low: ((centre - reach) / scale).max(0.0), high: ((centre + reach) / scale).min(1.0) }
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
        assert!(near(perfect.auroc.value, 1.0) && near(perfect.at_1_percent.value, 1.0));
        assert!(near(rank(&[0.5, 0.5], &[0.5]).unwrap().auroc.value, 0.5));
        assert!(near(rank(&[0.1], &[0.9, 0.05]).unwrap().auroc.value, 0.5));
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
    fn the_interval_of_an_auroc_is_that_of_hanley_and_mcneil() {
        let Estimate { low, high, .. } = auroc_interval(0.8, 50.0, 50.0);
        assert!(near(low, 0.713) && near(high, 0.887), "{low} {high}");
    }

    #[test]
    fn scores_that_are_shares_are_calibrated() {
        assert!(near(calibration_error(&[0.75, 0.75, 0.75], &[0.75]), 0.0));
        assert!(near(calibration_error(&[0.95; 4], &[0.95; 4]), 0.45));
        assert!(near(calibration_error(&[1.0], &[0.0]), 0.0));
    }

    #[test]
    fn an_interval_is_that_of_wilson() {
        let Estimate { low, high, .. } = interval(8, 10);
        assert!(near(low, 0.490) && near(high, 0.943), "{low} {high}");
    }
}
