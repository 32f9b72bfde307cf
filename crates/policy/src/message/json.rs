//! Unambiguous JSON. A repeated key, also in another case, is refused: of two values servers use the first, the last or
//! both, and some compare keys without regard to case.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::MessageError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Json {
    Null,
    /// A truth value or a number, as JSON writes it.
    Plain(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// Refuses what is nested deeper than 128 levels, and bytes after the document.
pub(super) fn parse(bytes: &[u8]) -> Result<Json, MessageError> {
    if bytes.is_empty() {
        return Err(MessageError::new("the body is empty"));
    }
    serde_json::from_slice(bytes)
        .map_err(|error| MessageError::new(format!("the body is not plain JSON: {error}")))
}

/// A key in folded case, for servers that ignore case; by the simple case folding of Unicode.
pub fn fold(key: &str) -> String {
    let folded = |character: char| match character {
        'ſ' => 's',
        other => other,
    };
    key.chars().flat_map(char::to_lowercase).map(folded).collect()
}

impl Json {
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Object(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Plain(value.to_string()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Plain(value.to_string()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Plain(value.to_string()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Plain(value.to_string()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut object = Vec::new();
        let mut seen = HashSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            if !seen.insert(fold(&key)) {
                return Err(A::Error::custom("an object has the same key twice"));
            }
            object.push((key, entries.next_value()?));
        }
        Ok(Json::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::{Json, fold, parse};

    #[test]
    fn what_has_two_readings_is_refused() {
        let wrong = [
            "",
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"A":2}"#,
            r#"{"x":{"s":1,"ſ":2}}"#,
            r#"{"\u0061":1,"a":2}"#,
            r#"{"a":1} "#.trim_end().strip_suffix('}').unwrap(),
            r#"{"a":1}{"#,
            r#"{"a":1}//"#,
            "{'a':1}",
            r#"{"a":01}"#,
            r#"{"a":NaN}"#,
            r#"["\ud800"]"#,
            "\u{feff}{}",
            "{\"a\":\"\n\"}",
            &"[".repeat(200),
            &format!("{}{}", "[".repeat(129), "]".repeat(129)),
        ];
        for text in wrong {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(parse(b"[\"\xff\"]").is_err());
        assert!(
            parse("{}".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>().as_slice()).is_err()
        );
        assert_eq!(
            parse(b" {\"a\":[1,-2,true,null]} ").unwrap().get("a").map(|list| match list {
                Json::List(items) => items.len(),
                _ => 0,
            }),
            Some(4)
        );
        assert_eq!(fold("MethodſK"), "methodsk");
    }
}
