//! A session's environment, from the layers: found by its name, hashed together with its policy, and merged over the
//! harness like another file, so that pins and origins apply to it.

use sha2::{Digest as _, Sha256};
use yaml::{Decoder, Diagnostic, MapEntry, Node, Shape, Span, Value};

use super::instead;
use super::layers::{LayerKind, LayerPath};
use super::library::Library;
use crate::harness::environment::Environment;
use crate::harness::names::is_identifier;
use crate::harness::reference::LocalPath;

/// The directory of a layer that holds them.
const DIRECTORY: &str = "environments";

/// The file of an environment; the nearest layer that has it.
pub fn find(library: &Library, id: &str) -> Option<LayerPath> {
    if !is_identifier(id) {
        return None;
    }
    library.layers.find(&LocalPath::parse(&format!("{DIRECTORY}/{id}.yaml")).ok()?)
}

/// SHA-256 over the file and the policy that it names: a session that started in one environment does not wake up in
/// another.
pub fn digest(library: &mut Library, found: &LayerPath) -> Option<[u8; 32]> {
    let source = library.source(found).ok()?;
    let text = library.text(source);
    let policy = library.tree(found).ok().and_then(|tree| tree.get("policy")?.scalar().map(str::to_owned));
    let policy = policy.and_then(|path| library.layers.find(&LocalPath::parse(&path).ok()?));
    let policy = policy.and_then(|found| library.source(&found).ok()).map(|source| library.text(source));
    let mut hasher = Sha256::new();
    for part in [Some(text), policy].into_iter().flatten() {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    Some(hasher.finalize().into())
}

/// Its values in the form of a harness.
pub(super) fn overlay(library: &mut Library, id: &str, problems: &mut Vec<Diagnostic>) -> Option<Node> {
    let Some(found) = find(library, id) else {
        problems.push(unknown(library, id));
        return None;
    };
    let tree = library.tree(&found).map_err(|problem| problems.push((*problem).clone())).ok()?;
    let mut decoder = Decoder::part();
    Environment::decode(&tree, &mut decoder);
    problems.append(&mut decoder.diagnostics);
    let mut entries: Vec<MapEntry> = tree.entries().to_vec();
    entries.retain(|entry| entry.key != "description");
    for entry in entries.iter_mut().filter(|entry| entry.key == "limits") {
        let limits = Node::new(entry.node.at, Value::Map(vec![entry.clone()]));
        *entry = MapEntry { key: "sandbox".to_owned(), node: limits, ..entry.clone() };
    }
    Some(Node::new(tree.at, Value::Map(entries)))
}

fn unknown(library: &mut Library, id: &str) -> Diagnostic {
    let shown: String = id.chars().take(64).flat_map(char::escape_default).collect();
    let at = Span::start_of(library.add(&format!("{DIRECTORY}/{shown}.yaml"), "", LayerKind::Repository));
    let problem = Diagnostic::error("no-environment", at, format!("there is no environment `{shown}`"));
    let start = format!("define it in {DIRECTORY}/ of a layer");
    problem.help(instead(&library.layers, DIRECTORY, id, &start))
}
