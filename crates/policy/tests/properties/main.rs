//! Properties of whole policies, on random policies over a universe small enough to try every request.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use proptest::test_runner::FileFailurePersistence;

mod generate;
mod subset;
mod text;
mod universe;

/// Earlier failures are tried first, from a file beside the tests.
fn config(cases: u32, name: &str) -> proptest::prelude::ProptestConfig {
    let file = format!("{}/tests/properties/regressions/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    proptest::prelude::ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(file.leak()))),
        ..proptest::prelude::ProptestConfig::with_cases(cases)
    }
}
