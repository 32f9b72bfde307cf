//! The repository's layer as it is at a trusted commit. A pull request must not be judged by its own rules, so in CI
//! the layer is read from the base, not from the head.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::commit::{self, CommitError};
use crate::git::{GitError, RepositoryReader};

/// The most that a layer may hold.
const MAX_FILES: usize = 10_000;
const MAX_BYTES: u64 = 64 << 20;

#[derive(Debug)]
pub enum TrustedError {
    Commit(CommitError),
    Git { doing: &'static str, reference: String, message: String },
    TooMuch { what: &'static str },
    Name { path: String },
    Write { path: PathBuf, source: std::io::Error },
}

impl std::fmt::Display for TrustedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Commit(error) => error.fmt(f),
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
            Self::Commit(error) => Some(error),
            Self::Write { source, .. } => Some(source),
            Self::Git { .. } | Self::TooMuch { .. } | Self::Name { .. } => None,
        }
    }
}

/// The id of the commit that a reference names.
pub fn commit(repository: &Path, reference: &str) -> Result<String, TrustedError> {
    let reader = open(repository, reference, "find the commit")?;
    commit::resolve(&reader, reference).map_err(TrustedError::Commit)
}

/// Whether a commit has files in a directory.
pub fn has(repository: &Path, commit: &str, directory: &str) -> Result<bool, TrustedError> {
    let reader = open(repository, commit, "list the files")?;
    list(&reader, commit, directory).map(|blobs| !blobs.is_empty())
}

struct Blob {
    id: String,
    bytes: u64,
    is_link: bool,
    is_executable: bool,
    path: String,
}

/// Writes a directory of the repository, as it is at `reference`, below `into`. Returns whether the commit has it.
pub fn checkout(
    repository: &Path,
    reference: &str,
    directory: &str,
    into: &Path,
) -> Result<bool, TrustedError> {
    let reader = open(repository, reference, "list the files")?;
    let blobs = list(&reader, reference, directory)?;
    if blobs.len() > MAX_FILES {
        return Err(TrustedError::TooMuch { what: "many files" });
    }
    if let Some(path) = ambiguous(&blobs) {
        return Err(TrustedError::Name { path });
    }
    if blobs.iter().map(|blob| blob.bytes).fold(0, u64::saturating_add) > MAX_BYTES {
        return Err(TrustedError::TooMuch { what: "many bytes" });
    }
    let contents = contents(&reader, reference, &blobs)?;
    for (blob, bytes) in blobs.iter().zip(contents) {
        write(into, blob, &bytes)?;
    }
    Ok(!blobs.is_empty())
}

/// Whether the checked-out commit can be one of a pull request: it is not on the default branch of the remote `origin`, or that
/// branch is not known. A branch of a repository without remotes is its owner's.
pub fn may_be_pull_request(repository: &Path) -> Result<bool, TrustedError> {
    let doing = "find the branches of the remote";
    let reader = open(repository, "HEAD", doing)?;
    let lines = |arguments: &[&str]| {
        let listing = git(&reader, "HEAD", doing, arguments, &[])?;
        let text = String::from_utf8_lossy(&listing).into_owned();
        Ok(text.lines().map(str::to_owned).collect::<Vec<String>>())
    };
    let remote = lines(&["for-each-ref", "--format=%(refname)", "refs/remotes/"])?;
    if remote.is_empty() {
        let is_on_branch = lines(&["symbolic-ref", "-q", "HEAD"]).is_ok();
        return Ok(!is_on_branch);
    }
    let default = ["HEAD", "main", "master"].map(|name| format!("refs/remotes/origin/{name}"));
    let Some(default) = default.iter().find(|name| remote.contains(name)) else { return Ok(true) };
    let containing = lines(&["for-each-ref", "--format=%(refname)", "--contains", "HEAD", default]);
    Ok(containing.unwrap_or_default().is_empty())
}

/// Whether the working tree has files in a directory.
pub fn is_tracked(repository: &Path, directory: &str) -> Result<bool, TrustedError> {
    let arguments = ["ls-files", "-z", "--", &format!(":(top,literal){directory}")];
    let reader = open(repository, "the index", "list the files")?;
    git(&reader, "the index", "list the files", &arguments, &[]).map(|listing| !listing.is_empty())
}

