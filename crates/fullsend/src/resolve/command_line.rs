//! Values of the command line, merged over the harness like one more file, so that pins and origins apply to them.

use yaml::{Diagnostic, Node, ParseLimits};

use super::layers::LayerKind;
use super::library::Library;

/// One value of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLineValue {
    /// The field of the harness, such as `budget.usd`.
    pub field: &'static str,
    /// As YAML.
    pub value: String,
}

impl CommandLineValue {
    /// A text. Every JSON string is YAML.
    pub fn text(field: &'static str, text: &str) -> Self {
        Self { field, value: serde_json::Value::from(text).to_string() }
    }
}

/// The values in the form of a harness.
pub(super) fn overlay(
    library: &mut Library,
    values: &[CommandLineValue],
    problems: &mut Vec<Diagnostic>,
) -> Option<Node> {
    let line = |CommandLineValue { field, value }: &CommandLineValue| match field.split_once('.') {
        Some((block, name)) => format!("{block}: {{{name}: {value}}}\n"),
        None => format!("{field}: {value}\n"),
    };
    let text: String = values.iter().map(line).collect();
    let id = library.add("the command line", &text, LayerKind::Repository);
    match yaml::parse(&library.sources, id, ParseLimits::default()) {
        Ok(tree) => Some(tree),
        Err(problem) => {
            problems.push(*problem);
            None
        }
    }
}
