//! Files that a harness names by URL: fetched once, kept by their digest, and read from a private copy of the command,
//! so that nothing can be replaced between the check and the use. Whether a URL is allowed is decided before.

mod commit;
mod error;
pub mod lock;
pub mod skill_request;
mod store;
mod tree;

use std::cell::{Cell, OnceCell, Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use crate::event::log::sha256;
use crate::fetch::{Answer, FetchError, FetchRequest, Fetcher, HostNetwork, NetworkPlace, Post, WebAddress};
use crate::harness::reference::{PinnedUrl, UrlPin, UrlPrefix};
pub use error::RemoteError;
use lock::{HarnessLock, ResourceLock};
use store::{PrivateDirectory, RemoteStore};
pub use tree::FileTree;

/// The most that one file, and one archive, may hold.
const MAX_FILE: usize = 10 << 20;
const MAX_ARCHIVE: usize = 50 << 20;
/// How many resources one command may use.
const MAX_RESOURCES: usize = 50;
/// For one resource.
const TIME: Duration = Duration::from_secs(60);
/// For all resources of a command.
const TIME_OF_ALL: Duration = Duration::from_secs(300);

/// The environment of the host.
pub type HostVariables = fn(&str) -> Option<String>;

/// The rules for the resources of one harness.
#[derive(Clone, Debug, Default)]
pub struct RemoteRules {
    /// Prefixes for harnesses that have none of their own.
    pub allowed: Vec<UrlPrefix>,
    /// The organisation's prefixes, which a `base` must be under in any case.
    pub ceiling: Option<Vec<UrlPrefix>>,
    /// Hosts of internal networks that may be asked, with their ports.
    pub internal_hosts: Vec<String>,
    /// Whether only the cache is used.
    pub is_offline: bool,
    /// With `--locked`: what the lock file has for the harness.
    pub lock: Option<Rc<HarnessLock>>,
}

/// The same for another thread.
#[derive(Clone, Debug)]
pub struct RemoteSettings {
    variables: Option<HostVariables>,
    internal_hosts: Vec<String>,
    is_offline: bool,
    /// How many skills the agent asked for: a new sandbox of the run does not begin again.
    pub skill_fetches: Arc<AtomicU64>,
}

/// How a resource is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RemoteUse {
    File,
    Directory,
    /// A harness, which may name files beside it.
    Base,
}

impl RemoteUse {
    /// As the lock file writes it.
    pub fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Base => "base",
        }
    }
}

/// Where a resource is in the command's private directory.
#[derive(Clone, Debug)]
pub struct ResourcePath {
    /// The directory of the resource.
    pub key: String,
    /// The file or directory that was asked for, below `key`; empty for all of it.
    pub entry: String,
    /// Where the files that a `base` names are, below `key`. `None`: it brings none.
    pub companions: Option<String>,
    /// How messages name the directory, and whether it is one file.
    pub shown: String,
    pub is_one_file: bool,
    /// The digest of names, modes and contents.
    pub sha256: String,
}

impl ResourcePath {
    /// The path in the private directory.
    pub fn path(&self) -> String {
        if self.entry.is_empty() { self.key.clone() } else { format!("{}/{}", self.key, self.entry) }
    }
}

/// The remote resources of one command.
#[derive(Debug, Default)]
pub struct RemoteResources {
    /// `None`: nothing is fetched.
    variables: Option<HostVariables>,
    rules: RefCell<RemoteRules>,
    store: OnceCell<RemoteStore>,
    directory: OnceCell<PrivateDirectory>,
    placed: RefCell<BTreeMap<(PinnedUrl, RemoteUse), ResourcePath>>,
    spent: Cell<Duration>,
    skill_fetches: Arc<AtomicU64>,
    /// The resources that were used since the list was last read.
    used: RefCell<BTreeSet<ResourceLock>>,
}

/// A request to a server.
#[derive(Clone, Copy)]
struct Question<'a> {
    address: &'a str,
    /// How messages name it.
    shown: &'a str,
    post: Option<Post<'a>>,
    most: usize,
    /// The only prefixes that may be asked, redirects included.
    only: Option<&'a [UrlPrefix]>,
}

