//! Checkouts of the repositories that sessions belong to, for a worker without a repository of its own. Each repository
//! has a mirror in the cache, so that only changes are fetched. Each commit has one shared checkout, which is never
//! written: runs get a copy-on-write view.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use sha2::{Digest, Sha256};

use super::GitError;
use super::command::{self, HttpTransport, Transport};
use super::head::is_commit;
use crate::directory_cache::{self, DirectoryCache, Exclusive};

/// How long a repository counts as up to date, so that the check before a claim and the wake after it see one commit.
const UP_TO_DATE_FOR: Duration = Duration::from_secs(30);
/// How many checkouts of one repository stay. Those in use count, and stay even above this number.
const MAX_CHECKOUTS: usize = 3;
/// How long an unused repository stays in the cache; longer than any wake.
const MAX_UNUSED_TIME: Duration = Duration::from_secs(30 * 24 * 3_600);
/// The server's name for the default branch.
const HEAD: &str = "HEAD";
/// The directories of a repository: the mirror, and the checkouts by their commits.
const MIRROR: &str = "mirror";
const CHECKOUTS: &str = "checkouts";

/// Where repositories may be fetched from: a server and the start of a path on it.
#[derive(Clone, Debug)]
pub struct CheckoutRoot {
    pub transport: HttpTransport,
    /// `host/path/`, the start of the names of its repositories.
    pub prefix: String,
}

impl CheckoutRoot {
    /// Reads `https://HOST[:PORT][/PATH]`. Plain HTTP is only accepted for this machine.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or("write it as https://HOST/PATH")?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let host = authority.split(':').next().unwrap_or_default();
        let is_here = matches!(host, "localhost" | "127.0.0.1");
        match scheme {
            "https" => {}
            "http" if is_here => {}
            "http" => return Err("plain HTTP is only accepted for localhost: use https".to_owned()),
            _ => return Err(format!("`{scheme}` is not supported: use https")),
        }
        let port = authority.strip_prefix(host).unwrap_or_default();
        let is_port = |text: &str| text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
        if authority.contains('@') {
            return Err(
                "leave the user and the password out: --checkout-token names the variable with the token"
                    .to_owned(),
            );
        }
        if !is_safe_segment(host) || !(port.is_empty() || is_port(port)) {
            return Err(format!("`{authority}` is not a host"));
        }
        let path = path.trim_end_matches('/');
        if !path.is_empty() && !path.split('/').all(is_safe_segment) {
            return Err(format!("`{path}` is not the start of a repository's path"));
        }
        let host = host.to_ascii_lowercase();
        let prefix = if path.is_empty() { format!("{host}/") } else { format!("{host}/{path}/") };
        let origin = format!("{scheme}://{host}{port}");
        let transport = HttpTransport { origin, authorization: None, variables: Default::default() };
        Ok(Self { transport, prefix })
    }

    pub fn host(&self) -> &str {
        self.prefix.split('/').next().unwrap_or_default()
    }

    /// The address of a repository and the directory in it, if the repository belongs to this root.
    fn locate(&self, repository: &str) -> Option<Location> {
        let (name, subdirectory) = repository.split_once("//").unwrap_or((repository, ""));
        let path = name.strip_prefix(self.host())?.strip_prefix('/')?;
        let are_names = path.split('/').all(is_safe_segment)
            && (subdirectory.is_empty() || subdirectory.split('/').all(is_safe_segment));
        if !name.starts_with(&self.prefix) || !are_names {
            return None;
        }
        Some(Location {
            url: format!("{}/{path}.git", self.transport.origin),
            subdirectory: subdirectory.into(),
        })
    }
}

/// Whether a path segment is plain: not `..`, not `.git`, not an option, no URL syntax.
fn is_safe_segment(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-+~".contains(c);
    !text.is_empty()
        && text != "."
        && text != ".."
        && !text.starts_with('-')
        && !text.eq_ignore_ascii_case(".git")
        && text.chars().all(is_plain)
}

