//! JSON Schema 2020-12, made from the same declarations that read the files.

use crate::Shape;
use crate::macros::{Json, Object, json};

/// The definitions of one schema document, each record once.
#[derive(Debug, Default)]
pub struct Schemas {
    definitions: Object<String, Json>,
}

/// One field of a record in a schema.
pub struct Field {
    key: &'static str,
    schema: Json,
    required: bool,
}

/// The schema of one field. A layered record requires no field: another file may set it.
pub fn schema_field<T: Shape>(schemas: &mut Schemas, key: &'static str, doc: &str, layered: bool) -> Field {
    let mut schema = T::schema(schemas);
    if let (Some(object), false) = (schema.as_object_mut(), doc.is_empty()) {
        object.insert("description".to_owned(), json!(sentence(doc)));
    }
    if T::optional() || layered {
        schema = nullable(schema);
    }
    Field { key, schema, required: !T::optional() && !layered }
}

/// Doc comments keep the space after `///` of every line.
fn sentence(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `null` removes an inherited value, so it is allowed wherever a value may be absent.
fn nullable(mut schema: Json) -> Json {
    match schema.get_mut("type") {
        Some(kind) if kind.is_string() => {
            *kind = json!([kind.clone(), "null"]);
            schema
        }
        _ => {
            let description = schema.as_object_mut().and_then(|object| object.remove("description"));
            let mut either = json!({ "anyOf": [schema, { "type": "null" }] });
            if let (Some(description), Some(object)) = (description, either.as_object_mut()) {
                object.insert("description".to_owned(), description);
            }
            either
        }
    }
}

impl Schemas {
    /// Adds a record once and returns the reference to it.
    pub fn define(&mut self, name: &str, doc: &str, fields: impl FnOnce(&mut Self) -> Vec<Field>) -> Json {
        if !self.definitions.contains_key(name) {
            self.definitions.insert(name.to_owned(), Json::Null);
            let fields = fields(self);
            let required: Vec<&str> =
                fields.iter().filter(|field| field.required).map(|field| field.key).collect();
            let mut definition = json!({
                "type": "object",
                "description": sentence(doc),
                "properties": Object::from_iter(fields.iter().map(|f| (f.key.to_owned(), f.schema.clone()))),
                "additionalProperties": false,
            });
            if !required.is_empty() {
                definition["required"] = json!(required);
            }
            self.definitions.insert(name.to_owned(), definition);
        }
        json!({ "$ref": format!("#/$defs/{name}") })
    }
}

/// A whole schema document for the shape `T`.
pub fn document<T: Shape>(id: &str, title: &str) -> Json {
    let mut schemas = Schemas::default();
    let root = T::schema(&mut schemas);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": id,
        "title": title,
        "$ref": root["$ref"],
        "$defs": schemas.definitions,
    })
}
