//! How a value nearer the repository stands over one farther away, written once for each kind of field: scalars
//! replace, maps merge by key, `null` deletes, lists either append without duplicates or replace items by name.
//! `upper` is the value farther away, `lower` the nearer one, which wins.

use crate::{Entry, Node, Value};

/// Takes the key of a list item: what makes two items the same thing.
pub type Keyed = fn(&Node) -> Option<String>;

/// The nearer value stands, and remembers which it replaced.
pub fn replace(upper: Node, mut lower: Node) -> Node {
    let mut replaced = upper.replaced;
    replaced.push(upper.at);
    replaced.append(&mut lower.replaced);
    lower.replaced = replaced;
    lower
}

/// Maps merge by key; each key by `rule`. A `null` stays as the mark of a deletion.
pub fn by_name(upper: Node, lower: Node, rule: impl Fn(&str, Node, Node) -> Node) -> Node {
    let (Value::Map(_), Value::Map(_)) = (&upper.value, &lower.value) else { return replace(upper, lower) };
    let (Value::Map(uppers), Value::Map(lowers)) = (upper.value, lower.value) else {
        unreachable!("both are maps")
    };
    let mut merged: Vec<Entry> = uppers;
    for entry in lowers {
        match merged.iter().position(|known| known.key == entry.key) {
            None => merged.push(entry),
            Some(index) => {
                let known = merged.remove(index);
                let node = if entry.node.is_null() || known.node.is_null() {
                    replace(known.node, entry.node)
                } else {
                    rule(&entry.key, known.node, entry.node)
                };
                merged.insert(index, Entry { node, ..entry });
            }
        }
    }
    Node { at: lower.at, value: Value::Map(merged), replaced: lower.replaced }
}

/// Items of the same key replace each other in place, by `rule`; others are appended.
pub fn by_key(upper: Node, lower: Node, key: Keyed, rule: fn(Node, Node) -> Node) -> Node {
    let (Value::List(_), Value::List(_)) = (&upper.value, &lower.value) else { return replace(upper, lower) };
    let (Value::List(mut merged), Value::List(lowers)) = (upper.value, lower.value) else {
        unreachable!("both are lists")
    };
    for item in lowers {
        let same =
            key(&item).and_then(|name| merged.iter().position(|known| key(known).as_ref() == Some(&name)));
        match same {
            None => merged.push(item),
            Some(index) => {
                let known = merged.remove(index);
                merged.insert(index, rule(known, item));
            }
        }
    }
    Node { at: lower.at, value: Value::List(merged), replaced: lower.replaced }
}

/// The lists one after the other, each item once.
pub fn append_unique(upper: Node, lower: Node) -> Node {
    by_key(upper, lower, |item| Some(fingerprint(item)), |known, _| known)
}

/// A text that is equal for equal values, wherever they were written.
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
