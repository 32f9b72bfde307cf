//! Tree to typed values. A [`Shape`] knows how to read itself from a node, how two of its nodes merge, and its JSON
//! Schema. All problems of a document are reported, not only the first.

use std::ops::Deref;

use crate::macros::{Json, json};
use crate::merge::{append_unique, by_name, replace};
use crate::{Diagnostic, Node, Schemas, Span, Value, closest};

pub trait Shape: Sized {
    /// Reads the value; `None` after a problem was reported.
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self>;

    /// What an absent value means: a problem, unless the shape says otherwise.
    fn absent(decoder: &mut Decoder, record: Span, field: &str) -> Option<Self> {
        let path = decoder.path_to(field);
        decoder.report(Diagnostic::error("missing", record, format!("`{path}` is missing")));
        None
    }

    /// Merges an overlay into its base.
    fn merge(base: Node, overlay: Node) -> Node {
        replace(base, overlay)
    }

    fn schema(schemas: &mut Schemas) -> Json;

    /// Whether a record without this field is complete.
    fn optional() -> bool {
        false
    }
}

/// The most items of one list, keys of one map. A person writes far fewer; more would only take time.
pub const MAX_ITEMS: usize = 5000;

/// The most misspelt keys of one map that are shown.
const MAX_UNKNOWN: usize = 20;

/// Reads one document and collects what is wrong with it.
#[derive(Debug, Default)]
pub struct Decoder {
    pub diagnostics: Vec<Diagnostic>,
    path: Vec<String>,
    layers_missing: bool,
}

impl Decoder {
    /// For a complete document: an absent required field is an error.
    pub fn whole() -> Self {
        Self::default()
    }

    /// For one file of several: fields of a layered record may still come from the others.
    pub fn part() -> Self {
        Self { layers_missing: true, ..Self::default() }
    }

    pub fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// The dotted path of the value being read.
    pub fn path(&self) -> String {
        self.path.join(".")
    }

    fn path_to(&self, field: &str) -> String {
        if self.path.is_empty() { field.to_owned() } else { format!("{}.{field}", self.path()) }
    }

    /// Reports that the value is of the wrong kind.
    pub fn wrong_kind(&mut self, node: &Node, expected: &str) {
        let message = format!("`{}` must be {expected}", self.path());
        let mut diagnostic = Diagnostic::error("type", node.at, message)
            .label(format!("expected {expected}, found {}", node.kind()));
        if let (Value::Text(text), true) = (&node.value, expected.starts_with("true")) {
            diagnostic = match text.to_ascii_lowercase().as_str() {
                "yes" | "on" | "y" => diagnostic.help("write `true`"),
                "no" | "off" | "n" => diagnostic.help("write `false`"),
                _ => diagnostic,
            };
        }
        self.report(diagnostic);
    }

    /// Reports a value of the right kind that is not allowed.
    pub fn wrong_value(&mut self, node: &Node, why: impl Into<String>) {
        let message = format!("`{}` {}", self.path(), why.into());
        self.report(Diagnostic::error("value", node.at, message));
    }

    /// Reports a list or a map that has more items than are read.
    pub fn too_many(&mut self, node: &Node) -> bool {
        let count = node.items().len() + node.entries().len();
        if count > MAX_ITEMS {
            self.wrong_value(node, format!("has {count} items; at most {MAX_ITEMS} are read"));
        }
        count > MAX_ITEMS
    }

    /// Checks that the node is a map with known keys only.
    pub fn record(&mut self, node: &Node, known: &[&'static str], refused: &[(&str, &str)]) -> Option<()> {
        let Value::Map(entries) = &node.value else {
            let expected = if self.path.is_empty() { "a map of fields" } else { "a map" };
            if self.path.is_empty() {
                let message = format!("the document must be {expected}");
                self.report(
                    Diagnostic::error("type", node.at, message).label(format!("found {}", node.kind())),
                );
            } else {
                self.wrong_kind(node, expected);
            }
            return None;
        };
        let unknown: Vec<_> = entries.iter().filter(|entry| !known.contains(&entry.key.as_str())).collect();
        if let Some(next) = unknown.get(MAX_UNKNOWN) {
            let message = format!("{} more unknown keys follow", unknown.len() - MAX_UNKNOWN);
            self.report(Diagnostic::error("unknown-key", next.key_at, message).label("the first of them"));
        }
        let mut listed = false;
        for entry in unknown.into_iter().take(MAX_UNKNOWN) {
            let path = self.path_to(&entry.key);
            if let Some((_, why)) = refused.iter().find(|(key, _)| *key == entry.key) {
                self.report(
                    Diagnostic::error("refused-key", entry.key_at, format!("`{path}` is refused")).help(*why),
                );
                continue;
            }
            let diagnostic = Diagnostic::error("unknown-key", entry.key_at, format!("unknown key `{path}`"));
            self.report(match closest(&entry.key, known.iter().copied()) {
                Some(near) => diagnostic.label(format!("did you mean `{near}`?")),
                None if listed => diagnostic.label("not a key of this map"),
                None => {
                    listed = true;
                    let help = format!("known keys: {}", known.join(", "));
                    diagnostic.label("not a key of this map").help(help)
                }
            });
        }
        Some(())
    }

    /// Reads one field of a record. In a layered record another file may still set an absent field.
    pub fn field<T: Shape>(&mut self, record: &Node, field: &'static str, layered: bool) -> Option<T> {
        match record.get(field) {
            Some(node) => self.within(field, |decoder| T::decode(node, decoder)),
            None if layered && self.layers_missing && !T::optional() => None,
            None => T::absent(self, record.at, field),
        }
    }

    /// Runs `read` one step deeper in the path.
    pub fn within<T>(&mut self, step: impl Into<String>, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(step.into());
        let result = read(self);
        self.path.pop();
        result
    }
}

/// A value and where it was written.
#[derive(Clone, Debug)]
pub struct Spanned<T> {
    pub value: T,
    pub at: Span,
}

impl<T> Deref for Spanned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: PartialEq> PartialEq for Spanned<T> {
    /// Equal values are equal wherever they were written.
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Shape> Shape for Spanned<T> {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        T::decode(node, decoder).map(|value| Self { value, at: node.at })
    }

