//! Bounds on a JSON document before it becomes values in memory: their number, and no name twice in one object. Parsers
//! differ in which of two equal names they use, so such a request could be checked as one thing and served as another.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::collections::HashSet;
use std::fmt;

/// Whether this is one JSON document with at most so many values, and no name twice in one object.
pub fn check_json(json: &[u8], max_values: usize) -> Result<(), serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let mut left = max_values;
    Counter { left: &mut left }.deserialize(&mut deserializer)?;
    deserializer.end()
}

struct Counter<'a> {
    left: &'a mut usize,
}

impl Counter<'_> {
    fn count<E: Error>(&mut self) -> Result<(), E> {
        *self.left = self.left.checked_sub(1).ok_or_else(|| E::custom("it has too many values"))?;
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Counter<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Counter<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E: Error>(mut self, _: bool) -> Result<(), E> {
        self.count()
    }

    fn visit_i64<E: Error>(mut self, _: i64) -> Result<(), E> {
        self.count()
    }

    fn visit_u64<E: Error>(mut self, _: u64) -> Result<(), E> {
        self.count()
    }

    fn visit_f64<E: Error>(mut self, _: f64) -> Result<(), E> {
        self.count()
    }

    fn visit_str<E: Error>(mut self, _: &str) -> Result<(), E> {
        self.count()
    }

    fn visit_unit<E: Error>(mut self) -> Result<(), E> {
        self.count()
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        self.count()?;
        while list.next_element_seed(Counter { left: self.left })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut object: A) -> Result<(), A::Error> {
        self.count()?;
        let mut names: HashSet<String> = HashSet::new();
        while let Some(name) = object.next_key::<String>()? {
            if names.contains(&name) {
                return Err(A::Error::custom(format_args!("the field {name:?} occurs twice")));
            }
            names.insert(name);
            object.next_value_seed(Counter { left: self.left })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, values: usize) -> String {
        let checked = check_json(json.as_bytes(), values);
        checked.map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn values_are_counted_and_names_are_unique() {
        assert_eq!(check(r#"{"a": [1, 2.5, "x", null, true], "b": {"a": -1}}"#, 9), "");
        assert!(check("[1,2,3]", 3).contains("too many values"));
        assert!(check(r#"{"a":{"b":1,"b":2}}"#, 9).contains("\"b\" occurs twice"));
        assert!(check(r#"{"tools":1,"to\u006fls":2}"#, 9).contains("\"tools\" occurs twice"));
        assert!(!check("[1] 2", 9).is_empty() && !check("[", 9).is_empty());
        assert!(check(&"[".repeat(1000), 9999).contains("recursion limit"));
    }
}
