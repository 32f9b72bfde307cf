//! Every effective value of a harness and of its policy, with the file and line that set it and what it replaced.
//! `fullsend explain` prints these, and a run keeps them in its directory.

use policy::Policy;
use policy::baseline::{PathAccess, PathOrigin};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use yaml::{Node, Span, Value};

use super::library::Library;
use super::{Resolved, ordered};

/// One value, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedValue {
    /// The path of the field, such as `security.host_scanners`.
    pub field: String,
    pub value: String,
    pub set_by: ValueOrigin,
    /// Earlier values that this one replaced, first to last.
    pub replaced: Vec<ValueOrigin>,
}

/// The place that set a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ValueOrigin {
    pub layer: String,
    pub file: String,
    /// From 1; 0 if no line set it.
    pub line: usize,
}

/// The values of a harness; with `only`, those of this field and below it.
pub fn values(library: &Library, resolved: &Resolved, only: Option<&str>) -> Vec<ExplainedValue> {
    let mut values = Vec::new();
    let tree = ordered(&resolved.tree);
    visit_values(&tree, "", &mut |field, node| {
        let wanted = only.is_none_or(|only| {
            field == only || field.strip_prefix(only).is_some_and(|rest| rest.starts_with('.'))
        });
        if wanted {
            values.push(ExplainedValue {
                field: field.to_owned(),
                value: shown_value(field, node),
                set_by: origin(library, node.at),
                replaced: node.replaced.iter().map(|at| origin(library, *at)).collect(),
            });
        }
    });
    values
}

/// The paths that the sandbox sees, those of the policy and those of every sandbox, and the programs of its rules.
pub fn policy_values(library: &Library, policy: &Policy) -> Vec<ExplainedValue> {
    let path_value = |path: policy::baseline::EffectivePath| ExplainedValue {
        field: format!("policy path {}", path.path),
        value: match path.access {
            PathAccess::ReadOnly => "read-only".to_owned(),
            PathAccess::ReadWrite => "read-write".to_owned(),
        },
        set_by: match path.origin {
            PathOrigin::Policy(at) => origin(library, at),
            PathOrigin::Baseline => ValueOrigin {
                layer: "built in".to_owned(),
                file: "<baseline of every sandbox>".to_owned(),
                line: 0,
            },
        },
        replaced: Vec::new(),
    };
    let paths = policy::baseline(policy).paths.into_iter().map(path_value);
    let programs = policy.networks.iter().flat_map(|network| {
        network.binaries.iter().map(|program| ExplainedValue {
            field: format!("policy program of {}", network.name),
            value: format!("{}, and what it starts", program.value),
            set_by: origin(library, program.at),
            replaced: Vec::new(),
        })
    });
    paths.chain(programs).collect()
}

/// The endpoints that the rules of a policy name.
pub fn policy_endpoints(library: &Library, policy: &Policy) -> Vec<ExplainedValue> {
    let endpoints = policy.networks.iter().flat_map(|network| {
        network.endpoints.iter().map(|endpoint| ExplainedValue {
            field: format!("policy endpoint of {}", network.name),
            value: endpoint.selector(),
            set_by: origin(library, endpoint.at),
            replaced: Vec::new(),
        })
    });
    endpoints.collect()
}

fn origin(library: &Library, at: Span) -> ValueOrigin {
    let location = library.sources.locate(at);
    ValueOrigin { layer: library.layer_of(at).words().to_owned(), file: location.name, line: location.line }
}

/// Visits every scalar, and every empty list and map.
pub fn visit_values(node: &Node, path: &str, visit: &mut impl FnMut(&str, &Node)) {
    let below = |step: &str| if path.is_empty() { step.to_owned() } else { format!("{path}.{step}") };
    match &node.value {
        Value::Map(entries) if !entries.is_empty() => {
            entries.iter().for_each(|entry| visit_values(&entry.node, &below(&entry.key), visit));
        }
        Value::List(items) if !items.is_empty() => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, item)| visit_values(item, &below(&index.to_string()), visit));
        }
        _ => visit(path, node),
    }
}

/// A credential in a file is not shown.
fn shown_value(field: &str, node: &Node) -> String {
    let text = match &node.value {
        Value::Null => return "(removed)".to_owned(),
        Value::List(_) => return "[]".to_owned(),
        Value::Map(_) => return "{}".to_owned(),
        _ => node.scalar().unwrap_or(""),
    };
    let name = field.rsplit('.').next().unwrap_or(field);
    if redact::find_secret_in_field(name, text).is_some() {
        "(a credential)".to_owned()
    } else {
        text.replace('\n', "\\n")
    }
}