fn list(reader: &RepositoryReader, reference: &str, directory: &str) -> Result<Vec<Blob>, TrustedError> {
    let tree = format!("{reference}^{{tree}}");
    let below = format!("{directory}/");
    let arguments = ["ls-tree", "-r", "-z", "-l", "--full-tree", "--end-of-options", &tree, &below];
    let listing = git(reader, reference, "list the files", &arguments, &[])?;
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

/// `mode type id size<TAB>path`; submodules are not files.
fn parse_line(line: &str) -> Option<Blob> {
    let (about, path) = line.split_once('\t')?;
    let mut words = about.split_whitespace();
    let mode = words.next()?;
    let kind = words.next()?;
    let id = words.next()?;
    (kind == "blob").then(|| Blob {
        id: id.to_owned(),
        bytes: words.next().and_then(|size| size.parse().ok()).unwrap_or(u64::MAX),
        is_link: mode == "120000",
        is_executable: mode == "100755",
        path: path.to_owned(),
    })
}

fn is_safe(path: &str, below: &str) -> bool {
    path.starts_with(below) && !path.split('/').any(|part| part.is_empty() || part == "." || part == "..")
}

/// A path that occurs twice, or that is a parent of another path: on disk one would redirect the other.
fn ambiguous(blobs: &[Blob]) -> Option<String> {
    let paths: std::collections::BTreeSet<&str> = blobs.iter().map(|blob| blob.path.as_str()).collect();
    let doubled = paths.len() < blobs.len();
    let parents =
        blobs.iter().flat_map(|blob| blob.path.match_indices('/').map(|(index, _)| &blob.path[..index]));
    let through = parents.into_iter().find(|parent| paths.contains(parent)).map(str::to_owned);
    through.or_else(|| doubled.then(|| "a path that occurs twice".to_owned()))
}

/// The contents of the blobs, in their order: `id type size`, a newline, that many bytes, a newline.
fn contents(
    reader: &RepositoryReader,
    reference: &str,
    blobs: &[Blob],
) -> Result<Vec<Vec<u8>>, TrustedError> {
    let ids: String = blobs.iter().map(|blob| format!("{}\n", blob.id)).collect();
    let output = git(reader, reference, "read the files", &["cat-file", "--batch"], ids.as_bytes())?;
    let mut rest = output.as_slice();
    let mut all = Vec::new();
    for blob in blobs {
        let parsed = parse_object(rest, &blob.id).ok_or_else(|| TrustedError::Git {
            doing: "read the files",
            reference: reference.to_owned(),
            message: format!("the object {} of {} is missing", blob.id, blob.path),
        })?;
        all.push(parsed.0.to_vec());
        rest = parsed.1;
    }
    Ok(all)
}

fn parse_object<'a>(text: &'a [u8], id: &str) -> Option<(&'a [u8], &'a [u8])> {
    let end = text.iter().position(|byte| *byte == b'\n')?;
    let header = std::str::from_utf8(&text[..end]).ok()?;
    let size = header.strip_prefix(id)?.strip_prefix(" blob ")?.parse::<usize>().ok()?;
    let body = &text[end + 1..];
    Some((body.get(..size)?, body.get(size + 1..)?))
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

/// Runs git without the repository's configuration.
fn git(
    reader: &RepositoryReader,
    reference: &str,
    doing: &'static str,
    arguments: &[&str],
    input: &[u8],
) -> Result<Vec<u8>, TrustedError> {
    let failed = |error: GitError| TrustedError::Git {
        doing,
        reference: reference.to_owned(),
        message: match error {
            GitError::Failed { message, .. } if !message.is_empty() => message,
            error => error.to_string(),
        },
    };
    let command = arguments.first().copied().unwrap_or_default();
    reader.run(arguments, input).and_then(|ended| ended.succeeded(command)).map_err(failed)
}

fn open(repository: &Path, reference: &str, doing: &'static str) -> Result<RepositoryReader, TrustedError> {
    let failed = |message: String| TrustedError::Git { doing, reference: reference.to_owned(), message };
    let opened = RepositoryReader::open(repository).map_err(|error| failed(error.to_string()))?;
    opened.ok_or_else(|| failed(format!("not a git repository: {}", repository.display())))
}
