//! The tree of one document. Scalars keep their raw text, so that `1.10` given where text is wanted stays `1.10`.

use crate::Span;

/// One value with the place where it was written and the places whose values it replaced, oldest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub at: Span,
    pub value: Value,
    pub replaced: Vec<Span>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    /// An integer or a float, as it was written.
    Number(String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<MapEntry>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct MapEntry {
    pub key: String,
    pub key_at: Span,
    pub node: Node,
}

impl Node {
    pub fn new(at: Span, value: Value) -> Self {
        Self { at, value, replaced: Vec::new() }
    }

    pub fn is_null(&self) -> bool {
        self.value == Value::Null
    }

    /// The value under `key`, if this is a map that has it. A `null` counts as absent.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.node).filter(|node| !node.is_null())
    }

    pub fn entry(&self, key: &str) -> Option<&MapEntry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    pub fn entries(&self) -> &[MapEntry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    pub fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// The text of a scalar, whatever its kind; `None` for lists, maps and null.
    pub fn scalar(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) | Value::Number(text) => Some(text),
            Value::Bool(true) => Some("true"),
            Value::Bool(false) => Some("false"),
            Value::Null | Value::List(_) | Value::Map(_) => None,
        }
    }

    /// The number that is written here, in any of the ways to write one.
    pub fn number(&self) -> Option<f64> {
        match &self.value {
            Value::Number(raw) => crate::scalar::number(raw),
            _ => None,
        }
    }

    /// Follows a dotted path; list items are chosen by number.
    pub fn find(&self, path: &str) -> Option<&Node> {
        path.split('.').try_fold(self, |node, step| match &node.value {
            Value::List(items) => step.parse().ok().and_then(|index: usize| items.get(index)),
            _ => node.get(step),
        })
    }

    /// The name of this kind of value for messages.
    pub fn kind(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Bool(value) => format!("`{value}`"),
            Value::Number(raw) => format!("the number {raw}"),
            Value::Text(_) => "text".to_owned(),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        }
    }

    /// Calls `visit` with the dotted path and node of every scalar below this one.
    pub fn each_scalar<'a>(&'a self, visit: &mut impl FnMut(&str, &'a Node)) {
        self.walk(&mut String::new(), visit);
    }

    fn walk<'a>(&'a self, path: &mut String, visit: &mut impl FnMut(&str, &'a Node)) {
        let children: Vec<(String, &Node)> = match &self.value {
            Value::List(items) => items.iter().enumerate().map(|(i, node)| (i.to_string(), node)).collect(),
            Value::Map(entries) => entries.iter().map(|entry| (entry.key.clone(), &entry.node)).collect(),
            _ => return visit(path, self),
        };
        let length = path.len();
        for (step, child) in children {
            if length > 0 {
                path.push('.');
            }
            path.push_str(&step);
            child.walk(path, visit);
            path.truncate(length);
        }
    }
}
