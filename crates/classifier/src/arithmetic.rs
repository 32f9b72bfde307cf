//! The functions between the products, written so that every processor computes them in the same order: no fused steps, sums
//! in sixteen lanes, and an exponential of our own.
#![expect(clippy::inline_always, reason = "compiled once for each set of vector instructions")]

const LANES: usize = 16;
/// What layer normalisation adds to the variance.
const EPSILON: f32 = 1e-12;
/// Adding and subtracting this number rounds to the nearest integer, which is then in the low bits of the sum.
const ROUNDER: f32 = 12_582_912.0;

#[inline(always)]
fn sum(values: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let (whole, rest) = values.as_chunks::<LANES>();
    for chunk in whole {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += of(*value);
        }
    }
    for (lane, value) in lanes.iter_mut().zip(rest) {
        *lane += of(*value);
    }
    lanes.iter().sum()
}

#[inline(always)]
fn highest(values: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [f32::MIN; LANES];
    let (whole, rest) = values.as_chunks::<LANES>();
    let mut take = |chunk: &[f32]| {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            let value = of(*value);
            *lane = if value > *lane { value } else { *lane };
        }
    };
    whole.iter().for_each(|chunk| take(chunk));
    take(rest);
    lanes.into_iter().fold(f32::MIN, f32::max)
}

#[expect(clippy::cast_precision_loss, reason = "a row has some hundreds of columns")]
#[inline(always)]
fn count(row: &[f32]) -> f32 {
    row.len() as f32
}

/// Layer normalisation of one row.
#[inline(always)]
pub(crate) fn normalize(row: &mut [f32], weight: &[f32], bias: &[f32]) {
    let mean = sum(row, |value| value) / count(row);
    row.iter_mut().for_each(|value| *value -= mean);
    let scale = 1.0 / (sum(row, |value| value * value) / count(row) + EPSILON).sqrt();
    for ((value, weight), bias) in row.iter_mut().zip(weight).zip(bias) {
        *value = *value * scale * weight + bias;
    }
}

/// The exponential of a number up to zero, to seven digits.
#[inline(always)]
fn exponential(x: f32) -> f32 {
    let x = if x < -87.0 { -87.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUNDER;
    let whole = shifted - ROUNDER;
    let rest = x - whole * 0.693_359_4 - whole * -2.121_944_4e-4;
    let series = 1.0
        + rest
            * (1.0
                + rest
                    * (0.5
                        + rest
                            * (0.166_666_67
                                + rest * (0.041_666_67 + rest * (0.008_333_334 + rest * 0.001_388_889)))));
    f32::from_bits(shifted.to_bits().wrapping_add(127) << 23) * series
}

/// Softmax: turns scores into shares that add up to one.
#[inline(always)]
pub(crate) fn softmax(row: &mut [f32]) {
    let most = highest(row, |value| value);
    row.iter_mut().for_each(|value| *value = exponential(*value - most));
    let scale = 1.0 / sum(row, |value| value);
    row.iter_mut().for_each(|value| *value *= scale);
}

/// The exact form, with the error function to seven digits (Abramowitz and Stegun 7.1.26).
#[inline(always)]
pub(crate) fn gelu(x: f32) -> f32 {
    let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let series =
        t * (0.254_829_6 + t * (-0.284_496_74 + t * (1.421_413_7 + t * (-1.453_152 + t * 1.061_405_4))));
    let erf = 1.0 - series * exponential(-z * z);
    0.5 * x * (1.0 + erf.copysign(x))
}

/// Rounds a row to integers of at most `most`, and returns the scale.
#[inline(always)]
pub(crate) fn quantize(row: &[f32], most: f32, target: &mut [i16]) -> f32 {
    let peak = highest(row, f32::abs).max(1e-20);
    let scale = most / peak;
    for (value, target) in row.iter().zip(target) {
        let bits = (value * scale + ROUNDER).to_bits();
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are the integer")]
        let low = bits as u16;
        *target = low.cast_signed();
    }
    peak / most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_right_to_six_digits() {
        for step in 0..8_700_u16 {
            let x = -f32::from(step) / 100.0;
            let expected = f64::from(x).exp();
            let found = f64::from(exponential(x));
            assert!((found / expected - 1.0).abs() < 1e-6, "{x}: {found} {expected}");
        }
        assert!(exponential(-1e9) < 1e-37);
    }

    #[test]
    fn rounding_takes_the_nearest_integer_of_both_signs() {
        let mut target = [0; 5];
        let unit = quantize(&[1.0, -1.0, 0.5, -0.26, 0.0], 100.0, &mut target);
        assert_eq!(target, [100, -100, 50, -26, 0]);
        assert!((unit - 0.01).abs() < 1e-9);
    }

    #[test]
    fn shares_add_up_to_one() {
        let mut row: Vec<f32> = (0..37_u8).map(|n| f32::from(n) / 3.0).collect();
        softmax(&mut row);
        assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5 && row[36] > row[35]);
    }
}
