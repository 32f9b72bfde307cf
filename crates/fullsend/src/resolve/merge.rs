//! Where layers become one tree: the configuration of organisation and repository, the chain of `base` files, the block of
//! the forge, the environment of a session, the command line. `yaml` has the rule for each kind of field.

use yaml::{Diagnostic, Node, Shape, Value};

use super::chain::ChainFile;
use super::layers::{LayerKind, LayerPath};
use super::library::Library;
use super::{Choices, Configs, command_line, environment, pinned_values};
use crate::harness::Harness;
use crate::harness::names::ForgeName;

/// The keys that a layer's configuration and a harness share.
const SHARED_KEYS: &[&str] = &[
    "runtime",
    "security",
    "budget",
    "allow_repo_skills",
    "allowed_remote_resources",
    "allow_runtime_fetch",
    "max_runtime_fetches",
];

/// Far to near; the nearer value wins, by the rule of its field. What is absent or `null` comes from the defaults.
pub(super) fn merge(
    library: &mut Library,
    configs: &Configs,
    links: &[ChainFile],
    choices: &Choices,
    problems: &mut Vec<Diagnostic>,
) -> Option<(Node, Option<Node>)> {
    let defaults = LayerPath { layer: LayerKind::Builtin, path: "defaults.yaml".to_owned() };
    let defaults = match library.tree(&defaults) {
        Ok(tree) => pinned_values::within_caps(&tree, configs.caps()),
        Err(problem) => {
            problems.push((*problem).clone());
            return None;
        }
    };
    let mut tree = Node::new(defaults.at, Value::Map(Vec::new()));
    for config in [&configs.organisation_tree, &configs.repository_tree].into_iter().flatten() {
        tree = Harness::merge(tree, shared(config));
    }
    for link in links.iter().rev() {
        if matches!(link.tree.value, Value::Map(_)) {
            tree = Harness::merge(tree, (*link.tree).clone());
        }
    }
    let forge = take(&mut tree, "forge");
    take(&mut tree, "base");
    if let Some(block) = forge_block(forge.as_ref(), choices.forge, problems) {
        tree = Harness::merge(tree, block);
    }
    if let Some(id) = &choices.environment {
        tree = Harness::merge(tree, environment::overlay(library, id, problems)?);
    }
    if !choices.command_line.is_empty() {
        tree = Harness::merge(tree, command_line::overlay(library, &choices.command_line, problems)?);
    }
    let mut tree = Harness::merge(defaults.clone(), tree);
    yaml::restore_defaults(&defaults, &mut tree);
    without_idle_limit(&mut tree, links);
    Some((tree, forge))
}

/// The limit on fetches applies only to a harness that fetches. In one that does not, the built-in number and the
/// configuration's have no effect; a number in a harness file is a mistake that `check` reports.
fn without_idle_limit(tree: &mut Node, links: &[ChainFile]) {
    let fetches = tree.get("allow_runtime_fetch").is_some_and(|set| set.value == Value::Bool(true));
    let in_a_harness = |limit: &Node| links.iter().any(|link| link.tree.at.source == limit.at.source);
    if !fetches && tree.get("max_runtime_fetches").is_some_and(|limit| !in_a_harness(limit)) {
        take(tree, "max_runtime_fetches");
    }
}

/// The block of the chosen forge. It is an error if a harness has blocks for other forges but not for this one.
fn forge_block(
    forge: Option<&Node>,
    chosen: Option<ForgeName>,
    problems: &mut Vec<Diagnostic>,
) -> Option<Node> {
    let forge = forge?;
    let chosen = chosen?;
    if let Some(block) = forge.get(chosen.word()) {
        return Some(block.clone());
    }
    let known = forge.entries().iter().filter(|entry| !entry.node.is_null());
    let known: Vec<&str> = known.map(|entry| entry.key.as_str()).collect();
    if !known.is_empty() {
        let message = format!("`forge` has no block for {chosen} (it has {})", known.join(", "));
        let help = format!("add `{chosen}: {{}}` if nothing differs there");
        problems.push(Diagnostic::error("no-forge-block", forge.at, message).help(help));
    }
    None
}

fn take(tree: &mut Node, key: &str) -> Option<Node> {
    let Value::Map(entries) = &mut tree.value else { return None };
    let index = entries.iter().position(|entry| entry.key == key)?;
    Some(entries.remove(index).node).filter(|node| !node.is_null())
}

/// The part of a configuration that every harness gets.
pub(super) fn shared(config: &Node) -> Node {
    let entries = config.entries().iter().filter(|entry| SHARED_KEYS.contains(&entry.key.as_str()));
    Node::new(config.at, Value::Map(entries.cloned().collect()))
}
