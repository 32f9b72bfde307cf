//! The one function that runs git on the host. An attacker may have written the repository's configuration, so git
//! never reads it: every call gets our own git directory and environment, without hooks, filters, monitors or prompts,
//! and can fetch only from the caller's transport.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use egress::credentials::Secret;

use crate::cancel::Cancel;
use crate::scripts::{self, Script, ScriptError};

const TIME: Duration = Duration::from_secs(120);
/// The time limit of a call with a transport: it may copy a whole repository.
const LONG_TIME: Duration = Duration::from_secs(900);
/// The most that one call without a transport may write, and the most that is read of what any call prints.
const MAX_OUTPUT: u64 = 96 << 20;

/// Why git did not do what was asked.
#[derive(Debug)]
pub enum GitError {
    Start(ScriptError),
    Failed { command: String, code: i32, message: String },
    Read { path: PathBuf, source: std::io::Error },
    Write { path: PathBuf, source: std::io::Error },
}

impl std::fmt::Display for GitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Start(error) => error.fmt(f),
            Self::Failed { command, code, message } if message.is_empty() => {
                write!(f, "git {command} ended with {code}")
            }
            Self::Failed { command, code, message } => {
                write!(f, "git {command} ended with {code}: {message}")
            }
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

/// One call of git.
#[derive(Clone, Copy, Debug)]
pub struct GitCall<'a> {
    /// A git directory that we made: git looks for no other and reads no other configuration.
    pub git_directory: &'a Path,
    /// Where it runs; also its work tree.
    pub directory: &'a Path,
    pub arguments: &'a [&'a str],
    pub input: &'a [u8],
    pub transport: Transport<'a>,
}

/// From where a call may fetch.
#[derive(Clone, Copy, Debug)]
pub enum Transport<'a> {
    /// From nowhere.
    None,
    /// From a repository on this machine that we made.
    File,
    Http(&'a HttpTransport),
}

/// One server that git may ask. It follows no redirect.
#[derive(Clone, Debug)]
pub struct HttpTransport {
    /// The scheme, host and port.
    pub origin: String,
    /// The value of the `Authorization` header.
    pub authorization: Option<Secret>,
    /// The host's variables for proxies and certificates.
    pub variables: BTreeMap<String, String>,
}

/// What a call printed, and its exit code.
#[derive(Debug)]
pub struct GitOutput {
    pub code: i32,
    pub output: Vec<u8>,
    message: String,
}

impl GitOutput {
    /// The output of a call that ended with 0.
    pub fn succeeded(self, command: &str) -> Result<Vec<u8>, GitError> {
        match self.code {
            0 => Ok(self.output),
            _ => Err(self.failed(command)),
        }
    }

    pub fn failed(self, command: &str) -> GitError {
        let message = self.message.trim().to_owned();
        GitError::Failed { command: command.to_owned(), code: self.code, message }
    }
}

/// Settings that override every file: git runs no other program and fetches nothing.
const SETTINGS: &[&str] = &[
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.sshCommand=false",
    "core.gitProxy=false",
    "core.askPass=false",
    "core.editor=false",
    "core.pager=cat",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "credential.helper=",
    "protocol.allow=never",
    "fetch.recurseSubmodules=false",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
];

