//! The output's schema for runtimes. They support fewer keywords than the check on the host. A schema with others is not
//! given to them, and the agent writes a file instead. The check is the same.

use serde_json::{Map, Value as Json};

/// Keywords with the same meaning in every draft since 6.
const PLAIN: &[&str] = &[
    "type",
    "enum",
    "const",
    "required",
    "description",
    "title",
    "default",
    "examples",
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
];
/// Keywords that hold one schema, a list of schemas, or a map of schemas.
const ONE: &[&str] = &["items", "additionalProperties", "not", "contains"];
const LIST: &[&str] = &["anyOf", "oneOf", "allOf"];
const MAP: &[&str] = &["properties", "definitions", "$defs"];
/// Keywords about the document, which are removed.
const ABOUT: &[&str] = &["$schema", "$id", "$comment"];

const MAX_DEPTH: usize = 64;

/// The schema for a runtime; `None` if it has unsupported keywords.
pub fn plain(schema: &Json) -> Option<Json> {
    let simple = simplify(schema, 0)?;
    (simple["type"] == "object").then_some(simple)
}

fn simplify(schema: &Json, depth: usize) -> Option<Json> {
    let fields = match schema {
        Json::Bool(_) => return Some(schema.clone()),
        Json::Object(fields) if depth < MAX_DEPTH => fields,
        _ => return None,
    };
    let mut out = Map::new();
    for (word, value) in fields {
        let word = word.as_str();
        let kept = match word {
            _ if ABOUT.contains(&word) => continue,
            _ if PLAIN.contains(&word) => value.clone(),
            _ if ONE.contains(&word) => simplify(value, depth + 1)?,
            _ if LIST.contains(&word) => {
                let items = value.as_array()?.iter().map(|item| simplify(item, depth + 1));
                Json::Array(items.collect::<Option<_>>()?)
            }
            _ if MAP.contains(&word) => {
                let items = value.as_object()?.iter();
                let items = items.map(|(name, item)| Some((name.clone(), simplify(item, depth + 1)?)));
                Json::Object(items.collect::<Option<_>>()?)
            }
            "$ref" if value.as_str().is_some_and(|to| to.starts_with('#')) => value.clone(),
            _ => return None,
        };
        out.insert(word.to_owned(), kept);
    }
    Some(Json::Object(out))
}

/// The plain schema, if it is as strict as the Responses API requires.
pub fn strict(schema: &Json) -> Option<Json> {
    plain(schema).filter(is_strict)
}

/// Every object is closed, every property required.
fn is_strict(schema: &Json) -> bool {
    let below = match schema {
        Json::Object(fields) => fields.values().all(is_strict),
        Json::Array(items) => items.iter().all(is_strict),
        _ => true,
    };
    let Some(properties) = schema["properties"].as_object() else { return below };
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    let all = properties.keys().all(|name| required.contains(&name.as_str()));
    below && all && schema["additionalProperties"] == false
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_portable_schema_keywords_are_passed_on() {
        let schema = json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
            "properties": { "a": { "type": "array", "items": { "$ref": "#/$defs/b" } } }, "$defs": { "b": true } });
        let mut expected = schema.clone();
        expected.as_object_mut().unwrap().remove("$schema");
        assert_eq!(plain(&schema), Some(expected));
        for other in [
            json!({ "type": "array" }),
            json!({ "type": "object", "unevaluatedProperties": false }),
            json!({ "type": "object", "properties": { "a": { "$ref": "other.json" } } }),
            json!({ "type": "object", "properties": { "a": { "prefixItems": [] } } }),
            json!(true),
        ] {
            assert_eq!(plain(&other), None, "{other}");
        }
    }

    #[test]
    fn strict_is_closed_and_complete_all_the_way_down() {
        let closed = |inner: Json| json!({ "type": "object", "properties": { "a": inner }, "required": ["a"], "additionalProperties": false });
        assert!(is_strict(&closed(json!({ "type": "string" }))));
        assert!(is_strict(&closed(closed(json!({})))));
        assert!(!is_strict(&closed(json!({ "type": "object", "properties": { "b": {} } }))));
        assert!(!is_strict(&json!({ "type": "object", "properties": { "a": {} }, "required": ["a"] })));
    }
}
