//! Log shortening: replaces the long output of a check that passed with one line. A model needs to know that the tests passed,
//! not to read them. Output of a check that failed, or may have failed, is kept.

mod failure;
mod runner;

use scan::clean;

use crate::simple::{SimpleCall, simple_call};
use failure::is_failure;
use runner::{RUNNERS, Runner};

/// Shorter output is kept.
const MIN_LENGTH: usize = 1500;

/// One line instead of the output of a check that passed. `succeeded` is the exit status, if the runtime reports it;
/// otherwise the check's own success message decides.
pub fn shorten(command: &str, output: &str, succeeded: Option<bool>) -> Option<String> {
    if output.len() < MIN_LENGTH || succeeded == Some(false) {
        return None;
    }
    let (check, runner) = check_of(command)?;
    // Colours would separate the words.
    let plain = clean(output);
    let passed = succeeded == Some(true) || runner.says_passed(&plain);
    if !passed || plain.lines().any(is_failure) {
        return None;
    }
    let lines = output.lines().count();
    let summary = summary(&plain).map(|line| format!(" Its last line: {line}")).unwrap_or_default();
    Some(format!("`{check}` passed; {lines} lines of its output were left out.{summary}"))
}

/// The check that a command runs, if it runs nothing else.
fn check_of(command: &str) -> Option<(String, &'static Runner)> {
    let call = simple_call(command)?;
    if call.words.iter().any(|word| proves_nothing(&call.program, word)) {
        return None;
    }
    RUNNERS.iter().filter(|runner| runner.program == call.program).find_map(|runner| {
        if runner.verbs.is_empty() {
            return Some((call.program.clone(), runner));
        }
        let verb = verb_of(&call, runner)?;
        Some((format!("{} {verb}", call.program), runner))
    })
}

/// Programs that run several targets, one after the other.
const TAKES_MANY: &[&str] = &["make", "just", "mvn", "gradle", "gradlew"];

/// Options before the verb that take the next word as their value.
const VALUED: &[&str] = &[
    "-C",
    "-F",
    "-T",
    "-f",
    "-j",
    "-p",
    "-pl",
    "-w",
    "-x",
    "--config",
    "--cwd",
    "--dir",
    "--directory",
    "--filter",
    "--manifest-path",
    "--prefix",
    "--tests",
    "--workspace",
];

/// The subcommand. In another position the same word is a value, or belongs to the program that is run.
fn verb_of<'c>(call: &'c SimpleCall, runner: &Runner) -> Option<&'c str> {
    let mut words = call.words.iter().map(String::as_str).take_while(|word| *word != "--");
    let mut targets = Vec::new();
    while let Some(word) = words.next() {
        if VALUED.contains(&word) {
            words.next();
        } else if !word.starts_with(['-', '+']) {
            targets.push(word);
        }
    }
    let is_verb = |word: &&str| runner.verbs.contains(word);
    if TAKES_MANY.contains(&call.program.as_str()) {
        let is_target = |word: &&str| is_verb(word) || *word == "clean" || word.contains('=');
        return targets.iter().all(is_target).then(|| targets.iter().copied().rfind(is_verb)).flatten();
    }
    targets.first().copied().filter(is_verb)
}

