//! Long logs of checks that passed, as one line. A model needs to know that the tests passed, not to read them; what
//! failed, or may have, is never shortened.

mod runner;

use crate::commands::simple_call;
use crate::steps;
use crate::unicode::clean;
use runner::{RUNNERS, Runner, squeezed};

/// Shorter output is worth reading.
const MIN_LENGTH: usize = 1500;

/// Words of output that say that something is wrong, whatever the exit code was.
const TROUBLE: &[&str] = &[
    "error:",
    "error[",
    "error ts",
    "errors",
    "npm err",
    "***",
    "failed",
    "failure",
    "fail:",
    "--- fail",
    "panicked",
    "traceback",
    "warning:",
    "warnings",
    "fatal:",
    "exception",
    "assertionerror",
    "not ok ",
    "leaks found",
    "✗",
    "✖",
    "✕",
    "✘",
    "segmentation fault",
    "killed",
    // How runtimes say that a command goes on: what it has said until now says nothing of its end.
    "process running with session id",
    "running in background with id",
];

/// What people write when nothing is wrong. A number before it makes another number of it.
const HARMLESS: &[&str] = &[
    "0 failed",
    "0 failures",
    "0 errors",
    "0 warnings",
    "failed: 0",
    "failures: 0",
    "errors: 0",
    "no errors",
    "no warnings",
    "no leaks found",
];

/// One line instead of the output of a check that passed. `succeeded` is the exit status, where the runtime tells it;
/// where it does not, only the check's own last words count.
pub fn suppress(command: &str, output: &str, succeeded: Option<bool>) -> Option<String> {
    if output.len() < MIN_LENGTH || succeeded == Some(false) {
        return None;
    }
    let (check, runner) = check_of(command)?;
    // Colours would stand between the words that are looked for.
    let plain = clean(output);
    let passed = succeeded == Some(true) || runner.says_passed(&plain);
    if !passed || plain.lines().any(is_trouble) {
        return None;
    }
    let lines = output.lines().count();
    let summary = summary(&plain).map(|line| format!(" Its last words: {line}")).unwrap_or_default();
    Some(format!("`{check}` passed; {lines} lines of its output were left out.{summary}"))
}

/// The check that a command runs, when it runs nothing else.
fn check_of(command: &str) -> Option<(String, &'static Runner)> {
    let call = simple_call(command)?;
    RUNNERS.iter().filter(|runner| runner.program == call.program).find_map(|runner| {
        if runner.verbs.is_empty() {
            return Some((call.program.clone(), runner));
        }
        let verb = call.words.iter().find(|word| runner.verbs.contains(&word.as_str()))?;
        Some((format!("{} {verb}", call.program), runner))
    })
}

fn is_trouble(line: &str) -> bool {
    let line = without_harmless(squeezed(line).to_lowercase());
    // `FAIL src/a.test.ts`, and the bare word.
    let is_verdict = line.split(' ').next() == Some("fail");
    is_verdict
        || TROUBLE.iter().any(|word| {
            steps::count(line.len());
            line.contains(word)
        })
}