/// A resource in memory.
struct FetchedResource {
    tree: FileTree,
    entry: String,
    companions: Option<String>,
    is_one_file: bool,
}

impl RemoteResources {
    pub fn new(variables: HostVariables) -> Self {
        Self { variables: Some(variables), ..Self::default() }
    }

    /// What another thread needs to fetch under the same rules.
    pub fn for_thread(&self) -> RemoteSettings {
        let RemoteRules { internal_hosts, is_offline, .. } = self.rules.borrow().clone();
        let skill_fetches = Arc::clone(&self.skill_fetches);
        RemoteSettings { variables: self.variables, internal_hosts, is_offline, skill_fetches }
    }

    pub fn of_thread(settings: &RemoteSettings) -> Self {
        let RemoteSettings { variables, internal_hosts, is_offline, skill_fetches } = settings.clone();
        let rules = RemoteRules { internal_hosts, is_offline, ..RemoteRules::default() };
        Self { variables, rules: RefCell::new(rules), skill_fetches, ..Self::default() }
    }

    pub fn rules(&self) -> Ref<'_, RemoteRules> {
        self.rules.borrow()
    }

    /// The rules for the harness that is resolved next.
    pub fn set_rules(&self, rules: RemoteRules) {
        self.rules.replace(rules);
    }

    /// The private directory, once something is in it.
    pub fn directory(&self) -> Option<&Path> {
        self.directory.get().map(PrivateDirectory::path)
    }

    /// What was used since the last call.
    pub fn take_used(&self) -> Vec<ResourceLock> {
        std::mem::take(&mut *self.used.borrow_mut()).into_iter().collect()
    }

    /// Fetches a resource, unless the cache has it, and puts a copy into the private directory. The lock is checked
    /// every time, because each harness has its own.
    pub fn place(&self, url: &PinnedUrl, needed: RemoteUse) -> Result<ResourcePath, RemoteError> {
        let placed = self.place_unlocked(url, needed)?;
        let found = ResourceLock {
            url: url.written(),
            needed: needed.word().to_owned(),
            sha256: placed.sha256.clone(),
        };
        let lock = self.rules.borrow().lock.clone();
        if let Some(why) = lock.and_then(|lock| lock.refuse(&found)) {
            return Err(RemoteError::Lock { url: url.to_string(), why });
        }
        self.used.borrow_mut().insert(found);
        Ok(placed)
    }

    /// The same for a resource that no harness names, and so no lock file has.
    pub fn place_unlocked(&self, url: &PinnedUrl, needed: RemoteUse) -> Result<ResourcePath, RemoteError> {
        let name = (url.clone(), needed);
        if let Some(placed) = self.placed.borrow().get(&name) {
            return Ok(placed.clone());
        }
        if self.placed.borrow().len() >= MAX_RESOURCES {
            return Err(RemoteError::TooMany { most: MAX_RESOURCES });
        }
        let FetchedResource { tree, entry, companions, is_one_file } = self.load(url, needed)?;
        let digest = tree.digest();
        let key = sha256(format!("{url} {needed:?} {digest}").as_bytes());
        let key = key[..32].to_owned();
        let directory = self.private_directory()?.join(&key);
        tree.write(&directory).map_err(|source| RemoteError::Store { path: directory, source })?;
        let shown = PinnedUrl { path: String::new(), ..url.clone() }.to_string();
        let placed = ResourcePath { key, entry, companions, shown, is_one_file, sha256: digest };
        self.placed.borrow_mut().insert(name, placed.clone());
        Ok(placed)
    }

    /// The files of a skill. No copy is made of them.
    pub fn skill(&self, url: &PinnedUrl) -> Result<FileTree, RemoteError> {
        let FetchedResource { tree, entry, .. } = self.load(url, RemoteUse::Directory)?;
        Ok(tree.below(&entry))
    }

    /// Adds the digest of its current content to a URL without one. No redirect may lead out of the prefixes.
    pub fn pin(&self, url: &str, allowed: &[UrlPrefix]) -> Result<PinnedUrl, RemoteError> {
        let mut pinned =
            PinnedUrl { url: url.to_owned(), pin: UrlPin::Sha256(String::new()), path: String::new() };
        let most = if pinned.is_archive() { MAX_ARCHIVE } else { MAX_FILE };
        let shown = pinned.to_string();
        let question = Question { address: url, shown: &shown, post: None, most, only: Some(allowed) };
        let bytes = self.ask(&question)?;
        self.store()?.put(&bytes).map_err(|source| self.unusable(source))?;
        pinned.pin = UrlPin::Sha256(sha256(&bytes));
        Ok(pinned)
    }

    fn private_directory(&self) -> Result<&Path, RemoteError> {
        if self.directory.get().is_none() {
            let made = self.store()?.private_directory().map_err(|source| self.unusable(source))?;
            drop(self.directory.set(made));
        }
        self.directory().ok_or(RemoteError::NoCache)
    }

    fn store(&self) -> Result<&RemoteStore, RemoteError> {
        if self.store.get().is_none() {
            let path = self.variables.and_then(|variables| store::store_directory(&variables));
            let path = path.ok_or(RemoteError::NoCache)?;
            let opened = RemoteStore::open(&path).map_err(|source| RemoteError::Store { path, source })?;
            drop(self.store.set(opened));
        }
        self.store.get().ok_or(RemoteError::NoCache)
    }

    fn unusable(&self, source: std::io::Error) -> RemoteError {
        let path = self.variables.and_then(|variables| store::store_directory(&variables));
        RemoteError::Store { path: path.unwrap_or_default(), source }
    }

    fn load(&self, url: &PinnedUrl, needed: RemoteUse) -> Result<FetchedResource, RemoteError> {
        match &url.pin {
            UrlPin::Sha256(digest) => of_bytes(url, self.bytes(url, digest)?, needed),
            UrlPin::Commit(commit) => self.of_commit(url, commit, needed),
        }
    }

    /// The bytes with this digest, from the cache or from the server.
    fn bytes(&self, url: &PinnedUrl, digest: &str) -> Result<Vec<u8>, RemoteError> {
        let most = if url.is_archive() { MAX_ARCHIVE } else { MAX_FILE };
        let store = self.store()?;
        if let Some(bytes) = store.get(digest, most) {
            return Ok(bytes);
        }
        let shown = url.to_string();
        let question = Question { address: &url.url, shown: &shown, post: None, most, only: None };
        let bytes = self.ask(&question)?;
        let found = sha256(&bytes);
        if found != digest {
            return Err(RemoteError::Digest { url: url.to_string(), expected: digest.to_owned(), found });
        }
        store.put(&bytes).map_err(|source| self.unusable(source))?;
        Ok(bytes)
    }

    fn of_commit(
        &self,
        url: &PinnedUrl,
        commit: &str,
        needed: RemoteUse,
    ) -> Result<FetchedResource, RemoteError> {
        let root = match needed {
            RemoteUse::Base => companion_root(&url.path),
            RemoteUse::File | RemoteUse::Directory => url.path.as_str(),
        };
        let tree = self.tree_of_commit(url, commit, root)?;
        let wrong = |why: &str| RemoteError::Files { url: url.to_string(), why: why.to_owned() };
        let name = url.path.rsplit('/').next().unwrap_or_default();
        let is_file = tree.has(name) && !name.is_empty() && tree.files().count() == 1;
        match needed {
            RemoteUse::Base => {
                let entry = url.path.strip_prefix(root).unwrap_or(&url.path).trim_start_matches('/');
                if entry.is_empty() || !tree.has(entry) {
                    return Err(wrong("is not in that commit"));
                }
                let companions = Some(String::new());
                Ok(FetchedResource { entry: entry.to_owned(), tree, companions, is_one_file: false })
            }
            RemoteUse::File if is_file => {
                Ok(FetchedResource { entry: name.to_owned(), tree, companions: None, is_one_file: false })
            }
            RemoteUse::File => Err(wrong("is a directory, and a file is needed")),
            RemoteUse::Directory => {
                Ok(FetchedResource { entry: String::new(), tree, companions: None, is_one_file: false })
            }
        }
    }

    /// Files of a commit. A pack in the cache that does not hold the commit is fetched again.
    fn tree_of_commit(&self, url: &PinnedUrl, commit: &str, root: &str) -> Result<FileTree, RemoteError> {
        let store = self.store()?;
        let shown = url.to_string();
        if let Some(pack) = store.pack(&url.url, commit, commit::MAX_PACK) {
            match commit::tree(&shown, &pack, commit, root) {
                Err(RemoteError::Git { .. }) if !self.rules().is_offline => {}
                done => return done,
            }
        }
        let address = format!("{}/git-upload-pack", url.url);
        let request = commit::request(commit);
        let post = Post { content_type: commit::REQUEST_TYPE, bytes: &request };
        let most = commit::MAX_PACK + (1 << 20);
        let question = Question { address: &address, shown: &shown, post: Some(post), most, only: None };
        let answer = self.ask(&question)?;
        let wrong = |why: String| RemoteError::Files { url: shown.clone(), why };
        let pack = commit::pack_of(&answer).map_err(wrong)?;
        let tree = commit::tree(&shown, &pack, commit, root)?;
        store.put_pack(&url.url, commit, &pack).map_err(|source| self.unusable(source))?;
        Ok(tree)
    }

    /// The body of an answer, from a server that may be asked.
    fn ask(&self, question: &Question<'_>) -> Result<Vec<u8>, RemoteError> {
        let Question { address, shown, post, most, only } = *question;
        let rules = self.rules.borrow();
        if rules.is_offline {
            return Err(RemoteError::NotCached { url: shown.to_owned() });
        }
        let started = Instant::now();
        let left = TIME_OF_ALL.saturating_sub(self.spent.get()).min(TIME);
        let variables = self.variables.ok_or(RemoteError::NoCache)?;
        let download = |source| RemoteError::Download { url: shown.to_owned(), source };
        let network = HostNetwork::of_host(&variables, Vec::new()).map_err(download)?;
        let fetcher = Fetcher::new(network).map_err(download)?;
        let address = WebAddress::parse(address).map_err(|why| download(FetchError::Address { why }))?;
        let permit = |address: &WebAddress, place: NetworkPlace| {
            let url = format!("{}{}", address.origin(), address.target);
            if only.is_some_and(|only| !only.iter().any(|prefix| prefix.covers_url(&url))) {
                return Err(format!("no allowed prefix covers {address}"));
            }
            permit(address, place, &rules.internal_hosts)
        };
        let version = [(hyper::header::HeaderName::from_static("git-protocol"), "version=2".to_owned())];
        let headers: &[_] = if post.is_some() { &version } else { &[] };
        let answer = fetcher.send(&FetchRequest {
            permit: Some(&permit),
            post,
            headers,
            ..FetchRequest::new(&address)
        });
        let answer = answer.map_err(download)?;
        if answer.status != 200 {
            return Err(RemoteError::Status { url: shown.to_owned(), status: answer.status.as_u16() });
        }
        let body = body(answer, shown, most, started + left);
        self.spent.set(self.spent.get() + started.elapsed());
        body
    }
}

