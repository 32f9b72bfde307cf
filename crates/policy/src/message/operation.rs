//! One operation in the body of a request.

use std::fmt;

use super::json::{Json, fold};

const MAX_SHOWN_FIELDS: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Rpc(RpcCall),
    Graphql(GraphqlOperation),
    /// Not an operation: it opens or ends the stream of an MCP session, or answers a request of the server.
    Session,
}

/// A call of JSON-RPC or MCP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RpcCall {
    pub method: String,
    /// Of a `tools/call`.
    pub tool: Option<String>,
    /// Every parameter by its path, such as `arguments.repository.name`, in folded case. The items of a list share a path.
    pub params: Vec<(String, ParamValue)>,
}

/// An operation of a GraphQL document, or of a stored one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphqlOperation {
    /// `query`, `mutation` or `subscription`.
    pub operation_type: String,
    pub name: Option<String>,
    /// The fields at the root, by their own names.
    pub fields: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamValue {
    /// A text, or a number, a truth value or `null` as JSON writes it.
    Scalar(String),
    /// A list in a list or an object: no pattern matches it.
    Compound,
}

impl RpcCall {
    pub fn new(method: &str, tool: Option<&str>) -> Self {
        Self { method: method.to_owned(), tool: tool.map(str::to_owned), params: Vec::new() }
    }

    pub(super) fn set_params(&mut self, params: &Json) {
        match params {
            Json::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    flatten(&index.to_string(), item, &mut self.params);
                }
            }
            Json::Object(entries) => {
                for (key, value) in entries {
                    flatten(&fold(key), value, &mut self.params);
                }
            }
            Json::Null | Json::Plain(_) | Json::Text(_) => {}
        }
    }

    /// The values at a path, which is in folded case.
    pub fn values<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a ParamValue> {
        self.params.iter().filter(move |(known, _)| known == path).map(|(_, value)| value)
    }
}

fn flatten(path: &str, value: &Json, out: &mut Vec<(String, ParamValue)>) {
    let mut push = |value| out.push((path.to_owned(), value));
    match value {
        Json::Null => push(ParamValue::Scalar("null".to_owned())),
        Json::Plain(text) | Json::Text(text) => push(ParamValue::Scalar(text.clone())),
        Json::List(items) => {
            for item in items {
                if let Json::List(_) = item {
                    out.push((path.to_owned(), ParamValue::Compound));
                }
                flatten(path, item, out);
            }
        }
        Json::Object(entries) => {
            push(ParamValue::Compound);
            for (key, value) in entries {
                flatten(&format!("{path}.{}", fold(key)), value, out);
            }
        }
    }
}

/// As messages and the record name it.
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rpc(RpcCall { method, tool: Some(tool), .. }) => write!(f, "{method} {tool}"),
            Self::Rpc(RpcCall { method, tool: None, .. }) => f.write_str(method),
            Self::Graphql(GraphqlOperation { operation_type, name, fields }) => {
                let name = name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
                let shown: Vec<&str> = fields.iter().take(MAX_SHOWN_FIELDS).map(String::as_str).collect();
                let more = if fields.len() > MAX_SHOWN_FIELDS { ", …" } else { "" };
                write!(f, "{operation_type}{name} {{ {}{more} }}", shown.join(", "))
            }
            Self::Session => f.write_str("session"),
        }
    }
}