struct Location {
    url: String,
    subdirectory: PathBuf,
}

/// Why there is no checkout.
#[derive(Debug)]
pub enum CheckoutError {
    /// No root has a repository of this name.
    NotServed {
        repository: String,
    },
    Git {
        url: String,
        source: GitError,
    },
    /// The server's answer is not a commit.
    NoCommit {
        url: String,
    },
    /// The repository has no such branch, tag or reference.
    NoReference {
        url: String,
        reference: String,
    },
    /// A branch and a tag have this name.
    Ambiguous {
        url: String,
        reference: String,
    },
    /// The commit has no such directory, or a symbolic link is in its path.
    NoDirectory {
        url: String,
        subdirectory: PathBuf,
    },
    Cache {
        path: PathBuf,
        source: io::Error,
    },
}

impl fmt::Display for CheckoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotServed { repository } => {
                write!(f, "repository {repository} does not match any --checkout address")
            }
            Self::Git { url, source } => write!(f, "cannot check out {url}: {source}"),
            Self::NoCommit { url } => {
                write!(f, "cannot check out {url}: the server's answer for HEAD is not a commit")
            }
            Self::NoDirectory { url, subdirectory } => {
                write!(
                    f,
                    "{url} has no directory {} at this commit, or a symbolic link is in its path",
                    subdirectory.display()
                )
            }
            Self::NoReference { url, reference } => {
                write!(f, "{url} has no branch or tag `{reference}`")
            }
            Self::Ambiguous { url, reference } => write!(
                f,
                "{url} has a branch and a tag `{reference}`: create the session with --ref refs/heads/{reference} or \
                 refs/tags/{reference}"
            ),
            Self::Cache { path, source } => write!(f, "cannot use {}: {source}", path.display()),
        }
    }
}

impl CheckoutError {
    /// Whether a retry may succeed without a change of the configuration.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Git { .. })
    }
}

impl std::error::Error for CheckoutError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Git { source, .. } => Some(source),
            Self::Cache { source, .. } => Some(source),
            Self::NotServed { .. }
            | Self::NoCommit { .. }
            | Self::NoReference { .. }
            | Self::Ambiguous { .. }
            | Self::NoDirectory { .. } => None,
        }
    }
}

/// A checkout. It is not removed while this value exists.
#[derive(Debug)]
pub struct Checkout {
    /// The session's directory in it.
    pub directory: PathBuf,
    /// Locked, so that no worker removes the checkout.
    _lock: File,
}

/// All checkouts of a worker.
#[derive(Debug)]
pub struct Checkouts {
    roots: Vec<CheckoutRoot>,
    cache: PathBuf,
    /// The newest commit of each URL and reference, and since when it counts as up to date.
    recent_commits: Mutex<HashMap<(String, String), (String, Instant)>>,
}

impl Checkouts {
    pub fn new(roots: Vec<CheckoutRoot>, cache: PathBuf) -> Self {
        Self { roots, cache, recent_commits: Mutex::default() }
    }

    /// The starts of the names of all repositories that can be fetched.
    pub fn prefixes(&self) -> Vec<String> {
        self.roots.iter().map(|root| root.prefix.clone()).collect()
    }

