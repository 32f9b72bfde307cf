//! What `explain --format json` says, as a map from field to value and origin, so that tests can ask for both.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::support::World;

/// The effective values of one harness.
#[derive(Debug)]
pub struct Explained(BTreeMap<String, Row>);

#[derive(Debug)]
struct Row {
    value: String,
    set_by: String,
    replaced: Vec<String>,
}

impl Explained {
    /// Explains `triage`, which must resolve. `org/` is the organisation's layer, if the test made one.
    pub fn of(world: &World, arguments: &[&str]) -> Self {
        let ran = world.run(&[&["explain", "triage", "--format", "json"], arguments].concat());
        assert_eq!(ran.code, 0, "{}", ran.all());
        let rows: Vec<Json> = serde_json::from_str(&ran.out).unwrap();
        Self(rows.iter().map(|row| (text(&row["field"]), Row::read(row))).collect())
    }

    pub fn value(&self, field: &str) -> Option<&str> {
        self.0.get(field).map(|row| row.value.as_str())
    }

    /// `file:line` of the value.
    pub fn set_by(&self, field: &str) -> Option<&str> {
        self.0.get(field).map(|row| row.set_by.as_str())
    }

    /// `file:line` of what it replaced, the farthest first.
    pub fn replaced(&self, field: &str) -> Vec<&str> {
        self.0.get(field).map(|row| row.replaced.iter().map(String::as_str).collect()).unwrap_or_default()
    }

    /// Every value at or below a field.
    pub fn below(&self, field: &str) -> Vec<(&str, &str)> {
        let inside = |name: &str| {
            name.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let rows = self.0.iter().filter(|(name, _)| inside(name));
        rows.map(|(name, row)| (name.as_str(), row.value.as_str())).collect()
    }
}

impl Row {
    fn read(row: &Json) -> Self {
        let place = |place: &Json| format!("{}:{}", text(&place["file"]), place["line"]);
        Self {
            value: text(&row["value"]),
            set_by: place(&row["set_by"]),
            replaced: row["replaced"].as_array().unwrap().iter().map(place).collect(),
        }
    }
}

fn text(json: &Json) -> String {
    json.as_str().unwrap().to_owned()
}
