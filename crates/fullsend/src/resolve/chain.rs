//! A harness and the harnesses it extends through `base:`, at most five deep, without cycles.

use std::rc::Rc;

use yaml::{Decoder, Diagnostic, Node, Shape, Span, Value};

use super::layers::{LayerKind, LayerPath};
use super::library::Library;
use crate::fetch::FetchError;
use crate::harness::Harness;
use crate::harness::reference::{LocalPath, PinnedUrl, Ref, UrlPin, UrlPrefix};
use crate::remote::{RemoteError, RemoteUse, companion_root};

/// How many harnesses may extend each other.
const MAX_DEPTH: usize = 5;

/// One file of the chain.
#[derive(Clone, Debug)]
pub struct ChainFile {
    pub found: LayerPath,
    pub tree: Rc<Node>,
    /// The layer that it belongs to; for a remote file, the layer of the file that names it.
    pub owning_layer: LayerKind,
}

impl ChainFile {
    /// The path by which harnesses name this one, whether or not it lies in `customized/`.
    pub fn path(&self) -> Option<LocalPath> {
        LocalPath::parse(self.found.path.trim_start_matches("customized/")).ok()
    }
}

/// The harness first, then what it extends, nearest first. Problems of every file on the way are collected. Bases are
/// searched in the layer `nearest` and farther layers.
pub fn load(
    library: &mut Library,
    start: LayerPath,
    nearest: LayerKind,
    problems: &mut Vec<Diagnostic>,
) -> Vec<ChainFile> {
    let mut links: Vec<ChainFile> = Vec::new();
    let mut next = Some((start, None));
    let mut owning_layer = nearest;
    while let Some((found, referred)) = next.take() {
        if found.layer != LayerKind::Remote {
            owning_layer = found.layer;
        }
        if let Some(problem) = refuse(library, &links, &found, referred) {
            problems.push(problem);
            break;
        }
        let tree = match library.tree(&found) {
            Ok(tree) => tree,
            Err(problem) => {
                problems.push((*problem).clone());
                break;
            }
        };
        let mut decoder = Decoder::part();
        Harness::decode(&tree, &mut decoder);
        problems.append(&mut decoder.diagnostics);
        let tree = if found.layer == LayerKind::Remote { without_rights(&tree, problems) } else { tree };
        links.push(ChainFile { found, tree, owning_layer });
        next = base_of(library, &links, nearest, problems);
    }
    links
}

/// Why the chain must end here, if it must.
fn refuse(
    library: &Library,
    links: &[ChainFile],
    found: &LayerPath,
    referred: Option<Span>,
) -> Option<Diagnostic> {
    let at = referred?;
    let names = || -> Vec<String> {
        let files = links.iter().map(|link| &link.found).chain([found]);
        files.map(|file| library.layers.layer(file).shown(&file.path)).collect()
    };
    if links.iter().any(|link| link.found == *found) {
        let message = format!("`base` forms a cycle: {}", names().join(" → "));
        return Some(Diagnostic::error("base-cycle", at, message));
    }
    if links.len() >= MAX_DEPTH {
        let message = format!("`base` chains more than {MAX_DEPTH} harnesses: {}", names().join(" → "));
        return Some(Diagnostic::error("base-depth", at, message).help("merge two of them into one"));
    }
    None
}

/// The harness that this one extends. If it names itself, it means the harness of the same name in a farther layer.
fn base_of(
    library: &Library,
    links: &[ChainFile],
    nearest: LayerKind,
    problems: &mut Vec<Diagnostic>,
) -> Option<(LayerPath, Option<Span>)> {
    let link = links.last()?;
    let node = link.tree.get("base")?;
    let Value::Text(text) = &node.value else { return None };
    let path = match Ref::parse(text) {
        Ok(Ref::Local(path)) => path,
        Ok(Ref::Url(_)) if problems.iter().any(Diagnostic::is_error) => return None,
        Ok(Ref::Url(url)) => {
            let found = remote_base(library, links, &url, node.at);
            return found.map_err(|problem| problems.push(*problem)).ok().map(|found| (found, Some(node.at)));
        }
        Err(_) => return None,
    };
    if link.found.layer == LayerKind::Remote {
        let found = library.find(&path, node.at, "base");
        return found.map_err(|problem| problems.push(*problem)).ok().map(|found| (found, Some(node.at)));
    }
    let itself = link.path().as_ref() == Some(&path);
    let target = if itself {
        library.layers.find_beyond(link.found.layer, &path)
    } else {
        library.layers.find_from(nearest, &path)
    };
    match target {
        Some(target) => Some((target, Some(node.at))),
        None if itself => {
            let message =
                format!("`base` names this harness itself, and no farther layer has `{}`", path.as_str());
            problems.push(Diagnostic::error("base-cycle", node.at, message));
            None
        }
        None => {
            problems.extend(library.find(&path, node.at, "base").err().map(|problem| *problem));
            None
        }
    }
}

