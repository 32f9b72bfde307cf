//! Whether an expression can be true of events of which only some fields are known. In doubt the answer is yes: an
//! unknown field can have any value.

use cel::common::ast::{Expr, IdedExpr, LiteralValue, operators};
use serde_json::Value as Json;

/// What an expression can be.
#[derive(Clone, Debug, PartialEq)]
enum PossibleValue {
    Value(Json),
    Unknown,
    /// It fails, because a field is absent.
    Error,
}

/// `known` has the fields that are known. Those that are `null` are absent.
pub(super) fn may_be_true(node: &IdedExpr, known: &Json) -> bool {
    match evaluate(node, known) {
        PossibleValue::Value(value) => value == Json::Bool(true),
        PossibleValue::Unknown => true,
        PossibleValue::Error => false,
    }
}

fn evaluate(node: &IdedExpr, known: &Json) -> PossibleValue {
    match &node.expr {
        Expr::Literal(literal) => constant(literal),
        Expr::Select(select) => match (path(&select.operand), select.test) {
            (Some(above), is_test) => field(known, &above, &select.field, is_test),
            (None, _) => PossibleValue::Unknown,
        },
        Expr::Call(call) => {
            let operands = call.target.iter().map(AsRef::as_ref).chain(&call.args);
            let operands: Vec<&IdedExpr> = operands.collect();
            operation(&call.func_name, &operands, known)
        }
        _ => PossibleValue::Unknown,
    }
}

fn constant(literal: &LiteralValue) -> PossibleValue {
    match literal {
        LiteralValue::Boolean(value) => PossibleValue::Value((**value).into()),
        LiteralValue::String(value) => PossibleValue::Value((**value).into()),
        LiteralValue::Int(value) => PossibleValue::Value((**value).into()),
        _ => PossibleValue::Unknown,
    }
}

/// The names of the fields that lead from `event` to a value.
fn path(node: &IdedExpr) -> Option<Vec<&str>> {
    match &node.expr {
        Expr::Ident(name) if name == "event" => Some(Vec::new()),
        Expr::Select(select) if !select.test => {
            let mut above = path(&select.operand)?;
            above.push(&select.field);
            Some(above)
        }
        _ => None,
    }
}

fn field(known: &Json, above: &[&str], name: &str, is_test: bool) -> PossibleValue {
    let mut value = known;
    for part in above {
        match value.get(part) {
            None => return PossibleValue::Unknown,
            Some(Json::Null) => return PossibleValue::Error,
            Some(below) => value = below,
        }
    }
    match (value.get(name), is_test) {
        (None, _) => PossibleValue::Unknown,
        (Some(found), true) => PossibleValue::Value((!found.is_null()).into()),
        (Some(Json::Null), false) => PossibleValue::Error,
        (Some(Json::Object(_)), false) => PossibleValue::Unknown,
        (Some(found), false) => PossibleValue::Value(found.clone()),
    }
}

fn operation(name: &str, operands: &[&IdedExpr], known: &Json) -> PossibleValue {
    if let (operators::IN, [item, list]) = (name, operands) {
        return is_in(&evaluate(item, known), list, known);
    }
    let values: Vec<PossibleValue> = operands.iter().map(|operand| evaluate(operand, known)).collect();
    let has = |wanted: &PossibleValue| values.contains(wanted);
    let yes = PossibleValue::Value(true.into());
    let no = PossibleValue::Value(false.into());
    match (name, &values[..]) {
        (operators::LOGICAL_AND, _) if has(&no) => no,
        (operators::LOGICAL_AND, _) if has(&PossibleValue::Error) => PossibleValue::Error,
        (operators::LOGICAL_AND, _) if values.iter().all(|value| *value == yes) => yes,
        (operators::LOGICAL_OR, _) if has(&yes) => yes,
        (operators::LOGICAL_OR, _) if has(&PossibleValue::Unknown) => PossibleValue::Unknown,
        (operators::LOGICAL_OR, _) if has(&PossibleValue::Error) => PossibleValue::Error,
        (operators::LOGICAL_OR, _) if values.iter().all(|value| *value == no) => no,
        (operators::CONDITIONAL, [condition, then, otherwise]) => match condition {
            PossibleValue::Value(Json::Bool(true)) => then.clone(),
            PossibleValue::Value(Json::Bool(false)) => otherwise.clone(),
            PossibleValue::Value(_) | PossibleValue::Error => PossibleValue::Error,
            PossibleValue::Unknown => PossibleValue::Unknown,
        },
        (operators::LOGICAL_NOT, [PossibleValue::Value(Json::Bool(value))]) => {
            PossibleValue::Value((!value).into())
        }
        (operators::EQUALS, [PossibleValue::Value(left), PossibleValue::Value(right)]) => {
            PossibleValue::Value((left == right).into())
        }
        (operators::NOT_EQUALS, [PossibleValue::Value(left), PossibleValue::Value(right)]) => {
            PossibleValue::Value((left != right).into())
        }
        (operators::LOGICAL_AND, _) => PossibleValue::Unknown,
        _ if has(&PossibleValue::Error) => PossibleValue::Error,
        _ => PossibleValue::Unknown,
    }
}

fn is_in(item: &PossibleValue, list: &IdedExpr, known: &Json) -> PossibleValue {
    let item = match item {
        PossibleValue::Value(item) => item,
        other => return other.clone(),
    };
    let Expr::List(list) = &list.expr else { return PossibleValue::Unknown };
    let values: Vec<PossibleValue> = list.elements.iter().map(|element| evaluate(element, known)).collect();
    if values.contains(&PossibleValue::Value(item.clone())) {
        return PossibleValue::Value(true.into());
    }
    let all_known = values.iter().all(|value| matches!(value, PossibleValue::Value(_)));
    if all_known { PossibleValue::Value(false.into()) } else { PossibleValue::Unknown }
}
