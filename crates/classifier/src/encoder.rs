//! The second stage: a BERT-shaped encoder of six layers with mean pooling and one output. Weights are rounded to eight
//! bits in the file and computed with as floats.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array1, Array2, ArrayView1, ArrayViewMut1, Axis, s};

use crate::pieces::LONGEST;
use crate::weights::{Scaled, Weights, WeightsError};

const LAYERS: usize = 6;
const HEADS: usize = 12;
/// What layer normalisation adds to the variance.
const EPSILON: f32 = 1e-12;

pub(crate) struct Encoder {
    words: Scaled,
    places: Array2<f32>,
    norm: Norm,
    layers: Vec<Layer>,
    head: Array1<f32>,
    head_bias: f32,
}

struct Layer {
    query_key_value: Linear,
    out: Linear,
    norm_after_attention: Norm,
    up: Linear,
    down: Linear,
    norm_after_feed: Norm,
}

struct Linear {
    /// Input by output.
    weight: Array2<f32>,
    bias: Array1<f32>,
}

struct Norm {
    weight: Array1<f32>,
    bias: Array1<f32>,
}

impl Encoder {
    pub(crate) fn new(weights: &Weights) -> Result<Self, WeightsError> {
        let words = weights.bytes("words")?;
        let places = matrix(&weights.bytes("places.weight")?);
        if places.nrows() != LONGEST || places.ncols() != words.columns {
            return Err(WeightsError::Shape("places.weight".to_owned()));
        }
        let layers = (0..LAYERS).map(|number| Layer::new(weights, number)).collect::<Result<_, _>>()?;
        let head_bias = weights.floats("head.bias")?;
        Ok(Self {
            words,
            places,
            norm: Norm::new(weights, "norm")?,
            layers,
            head: weights.floats("head.weight")?.into(),
            head_bias: *head_bias.first().ok_or_else(|| WeightsError::Shape("head.bias".to_owned()))?,
        })
    }

    /// The raw score of one window of piece numbers.
    pub(crate) fn score(&self, ids: &[u32]) -> f32 {
        let mut states = Array2::zeros((ids.len(), self.words.columns));
        for (place, (id, mut row)) in ids.iter().zip(states.rows_mut()).enumerate() {
            let word = self.words.row(*id as usize);
            for ((state, word), place) in row.iter_mut().zip(word).zip(self.places.row(place)) {
                *state = word + place;
            }
        }
        self.norm.apply(&mut states);
        for layer in &self.layers {
            layer.apply(&mut states);
        }
        let mean = states.mean_axis(Axis(0)).unwrap_or_else(|| Array1::zeros(self.words.columns));
        mean.dot(&self.head) + self.head_bias
    }
}

impl Layer {
    fn new(weights: &Weights, number: usize) -> Result<Self, WeightsError> {
        let name = |part: &str| format!("layers.{number}.{part}");
        Ok(Self {
            query_key_value: Linear::new(weights, &name("qkv"))?,
            out: Linear::new(weights, &name("out"))?,
            norm_after_attention: Norm::new(weights, &name("norm1"))?,
            up: Linear::new(weights, &name("up"))?,
            down: Linear::new(weights, &name("down"))?,
            norm_after_feed: Norm::new(weights, &name("norm2"))?,
        })
    }

    fn apply(&self, states: &mut Array2<f32>) {
        let attended = attention(&self.query_key_value.apply(states));
        *states += &self.out.apply(&attended);
        self.norm_after_attention.apply(states);
        let mut wide = self.up.apply(states);
        wide.mapv_inplace(gelu);
        *states += &self.down.apply(&wide);
        self.norm_after_feed.apply(states);
    }
}

/// Every head looks at every token. The columns are queries, keys and values, each head's beside the next.
fn attention(query_key_value: &Array2<f32>) -> Array2<f32> {
    let (tokens, columns) = query_key_value.dim();
    let hidden = columns / 3;
    let width = hidden / HEADS;
    #[expect(clippy::cast_precision_loss, reason = "a head has some dozens of columns")]
    let scale = 1.0 / (width as f32).sqrt();
    let mut attended = Array2::zeros((tokens, hidden));
    for head in 0..HEADS {
        let part = |number: usize| {
            let start = number * hidden + head * width;
            query_key_value.slice(s![.., start..start + width])
        };
        let mut scores = Array2::zeros((tokens, tokens));
        general_mat_mul(scale, &part(0), &part(1).t(), 0.0, &mut scores);
        scores.rows_mut().into_iter().for_each(softmax);
        let mut target = attended.slice_mut(s![.., head * width..(head + 1) * width]);
        general_mat_mul(1.0, &scores, &part(2), 0.0, &mut target);
    }
    attended
}

fn softmax(mut row: ArrayViewMut1<'_, f32>) {
    let highest = row.fold(f32::MIN, |highest, value| highest.max(*value));
    row.mapv_inplace(|value| (value - highest).exp());
    let sum = row.sum();
    row /= sum;
}

impl Linear {
    fn new(weights: &Weights, name: &str) -> Result<Self, WeightsError> {
        let weight = matrix(&weights.bytes(&format!("{name}.weight"))?).reversed_axes();
        let bias: Array1<f32> = weights.floats(&format!("{name}.bias"))?.into();
        if bias.len() == weight.ncols() {
            Ok(Self { weight, bias })
        } else {
            Err(WeightsError::Shape(name.to_owned()))
        }
    }

    fn apply(&self, input: &Array2<f32>) -> Array2<f32> {
        let mut output = Array2::zeros((input.nrows(), self.bias.len()));
        output.rows_mut().into_iter().for_each(|mut row| row.assign(&self.bias));
        general_mat_mul(1.0, input, &self.weight, 1.0, &mut output);
        output
    }
}

impl Norm {
    fn new(weights: &Weights, name: &str) -> Result<Self, WeightsError> {
        Ok(Self {
            weight: weights.floats(&format!("{name}.weight"))?.into(),
            bias: weights.floats(&format!("{name}.bias"))?.into(),
        })
    }

    fn apply(&self, states: &mut Array2<f32>) {
        for mut row in states.rows_mut() {
            let mean = mean(row.view());
            row.mapv_inplace(|value| value - mean);
            let deviation = (row.dot(&row) / count(&row.view()) + EPSILON).sqrt();
            for ((value, weight), bias) in row.iter_mut().zip(&self.weight).zip(&self.bias) {
                *value = *value / deviation * weight + bias;
            }
        }
    }
}

fn mean(row: ArrayView1<'_, f32>) -> f32 {
    row.sum() / count(&row)
}

#[expect(clippy::cast_precision_loss, reason = "a row has some hundreds of columns")]
fn count(row: &ArrayView1<'_, f32>) -> f32 {
    row.len() as f32
}

fn matrix(scaled: &Scaled) -> Array2<f32> {
    let rows = scaled.scales.len();
    let values: Vec<f32> = (0..rows).flat_map(|row| scaled.row(row)).collect();
    Array2::from_shape_vec((rows, scaled.columns), values)
        .expect("the sizes were checked when the file was read")
}

/// The exact form, with the error function to seven digits (Abramowitz and Stegun 7.1.26).
fn gelu(x: f32) -> f32 {
    let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let series =
        t * (0.254_829_6 + t * (-0.284_496_74 + t * (1.421_413_7 + t * (-1.453_152 + t * 1.061_405_4))));
    let erf = 1.0 - series * (-z * z).exp();
    0.5 * x * (1.0 + erf.copysign(x))
}
