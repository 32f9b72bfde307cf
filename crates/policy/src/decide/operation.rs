//! Whether a rule matches an operation in a body.

use crate::glob::Pattern;
use crate::message::{GraphqlOperation, Operation, ParamValue, RpcCall};
use crate::model::{GraphqlRule, RpcRule, RuleSubject, ValuePattern};

/// Every condition of the rule is true for all values that it names.
pub(super) fn allows(rule: &RuleSubject, operation: &Operation) -> bool {
    match (rule, operation) {
        (RuleSubject::Rpc(rule), Operation::Rpc(call)) => {
            names(rule, call) && rule.params.iter().all(|(path, pattern)| all_match(call, path, pattern))
        }
        (RuleSubject::Graphql(rule), Operation::Graphql(operation)) => {
            let every = !operation.fields.is_empty()
                && operation
                    .fields
                    .iter()
                    .all(|field| rule.fields.iter().any(|f| f.matches(field.as_bytes())));
            selects(rule, operation) && (rule.fields.is_empty() || every)
        }
        _ => false,
    }
}

/// Every condition of the rule is true for one of the values that it names.
pub(super) fn denies(rule: &RuleSubject, operation: &Operation) -> bool {
    match (rule, operation) {
        (RuleSubject::Rpc(rule), Operation::Rpc(call)) => {
            names(rule, call) && rule.params.iter().all(|(path, pattern)| one_matches(call, path, pattern))
        }
        (RuleSubject::Graphql(rule), Operation::Graphql(operation)) => {
            let one = || {
                rule.fields.iter().any(|f| operation.fields.iter().any(|field| f.matches(field.as_bytes())))
            };
            selects(rule, operation) && (rule.fields.is_empty() || one())
        }
        _ => false,
    }
}

fn selects(rule: &GraphqlRule, operation: &GraphqlOperation) -> bool {
    let name =
        |pattern: &Pattern| operation.name.as_ref().is_some_and(|name| pattern.matches(name.as_bytes()));
    (rule.operation_type == "*" || rule.operation_type == operation.operation_type)
        && rule.operation_name.as_ref().is_none_or(name)
}

fn names(rule: &RpcRule, call: &RpcCall) -> bool {
    let tool =
        |pattern: &ValuePattern| call.tool.as_ref().is_some_and(|tool| pattern.matches(tool.as_bytes()));
    rule.method.matches(call.method.as_bytes()) && rule.tool.as_ref().is_none_or(tool)
}

fn all_match(call: &RpcCall, path: &str, pattern: &ValuePattern) -> bool {
    let mut values = call.values(path).peekable();
    values.peek().is_some() && values.all(|value| matches(pattern, value) && !climbs(pattern, value))
}

/// Whether a value contains `..`, which leads to another place than the pattern suggests.
fn climbs(pattern: &ValuePattern, value: &ParamValue) -> bool {
    let ParamValue::Scalar(text) = value else { return true };
    let is_written_out = pattern.0.iter().any(|pattern| pattern.as_exact() == Some(text.as_bytes()));
    !is_written_out && text.split(['/', '\\']).any(|part| part == "..")
}

fn one_matches(call: &RpcCall, path: &str, pattern: &ValuePattern) -> bool {
    call.values(path).any(|value| matches(pattern, value))
}

fn matches(pattern: &ValuePattern, value: &ParamValue) -> bool {
    match value {
        ParamValue::Scalar(text) => pattern.matches(text.as_bytes()),
        ParamValue::Compound => false,
    }
}
