//! The shape of a JSON value, as data, and the check of a value against it.

use super::{AllowedFeatures, NotAllowed};
use serde_json::{Map, Value};

pub(super) type Fields = &'static [(&'static str, Shape)];

pub(super) enum Shape {
    /// Any value: the vendor reads no feature from it.
    Any,
    /// A text, a number, a boolean or null.
    Scalar,
    /// One of these texts, or null.
    OneOf(&'static [&'static str]),
    /// False or null.
    False,
    /// 1 or null.
    One,
    /// True, false or null.
    Bool,
    /// A `data:` URL of an image, a recording or a PDF. Any other URL would be fetched by the vendor, and the guard would
    /// have to read any other file as text.
    DataUrl,
    /// The media type of what `DataUrl` may hold.
    MediaType,
    /// An object with these fields and no others.
    Object(Fields),
    /// A list, or null.
    List(&'static Shape),
    /// A text, null, or this.
    TextOr(&'static Shape),
    /// An object whose `type` selects its fields.
    Tagged(&'static TaggedObject),
}

pub(super) struct TaggedObject {
    /// The word before the type in the name of a feature: `tool`, `block`, `source`.
    pub(super) kind: &'static str,
    /// The type of an object without one.
    pub(super) default: &'static str,
    /// A type that ends in `*` stands for all its versions: the rest is a date.
    pub(super) types: &'static [(&'static str, Variant)],
}

pub(super) enum Variant {
    Fields(Fields),
    /// The program inside runs this tool, whatever its options are.
    AnyFields,
}

pub(super) fn check(shape: &Shape, value: &Value, allowed: &AllowedFeatures) -> Result<(), NotAllowed> {
    Check { allowed, path: Vec::new() }.value(shape, value)
}

struct Check<'a> {
    allowed: &'a AllowedFeatures,
    path: Vec<&'a str>,
}

impl<'a> Check<'a> {
    fn value(&mut self, shape: &Shape, value: &'a Value) -> Result<(), NotAllowed> {
        match shape {
            Shape::Any => Ok(()),
            Shape::Scalar if value.is_object() || value.is_array() => Err(self.wrong("a single value")),
            Shape::Scalar => Ok(()),
            Shape::OneOf(texts) => match value {
                Value::Null => Ok(()),
                Value::String(text) if texts.contains(&text.as_str()) => Ok(()),
                _ => self.needs(&format!("field:{}={}", self.path(), text_of(value))),
            },
            Shape::False if matches!(value, Value::Null | Value::Bool(false)) => Ok(()),
            Shape::One if value.is_null() || value.as_f64() == Some(1.0) => Ok(()),
            Shape::False | Shape::One => self.needs(&format!("field:{}={}", self.path(), text_of(value))),
            Shape::Bool if matches!(value, Value::Null | Value::Bool(_)) => Ok(()),
            Shape::Bool => Err(self.wrong("true or false")),
            Shape::DataUrl => match value.as_str().map(|url| url.strip_prefix("data:").ok_or(url)) {
                Some(Ok(data)) if is_unreadable(data) => Ok(()),
                Some(Ok(data)) => self.needs(&format!("source:data:{}", media_type(data))),
                Some(Err(_)) => self.needs("source:url"),
                None => Err(self.wrong("a URL")),
            },
            Shape::MediaType => match value.as_str() {
                Some(media) if is_unreadable(media) => Ok(()),
                Some(media) => self.needs(&format!("source:data:{}", media_type(media))),
                None => Err(self.wrong("a media type")),
            },
            Shape::Object(fields) => self.fields(fields, self.object(value)?),
            Shape::List(element) => match value {
                Value::Null => Ok(()),
                Value::Array(list) => list.iter().try_for_each(|value| self.value(element, value)),
                _ => Err(self.wrong("a list")),
            },
            Shape::TextOr(other) => match value {
                Value::Null | Value::String(_) => Ok(()),
                value => self.value(other, value),
            },
            Shape::Tagged(tagged) => self.tagged(tagged, self.object(value)?),
        }
    }

    fn fields(&mut self, fields: Fields, object: &'a Map<String, Value>) -> Result<(), NotAllowed> {
        for (name, value) in object {
            self.path.push(name);
            match fields.iter().find(|(known, _)| known == name) {
                Some((_, shape)) => self.value(shape, value)?,
                None => self.needs(&format!("field:{}", self.path()))?,
            }
            self.path.pop();
        }
        Ok(())
    }

    fn tagged(&mut self, tagged: &TaggedObject, object: &'a Map<String, Value>) -> Result<(), NotAllowed> {
        let kind = match object.get("type") {
            None | Some(Value::Null) => tagged.default,
            Some(Value::String(kind)) => kind.as_str(),
            Some(_) => return Err(self.wrong("an object with a `type`")),
        };
        match tagged.types.iter().find(|(known, _)| is_type(known, kind)) {
            Some((_, Variant::AnyFields)) => Ok(()),
            Some((_, Variant::Fields(fields))) => {
                for (name, value) in object.iter().filter(|(name, _)| *name != "type") {
                    self.path.push(name);
                    match fields.iter().find(|(known, _)| known == name) {
                        Some((_, shape)) => self.value(shape, value)?,
                        None => self.needs(&format!("field:{}", self.path()))?,
                    }
                    self.path.pop();
                }
                Ok(())
            }
            None => self.needs(&format!("{}:{kind}", tagged.kind)),
        }
    }

    fn object(&self, value: &'a Value) -> Result<&'a Map<String, Value>, NotAllowed> {
        value.as_object().ok_or_else(|| self.wrong("an object"))
    }

    fn needs(&self, feature: &str) -> Result<(), NotAllowed> {
        if self.allowed.allows(feature) { Ok(()) } else { Err(NotAllowed::Feature(shortened(feature))) }
    }

    fn wrong(&self, expected: &'static str) -> NotAllowed {
        NotAllowed::Type { path: shortened(&self.path()), expected }
    }

    fn path(&self) -> String {
        self.path.join(".")
    }
}

fn is_type(known: &str, kind: &str) -> bool {
    match known.strip_suffix('*') {
        Some(name) => kind
            .strip_prefix(name)
            .is_some_and(|date| date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit())),
        None => known == kind,
    }
}

/// Whether something of this media type holds no text that the guard could read.
fn is_unreadable(media: &str) -> bool {
    let media = media_type(media);
    let is_kind = |start: &str| media.strip_prefix(start).is_some_and(|name| !name.ends_with("xml"));
    media == "application/pdf" || ["image/", "audio/"].iter().any(|start| is_kind(start))
}

fn media_type(data: &str) -> &str {
    data.split([';', ',']).next().unwrap_or_default()
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Names come from the client, so they are bounded before they are shown.
fn shortened(text: &str) -> String {
    const MAX_CHARS: usize = 120;
    let shown: String = text.chars().filter(|c| !c.is_control()).take(MAX_CHARS).collect();
    if shown.len() < text.len() { format!("{shown}…") } else { shown }
}
