//! Keys of `config.yaml` that the original project's runner reads. Keys with the same meaning work; every other key is
//! a warning, so that nobody relies on it.

use yaml::{Diagnostic, Node, Value};

/// Keys that have no effect here, and what does the same.
const NOT_HONOURED: &[(&str, &str)] = &[
    ("forge", "the CI's environment or `--forge` names the forge"),
    ("tracker", "`--tracker` of `fullsend issues` names the tracker"),
    ("roles", "the workflow decides which harness runs"),
    ("create_issues", "a post-script decides what it creates"),
    ("status_notifications", "a workflow or a post-script comments with `fullsend post-comment`"),
    ("mint_url", "the workflow provides tokens as variables"),
    ("inference", "a provider names the model's service"),
    ("dispatch", "the workflow decides which harness runs"),
    ("defaults", "write `runtime` at the top of this file, and the rest into harnesses"),
    ("repos", "run fullsend in each repository"),
];

/// The tree without those keys, and the warnings about them.
pub fn without_original_keys(tree: &Node) -> (Node, Vec<Diagnostic>) {
    let Value::Map(entries) = &tree.value else { return (tree.clone(), Vec::new()) };
    let mut kept = Vec::new();
    let mut warnings = Vec::new();
    for entry in entries {
        if let Some((key, instead)) = NOT_HONOURED.iter().find(|(key, _)| *key == entry.key) {
            let message = format!("`{key}` has no effect here");
            warnings.push(Diagnostic::warning("not-honoured", entry.key_at, message).help(*instead));
        } else if entry.key == "agents" {
            warnings.extend(agents(&entry.node));
        } else if entry.key == "kill_switch" && entry.node.value == Value::Bool(false) {
            // Off: it has no effect.
        } else {
            kept.push(entry.clone());
        }
    }
    (Node::new(tree.at, Value::Map(kept)), warnings)
}

/// An entry that maps NAME to `harness/NAME.yaml` is the default anyway.
fn agents(list: &Node) -> Vec<Diagnostic> {
    let Value::List(items) = &list.value else {
        let message = "`agents` must be a list";
        return vec![Diagnostic::error("value", list.at, message)];
    };
    items.iter().filter_map(agent).collect()
}

fn agent(item: &Node) -> Option<Diagnostic> {
    let text = |key: &str| item.get(key).and_then(Node::scalar);
    let source = text("source").or_else(|| item.scalar()).unwrap_or_default();
    let stem = source.strip_prefix("harness/").and_then(|name| name.strip_suffix(".yaml"));
    let name = text("name").or(stem).unwrap_or(source);
    if text("enabled") == Some("false") {
        let message = format!("`agents` turns `{name}` off, which has no effect here");
        let help = "remove its harness, or the workflow that runs it";
        return Some(Diagnostic::warning("not-honoured", item.at, message).help(help));
    }
    if stem == Some(name) {
        return None;
    }
    let message = format!("`agents` names `{source}` for `{name}`, which has no effect here");
    let help = format!("put the harness at harness/{name}.yaml");
    Some(Diagnostic::warning("not-honoured", item.at, message).help(help))
}
