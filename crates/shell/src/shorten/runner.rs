//! The known checks, and the success message of each. Some checks have no success message, or one that covers only a part:
//! for these the exit status must be known.

use crate::steps;

/// A check: the program, and the words of which one must follow it.
#[derive(Clone, Copy)]
pub(super) struct Runner {
    pub(super) program: &'static str,
    pub(super) verbs: &'static [&'static str],
    success: fn(&str) -> bool,
    /// How the lines begin that may come after that one.
    closing: &'static [&'static str],
}

const fn runner(program: &'static str, verbs: &'static [&'static str], success: fn(&str) -> bool) -> Runner {
    Runner { program, verbs, success, closing: &[] }
}

const fn closing(runner: Runner, closing: &'static [&'static str]) -> Runner {
    Runner { closing, ..runner }
}

const fn runner_without_summary(program: &'static str, verbs: &'static [&'static str]) -> Runner {
    runner(program, verbs, |_| false)
}

pub(super) const RUNNERS: &[Runner] = &[
    closing(
        runner("cargo", &["test"], |line| line.starts_with("test result: ok. ")),
        &["all doctests ran in "],
    ),
    runner("cargo", &["nextest"], |line| {
        let counted = line.strip_prefix("Summary [").and_then(|rest| rest.split_once(" tests run: "));
        counted.is_some_and(|(_, counts)| all_well(counts))
    }),
    runner("cargo", &["clippy", "check", "build"], |line| line.starts_with("Finished `")),
    runner_without_summary("cargo", &["fmt"]),
    // One line for each package, so the last line does not cover all.
    runner_without_summary("go", &["test", "vet", "build"]),
    runner_without_summary("npm", &["test", "run", "ci"]),
    runner_without_summary("pnpm", &["test", "run"]),
    runner_without_summary("yarn", &["test", "run"]),
    runner_without_summary("make", &["test", "check", "lint", "build"]),
    runner_without_summary("just", &["test", "check", "lint"]),
    runner("pytest", &[], |line| {
        let counted = line.trim_matches(['=', ' ']).rsplit_once(" in ");
        counted.is_some_and(|(counts, _)| all_well(counts))
    }),
    runner("tox", &[], |line| line.starts_with("congratulations :)")),
    closing(
        runner("jest", &[], |line| line.strip_prefix("Tests: ").is_some_and(all_well)),
        &["Snapshots: ", "Time: ", "Ran all test suites"],
    ),
    closing(
        runner("vitest", &[], |line| line.strip_prefix("Tests ").is_some_and(all_well)),
        &["Start at ", "Duration "],
    ),
    runner("mypy", &[], |line| line.starts_with("Success: no issues found")),
    runner_without_summary("tsc", &[]),
    runner_without_summary("eslint", &[]),
    runner("ruff", &["check"], |line| line == "All checks passed!"),
    runner_without_summary("ruff", &["format"]),
    runner("golangci-lint", &["run"], |line| line == "0 issues."),
    // One line for each hook.
    runner_without_summary("pre-commit", &["run"]),
    runner("gitleaks", &[], |line| line.ends_with(" no leaks found")),
    runner_without_summary("gitlint", &[]),
    runner_without_summary("scan-secrets", &[]),
    closing(
        runner("mvn", &["test", "verify", "package"], |line| line == "[INFO] BUILD SUCCESS"),
        &["[INFO] ---", "[INFO] Total time: ", "[INFO] Finished at: "],
    ),
    gradle("gradle"),
    gradle("gradlew"),
    runner("dotnet", &["test"], |line| line.starts_with("Passed! - Failed: 0, Passed: ")),
    closing(
        runner("dotnet", &["build"], |line| line == "Build succeeded."),
        &["0 Warning(s)", "0 Error(s)", "Time Elapsed "],
    ),
    runner("bazel", &["test"], |line| {
        let counted = line.strip_prefix("Executed ").and_then(|rest| rest.split_once(": "));
        let all = counted.and_then(|(_, verdict)| verdict.split_once(' '));
        all.is_some_and(|(number, verdict)| {
            number.parse::<u64>().is_ok() && matches!(verdict, "tests pass." | "test passes.")
        })
    }),
    runner("bazel", &["build"], |line| line.starts_with("INFO: Build completed successfully")),
];

const fn gradle(program: &'static str) -> Runner {
    let built = runner(program, &["test", "check", "build"], |line| line.starts_with("BUILD SUCCESSFUL in "));
    // `12 actionable tasks: 12 executed`
    closing(built, &["1", "2", "3", "4", "5", "6", "7", "8", "9"])
}

impl Runner {
    /// Whether the last words of an output are those of a check that passed.
    pub(super) fn says_passed(&self, output: &str) -> bool {
        let lines = output.lines().rev().map(collapse_blanks).filter(|line| !line.is_empty());
        let mut lines = lines
            .skip_while(|line| !(self.success)(line) && self.closing.iter().any(|end| line.starts_with(end)));
        lines.next().is_some_and(|line| (self.success)(&line))
    }
}

/// One blank between words, so that columns do not matter.
pub(super) fn collapse_blanks(line: &str) -> String {
    steps::count(line.len());
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `18 passed, 2 skipped, 20 total`, `18 passed | 2 skipped (20)`: some passed, and the others were only skipped.
fn all_well(counts: &str) -> bool {
    let Some(counts) = without_asides(counts) else { return false };
    let mut has_passed = false;
    let harmless = counts.split([',', '|']).all(|part| {
        let Some((number, kind)) = part.trim().split_once(' ') else { return false };
        has_passed |= kind == "passed" && number != "0";
        number.parse::<u64>().is_ok()
            && matches!(kind, "passed" | "skipped" | "deselected" | "xfailed" | "todo" | "total")
    });
    has_passed && harmless
}

/// The counts without `(20)` and `(2 slow)`; any other text in parentheses may mean anything.
fn without_asides(counts: &str) -> Option<String> {
    let mut parts = counts.split(" (");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (aside, rest) = part.split_once(')')?;
        let number = aside.strip_suffix(" slow").unwrap_or(aside);
        number.parse::<u64>().ok()?;
        plain.push_str(rest);
    }
    Some(plain)
}