    /// The repository at a commit, or at the newest commit of a branch, a tag or a full reference. Without one: of the default
    /// branch.
    pub fn open(&self, repository: &str, reference: Option<&str>) -> Result<Checkout, CheckoutError> {
        let reference = reference.unwrap_or(HEAD);
        let found = self.roots.iter().find_map(|root| Some((root, root.locate(repository)?)));
        let not_served = || CheckoutError::NotServed { repository: repository.to_owned() };
        let (root, Location { url, subdirectory }) = found.ok_or_else(not_served)?;
        let repository_cache = self.cache.join(directory_name(&url));
        let cache_error = |source| CheckoutError::Cache { path: repository_cache.clone(), source };
        let checkouts = DirectoryCache::open(&repository_cache.join(CHECKOUTS)).map_err(cache_error)?;
        let exclusive = checkouts.exclusive().map_err(cache_error)?;
        let commit = self.newest(root, &url, reference, &repository_cache)?;
        let mut checkout = checkouts.get(&commit).map_err(cache_error)?;
        if checkout.is_none() {
            fetch(root, &url, &repository_cache, &commit)?;
            create_checkout(&url, &repository_cache, &exclusive, &commit)?;
            checkout = checkouts.get(&commit).map_err(cache_error)?;
            remove_unused(&repository_cache, &exclusive);
            remove_unused_repositories(&self.cache);
            // Fetching may take longer than UP_TO_DATE_FOR. Count from now, so that the wake does not ask the server again.
            self.remember(&url, reference, &commit);
        }
        let (directory, lock) = checkout.ok_or_else(|| cache_error(io::ErrorKind::NotFound.into()))?;
        let inside = directory.join(&subdirectory);
        if !inside.is_dir() || inside.canonicalize().map_err(cache_error)? != inside {
            return Err(CheckoutError::NoDirectory { url, subdirectory });
        }
        Ok(Checkout { directory: inside, _lock: lock })
    }

    fn newest(
        &self,
        root: &CheckoutRoot,
        url: &str,
        reference: &str,
        repository_cache: &Path,
    ) -> Result<String, CheckoutError> {
        let key = (url.to_owned(), reference.to_owned());
        let known = self.recent_commits.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some((commit, at)) = known
            && at.elapsed() < UP_TO_DATE_FOR
        {
            return Ok(commit);
        }
        let failed = |source| CheckoutError::Git { url: url.to_owned(), source };
        let mirror = repository_cache.join(MIRROR);
        if !mirror.join(".git").is_dir() {
            command::init(&mirror).map_err(failed)?;
        }
        if is_commit(reference) {
            return Ok(reference.to_owned());
        }
        let names = full_names(reference);
        let mut arguments = vec!["ls-remote", "--end-of-options", url];
        arguments.extend(names.iter().map(String::as_str));
        let listed = command::in_own_over(Transport::Http(&root.transport), &mirror, &arguments, &[]);
        let listed = listed.and_then(|output| output.succeeded("ls-remote")).map_err(failed)?;
        let commit = commit_of(&String::from_utf8_lossy(&listed), &names, url, reference)?;
        self.remember(url, reference, &commit);
        Ok(commit)
    }

    fn remember(&self, url: &str, reference: &str, commit: &str) {
        let now = (commit.to_owned(), Instant::now());
        let key = (url.to_owned(), reference.to_owned());
        self.recent_commits.lock().unwrap_or_else(PoisonError::into_inner).insert(key, now);
    }
}

/// The refs that a name may mean on a server. The last one is the commit of an annotated tag.
fn full_names(reference: &str) -> Vec<String> {
    if reference == HEAD {
        return vec![HEAD.to_owned()];
    }
    if reference.starts_with("refs/") {
        return vec![reference.to_owned(), format!("{reference}^{{}}")];
    }
    let tag = format!("refs/tags/{reference}");
    vec![format!("refs/heads/{reference}"), tag.clone(), format!("{tag}^{{}}")]
}

/// The commit in the answer of `ls-remote`. It also lists names that only end in one that was asked for.
fn commit_of(listed: &str, names: &[String], url: &str, reference: &str) -> Result<String, CheckoutError> {
    let find = |name: &String| {
        let mut pairs = listed.lines().filter_map(|line| line.split_once('\t'));
        pairs.find(|(_, listed)| listed == name).map(|(commit, _)| commit.to_owned())
    };
    let found: Vec<String> = names.iter().filter_map(find).collect();
    let has_branch_and_tag = names.len() == 3 && find(&names[0]).is_some() && find(&names[1]).is_some();
    if has_branch_and_tag {
        return Err(CheckoutError::Ambiguous { url: url.to_owned(), reference: reference.to_owned() });
    }
    // The commit of an annotated tag comes after the tag itself.
    match found.into_iter().next_back() {
        Some(commit) if is_commit(&commit) => Ok(commit),
        None if reference != HEAD => {
            Err(CheckoutError::NoReference { url: url.to_owned(), reference: reference.to_owned() })
        }
        Some(_) | None => Err(CheckoutError::NoCommit { url: url.to_owned() }),
    }
}