/// Options with which a check only lists, or always succeeds.
fn proves_nothing(program: &str, word: &str) -> bool {
    const WORDS: &[&str] = &[
        "list",
        "--list",
        "--list-tests",
        "--listTests",
        "--collect-only",
        "--co",
        "--no-run",
        "--dry-run",
        "--help",
        "-h",
        "--version",
        "--showConfig",
        "--show-config",
        "--question",
        "--just-print",
        "-fn",
    ];
    const PARTS: &[&str] =
        &["exit-zero", "exit-code", "fail-never", "failure.ignore", "ignore-errors", "ignore-outcome"];
    let is_cluster = program == "make" && word.starts_with('-') && !word.starts_with("--");
    WORDS.contains(&word)
        || PARTS.iter().any(|part| word.contains(part))
        || (is_cluster && word.contains(['n', 'i', 'q', 't']))
        || (program == "dotnet" && word == "-t")
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
        let short = shorten(
            "cd x && cargo test --workspace",
            &log("test result: ok. 200 passed; 0 failed"),
            Some(true),
        )
        .unwrap();
        assert_eq!(
            short,
            "`cargo test` passed; 201 lines of its output were left out. Its last line: test result: ok. 200 passed; 0 failed"
        );
        assert!(shorten("RUST_LOG=x cargo test 2>&1", &log("done"), Some(true)).is_some());
    }

    #[test]
    fn without_an_exit_status_the_runner_must_say_that_it_passed() {
        let check = |command: &str, end: &str, passed: bool| {
            assert_eq!(shorten(command, &log(end), None).is_some(), passed, "{command}: {end}");
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
            // These words do not count if something follows them, or if a test has failed before.
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
            assert_eq!(shorten("make test", &log(line), Some(true)).is_none(), trouble, "{line}");
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

    /// Each ends with a success message, but may have failed.
    #[test]
    fn what_is_unclear_is_never_shortened() {
        let check = |command: &str, end: &str, passed: bool| {
            assert_eq!(shorten(command, &log(end), None).is_some(), passed, "{command}: {end}");
        };
        let cargo = "test result: ok. 3 passed; 0 failed";
        for command in [
            "cargo test",
            "cd x && cargo test 2>&1",
            "cd x; cargo test",
            "A=1 cargo +nightly test -p error -- --nocapture",
            "cargo --manifest-path x/Cargo.toml test",
        ] {
            check(command, cargo, true);
        }
        for command in [
            "! cargo test",
            "cargo test &",
            "cd x || cargo test",
            "cd x || cargo test 2>&1",
            "! cargo test 2>&1",
            "cargo test; cd x",
            "cargo test 2>/dev/null",
            "if cargo test; then cd x; fi",
            "(cargo test)",
            "f() { cargo test; }",
            "cargo run -- test",
            "cargo run test",
            "cargo test -- --list",
            "cargo test --no-run",
        ] {
            check(command, cargo, false);
        }
        let jest = "Tests:       20 passed, 20 total\nTime: 1 s";
        let dotnet = "Passed!  - Failed:     0, Passed:    20, Skipped:     0, Total:    20";
        for (command, trouble, end) in [
            ("jest --coverage", "Jest: \"global\" coverage threshold for lines (80%) not met: 12%", jest),
            ("dotnet test My.sln", "B.cs(3,5): error CS1002: ; expected", dotnet),
            ("cargo test", "Process exited with code 101", cargo),
            ("cargo test", "Exit code: 101", cargo),
            ("cargo test", "{\"exit_code\":1}", cargo),
            ("cargo test", "…120 lines truncated…", cargo),
            ("cargo test", "[12000 characters omitted]", cargo),
            ("cargo test", "Failed: 0.5%", cargo),
            ("bazel test //...", "//a:b    NO STATUS", "Executed 1 out of 1 tests: 1 test passes."),
            ("mvn verify", "[ERROR] There are test problems", "[INFO] BUILD SUCCESS"),
            ("gradle test", "There were failing tests. See the report", "BUILD SUCCESSFUL in 3s"),
        ] {
            check(command, end, true);
            check(command, &format!("{trouble}\n{end}"), false);
        }
        check("cargo test", &format!("Process exited with code 0\ntest a::error ... ok\n{cargo}"), true);
        check("cargo nextest run", "Summary [ 1s] 20 tests run: 18 passed (2 slow), 2 skipped", true);
        check(
            "cargo nextest run",
            "Summary [ 1s] 20 tests run: 18 passed (2 slow), 2 timed out, 0 skipped",
            false,
        );
        check("cargo nextest run", "Summary [ 1s] 20 tests run: 18 passed (2 odd), 2 skipped", false);
        check("bazel test //...", "Executed 1 out of 2 tests: 1 fails to build and 1 tests pass.", false);
        check("mvn clean verify", "[INFO] BUILD SUCCESS", true);
        check("mvn -fn verify", "[INFO] BUILD SUCCESS", false);
        check("mvn deploy verify", "[INFO] BUILD SUCCESS", false);
        check("ruff check --exit-zero", "All checks passed!", false);
    }

    #[test]
    fn everything_else_is_left_alone() {
        let passed = log("ok");
        assert_eq!(shorten("cargo test", &log("test c ... FAILED"), None), None);
        assert_eq!(shorten("cargo test", &passed, Some(false)), None);
        assert_eq!(shorten("cargo test", "test result: ok", None), None);
        assert_eq!(shorten("cat log.txt", &passed, None), None);
        assert_eq!(shorten("cargo test; cat secrets.txt", &passed, None), None);
        assert_eq!(shorten("echo cargo test", &passed, None), None);
        assert_eq!(shorten("cargo test $(cat x)", &passed, None), None);
    }
}
