//! Scores texts with a weights file and says how long each stage takes. Reads JSON lines (`{"text", "origin"}`) from standard
//! input and prints one JSON line for each: the highest score of each stage, and the milliseconds and windows of both.
//!
//!     cargo run --release -p classifier --example scores -- models/injection.weights < texts.jsonl

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for people")]

use std::error::Error;
use std::io::BufRead;
use std::time::Instant;

use classifier::{Classifier, DecidedBy, TextOrigin};
use serde_json::{Value as Json, json};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: scores WEIGHTS < TEXTS")?;
    let started = Instant::now();
    let bytes = std::fs::read(path)?;
    let read = move |at: u64, count: usize| {
        let start = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
        Ok(bytes[start..bytes.len().min(start + count)].to_vec())
    };
    let classifier = Classifier::open(Box::new(read))?;
    eprintln!("loaded in {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    for line in std::io::stdin().lock().lines() {
        let row: Json = serde_json::from_str(&line?)?;
        let text = row["text"].as_str().ok_or("a row has no text")?;
        let word = row["origin"].as_str().unwrap_or("tool");
        let all = [TextOrigin::Instructions, TextOrigin::Tool, TextOrigin::Issue, TextOrigin::Prompt];
        let origin = all.into_iter().find(|origin| origin.word() == word).ok_or("an unknown origin")?;
        let started = Instant::now();
        let windows = classifier.score(text, origin)?;
        let cascade_ms = started.elapsed().as_secs_f64() * 1e3;
        let started = Instant::now();
        let grams = classifier.gram_scores(text, origin);
        let grams_ms = started.elapsed().as_secs_f64() * 1e3;
        let probability = windows.iter().map(|window| window.probability).fold(0.0, f32::max);
        let read = windows.iter().filter(|window| window.decided_by == DecidedBy::Encoder).count();
        let rows: Vec<Json> =
            windows.iter().zip(&grams).map(|(window, grams)| json!([grams, window.probability])).collect();
        println!(
            "{}",
            json!({ "probability": probability, "windows": rows, "read": read, "bytes": text.len(), "grams_ms": grams_ms, "cascade_ms": cascade_ms, "id": row["id"] })
        );
    }
    Ok(())
}
