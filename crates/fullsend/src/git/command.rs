//! Starts the git program, and never in a directory that an agent wrote: each call runs in a directory that we made,
//! with no configuration but the one in it, and without hooks, filters, monitors or prompts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cancel::Cancel;
use crate::scripts::{self, Script, ScriptError};

const TIME: Duration = Duration::from_secs(120);

/// Why git did not do what was asked.
#[derive(Debug)]
pub enum GitError {
    Start(ScriptError),
    Failed { command: String, code: i32 },
    Read { path: PathBuf, source: std::io::Error },
    Write { path: PathBuf, source: std::io::Error },
}

impl GitError {
    fn failed(command: &str, code: i32) -> Self {
        Self::Failed { command: command.to_owned(), code }
    }
}

impl std::fmt::Display for GitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Start(error) => error.fmt(f),
            Self::Failed { command, code } => write!(f, "git {command} ended with {code}"),
            Self::Read { path, source } => write!(f, "cannot read {}: {source}", path.display()),
            Self::Write { path, source } => write!(f, "cannot write {}: {source}", path.display()),
        }
    }
}

impl std::error::Error for GitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Start(error) => Some(error),
            Self::Failed { .. } => None,
            Self::Read { source, .. } | Self::Write { source, .. } => Some(source),
        }
    }
}

/// Runs git and returns its exit code.
pub fn run(directory: &Path, words: &[&str]) -> Result<i32, GitError> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    start(directory, "git", &words)
}

fn start(directory: &Path, program: &str, words: &[String]) -> Result<i32, GitError> {
    let variables = [
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("HOME", "/nonexistent"),
        ("LC_ALL", "C"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_ATTR_NOSYSTEM", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("GIT_CEILING_DIRECTORIES", "/"),
    ];
    let environment: BTreeMap<String, String> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let script = Script {
        program: Path::new(program),
        arguments: words,
        working_directory: directory,
        environment,
        time: TIME,
        cancel: &Cancel::default(),
    };
    scripts::run(&script).map(|ended| ended.code()).map_err(GitError::Start)
}

/// Runs git; any exit code but 0 is an error.
pub fn must(directory: &Path, words: &[&str]) -> Result<(), GitError> {
    match run(directory, words)? {
        0 => Ok(()),
        code => Err(GitError::failed(words.first().unwrap_or(&""), code)),
    }
}

/// Makes an empty repository without running `git init`, which would copy a template's hooks.
pub fn init(directory: &Path) -> Result<(), GitError> {
    let git = directory.join(".git");
    let made = ["objects/info", "objects/pack", "refs/heads", "info"]
        .iter()
        .try_for_each(|name| std::fs::create_dir_all(git.join(name)))
        .and_then(|()| std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n"))
        .and_then(|()| {
            std::fs::write(git.join("config"), "[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
        });
    made.map_err(|source| GitError::Write { path: git, source })
}

/// Returns those of `paths` that the ignore rules in `directory` match.
pub fn ignored<'a>(
    directory: &Path,
    paths: impl Iterator<Item = &'a str>,
) -> Result<BTreeSet<String>, GitError> {
    let paths: Vec<u8> = paths.flat_map(|path| path.bytes().chain([0])).collect();
    let input = directory.join(".git/paths");
    let output = directory.join(".git/answer");
    let written = |source| GitError::Write { path: input.clone(), source };
    std::fs::write(&input, paths).map_err(written)?;
    // The shell only connects the two files.
    let words = ["-c", "exec git check-ignore -z --stdin <.git/paths >.git/answer"].map(str::to_owned);
    match start(directory, "/bin/sh", &words)? {
        0 | 1 => {}
        code => return Err(GitError::failed("check-ignore", code)),
    }
    let answer = std::fs::read(&output).map_err(|source| GitError::Read { path: output.clone(), source })?;
    let texts = answer.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    Ok(texts.map(|path| String::from_utf8_lossy(path).into_owned()).collect())
}

/// Writes the difference between `a/` and `b/` as a patch for `git apply`.
pub fn difference(directory: &Path, patch: &Path) -> Result<(), GitError> {
    let output = format!("--output={}", patch.display());
    let mut words = vec!["diff", "--no-index", "--binary", "--full-index", "--no-color", "--no-renames"];
    words.extend(["--no-ext-diff", "--no-textconv", "--no-prefix", &output, "a", "b"]);
    match run(directory, &words)? {
        0 | 1 => Ok(()),
        code => Err(GitError::failed("diff", code)),
    }
}
