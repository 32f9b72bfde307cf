//! The second stage: a BERT-like encoder with mean pooling and one output. Weights have eight bits and activations
//! sixteen: the products are sums of integers, the same on every processor.
#![expect(clippy::inline_always, reason = "compiled once for each set of vector instructions")]

use std::sync::{Mutex, PoisonError};

use crate::arithmetic::{gelu, normalize, quantize, softmax};
use crate::pieces::LONGEST;
use crate::simd::{Forward, Instructions, PANEL, ROWS, STEP, Sums};
use crate::weights::{ScaledRows, Weights, WeightsError};

/// Columns of one attention head.
const WIDTH: usize = 32;
/// Tokens whose attention scores are computed together.
const BLOCK: usize = 64;

pub(crate) struct Encoder {
    token_embeddings: ScaledRows,
    position_embeddings: Vec<f32>,
    norm: Norm,
    layers: Vec<Layer>,
    head: Head,
    hidden: usize,
    instructions: Instructions,
    scratch_pool: Mutex<Vec<Scratch>>,
}

struct Layer {
    query_key_value: Linear,
    out: Linear,
    norm_after_attention: Norm,
    up: Linear,
    down: Linear,
    norm_after_feed: Norm,
}

/// A matrix in panels of outputs. For each pair of inputs, a panel stores two weights of each of its outputs.
struct Linear {
    panels: Vec<i8>,
    inputs: usize,
    outputs: usize,
    scales: Vec<f32>,
    bias: Vec<f32>,
    /// The largest activation that cannot make a sum overflow.
    max_activation: f32,
}

struct Norm {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

struct Head {
    weight: Vec<f32>,
    bias: f32,
}

/// Memory for one window, reused for the next.
#[derive(Default)]
pub(crate) struct Scratch {
    states: Vec<f32>,
    wide: Vec<f32>,
    narrow: Vec<f32>,
    quantized: Quantized,
    scores: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
    mean: Vec<f32>,
}

/// Rows as integers, and the scale of each row.
#[derive(Default)]
struct Quantized {
    integers: Vec<i16>,
    units: Vec<f32>,
}

impl Encoder {
    pub(crate) fn new(weights: &Weights) -> Result<Self, WeightsError> {
        let token_embeddings = weights.bytes("words")?;
        let hidden = token_embeddings.columns;
        let position_embeddings = weights.bytes("places.weight")?;
        if position_embeddings.scales.len() != LONGEST
            || position_embeddings.columns != hidden
            || !hidden.is_multiple_of(WIDTH)
        {
            return Err(WeightsError::Shape("places.weight".to_owned()));
        }
        let layers = (0..weights.layers())
            .map(|number| Layer::new(weights, number, hidden))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            position_embeddings: (0..LONGEST).flat_map(|row| position_embeddings.row(row)).collect(),
            token_embeddings,
            norm: Norm::new(weights, "norm", hidden)?,
            layers,
            head: Head::new(weights, "head", hidden)?,
            hidden,
            instructions: Instructions::widest(),
            scratch_pool: Mutex::default(),
        })
    }

    /// The raw score of one window of piece numbers.
    pub(crate) fn score(&self, ids: &[u32]) -> f32 {
        self.score_with(self.instructions, ids)
    }

    pub(crate) fn score_with(&self, instructions: Instructions, ids: &[u32]) -> f32 {
        let mut scratch =
            self.scratch_pool.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        let score = instructions.score(self, ids, &mut scratch);
        self.scratch_pool.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
        score
    }
}

impl Forward for Encoder {
    type Scratch = Scratch;

    #[inline(always)]
    fn forward(
        &self,
        ids: &[u32],
        scratch: &mut Scratch,
        product: impl Fn([&[i16]; ROWS], &[i8], &mut Sums),
    ) -> f32 {
        let hidden = self.hidden;
        scratch.states.clear();
        for (place, id) in self.position_embeddings.chunks_exact(hidden).zip(ids) {
            scratch
                .states
                .extend(self.token_embeddings.row(*id as usize).zip(place).map(|(word, place)| word + place));
        }
        self.norm.apply(&mut scratch.states);
        for layer in &self.layers {
            layer.apply(scratch, &product);
        }
        self.head.score(&scratch.states, &mut scratch.mean)
    }
}

impl Layer {
    fn new(weights: &Weights, number: usize, hidden: usize) -> Result<Self, WeightsError> {
        let name = |part: &str| format!("layers.{number}.{part}");
        let up = Linear::new(weights, &name("up"), hidden, None)?;
        Ok(Self {
            query_key_value: Linear::new(weights, &name("qkv"), hidden, Some(3 * hidden))?,
            out: Linear::new(weights, &name("out"), hidden, Some(hidden))?,
            norm_after_attention: Norm::new(weights, &name("norm1"), hidden)?,
            down: Linear::new(weights, &name("down"), up.outputs, Some(hidden))?,
            up,
            norm_after_feed: Norm::new(weights, &name("norm2"), hidden)?,
        })
    }