/// Fetches the commit into the mirror, without its history.
fn fetch(root: &CheckoutRoot, url: &str, repository_cache: &Path, commit: &str) -> Result<(), CheckoutError> {
    let reference = format!("+{commit}:refs/fullsend/{commit}");
    let words = ["fetch", "--quiet", "--no-tags", "--depth=1", "--end-of-options", url, &reference];
    let fetched =
        command::in_own_over(Transport::Http(&root.transport), &repository_cache.join(MIRROR), &words, &[]);
    fetched
        .and_then(|output| output.succeeded("fetch"))
        .map(drop)
        .map_err(|source| CheckoutError::Git { url: url.to_owned(), source })
}

/// Creates the checkout from the mirror.
fn create_checkout(
    url: &str,
    repository_cache: &Path,
    exclusive: &Exclusive<'_>,
    commit: &str,
) -> Result<(), CheckoutError> {
    let failed = |source| CheckoutError::Git { url: url.to_owned(), source };
    let cache_error = |source| CheckoutError::Cache { path: repository_cache.to_owned(), source };
    let unfinished = exclusive.start().map_err(cache_error)?;
    command::init(&unfinished).map_err(failed)?;
    let mirror = format!("file://{}", repository_cache.join(MIRROR).join(".git").display());
    let reference = format!("refs/fullsend/{commit}");
    let words = ["fetch", "--quiet", "--no-tags", "--depth=1", "--end-of-options", &mirror, &reference];
    let fetched = command::in_own_over(Transport::File, &unfinished, &words, &[]);
    fetched.and_then(|output| output.succeeded("fetch")).map_err(failed)?;
    let words = ["checkout", "--quiet", "--detach", commit];
    let checked_out = command::in_own_over(Transport::File, &unfinished, &words, &[]);
    checked_out.and_then(|output| output.succeeded("checkout")).map_err(failed)?;
    let config = unfinished.join(".git/config");
    let mut settings = std::fs::read_to_string(&config).map_err(cache_error)?;
    settings.push_str(&format!("[remote \"origin\"]\n\turl = {url}\n"));
    std::fs::write(&config, settings).map_err(cache_error)?;
    exclusive.finish(commit).map_err(cache_error)
}

/// Removes the least recently used checkouts that no worker uses, and their commits from the mirror. A checkout that cannot be
/// removed is tried again next time; a commit in the mirror is not.
fn remove_unused(repository_cache: &Path, exclusive: &Exclusive<'_>) {
    let removed = exclusive.prune(MAX_CHECKOUTS).unwrap_or_default();
    let git = |words: &[&str]| {
        drop(command::in_own_over(Transport::File, &repository_cache.join(MIRROR), words, &[]));
    };
    for commit in &removed {
        git(&["update-ref", "-d", &format!("refs/fullsend/{commit}")]);
    }
    if !removed.is_empty() {
        git(&["gc", "--quiet", "--prune=now"]);
    }
}

/// Removes the repositories that were not used for a long time.
fn remove_unused_repositories(cache: &Path) {
    for entry in std::fs::read_dir(cache).into_iter().flatten().flatten() {
        let path = entry.path();
        let lock_file = path.join(CHECKOUTS).join(directory_cache::LOCK);
        let Ok(file) = File::open(lock_file) else { continue };
        let age = file.metadata().and_then(|about| about.modified()).ok().and_then(|at| at.elapsed().ok());
        let is_old = age.is_some_and(|age| age > MAX_UNUSED_TIME);
        if is_old && rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            drop(std::fs::remove_dir_all(&path));
        }
    }
}

