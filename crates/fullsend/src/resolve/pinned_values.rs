//! The organisation's own values for a harness: the merged harness must be at least as strict. They are read from the
//! organisation's files, so that a nearer file that replaces one of them removes no pin.

use yaml::{Diagnostic, Node, Shape, Value, replace};

use super::chain::{self, ChainFile};
use super::layers::{LayerKind, LayerPath};
use super::library::Library;
use super::pins::CAPS;
use crate::harness::Harness;
use crate::harness::names::ForgeName;

/// The organisation's configuration, which applies to every harness; its files in the chain; and each of its files that a
/// nearer one replaces, with what that extends. A file of the organisation that cannot be read is a problem: it may pin
/// something.
pub fn pinned_values(
    library: &mut Library,
    configuration: Option<Node>,
    links: &[ChainFile],
    forge: Option<ForgeName>,
    problems: &mut Vec<Diagnostic>,
) -> Vec<Node> {
    let mut floors: Vec<Node> = configuration.into_iter().collect();
    floors.extend(organisation_values(links, forge));
    for link in links.iter().filter(|link| link.found.layer == LayerKind::Repository) {
        let Some(replaced) = replaced_by(library, link) else { continue };
        let theirs = chain::load(library, replaced, LayerKind::Organisation, problems);
        floors.extend(organisation_values(&theirs, forge));
    }
    floors
}

/// The organisation's files of a chain, merged.
fn organisation_values(links: &[ChainFile], forge: Option<ForgeName>) -> Option<Node> {
    let theirs = links.iter().rev().filter(|link| link.owning_layer == LayerKind::Organisation);
    let maps = theirs.filter(|link| matches!(link.tree.value, Value::Map(_)));
    let all = maps.map(|link| (*link.tree).clone()).reduce(Harness::merge)?;
    Some(with_forge(all, forge))
}

fn with_forge(floor: Node, forge: Option<ForgeName>) -> Node {
    let block = forge.and_then(|forge| floor.get("forge")?.get(forge.word()).cloned());
    match block {
        Some(block) => Harness::merge(floor, block),
        None => floor,
    }
}

/// The organisation's own file of the same name.
fn replaced_by(library: &Library, link: &ChainFile) -> Option<LayerPath> {
    library.layers.get(LayerKind::Organisation)?.find(link.path()?.as_str())
}

/// The built-in values, each lowered to the organisation's cap.
pub fn within_caps(defaults: &Node, caps: Option<&Node>) -> Node {
    let mut lowered = defaults.clone();
    for (cap, field) in CAPS {
        if let Some(cap) = caps.and_then(|caps| caps.get(cap)) {
            lower(&mut lowered, field, cap);
        }
    }
    lowered
}

fn lower(node: &mut Node, field: &str, cap: &Node) {
    let Some((step, rest)) = field.split_once('.') else {
        return lower_entry(node, field, |built_in| {
            if built_in.number() > cap.number() {
                *built_in = replace(built_in.clone(), cap.clone());
            }
        });
    };
    lower_entry(node, step, |below| lower(below, rest, cap));
}

fn lower_entry(node: &mut Node, key: &str, change: impl FnOnce(&mut Node)) {
    if let Value::Map(entries) = &mut node.value
        && let Some(entry) = entries.iter_mut().find(|entry| entry.key == key)
    {
        change(&mut entry.node);
    }
}