    #[inline(always)]
    fn apply(&self, scratch: &mut Scratch, product: &impl Fn([&[i16]; ROWS], &[i8], &mut Sums)) {
        let Scratch { states, wide, narrow, quantized, scores, keys, values, .. } = scratch;
        self.query_key_value.apply(states, wide, quantized, product);
        attention(wide, self.out.inputs, narrow, Attention { scores, keys, values });
        self.out.apply(narrow, wide, quantized, product);
        add(states, wide);
        self.norm_after_attention.apply(states);
        self.up.apply(states, wide, quantized, product);
        wide.iter_mut().for_each(|value| *value = gelu(*value));
        self.down.apply(wide, narrow, quantized, product);
        add(states, narrow);
        self.norm_after_feed.apply(states);
    }
}

#[inline(always)]
fn add(states: &mut [f32], more: &[f32]) {
    states.iter_mut().zip(more).for_each(|(state, more)| *state += more);
}

struct Attention<'a> {
    scores: &'a mut Vec<f32>,
    keys: &'a mut Vec<f32>,
    values: &'a mut Vec<f32>,
}

/// Self-attention. The columns are queries, keys and values; within each, the heads lie side by side.
#[inline(always)]
fn attention(query_key_value: &[f32], hidden: usize, attended: &mut Vec<f32>, scratch: Attention<'_>) {
    let Attention { scores, keys, values } = scratch;
    let rows = query_key_value.chunks_exact(3 * hidden);
    let tokens = rows.len();
    let padded = tokens.next_multiple_of(BLOCK);
    #[expect(clippy::cast_precision_loss, reason = "a head has some dozens of columns")]
    let scale = 1.0 / (WIDTH as f32).sqrt();
    resize(attended, tokens * hidden);
    resize(scores, 2 * padded);
    resize(keys, WIDTH * padded);
    resize(values, tokens * WIDTH);
    for first in (0..hidden).step_by(WIDTH) {
        for (token, row) in rows.clone().enumerate() {
            for column in 0..WIDTH {
                keys[column * padded + token] = row[hidden + first + column];
            }
            values[token * WIDTH..(token + 1) * WIDTH]
                .copy_from_slice(&row[2 * hidden + first..2 * hidden + first + WIDTH]);
        }
        // Two tokens at a time use more of the processor's adders.
        for token in (0..tokens).step_by(2) {
            let last = tokens.min(token + 2);
            for (row, scores) in (token..last).zip(scores.chunks_exact_mut(padded)) {
                let query = &query_key_value[row * 3 * hidden + first..][..WIDTH];
                attention_scores(query, scale, keys, scores);
                softmax(&mut scores[..tokens]);
            }
            let (one, two) = scores.split_at(padded);
            let sums = weighted(&one[..tokens], &two[..tokens], values);
            for (row, sum) in (token..last).zip(sums) {
                attended[row * hidden + first..][..WIDTH].copy_from_slice(&sum);
            }
        }
    }
}

#[inline(always)]
fn attention_scores(query: &[f32], scale: f32, keys: &[f32], scores: &mut [f32]) {
    let padded = scores.len();
    for (block, scores) in scores.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
        let mut sums = [0.0; BLOCK];
        for (column, keys) in query.iter().zip(keys.chunks_exact(padded)) {
            let column = column * scale;
            for (sum, key) in sums.iter_mut().zip(&keys[block * BLOCK..(block + 1) * BLOCK]) {
                *sum += column * key;
            }
        }
        *scores = sums;
    }
}

/// The weighted sum of the values, for two tokens.
#[inline(always)]
fn weighted(one: &[f32], two: &[f32], values: &[f32]) -> [[f32; WIDTH]; 2] {
    let mut sums = [[0.0; WIDTH]; 2];
    for ((one, two), values) in one.iter().zip(two).zip(values.as_chunks::<WIDTH>().0) {
        for (sum, value) in sums[0].iter_mut().zip(values) {
            *sum += one * value;
        }
        for (sum, value) in sums[1].iter_mut().zip(values) {
            *sum += two * value;
        }
    }
    sums
}

/// Resizes without clearing: the caller must overwrite everything.
fn resize(buffer: &mut Vec<f32>, length: usize) {
    buffer.resize(length, 0.0);
}