/// The name of the directory in the cache for this URL.
fn directory_name(url: &str) -> String {
    Sha256::digest(url).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_an_address_without_a_password() {
        let prefix = |text: &str| CheckoutRoot::parse(text).map(|root| root.prefix);
        assert_eq!(prefix("https://GitHub.com"), Ok("github.com/".to_owned()));
        assert_eq!(prefix("https://git.example.com:8443/acme/"), Ok("git.example.com/acme/".to_owned()));
        assert_eq!(prefix("http://localhost:3000/acme"), Ok("localhost/acme/".to_owned()));
        for (text, why) in [
            ("github.com/acme", "write it as https://HOST/PATH"),
            ("http://git.example.com/acme", "plain HTTP is only accepted for localhost"),
            ("ssh://git@github.com/acme", "`ssh` is not supported"),
            ("https://user:word@github.com/acme", "leave the user and the password out"),
            ("https://github.com/../acme", "not the start of a repository's path"),
            ("https://github.com/acme?x=1", "not the start of a repository's path"),
            ("https://-host/acme", "is not a host"),
            ("https://github.com:port/acme", "is not a host"),
            ("https:///acme", "is not a host"),
        ] {
            let error = prefix(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_name_is_a_branch_or_a_tag_and_never_both() {
        let one = "1".repeat(40);
        let two = "2".repeat(40);
        let commit = |reference: &str, listed: &str| {
            commit_of(listed, &full_names(reference), "url", reference).map_err(|error| error.to_string())
        };
        assert_eq!(commit("HEAD", &format!("{one}\tHEAD\n")), Ok(one.clone()));
        let branch = format!("{two}\trefs/heads/x/v1\n{one}\trefs/heads/v1\n");
        assert_eq!(commit("v1", &branch), Ok(one.clone()), "x/v1 only ends in the name");
        let tag = format!("{one}\trefs/tags/v1\n{two}\trefs/tags/v1^{{}}\n");
        assert_eq!(commit("v1", &tag), Ok(two.clone()), "the commit of an annotated tag");
        assert!(commit("v1", &format!("{branch}{tag}")).unwrap_err().contains("a branch and a tag `v1`"));
        assert_eq!(commit("refs/heads/v1", &branch), Ok(one), "a full name is not ambiguous");
        assert_eq!(commit("v2", &branch).unwrap_err(), "url has no branch or tag `v2`");
        assert!(commit("HEAD", "words\tHEAD\n").unwrap_err().contains("not a commit"));
    }

    #[test]
    fn only_repositories_below_a_root_have_an_address() {
        let root = CheckoutRoot::parse("https://git.example.com:8443/acme").unwrap();
        let address = |repository: &str| {
            root.locate(repository)
                .map(|found| (found.url, found.subdirectory.to_string_lossy().into_owned()))
        };
        let url = "https://git.example.com:8443/acme/widgets.git".to_owned();
        assert_eq!(address("git.example.com/acme/widgets"), Some((url.clone(), String::new())));
        assert_eq!(address("git.example.com/acme/widgets//api/v1"), Some((url, "api/v1".to_owned())));
        for repository in [
            "git.example.com/acme-evil/widgets",
            "git.example.com/acme",
            "git.example.com.evil.example/acme/widgets",
            "git.example.com/acme/../other/widgets",
            "git.example.com/acme/widgets//../../../etc",
            "git.example.com/acme/widgets//.git",
            "git.example.com/acme/-upload-pack",
            "git.example.com/acme/a b",
            "git.example.com/acme/a%2fb",
            "local:0123456789abcdef",
            "",
        ] {
            assert_eq!(address(repository), None, "{repository}");
        }
    }
}
