//! The scores of this crate and of the training side are the same, text by text, and a damaged file is refused.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use classifier::{Classifier, TextOrigin, WeightsError};
use serde::Deserialize;

#[derive(Deserialize)]
struct Row {
    text: String,
    origin: String,
    encoder: f32,
    grams: f32,
}

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models")
}

fn rows() -> Vec<Row> {
    let file = fs::File::open(models().join("parity.jsonl.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn origin(word: &str) -> TextOrigin {
    let all = [TextOrigin::Instructions, TextOrigin::Tool, TextOrigin::Issue, TextOrigin::Prompt];
    all.into_iter().find(|origin| origin.word() == word).unwrap()
}

fn open(bytes: Vec<u8>) -> Result<Classifier, WeightsError> {
    Classifier::open(Box::new(move |at, count| {
        let rest = bytes.get(usize::try_from(at).unwrap()..).unwrap_or_default();
        Ok(rest[..count.min(rest.len())].to_vec())
    }))
}

/// A debug build reads one row in eighty; `--include-ignored` with a release build reads all.
fn compare(step: usize) {
    let classifier = open(fs::read(models().join("injection.weights")).unwrap()).unwrap();
    for row in rows().iter().step_by(step) {
        let scores = classifier.raw_scores(&row.text, origin(&row.origin)).unwrap();
        assert!(
            (scores.grams - row.grams).abs() < 1e-3,
            "grams {} {}: {}",
            scores.grams,
            row.grams,
            row.text
        );
        // The score of a text is its probability. The raw score of the encoder differs by the rounding of its activations.
        let ours = classifier.probability(scores.encoder);
        let theirs = classifier.probability(row.encoder);
        assert!((ours - theirs).abs() < 1e-3, "encoder {ours} {theirs}: {}", row.text);
        assert!((scores.encoder - row.encoder).abs() < 5e-3, "{} {}", scores.encoder, row.encoder);
    }
}

#[test]
fn some_scores_agree_with_training() {
    compare(80);
}

#[test]
#[ignore = "takes minutes in a debug build: cargo test --release -p classifier -- --include-ignored"]
fn all_scores_agree_with_training() {
    compare(1);
}

#[test]
fn a_damaged_file_is_refused() {
    let bytes = fs::read(models().join("injection.weights")).unwrap();
    let refused = |bytes: &[u8]| open(bytes.to_vec()).err();
    assert!(matches!(refused(b"not weights"), Some(WeightsError::NotWeights)));
    assert!(matches!(refused(&bytes[..100]), Some(WeightsError::NotWeights)));
    assert!(matches!(refused(&bytes[..bytes.len() / 2]), Some(WeightsError::Shape(_))));
    // The second stage is read when it is needed.
    let cut = open(bytes[..bytes.len() - 1000].to_vec()).unwrap();
    assert!(matches!(cut.raw_scores("text", TextOrigin::Tool), Err(WeightsError::Shape(_))));
}