/// Only https, and only public hosts or listed ones. Redirects are checked too.
fn permit(address: &WebAddress, place: NetworkPlace, internal_hosts: &[String]) -> Result<(), String> {
    if !address.is_tls {
        return Err("only https is used for remote resources".to_owned());
    }
    let is_listed = internal_hosts.iter().any(|host| *host == address.authority());
    if place == NetworkPlace::Public || is_listed {
        return Ok(());
    }
    Err(format!("{} is in an internal network and is not one of `internal_hosts`", address.authority()))
}

fn body(
    mut answer: Answer<'_>,
    url: &str,
    max_bytes: usize,
    deadline: Instant,
) -> Result<Vec<u8>, RemoteError> {
    let failed = |source| RemoteError::Download { url: url.to_owned(), source };
    let mut bytes = Vec::new();
    while let Some(part) = answer.next().map_err(failed)? {
        if bytes.len() + part.len() > max_bytes {
            return Err(failed(FetchError::TooLarge { address: url.to_owned(), max_bytes }));
        }
        bytes.extend_from_slice(&part);
        if Instant::now() > deadline {
            return Err(RemoteError::Slow { url: url.to_owned(), seconds: TIME.as_secs() });
        }
    }
    Ok(bytes)
}

/// A file or an archive, by what its URL says.
fn of_bytes(url: &PinnedUrl, bytes: Vec<u8>, needed: RemoteUse) -> Result<FetchedResource, RemoteError> {
    let wrong = |why: String| RemoteError::Files { url: url.to_string(), why };
    if url.is_archive() {
        let tree = FileTree::of_archive(&bytes).map_err(wrong)?;
        let entry = in_archive(&tree, &url.path, needed).map_err(wrong)?;
        let companions = (needed == RemoteUse::Base).then(|| companion_root(&entry).to_owned());
        return Ok(FetchedResource { tree, entry, companions, is_one_file: false });
    }
    let name = url.url.split('?').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name = if !name.is_empty() && name.chars().all(is_plain) { name } else { "file" };
    if needed == RemoteUse::Directory && name != "SKILL.md" {
        let why = "is one file, and a directory is needed: name a SKILL.md, an archive or a commit";
        return Err(wrong(why.to_owned()));
    }
    let entry = if needed == RemoteUse::Directory { String::new() } else { name.to_owned() };
    let tree = FileTree::of_one(name, bytes).map_err(wrong)?;
    Ok(FetchedResource { tree, entry, companions: None, is_one_file: true })
}

