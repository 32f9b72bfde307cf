//! The `skills` and `host_files` lists, whose items replace each other by directory and by destination.

use std::collections::HashMap;

use yaml::macros::{Json, json};
use yaml::{
    Decoder, Diagnostic, Map, MapEntry, Node, Schemas, Shape, Spanned, Value, by_key, by_name, record,
    replace,
};

use super::names::SandboxPath;
use super::reference::{LocalPath, Ref};
use super::template::Template;

/// A skill directory, and files of it that are replaced (by another file of the layers) or removed (`null`).
#[derive(Clone, Debug, PartialEq)]
pub struct Skill {
    pub source: Spanned<Ref>,
    pub overrides: Vec<(Spanned<LocalPath>, Option<Spanned<LocalPath>>)>,
}

/// The skills of a harness, in order, each directory once. Their names are in their files, which `check` reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Skills(pub Vec<Skill>);

impl Shape for Skill {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        if let Value::Text(_) = node.value {
            return Some(Self { source: Spanned::decode(node, decoder)?, overrides: Vec::new() });
        }
        let [entry] = node.entries() else {
            decoder.wrong_kind(node, "a path, or a map from one path to its file overrides");
            return None;
        };
        let source = Node::new(entry.key_at, Value::Text(entry.key.clone()));
        let source = Spanned::<Ref>::decode(&source, decoder)?;
        let Value::Map(files) = &entry.node.value else {
            decoder.wrong_kind(&entry.node, "a map from files of the skill to what replaces them");
            return None;
        };
        if decoder.too_many(&entry.node) {
            return None;
        }
        let overrides: Vec<_> = files.iter().map(|file| decode_override(file, decoder)).collect();
        Some(Self { source, overrides: overrides.into_iter().collect::<Option<_>>()? })
    }

    fn merge(base: Node, overlay: Node) -> Node {
        let same = source_of(&base) == source_of(&overlay);
        match (&base.value, &overlay.value) {
            (Value::Map(_), Value::Map(_)) if same => by_name(base, overlay, |_, base, overlay| {
                by_name(base, overlay, |_, base, overlay| replace(base, overlay))
            }),
            (Value::Map(_), Value::Text(_)) if same => base,
            _ => replace(base, overlay),
        }
    }

    fn schema(_: &mut Schemas) -> Json {
        let file = json!({ "anyOf": [{ "type": "string", "minLength": 1 }, { "type": "null" }] });
        json!({ "anyOf": [
            { "type": "string", "minLength": 1 },
            { "type": "object", "minProperties": 1, "maxProperties": 1,
              "additionalProperties": { "type": "object", "additionalProperties": file } },
        ]})
    }
}

fn decode_override(
    file: &MapEntry,
    decoder: &mut Decoder,
) -> Option<(Spanned<LocalPath>, Option<Spanned<LocalPath>>)> {
    let key = Node::new(file.key_at, Value::Text(file.key.clone()));
    let target = Spanned::<LocalPath>::decode(&key, decoder)?;
    Some((target, Option::<Spanned<LocalPath>>::decode(&file.node, decoder)?))
}

fn source_of(node: &Node) -> Option<String> {
    match &node.value {
        Value::Text(text) => Some(text.clone()),
        Value::Map(entries) => entries.first().map(|entry| entry.key.clone()),
        _ => None,
    }
}

/// The directory in one canonical spelling.
fn directory(node: &Node) -> Option<String> {
    Ref::parse(&source_of(node)?).ok().map(|source| source.to_string())
}

impl Shape for Skills {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        let skills = Vec::<Skill>::decode(node, decoder)?;
        let mut distinct = true;
        let mut listed: HashMap<&Ref, &Skill> = HashMap::new();
        for skill in &skills {
            if let Some(first) = listed.insert(&skill.source.value, skill) {
                let message = "a skill is listed twice";
                decoder.report(
                    Diagnostic::error("skill-collision", skill.source.at, message)
                        .related(first.source.at, "the first one")
                        .help("remove one of them"),
                );
                distinct = false;
            }
        }
        distinct.then_some(Self(skills))
    }

    fn absent(_: &mut Decoder, _: yaml::Span, _: &str) -> Option<Self> {
        Some(Self::default())
    }

    fn merge(base: Node, overlay: Node) -> Node {
        by_key(base, overlay, directory, Skill::merge)
    }

    fn schema(schemas: &mut Schemas) -> Json {
        Vec::<Skill>::schema(schemas)
    }

    fn optional() -> bool {
        true
    }
}

record! {
    /// A file of the host that is copied into the sandbox before the agent starts.
    pub struct HostFile {
        /// Path on the host: inside the layer, or absolute; `${VAR}` is expanded.
        src: Spanned<Template>,
        /// Path inside the sandbox.
        dest: Spanned<SandboxPath>,
        /// Whether `${VAR}` in the file's contents is expanded too. Default: false.
        expand: Option<bool>,
        /// Whether the run continues if the file is missing. Default: false.
        optional: Option<bool>,
        /// Whether the values of the providers' credentials are placeholders in the copy. A file with another credential is refused. Default: false.
        mask: Option<bool>,
    }
}

/// The host files of a harness, each destination once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostFiles(pub Vec<HostFile>);

impl Shape for HostFiles {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        let files = Vec::<HostFile>::decode(node, decoder)?;
        let mut filled: HashMap<&str, &HostFile> = HashMap::new();
        for file in &files {
            if let Some(first) = filled.insert(file.dest.as_str(), file) {
                let message = format!("two host files have the destination `{}`", file.dest.value);
                let second = Diagnostic::error("duplicate-destination", file.dest.at, message);
                decoder.report(second.related(first.dest.at, "the first one"));
                return None;
            }
        }
        Some(Self(files))
    }

    fn absent(_: &mut Decoder, _: yaml::Span, _: &str) -> Option<Self> {
        Some(Self::default())
    }

    fn merge(base: Node, overlay: Node) -> Node {
        by_key(base, overlay, |file| file.get("dest").and_then(Node::scalar).map(str::to_owned), replace)
    }

    fn schema(schemas: &mut Schemas) -> Json {
        Vec::<HostFile>::schema(schemas)
    }

    fn optional() -> bool {
        true
    }
}

/// Environment variables with their values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variables(pub Map<Spanned<Template>>);

impl Shape for Variables {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        let map = Map::<Spanned<Template>>::decode(node, decoder)?;
        for (name, _) in map.iter().filter(|(name, _)| !super::template::is_variable_name(name)) {
            let message = format!("`{}.{}` is not a variable's name", decoder.path(), name.value);
            decoder.report(
                Diagnostic::error("variable-name", name.at, message).help("use letters, digits and `_`"),
            );
        }
        Some(Self(map))
    }

    fn absent(_: &mut Decoder, _: yaml::Span, _: &str) -> Option<Self> {
        Some(Self::default())
    }

    fn merge(base: Node, overlay: Node) -> Node {
        Map::<Spanned<Template>>::merge(base, overlay)
    }

    fn schema(_: &mut Schemas) -> Json {
        json!({
            "type": "object",
            "propertyNames": { "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" },
            "additionalProperties": { "type": ["string", "number", "boolean", "null"] },
        })
    }

    fn optional() -> bool {
        true
    }
}
