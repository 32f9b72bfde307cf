//! fullsend as a library: runs one harness of a repository, and says how it ended and where its record is.
//!
//!     cargo run --example library -- REPOSITORY HARNESS
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "an example prints, and stops where it cannot go on"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use fullsend::event::clock::Moment;
use fullsend::{Cancel, Choices, Layer, LayerKind, Layers, Library, PreflightContext, Request, Strictness};

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    // The sandbox starts this same program again.
    if let Some(code) = fullsend::run_hidden_command(&words) {
        return code;
    }
    let [_, repository, harness] = &words[..] else { return ExitCode::from(2) };
    let repository = PathBuf::from(repository).canonicalize().unwrap();
    let layer =
        Layer::directory(LayerKind::Repository, &repository.join(".fullsend"), ".fullsend".to_owned());
    let mut library = Library::new(Layers::new(vec![layer.unwrap()]));
    let environment: BTreeMap<String, String> = std::env::vars().collect();
    let lookup = |name: &str| environment.get(name).cloned();
    let strictness = Strictness::Required;
    let context =
        PreflightContext { environment: &lookup, strictness, repository: &repository, recording: None };
    let choices = Choices { today: Moment::now().date(), ..Choices::default() };
    let name = harness.to_string_lossy();
    let mut problems = Vec::new();
    let checked = fullsend::preflight(&mut library, &name, &choices, &context, &mut problems).unwrap();
    let executor = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let runs = repository.with_extension("runs");
    let request = Request::new(checked, library, repository, runs, executor.handle().clone());
    let outcome = fullsend::run(Request { environment, ..request }, &Cancel::default());
    println!("{}: {:?}", outcome.kind().as_str(), outcome.directory);
    ExitCode::from(outcome.exit().code())
}