/// Where a path is in an archive, which may have one top-level directory around everything.
fn in_archive(tree: &FileTree, path: &str, needed: RemoteUse) -> Result<String, String> {
    let is_file = |path: &str| tree.files().any(|(file, _)| file == path);
    let below = |top: &str| if path.is_empty() { top.to_owned() } else { format!("{top}/{path}") };
    let places: Vec<String> = [path.to_owned()].into_iter().chain(tree.single_top().map(below)).collect();
    let found = match needed {
        RemoteUse::File | RemoteUse::Base => places.into_iter().find(|place| is_file(place)),
        // Only a directory that contains files, not one that contains a single directory.
        RemoteUse::Directory if path.is_empty() => places.into_iter().next_back(),
        RemoteUse::Directory => places.into_iter().find(|place| tree.has(place) && !is_file(place)),
    };
    found.ok_or_else(|| match path {
        "" => "is an archive: name a file in it, as in `#sha256=DIGEST//PATH`".to_owned(),
        _ => format!("has no `{path}` in it"),
    })
}

/// The directory from which a harness names its files: the one that holds `harness/`, or its own.
pub fn companion_root(path: &str) -> &str {
    let own = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    match own.rsplit_once('/') {
        _ if own == "harness" => "",
        Some((above, "harness")) => above,
        _ => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_hosts_of_internal_networks_are_asked() {
        let check = |url: &str, place: NetworkPlace, expected: bool| {
            let listed = ["git.corp.example".to_owned(), "localhost:8443".to_owned()];
            let permitted = permit(&WebAddress::parse(url).unwrap(), place, &listed);
            assert_eq!(permitted.is_ok(), expected, "{url}: {permitted:?}");
        };
        check("https://example.com/x", NetworkPlace::Public, true);
        check("https://example.com/x", NetworkPlace::Internal, false);
        check("https://git.corp.example/x", NetworkPlace::Internal, true);
        check("https://git.corp.example:8443/x", NetworkPlace::Internal, false);
        check("https://localhost:8443/x", NetworkPlace::ThisMachine, true);
        check("https://localhost/x", NetworkPlace::ThisMachine, false);
        check("http://localhost:8443/x", NetworkPlace::ThisMachine, false);
        check("http://example.com/x", NetworkPlace::Public, false);
    }

    #[test]
    fn a_base_names_files_from_the_directory_above_harness() {
        for (path, root) in [
            ("harness/x.yaml", ""),
            ("a/b/harness/x.yaml", "a/b"),
            ("x.yaml", ""),
            ("a/x.yaml", "a"),
            ("my-harness/x.yaml", "my-harness"),
        ] {
            assert_eq!(companion_root(path), root, "{path}");
        }
    }
}