    fn merge(base: Node, overlay: Node) -> Node {
        T::merge(base, overlay)
    }

    fn schema(schemas: &mut Schemas) -> Json {
        T::schema(schemas)
    }
}

impl<T: Shape> Shape for Option<T> {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        if node.is_null() { Some(None) } else { T::decode(node, decoder).map(Some) }
    }

    fn absent(_: &mut Decoder, _: Span, _: &str) -> Option<Self> {
        Some(None)
    }

    fn merge(base: Node, overlay: Node) -> Node {
        T::merge(base, overlay)
    }

    fn schema(schemas: &mut Schemas) -> Json {
        T::schema(schemas)
    }

    fn optional() -> bool {
        true
    }
}

/// A layered record of which one file may set only a part. That part is checked. Whether it is complete is known only
/// after the merge, so it never makes the enclosing record incomplete.
#[derive(Clone, Debug, PartialEq)]
pub struct Partial<T>(pub Option<T>);

impl<T: Shape> Shape for Partial<T> {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        Some(Self(T::decode(node, decoder)))
    }

    fn merge(base: Node, overlay: Node) -> Node {
        T::merge(base, overlay)
    }

    fn schema(schemas: &mut Schemas) -> Json {
        T::schema(schemas)
    }
}

/// A value that a nearer file replaces as a whole, such as a list whose order, repetition or completeness means something.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unmerged<T>(pub T);

impl<T> Deref for Unmerged<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Shape> Shape for Unmerged<T> {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        T::decode(node, decoder).map(Self)
    }

    fn absent(decoder: &mut Decoder, record: Span, field: &str) -> Option<Self> {
        T::absent(decoder, record, field).map(Self)
    }

    fn schema(schemas: &mut Schemas) -> Json {
        T::schema(schemas)
    }

    fn optional() -> bool {
        T::optional()
    }
}

impl<T: Shape> Shape for Vec<T> {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        let Value::List(items) = &node.value else {
            decoder.wrong_kind(node, "a list");
            return None;
        };
        if decoder.too_many(node) {
            return None;
        }
        let read: Vec<Option<T>> = items
            .iter()
            .enumerate()
            .map(|(index, item)| decoder.within(index.to_string(), |decoder| T::decode(item, decoder)))
            .collect();
        read.into_iter().collect()
    }

    fn absent(_: &mut Decoder, _: Span, _: &str) -> Option<Self> {
        Some(Vec::new())
    }

    fn merge(base: Node, overlay: Node) -> Node {
        append_unique(base, overlay)
    }

    fn schema(schemas: &mut Schemas) -> Json {
        json!({ "type": "array", "items": T::schema(schemas) })
    }

    fn optional() -> bool {
        true
    }
}

/// A map with free keys, in the order they were written.
#[derive(Clone, Debug, PartialEq)]
pub struct Map<T>(pub Vec<(Spanned<String>, T)>);

impl<T> Default for Map<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Map<T> {
    pub fn get(&self, key: &str) -> Option<&T> {
        self.0.iter().find(|(name, _)| name.value == key).map(|(_, value)| value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Spanned<String>, &T)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Shape> Shape for Map<T> {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        let Value::Map(entries) = &node.value else {
            decoder.wrong_kind(node, "a map");
            return None;
        };
        if decoder.too_many(node) {
            return None;
        }
        let mut complete = true;
        let mut read = Vec::new();
        for entry in entries.iter().filter(|entry| T::optional() || !entry.node.is_null()) {
            match decoder.within(&entry.key, |decoder| T::decode(&entry.node, decoder)) {
                Some(value) => read.push((Spanned { value: entry.key.clone(), at: entry.key_at }, value)),
                None => complete = false,
            }
        }
        complete.then_some(Self(read))
    }

    fn absent(_: &mut Decoder, _: Span, _: &str) -> Option<Self> {
        Some(Self::default())
    }

    fn merge(base: Node, overlay: Node) -> Node {
        by_name(base, overlay, |_, base, overlay| T::merge(base, overlay))
    }

    fn schema(schemas: &mut Schemas) -> Json {
        let value = T::schema(schemas);
        json!({ "type": "object", "additionalProperties": { "anyOf": [value, { "type": "null" }] } })
    }

    fn optional() -> bool {
        true
    }
}
