//! The merge rules: a base value is extended by an overlay, which wins. Scalars replace, maps merge by key, `null`
//! deletes, lists either append without duplicates or replace items by name. Every [`Shape`](crate::Shape) uses these
//! functions; no other file has a rule of its own.

use std::collections::HashMap;

use crate::{MapEntry, Node, Span, Value};

/// Returns the key of a list item: items with the same key are the same item.
pub type ItemKey = fn(&Node) -> Option<String>;

/// The overlay wins and remembers what it replaced.
pub fn replace(base: Node, mut overlay: Node) -> Node {
    let mut replaced = base.replaced;
    replaced.push(base.at);
    replaced.append(&mut overlay.replaced);
    overlay.replaced = replaced;
    overlay
}

/// Maps merge by key; each key by `rule`. A `null` stays as the mark of a deletion.
pub fn by_name(base: Node, overlay: Node, rule: impl Fn(&str, Node, Node) -> Node) -> Node {
    let (Value::Map(_), Value::Map(_)) = (&base.value, &overlay.value) else { return replace(base, overlay) };
    let (Value::Map(bases), Value::Map(overlays)) = (base.value, overlay.value) else {
        unreachable!("both are maps")
    };
    let mut merged: Vec<MapEntry> = bases;
    let places: HashMap<String, usize> =
        merged.iter().enumerate().map(|(index, known)| (known.key.clone(), index)).collect();
    for entry in overlays {
        let Some(known) = places.get(&entry.key).map(|index| &mut merged[*index]) else {
            merged.push(entry);
            continue;
        };
        let of_base = std::mem::replace(&mut known.node, Node::new(entry.node.at, Value::Null));
        let node = if entry.node.is_null() || of_base.is_null() {
            replace(of_base, entry.node)
        } else {
            rule(&entry.key, of_base, entry.node)
        };
        *known = MapEntry { node, ..entry };
    }
    Node { at: overlay.at, value: Value::Map(merged), replaced: overlay.replaced }
}

/// Items of the same key replace each other in place, by `rule`; others are appended.
pub fn by_key(base: Node, overlay: Node, key: ItemKey, rule: fn(Node, Node) -> Node) -> Node {
    let (Value::List(_), Value::List(_)) = (&base.value, &overlay.value) else {
        return replace(base, overlay);
    };
    let (Value::List(mut merged), Value::List(overlays)) = (base.value, overlay.value) else {
        unreachable!("both are lists")
    };
    let named = merged.iter().enumerate().filter_map(|(index, item)| Some((key(item)?, index)));
    let mut places: HashMap<String, usize> = HashMap::new();
    named.for_each(|(name, index)| {
        places.entry(name).or_insert(index);
    });
    for item in overlays {
        let name = key(&item);
        if let Some(index) = name.as_ref().and_then(|name| places.get(name)) {
            let known = std::mem::replace(&mut merged[*index], Node::new(item.at, Value::Null));
            merged[*index] = rule(known, item);
        } else {
            places.extend(name.map(|name| (name, merged.len())));
            merged.push(item);
        }
    }
    Node { at: overlay.at, value: Value::List(merged), replaced: overlay.replaced }
}

/// The base's items, then the overlay's, each item once.
pub fn append_unique(base: Node, overlay: Node) -> Node {
    by_key(base, overlay, |item| Some(fingerprint(item)), |known, _| known)
}

/// A `null` deletes the value of farther files. If there is a default, it applies again and keeps a reference to the
/// deleted value.
pub fn restore_defaults(defaults: &Node, merged: &mut Node) {
    let Value::Map(entries) = &mut merged.value else { return };
    for entry in entries {
        let Some(default) = defaults.get(&entry.key) else { continue };
        if entry.node.is_null() {
            let deleted: Vec<Span> = entry.node.replaced.iter().copied().chain([entry.node.at]).collect();
            entry.node = default.clone();
            remember(&mut entry.node, &deleted);
        } else {
            restore_defaults(default, &mut entry.node);
        }
    }
}

fn remember(node: &mut Node, replaced: &[Span]) {
    match &mut node.value {
        Value::Map(entries) => entries.iter_mut().for_each(|entry| remember(&mut entry.node, replaced)),
        _ => node.replaced = replaced.to_vec(),
    }
}

/// A text that is equal for equal values, regardless of their places.
fn fingerprint(node: &Node) -> String {
    let mut text = String::new();
    node.each_scalar(&mut |path, scalar| {
        text.push_str(path);
        text.push('=');
        text.push_str(&format!("{:?}", scalar.value));
        text.push('\n');
    });
    text
}
