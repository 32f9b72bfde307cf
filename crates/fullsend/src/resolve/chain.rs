//! A harness and the harnesses it extends through `base:`, at most five deep, without cycles.

use std::rc::Rc;

use yaml::{Decoder, Diagnostic, Node, Shape, Span, Value};

use super::layers::{Found, LayerKind};
use super::library::Library;
use crate::harness::Harness;
use crate::harness::reference::{LocalPath, Ref};

/// How many harnesses may extend each other.
const MAX_DEPTH: usize = 5;

/// One file of the chain.
#[derive(Clone, Debug)]
pub struct Link {
    pub found: Found,
    pub tree: Rc<Node>,
}

impl Link {
    /// The path by which harnesses name this one, whether or not it lies in `customized/`.
    pub fn path(&self) -> Option<LocalPath> {
        LocalPath::parse(self.found.path.trim_start_matches("customized/")).ok()
    }
}

/// The harness first, then what it extends, nearest first. Problems of every file on the way are collected. Bases are
/// looked for in the layer `nearest` and those beyond it.
pub fn load(
    library: &mut Library,
    start: Found,
    nearest: LayerKind,
    problems: &mut Vec<Diagnostic>,
) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    let mut next = Some((start, None));
    while let Some((found, referred)) = next.take() {
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
        let link = Link { found, tree };
        next = base_of(library, &link, nearest, problems);
        links.push(link);
    }
    links
}

/// Why the chain must end here, if it must.
fn refuse(library: &Library, links: &[Link], found: &Found, referred: Option<Span>) -> Option<Diagnostic> {
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

/// The harness that this one extends. One that names itself means the one of that name in a farther layer.
fn base_of(
    library: &Library,
    link: &Link,
    nearest: LayerKind,
    problems: &mut Vec<Diagnostic>,
) -> Option<(Found, Option<Span>)> {
    let node = link.tree.get("base")?;
    let Value::Text(text) = &node.value else { return None };
    let path = match Ref::parse(text) {
        Ok(Ref::Local(path)) => path,
        Ok(Ref::Url(url)) => {
            problems.push(not_fetched("base", &url.url, node.at));
            return None;
        }
        Err(_) => return None,
    };
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

/// Remote resources parse and are checked; this program does not fetch them yet, and never ignores one.
pub fn not_fetched(field: &str, url: &str, at: Span) -> Diagnostic {
    Diagnostic::error("not-fetched", at, format!("`{field}` is at {url}, and fetching is not built yet"))
        .help("copy it into a layer and name its path")
}
