//! Long logs of checks that passed, as one line. A model needs to know that the tests passed, not to read them; what
//! failed is never shortened.

use crate::commands::simple_call;

/// Shorter output is worth reading.
const MIN_LENGTH: usize = 1500;

/// A check: the program, and the words that must follow it.
const CHECKS: &[(&str, &[&str])] = &[
    ("cargo", &["test", "nextest", "clippy", "check", "build", "fmt"]),
    ("go", &["test", "vet", "build"]),
    ("npm", &["test", "run", "ci"]),
    ("pnpm", &["test", "run"]),
    ("yarn", &["test", "run"]),
    ("make", &["test", "check", "lint", "build"]),
    ("just", &["test", "check", "lint"]),
    ("pytest", &[]),
    ("tox", &[]),
    ("jest", &[]),
    ("vitest", &[]),
    ("mypy", &[]),
    ("tsc", &[]),
    ("eslint", &[]),
    ("ruff", &["check", "format"]),
    ("golangci-lint", &["run"]),
    ("pre-commit", &["run"]),
    ("gitleaks", &[]),
    ("gitlint", &[]),
    ("scan-secrets", &[]),
    ("mvn", &["test", "verify", "package"]),
    ("gradle", &["test", "check", "build"]),
    ("gradlew", &["test", "check", "build"]),
    ("dotnet", &["test", "build"]),
    ("bazel", &["test", "build"]),
];

/// Words of output that say that something is wrong, whatever the exit code was.
const TROUBLE: &[&str] = &[
    "error:",
    "error[",
    "errors:",
    "failed",
    "failure",
    "fail:",
    "fail\t",
    "--- fail",
    "panicked",
    "traceback",
    "warning:",
    "fatal:",
    "exception",
    "assertionerror",
    "not ok ",
    "✗",
    "✖",
    "segmentation fault",
    "killed",
];
/// What people write when nothing is wrong.
const HARMLESS: &[&str] = &[
    "0 failed",
    "0 errors",
    "0 failures",
    "failed: 0",
    "failures: 0",
    "errors: 0",
    "no errors",
    "0 warnings",
    "0 error",
];

/// One line instead of the output of a check that passed. `succeeded` is the exit status, where the runtime tells it.
pub fn suppress(command: &str, output: &str, succeeded: Option<bool>) -> Option<String> {
    if output.len() < MIN_LENGTH || succeeded == Some(false) {
        return None;
    }
    let check = check_of(command)?;
    if has_trouble(output) {
        return None;
    }
    let lines = output.lines().count();
    let summary = summary(output).map(|line| format!(" Its last words: {line}")).unwrap_or_default();
    Some(format!("`{check}` passed; {lines} lines of its output were left out.{summary}"))
}

/// The check that a command runs, when it runs nothing else.
fn check_of(command: &str) -> Option<String> {
    let call = simple_call(command)?;
    let (_, verbs) = CHECKS.iter().find(|(program, _)| *program == call.program)?;
    if verbs.is_empty() {
        return Some(call.program);
    }
    let verb = call.words.iter().find(|word| verbs.contains(&word.as_str()))?;
    Some(format!("{} {verb}", call.program))
}

fn has_trouble(output: &str) -> bool {
    output.lines().any(|line| {
        let lower = line.to_lowercase();
        TROUBLE.iter().any(|word| lower.contains(word)) && !HARMLESS.iter().any(|word| lower.contains(word))
    })
}

fn summary(output: &str) -> Option<String> {
    let last = output.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(last.chars().take(120).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(line: &str) -> String {
        format!("{}{line}\n", "test a::b ... ok\n".repeat(200))
    }

    #[test]
    fn passing_checks_become_one_line() {
        let short = suppress(
            "cd x && cargo test --workspace",
            &log("test result: ok. 200 passed; 0 failed"),
            Some(true),
        )
        .unwrap();
        assert_eq!(
            short,
            "`cargo test` passed; 201 lines of its output were left out. Its last words: test result: ok. 200 passed; 0 failed"
        );
        assert!(suppress("pytest -q", &log("200 passed in 1.2s"), None).is_some());
        assert!(suppress("RUST_LOG=x cargo test 2>&1", &log("done"), None).is_some());
    }

    #[test]
    fn everything_else_is_left_alone() {
        let passed = log("ok");
        assert_eq!(suppress("cargo test", &log("test c ... FAILED"), None), None);
        assert_eq!(suppress("cargo test", &passed, Some(false)), None);
        assert_eq!(suppress("cargo test", "test result: ok", None), None);
        assert_eq!(suppress("cat log.txt", &passed, None), None);
        assert_eq!(suppress("cargo test; cat secrets.txt", &passed, None), None);
        assert_eq!(suppress("echo cargo test", &passed, None), None);
        assert_eq!(suppress("cargo test $(cat x)", &passed, None), None);
    }
}
