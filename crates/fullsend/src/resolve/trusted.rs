//! The repository's layer as it is at a trusted commit. A pull request must not be judged by the rules that it brings
//! along, so in CI the layer is read from the base, not from the head.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The most that a layer may hold.
const MAX_FILES: usize = 10_000;
const MAX_BYTES: u64 = 64 << 20;

#[derive(Debug)]
pub enum TrustedError {
    Git { doing: &'static str, reference: String, message: String },
    TooMuch { what: &'static str },
    Name { path: String },
    Write { path: PathBuf, source: std::io::Error },
}

impl std::fmt::Display for TrustedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Git { doing, reference, message } => {
                write!(f, "git could not {doing} at `{reference}`: {}", message.trim())
            }
            Self::TooMuch { what } => write!(f, "the directory of that commit has too {what}"),
            Self::Name { path } => write!(f, "the commit has a file with an unusable name: {path:?}"),
            Self::Write { path, source } => write!(f, "cannot write {}: {source}", path.display()),
        }
    }
}

impl std::error::Error for TrustedError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Write { source, .. } => Some(source),
            Self::Git { .. } | Self::TooMuch { .. } | Self::Name { .. } => None,
        }
    }
}

struct Blob {
    id: String,
    is_link: bool,
    is_executable: bool,
    path: String,
}

/// Writes a directory of the repository, as it is at `reference`, below `into`, and says whether there was any.
pub fn checkout(
    repository: &Path,
    reference: &str,
    directory: &str,
    into: &Path,
) -> Result<bool, TrustedError> {
    let blobs = list(repository, reference, directory)?;
    if blobs.len() > MAX_FILES {
        return Err(TrustedError::TooMuch { what: "many files" });
    }
    if let Some(path) = ambiguous(&blobs) {
        return Err(TrustedError::Name { path });
    }
    let mut total = 0;
    for blob in &blobs {
        let bytes = contents(repository, reference, &blob.id)?;
        total += bytes.len() as u64;
        if total > MAX_BYTES {
            return Err(TrustedError::TooMuch { what: "many bytes" });
        }
        write(into, blob, &bytes)?;
    }
    Ok(!blobs.is_empty())
}

/// Whether the repository's files, as they are, have any in a directory.
pub fn is_tracked(repository: &Path, directory: &str) -> Result<bool, TrustedError> {
    let arguments = ["ls-files", "-z", "--", &format!(":(top,literal){directory}")];
    git(repository, "the index", "list the files", &arguments).map(|listing| !listing.is_empty())
}

fn list(repository: &Path, reference: &str, directory: &str) -> Result<Vec<Blob>, TrustedError> {
    let tree = format!("{reference}^{{tree}}");
    let below = format!("{directory}/");
    let arguments = ["ls-tree", "-r", "-z", "--full-tree", "--end-of-options", &tree, &below];
    let listing = git(repository, reference, "list the files", &arguments)?;
    let text = String::from_utf8_lossy(&listing).into_owned();
    let lines = text.split('\0').filter(|line| !line.is_empty());
    lines
        .filter_map(parse_line)
        .map(|blob| match is_safe(&blob.path, &below) {
            true => Ok(blob),
            false => Err(TrustedError::Name { path: blob.path }),
        })
        .collect()
}

/// `mode type id<TAB>path`; submodules are not files.
fn parse_line(line: &str) -> Option<Blob> {
    let (about, path) = line.split_once('\t')?;
    let mut words = about.split(' ');
    let mode = words.next()?;
    let kind = words.next()?;
    let id = words.next()?;
    (kind == "blob").then(|| Blob {
        id: id.to_owned(),
        is_link: mode == "120000",
        is_executable: mode == "100755",
        path: path.to_owned(),
    })
}

fn is_safe(path: &str, below: &str) -> bool {
    path.starts_with(below) && !path.split('/').any(|part| part.is_empty() || part == "." || part == "..")
}

/// A path that occurs twice, or that is a directory of another path: written out, one would redirect the other.
fn ambiguous(blobs: &[Blob]) -> Option<String> {
    let paths: std::collections::BTreeSet<&str> = blobs.iter().map(|blob| blob.path.as_str()).collect();
    let doubled = paths.len() < blobs.len();
    let parents =
        blobs.iter().flat_map(|blob| blob.path.match_indices('/').map(|(index, _)| &blob.path[..index]));
    let through = parents.into_iter().find(|parent| paths.contains(parent)).map(str::to_owned);
    through.or_else(|| doubled.then(|| "a path that occurs twice".to_owned()))
}

fn contents(repository: &Path, reference: &str, id: &str) -> Result<Vec<u8>, TrustedError> {
    git(repository, reference, "read a file", &["cat-file", "blob", id])
}

fn write(into: &Path, blob: &Blob, bytes: &[u8]) -> Result<(), TrustedError> {
    let path = into.join(&blob.path);
    let failed = |source| TrustedError::Write { path: path.clone(), source };
    std::fs::create_dir_all(path.parent().unwrap_or(into)).map_err(failed)?;
    if blob.is_link {
        let target = String::from_utf8_lossy(bytes).into_owned();
        return std::os::unix::fs::symlink(target, &path).map_err(failed);
    }
    let mut file = std::fs::File::create_new(&path).map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    let mode = if blob.is_executable { 0o755 } else { 0o644 };
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode)).map_err(failed)
}

/// Runs git without any configuration that a repository could bring.
fn git(
    repository: &Path,
    reference: &str,
    doing: &'static str,
    arguments: &[&str],
) -> Result<Vec<u8>, TrustedError> {
    let failed = |message: String| TrustedError::Git { doing, reference: reference.to_owned(), message };
    let mut child = Command::new("git")
        .arg("-C")
        .arg(repository)
        .args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let mut out = Vec::new();
    let mut errors = String::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(MAX_BYTES + 1).read_to_end(&mut out).map_err(|error| failed(error.to_string()))?;
    }
    if let Some(stderr) = child.stderr.take() {
        stderr.take(64 << 10).read_to_string(&mut errors).map_err(|error| failed(error.to_string()))?;
    }
    let status = child.wait().map_err(|error| failed(error.to_string()))?;
    if status.success() { Ok(out) } else { Err(failed(errors)) }
}