impl Linear {
    fn new(
        weights: &Weights,
        name: &str,
        inputs: usize,
        outputs: Option<usize>,
    ) -> Result<Self, WeightsError> {
        let matrix = weights.bytes(&format!("{name}.weight"))?;
        let bias = weights.floats(&format!("{name}.bias"))?;
        let found = matrix.scales.len();
        let fits = matrix.columns == inputs && bias.len() == found && outputs.is_none_or(|all| all == found);
        if !fits || !inputs.is_multiple_of(2) || !found.is_multiple_of(PANEL) {
            return Err(WeightsError::Shape(name.to_owned()));
        }
        let (values, scales) = matrix.into_parts();
        let largest = values.chunks_exact(inputs).map(magnitude).max().unwrap_or(1).max(1);
        let max_activation = (i32::MAX.cast_unsigned() / largest).min(i16::MAX.unsigned_abs().into());
        #[expect(clippy::cast_precision_loss, reason = "at most 32767")]
        let max_activation = max_activation as f32;
        Ok(Self { panels: packed(&values, inputs), inputs, outputs: found, scales, bias, max_activation })
    }

    #[inline(always)]
    fn apply(
        &self,
        input: &[f32],
        output: &mut Vec<f32>,
        Quantized { integers, units }: &mut Quantized,
        product: &impl Fn([&[i16]; ROWS], &[i8], &mut Sums),
    ) {
        let count = input.len() / self.inputs;
        integers.resize(input.len(), 0);
        units.resize(count, 0.0);
        for (row, unit) in units.iter_mut().enumerate() {
            let place = row * self.inputs..(row + 1) * self.inputs;
            *unit = quantize(&input[place.clone()], self.max_activation, &mut integers[place]);
        }
        resize(output, count * self.outputs);
        let mut sums = [[0; PANEL]; ROWS];
        for (number, panel) in self.panels.chunks_exact(self.inputs * PANEL).enumerate() {
            let columns = number * PANEL..(number + 1) * PANEL;
            let scales = &self.scales[columns.clone()];
            let bias = &self.bias[columns.clone()];
            for first in (0..count).step_by(ROWS) {
                // Missing rows are filled with the last one.
                let row = |number: usize| {
                    let start = (first + number).min(count - 1) * self.inputs;
                    &integers[start..start + self.inputs]
                };
                product([row(0), row(1), row(2), row(3), row(4), row(5)], panel, &mut sums);
                for (row, sums) in (first..count).zip(&sums) {
                    let unit = units[row];
                    let target = &mut output[row * self.outputs..][columns.clone()];
                    for (((target, sum), scale), bias) in target.iter_mut().zip(sums).zip(scales).zip(bias) {
                        #[expect(clippy::cast_precision_loss, reason = "seven digits are enough")]
                        let sum = *sum as f32;
                        *target = sum * (unit * scale) + bias;
                    }
                }
            }
        }
    }
}

fn magnitude(row: &[i8]) -> u32 {
    row.iter().map(|value| u32::from(value.unsigned_abs())).sum()
}

/// Converts rows (one output each) to panels.
fn packed(values: &[i8], inputs: usize) -> Vec<i8> {
    let mut panels = vec![0; values.len()];
    for (rows, panel) in values.chunks_exact(inputs * PANEL).zip(panels.chunks_exact_mut(inputs * PANEL)) {
        for (output, row) in rows.chunks_exact(inputs).enumerate() {
            for (pair, step) in row.as_chunks::<2>().0.iter().zip(panel.as_chunks_mut::<STEP>().0) {
                step[2 * output..2 * output + 2].copy_from_slice(pair);
            }
        }
    }
    panels
}

impl Norm {
    fn new(weights: &Weights, name: &str, hidden: usize) -> Result<Self, WeightsError> {
        let weight = weights.floats(&format!("{name}.weight"))?;
        let bias = weights.floats(&format!("{name}.bias"))?;
        if weight.len() == hidden && bias.len() == hidden {
            Ok(Self { weight, bias })
        } else {
            Err(WeightsError::Shape(name.to_owned()))
        }
    }

    #[inline(always)]
    fn apply(&self, states: &mut [f32]) {
        for row in states.chunks_exact_mut(self.weight.len()) {
            normalize(row, &self.weight, &self.bias);
        }
    }
}

impl Head {
    fn new(weights: &Weights, name: &str, hidden: usize) -> Result<Self, WeightsError> {
        let weight = weights.floats(&format!("{name}.weight"))?;
        match weights.floats(&format!("{name}.bias"))?.as_slice() {
            [bias] if weight.len() == hidden => Ok(Self { bias: *bias, weight }),
            _ => Err(WeightsError::Shape(name.to_owned())),
        }
    }

    /// The output for the mean of all tokens.
    #[inline(always)]
    fn score(&self, states: &[f32], mean: &mut Vec<f32>) -> f32 {
        mean.clear();
        mean.resize(self.weight.len(), 0.0);
        let rows = states.chunks_exact(self.weight.len());
        #[expect(clippy::cast_precision_loss, reason = "a window has some hundreds of tokens")]
        let count = rows.len() as f32;
        rows.for_each(|row| add(mean, row));
        mean.iter().zip(&self.weight).map(|(mean, weight)| mean / count * weight).sum::<f32>() + self.bias
    }
}
