//! Git as a tool, and never in a directory that an agent wrote: each call stands in a directory made here, without any
//! configuration but the one in it, and without hooks, filters, monitors or prompts.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::QuarantineError;
use crate::cancel::Cancel;
use crate::scripts::{self, Script};

const TIME: Duration = Duration::from_secs(120);

/// Runs git and says its exit code.
pub(super) fn run(directory: &Path, words: &[&str]) -> Result<i32, QuarantineError> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    start(directory, "git", &words)
}

fn start(directory: &Path, program: &str, words: &[String]) -> Result<i32, QuarantineError> {
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
    scripts::run(&script)
        .map(|ended| ended.code())
        .map_err(|error| QuarantineError::Git { why: error.to_string() })
}

/// The same, where only success will do.
pub(super) fn must(directory: &Path, words: &[&str]) -> Result<(), QuarantineError> {
    match run(directory, words)? {
        0 => Ok(()),
        code => Err(QuarantineError::Git {
            why: format!("git {} ended with {code}", words.first().unwrap_or(&"")),
        }),
    }
}

/// A new repository with nothing in it, not even a template's hooks: what `git init` would write, without starting it.
pub(super) fn init(directory: &Path) -> Result<(), QuarantineError> {
    let git = directory.join(".git");
    let made = ["objects/info", "objects/pack", "refs/heads", "info"]
        .iter()
        .try_for_each(|name| std::fs::create_dir_all(git.join(name)))
        .and_then(|()| std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n"))
        .and_then(|()| {
            std::fs::write(git.join("config"), "[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
        });
    made.map_err(|source| QuarantineError::Write { path: git, source })
}

/// How many files the index of a git directory lists; none where there is no index that can be read.
pub(super) fn tracked(git: &Path) -> u32 {
    let mut head = [0; 12];
    let read = std::fs::File::open(git.join("index")).and_then(|mut file| file.read_exact(&mut head));
    let [b'D', b'I', b'R', b'C', _, _, _, _, a, b, c, d] = head else { return 0 };
    if read.is_ok() { u32::from_be_bytes([a, b, c, d]) } else { 0 }
}

/// Which of these paths the rules in `directory` ignore.
pub(super) fn ignored<'a>(
    directory: &Path,
    paths: impl Iterator<Item = &'a str>,
) -> Result<BTreeSet<String>, QuarantineError> {
    let paths: Vec<u8> = paths.flat_map(|path| path.bytes().chain([0])).collect();
    let (input, output) = (directory.join(".git/paths"), directory.join(".git/answer"));
    let written = |source| QuarantineError::Write { path: input.clone(), source };
    std::fs::write(&input, paths).map_err(written)?;
    // The shell only connects the two files.
    let words = ["-c", "exec git check-ignore -z --stdin <.git/paths >.git/answer"].map(str::to_owned);
    match start(directory, "/bin/sh", &words)? {
        0 | 1 => {}
        code => return Err(QuarantineError::Git { why: format!("git check-ignore ended with {code}") }),
    }
    let answer = std::fs::read(&output)
        .map_err(|source| QuarantineError::Read { path: output.display().to_string(), source })?;
    let texts = answer.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    Ok(texts.map(|path| String::from_utf8_lossy(path).into_owned()).collect())
}

/// `a/` to `b/` as a patch that `git apply` takes.
pub(super) fn difference(directory: &Path, patch: &Path) -> Result<(), QuarantineError> {
    let output = format!("--output={}", patch.display());
    let mut words = vec!["diff", "--no-index", "--binary", "--full-index", "--no-color", "--no-renames"];
    words.extend(["--no-ext-diff", "--no-textconv", "--no-prefix", &output, "a", "b"]);
    match run(directory, &words)? {
        0 | 1 => Ok(()),
        code => Err(QuarantineError::Git { why: format!("git diff ended with {code}") }),
    }
}

/// The git directory of a repository of the host; `None` if it is no repository. A linked worktree says where it is.
pub fn directory(repository: &Path) -> Option<PathBuf> {
    let path = repository.join(".git");
    if path.is_dir() {
        return Some(path);
    }
    let text = std::fs::read_to_string(path).ok()?;
    Some(repository.join(text.strip_prefix("gitdir:")?.trim()))
}

/// What worktrees share: objects, branches, configuration.
pub fn common(git: &Path) -> PathBuf {
    match std::fs::read_to_string(git.join("commondir")) {
        Ok(text) => git.join(text.trim()),
        Err(_) => git.to_owned(),
    }
}