fn environment(call: &GitCall<'_>) -> BTreeMap<String, String> {
    let fixed = [
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("HOME", "/nonexistent"),
        ("XDG_CONFIG_HOME", "/nonexistent"),
        ("LC_ALL", "C"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_SYSTEM", "/dev/null"),
        ("GIT_ATTR_NOSYSTEM", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("GIT_NO_REPLACE_OBJECTS", "1"),
        // A missing object is an error: fetching it would run a program that the remote's configuration names.
        ("GIT_NO_LAZY_FETCH", "1"),
        // The same for git versions without the variable above: no protocol is allowed.
        ("GIT_ALLOW_PROTOCOL", ""),
        ("GIT_PROTOCOL_FROM_USER", "0"),
    ];
    let mut all: BTreeMap<String, String> =
        fixed.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let mut set = |name: &str, path: &Path| all.insert(name.to_owned(), path.display().to_string());
    set("GIT_DIR", call.git_directory);
    set("GIT_WORK_TREE", call.directory);
    match call.transport {
        Transport::None => {}
        Transport::File => drop(all.insert("GIT_ALLOW_PROTOCOL".to_owned(), "file".to_owned())),
        Transport::Http(transport) => transport.add_to(&mut all),
    }
    all
}

impl HttpTransport {
    fn add_to(&self, environment: &mut BTreeMap<String, String>) {
        let scheme = self.origin.split(':').next().unwrap_or_default();
        environment.extend(self.variables.clone());
        environment.insert("GIT_ALLOW_PROTOCOL".to_owned(), scheme.to_owned());
        // A stalled server ends the call. These settings are in the environment, because other users can read
        // arguments.
        let mut settings = vec![
            ("http.followRedirects".to_owned(), "false".to_owned()),
            ("http.lowSpeedLimit".to_owned(), "1000".to_owned()),
            ("http.lowSpeedTime".to_owned(), "60".to_owned()),
        ];
        if let Some(authorization) = &self.authorization {
            let header = format!("Authorization: {}", authorization.reveal());
            settings.push((format!("http.{}/.extraHeader", self.origin), header));
        }
        environment.insert("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string());
        for (index, (key, value)) in settings.into_iter().enumerate() {
            environment.insert(format!("GIT_CONFIG_KEY_{index}"), key);
            environment.insert(format!("GIT_CONFIG_VALUE_{index}"), value);
        }
    }
}

/// Runs git.
pub fn run(call: &GitCall<'_>) -> Result<GitOutput, GitError> {
    let scratch = tempfile::tempdir()
        .map_err(|source| GitError::Write { path: "a temporary directory".into(), source })?;
    let input = scratch.path().join("input");
    let output = scratch.path().join("output");
    std::fs::write(&input, call.input).map_err(|source| GitError::Write { path: input.clone(), source })?;
    let mut environment = environment(call);
    environment.insert("FULLSEND_INPUT".to_owned(), input.display().to_string());
    environment.insert("FULLSEND_OUTPUT".to_owned(), output.display().to_string());
    // The shell connects the two files and bounds what is written, in blocks of 512 bytes. A pack may be larger.
    let is_local = matches!(call.transport, Transport::None);
    let bound = if is_local { format!("ulimit -f {}; ", MAX_OUTPUT / 512) } else { String::new() };
    let connect = format!("{bound}exec git \"$@\" <\"$FULLSEND_INPUT\" >\"$FULLSEND_OUTPUT\"");
    let mut arguments = vec!["-c".to_owned(), connect, "git".to_owned()];
    // A transport's variable says which protocols are allowed; this setting would forbid them again.
    for setting in SETTINGS.iter().filter(|setting| is_local || **setting != "protocol.allow=never") {
        arguments.extend(["-c".to_owned(), (*setting).to_owned()]);
    }
    arguments.extend(call.arguments.iter().map(|word| (*word).to_owned()));
    let ended = scripts::run(&Script {
        program: Path::new("/bin/sh"),
        arguments: &arguments,
        working_directory: call.directory,
        environment,
        time: if is_local { TIME } else { LONG_TIME },
        cancel: &Cancel::default(),
    })
    .map_err(GitError::Start)?;
    let mut bytes = Vec::new();
    let read = std::fs::File::open(&output).and_then(|file| file.take(MAX_OUTPUT).read_to_end(&mut bytes));
    read.map_err(|source| GitError::Read { path: output, source })?;
    Ok(GitOutput { code: ended.code(), output: bytes, message: ended.output })
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

/// Runs git in a repository that we made.
pub fn in_own(directory: &Path, arguments: &[&str], input: &[u8]) -> Result<GitOutput, GitError> {
    in_own_over(Transport::None, directory, arguments, input)
}

/// The same; git may use the transport.
pub fn in_own_over(
    transport: Transport<'_>,
    directory: &Path,
    arguments: &[&str],
    input: &[u8],
) -> Result<GitOutput, GitError> {
    run(&GitCall { git_directory: &directory.join(".git"), directory, arguments, input, transport })
}

/// Returns those of `paths` that the ignore rules in `directory` match.
pub fn ignored<'a>(
    directory: &Path,
    paths: impl Iterator<Item = &'a str>,
) -> Result<BTreeSet<String>, GitError> {
    let paths: Vec<u8> = paths.flat_map(|path| path.bytes().chain([0])).collect();
    let answer = in_own(directory, &["check-ignore", "-z", "--stdin"], &paths)?;
    // 1: none is ignored.
    if !matches!(answer.code, 0 | 1) {
        return Err(answer.failed("check-ignore"));
    }
    let texts = answer.output.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    Ok(texts.map(|path| String::from_utf8_lossy(path).into_owned()).collect())
}

/// Writes the difference between `a/` and `b/` as a patch for `git apply`.
pub fn difference(directory: &Path, patch: &Path) -> Result<(), GitError> {
    let own = tempfile::tempdir_in(directory)
        .map_err(|source| GitError::Write { path: directory.to_owned(), source })?;
    init(own.path())?;
    let output = format!("--output={}", patch.display());
    let mut arguments = vec!["diff", "--no-index", "--binary", "--full-index", "--no-color", "--no-renames"];
    arguments.extend(["--no-ext-diff", "--no-textconv", "--no-prefix", &output, "a", "b"]);
    let git_directory = &own.path().join(".git");
    let ended = run(&GitCall {
        git_directory,
        directory,
        arguments: &arguments,
        input: &[],
        transport: Transport::None,
    })?;
    // 1: they differ.
    if matches!(ended.code, 0 | 1) { Ok(()) } else { Err(ended.failed("diff")) }
}