/// The line without what says that there is nothing.
fn without_harmless(mut line: String) -> String {
    let part_of_more = |letter: char| letter.is_alphanumeric() || matches!(letter, '.' | ',' | '-' | '_');
    for phrase in HARMLESS {
        let mut from = 0;
        while let Some(at) = line[from..].find(phrase).map(|at| from + at) {
            let end = at + phrase.len();
            steps::count(end - from);
            let before = line[..at].chars().next_back();
            let after = line[end..].chars().next();
            let is_whole = !before.is_some_and(part_of_more) && !after.is_some_and(char::is_alphanumeric);
            if is_whole {
                line.replace_range(at..end, &" ".repeat(phrase.len()));
            }
            from = end;
        }
        steps::count(line.len() - from);
    }
    line
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
        assert!(suppress("RUST_LOG=x cargo test 2>&1", &log("done"), Some(true)).is_some());
    }

    #[test]
    fn without_an_exit_status_the_runner_must_say_that_it_passed() {
        let check = |command: &str, end: &str, passed: bool| {
            assert_eq!(suppress(command, &log(end), None).is_some(), passed, "{command}: {end}");
        };
        for (command, end) in [
            ("cargo test", "test result: ok. 3 passed; 0 failed; 0 ignored\n\nall doctests ran in 1.2s"),
            ("cargo nextest run", "   Summary [   0.5s] 20 tests run: 18 passed, 2 skipped"),
            ("cargo clippy", "    Finished `dev` profile [unoptimized] target(s) in 3.1s"),
            ("pytest -q", "200 passed in 1.2s"),
            ("pytest", "====== 200 passed, 3 skipped in 1.2s ======"),
            ("tox", "  congratulations :) (3.1 seconds)"),
            (
                "jest",
                "Test Suites: 5 passed, 5 total\nTests:       20 passed, 20 total\nSnapshots:   0 total\nTime: 1 s",
            ),
            (
                "vitest run",
                " Test Files  5 passed (5)\n      Tests  18 passed | 2 skipped (20)\n   Duration  1s",
            ),
            ("vitest run", "\u{1b}[2m      Tests \u{1b}[22m \u{1b}[32m18 passed\u{1b}[39m (18)"),
            ("mypy .", "Success: no issues found in 12 source files"),
            ("ruff check", "All checks passed!"),
            ("golangci-lint run", "0 issues."),
            ("gitleaks detect", "10:00AM INF no leaks found"),
            ("mvn -B test", "[INFO] BUILD SUCCESS\n[INFO] ------\n[INFO] Total time:  3.1 s\n[INFO] ------"),
            ("./gradlew test", "BUILD SUCCESSFUL in 3s\n12 actionable tasks: 12 executed"),
            ("dotnet test", "Passed!  - Failed:     0, Passed:    20, Skipped:     0, Total:    20"),
            ("dotnet build", "Build succeeded.\n    0 Warning(s)\n    0 Error(s)\n\nTime Elapsed 00:00:03"),
            ("bazel test //...", "Executed 5 out of 5 tests: 5 tests pass."),
        ] {
            check(command, end, true);
            // The same words are no end while something follows them, and none when a test has failed before.
            check(command, &format!("{end}\n     Running tests/b.rs"), false);
            check(command, &format!("FAIL src/a.test.ts\n{end}"), false);
        }
        for (command, end) in [
            ("cargo test", "test result: FAILED. 190 passed; 10 failed"),
            ("cargo test", "done"),
            ("cargo build", "note: nothing more"),
            ("pytest", "===== 10 failed, 190 passed in 1.2s ====="),
            ("pytest", "===== 199 passed, 1 error in 1.2s ====="),
            ("pytest", "no tests ran in 0.01s"),
            ("eslint .", "✖ 12 problems (12 errors, 0 warnings)"),
            ("eslint .", "ok"),
            ("tsc", "src/a.ts(1,2): error TS2322: Type 'string' is not assignable to type 'number'."),
            ("jest", "  ✕ adds (3 ms)\nTests:       1 failed, 19 passed, 20 total"),
            ("jest", "Tests:       0 total"),
            ("ruff check", "Found 12 errors."),
            ("golangci-lint run", "10 issues."),
            ("gitleaks detect", "10:00AM WRN leaks found: 3"),
            ("go vet ./...", "./a.go:3:2: Printf format %d has arg x of wrong type string"),
            ("go build ./...", "./a.go:3:2: undefined: x"),
            ("go test ./...", "ok  \tpkg\t0.1s"),
            ("dotnet build", "Build succeeded.\n    3 Warning(s)\n    0 Error(s)"),
            ("make test", "test result: ok. 200 passed; 0 failed"),
        ] {
            check(command, end, false);
        }
        let running = "Process running with session ID 7\ntest result: ok. 20 passed; 0 failed";
        check("cargo test", running, false);
    }

    #[test]
    fn trouble_is_seen_whatever_the_status_and_nothing_is_not_trouble() {
        let check = |line: &str, trouble: bool| {
            assert_eq!(suppress("make test", &log(line), Some(true)).is_none(), trouble, "{line}");
        };
        for line in [
            "10 failed",
            "1,000 failed",
            "✖ 12 problems (0 errors, 12 warnings)",
            "0 errors, 3 warnings",
            "FAIL\tpkg\t0.1s",
            "  ✕ adds",
            "a.ts(1,2): error TS2322: no",
            "npm ERR! code 1",
            "make: *** [Makefile:3: test] Error 1 (ignored)",
            "leaks found: 3",
        ] {
            check(line, true);
        }
        for line in
            ["0 failed", "0 errors, 0 warnings", "Failed:    0", "no leaks found", "20 passed; 0 failed;"]
        {
            check(line, false);
        }
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