/// A remote base must be under a prefix of the nearest file of the layers that has some, and under the organisation's.
fn remote_base(
    library: &Library,
    links: &[ChainFile],
    url: &PinnedUrl,
    at: Span,
) -> Result<LayerPath, Box<Diagnostic>> {
    let rules = library.remote.rules();
    let own = links.iter().filter(|link| link.found.layer != LayerKind::Remote).find_map(prefixes);
    let allowed = own.as_ref().unwrap_or(&rules.allowed);
    let ceiling = rules.ceiling.as_ref().unwrap_or(allowed);
    // A commit also brings the files that the base names.
    let whole = match url.pin {
        UrlPin::Sha256(_) => url.clone(),
        UrlPin::Commit(_) => PinnedUrl { path: companion_root(&url.path).to_owned(), ..url.clone() },
    };
    let is_covered =
        |list: &[UrlPrefix]| list.iter().any(|prefix| url.is_under(prefix) && whole.is_under(prefix));
    if !is_covered(allowed) || !is_covered(ceiling) {
        return Err(Box::new(not_allowed("base", url, at)));
    }
    drop(rules);
    library.fetch(url, RemoteUse::Base).map_err(|error| Box::new(not_fetched("base", &error, at)))
}

fn prefixes(link: &ChainFile) -> Option<Vec<UrlPrefix>> {
    let node = link.tree.get("allowed_remote_resources").filter(|node| !node.is_null())?;
    let Value::List(items) = &node.value else { return None };
    Some(items.iter().filter_map(|item| UrlPrefix::parse(item.scalar()?).ok()).collect())
}

/// Keys that a remote file must not set: they decide what else may be fetched.
const RIGHTS: &[&str] = &["allowed_remote_resources", "allow_runtime_fetch", "max_runtime_fetches"];

fn without_rights(tree: &Rc<Node>, problems: &mut Vec<Diagnostic>) -> Rc<Node> {
    let Value::Map(entries) = &tree.value else { return Rc::clone(tree) };
    let (rights, kept): (Vec<_>, Vec<_>) =
        entries.iter().cloned().partition(|entry| RIGHTS.contains(&entry.key.as_str()));
    for right in rights {
        let message = format!("`{}` of a remote base is not inherited", right.key);
        let help = "set it in the harness itself, or in config.yaml";
        problems.push(Diagnostic::warning("not-inherited", right.key_at, message).help(help));
    }
    Rc::new(Node::new(tree.at, Value::Map(kept)))
}

/// A URL that no prefix covers.
pub fn not_allowed(field: &str, url: &PinnedUrl, at: Span) -> Diagnostic {
    let message = format!("`{field}` is at {url}, which no prefix in `allowed_remote_resources` covers");
    Diagnostic::error("not-allowed", at, message).help("add its prefix, or copy the file into a layer")
}

/// A remote resource that is allowed and cannot be used.
pub fn not_fetched(field: &str, error: &RemoteError, at: Span) -> Diagnostic {
    let message = format!("`{field}`: {error}");
    match error {
        RemoteError::NotCached { .. } => Diagnostic::error("remote-not-cached", at, message)
            .help("run once without `--offline`, or run `fullsend lock`"),
        RemoteError::NoCache | RemoteError::Store { .. } => Diagnostic::error("remote-cache", at, message)
            .help("set XDG_CACHE_HOME to a directory of your own"),
        RemoteError::Download { source: FetchError::Refused { .. }, .. } => {
            Diagnostic::error("remote-refused", at, message).help(
                "the organisation lists hosts of its own network in `internal_hosts` of its config.yaml",
            )
        }
        RemoteError::Download { .. }
        | RemoteError::Status { .. }
        | RemoteError::Git { .. }
        | RemoteError::Slow { .. } => Diagnostic::error("remote-unreachable", at, message)
            .help("check the URL and the network; HTTPS_PROXY and SSL_CERT_FILE are honoured"),
        RemoteError::Digest { .. } => Diagnostic::error("remote-digest", at, message)
            .help("look at what changed, then write the new digest"),
        RemoteError::Files { .. } | RemoteError::TooMany { .. } => {
            Diagnostic::error("remote-files", at, message)
                .help("correct the resource, or copy it into a layer")
        }
        RemoteError::Lock { .. } => Diagnostic::error("remote-lock", at, message)
            .help("run `fullsend lock` and review the change of fullsend.lock"),
    }
}
