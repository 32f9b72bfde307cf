//! The JSON Schema of policy files, for editors.

use yaml::macros::Json;

use crate::file::PolicyFile;

/// The schema document. Unlike in harness and config files, a key without a value is refused here, so the schema
/// allows `null` nowhere.
pub fn schema() -> Json {
    let mut document = yaml::document::<PolicyFile>("urn:fullsend:policy:1", "OpenShell policy");
    forbid_null(&mut document);
    document
}

fn forbid_null(schema: &mut Json) {
    match schema {
        Json::Array(items) => items.iter_mut().for_each(forbid_null),
        Json::Object(object) => {
            object.values_mut().for_each(forbid_null);
            if let Some(Json::Array(kinds)) = object.get_mut("type") {
                kinds.retain(|kind| kind != "null");
                if let [single] = kinds.as_slice() {
                    let single = single.clone();
                    object.insert("type".to_owned(), single);
                }
            }
            let either = object.get_mut("anyOf").and_then(Json::as_array_mut);
            let single = either.and_then(|either| {
                either.retain(|option| option.get("type").is_none_or(|kind| kind != "null"));
                if either.len() == 1 { either.pop() } else { None }
            });
            if let Some(Json::Object(single)) = single {
                object.remove("anyOf");
                for (key, value) in single {
                    object.entry(key).or_insert(value);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::schema;

    #[test]
    fn the_schema_knows_every_key_and_no_null() {
        let text = schema().to_string();
        assert!(!text.contains("null"), "{text}");
        let schema = schema();
        let keys = |name: &str| schema["$defs"][name]["properties"].as_object().unwrap().len();
        assert_eq!(keys("PolicyFile"), 6);
        assert_eq!(keys("EndpointFile"), 24);
        assert_eq!(schema["$defs"]["PolicyFile"]["required"], yaml::macros::json!(["version"]));
        let protocol = &schema["$defs"]["EndpointFile"]["properties"]["protocol"];
        assert_eq!(protocol["enum"].as_array().unwrap().len(), 8, "{protocol}");
    }
}
