//! What the organisation says about a harness, as the floors that the merged harness must stay above. It is read from the
//! organisation's own files, so that putting a nearer file in the way of one of them removes nothing.

use std::rc::Rc;

use yaml::{Diagnostic, Node, Shape, Span, Value, replace};

use super::chain::{self, Link};
use super::layers::{Found, LayerKind};
use super::library::Library;
use super::pins::CAPS;
use crate::harness::Harness;

/// One floor from the organisation's files in the chain, and one for each of its files that a nearer one stands in the
/// place of. A file of the organisation's that cannot be read is a problem: nobody knows what it pins.
pub fn floors(
    library: &mut Library,
    configuration: Option<&Node>,
    links: &[Link],
    problems: &mut Vec<Diagnostic>,
) -> Vec<Node> {
    let in_chain: Vec<Rc<Node>> =
        links.iter().filter(|link| is_theirs(link)).map(|l| l.tree.clone()).collect();
    let mut floors = vec![floor(links, configuration, &in_chain)];
    for link in links.iter().filter(|link| link.found.layer == LayerKind::Repository) {
        let Some(replaced) = replaced_by(library, link) else { continue };
        let theirs = chain::load(library, replaced, LayerKind::Organisation, problems);
        let trees: Vec<Rc<Node>> = theirs.into_iter().map(|link| link.tree).collect();
        floors.push(floor(links, configuration, &trees));
    }
    floors
}

fn is_theirs(link: &Link) -> bool {
    link.found.layer == LayerKind::Organisation
}

/// The organisation's own file of the same name.
fn replaced_by(library: &Library, link: &Link) -> Option<Found> {
    library.layers.get(LayerKind::Organisation)?.find(link.path()?.as_str())
}

/// The configuration, then the files, nearest first.
fn floor(links: &[Link], configuration: Option<&Node>, files: &[Rc<Node>]) -> Node {
    let at = links.first().map(|link| link.tree.at).or(configuration.map(|node| node.at));
    let files = files.iter().rev().map(|tree| &**tree);
    let maps = configuration.into_iter().chain(files).filter(|tree| matches!(tree.value, Value::Map(_)));
    let nothing = at.map(|at: Span| Node::new(at, Value::Map(Vec::new())));
    maps.cloned()
        .fold(nothing, |all, tree| Some(all.map_or(tree.clone(), |all| Harness::merge(all, tree))))
        .unwrap_or_else(|| unreachable!("a chain has at least its harness"))
}

/// The built-in values, none of them above what the organisation allows anybody to ask for.
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
