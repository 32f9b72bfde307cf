//! Whether an expression can be true of events of which only some fields are known. In doubt the answer is yes: an
//! unknown field can have any value.

use cel::common::ast::{Expr, IdedExpr, LiteralValue, operators};
use serde_json::Value as Json;

/// What an expression can be.
#[derive(Clone, Debug, PartialEq)]
enum Possible {
    Value(Json),
    Unknown,
    /// It fails, because a field is absent.
    Error,
}

/// `known` has the fields that are known. Those that are `null` are absent.
pub(super) fn may_be_true(node: &IdedExpr, known: &Json) -> bool {
    match evaluate(node, known) {
        Possible::Value(value) => value == Json::Bool(true),
        Possible::Unknown => true,
        Possible::Error => false,
    }
}

fn evaluate(node: &IdedExpr, known: &Json) -> Possible {
    match &node.expr {
        Expr::Literal(literal) => constant(literal),
        Expr::Select(select) => match (path(&select.operand), select.test) {
            (Some(above), is_test) => field(known, &above, &select.field, is_test),
            (None, _) => Possible::Unknown,
        },
        Expr::Call(call) => {
            let operands = call.target.iter().map(AsRef::as_ref).chain(&call.args);
            let operands: Vec<&IdedExpr> = operands.collect();
            operation(&call.func_name, &operands, known)
        }
        _ => Possible::Unknown,
    }
}

fn constant(literal: &LiteralValue) -> Possible {
    match literal {
        LiteralValue::Boolean(value) => Possible::Value((**value).into()),
        LiteralValue::String(value) => Possible::Value((**value).into()),
        LiteralValue::Int(value) => Possible::Value((**value).into()),
        _ => Possible::Unknown,
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

fn field(known: &Json, above: &[&str], name: &str, is_test: bool) -> Possible {
    let mut value = known;
    for part in above {
        match value.get(part) {
            None => return Possible::Unknown,
            Some(Json::Null) => return Possible::Error,
            Some(below) => value = below,
        }
    }
    match (value.get(name), is_test) {
        (None, _) => Possible::Unknown,
        (Some(found), true) => Possible::Value((!found.is_null()).into()),
        (Some(Json::Null), false) => Possible::Error,
        (Some(Json::Object(_)), false) => Possible::Unknown,
        (Some(found), false) => Possible::Value(found.clone()),
    }
}

fn operation(name: &str, operands: &[&IdedExpr], known: &Json) -> Possible {
    if let (operators::IN, [item, list]) = (name, operands) {
        return is_in(&evaluate(item, known), list, known);
    }
    let values: Vec<Possible> = operands.iter().map(|operand| evaluate(operand, known)).collect();
    let has = |wanted: &Possible| values.contains(wanted);
    let yes = Possible::Value(true.into());
    let no = Possible::Value(false.into());
    match (name, &values[..]) {
        (operators::LOGICAL_AND, _) if has(&no) => no,
        (operators::LOGICAL_AND, _) if has(&Possible::Error) => Possible::Error,
        (operators::LOGICAL_AND, _) if values.iter().all(|value| *value == yes) => yes,
        (operators::LOGICAL_OR, _) if has(&yes) => yes,
        (operators::LOGICAL_OR, _) if has(&Possible::Unknown) => Possible::Unknown,
        (operators::LOGICAL_OR, _) if has(&Possible::Error) => Possible::Error,
        (operators::LOGICAL_OR, _) if values.iter().all(|value| *value == no) => no,
        (operators::CONDITIONAL, [condition, then, otherwise]) => match condition {
            Possible::Value(Json::Bool(true)) => then.clone(),
            Possible::Value(Json::Bool(false)) => otherwise.clone(),
            Possible::Value(_) | Possible::Error => Possible::Error,
            Possible::Unknown => Possible::Unknown,
        },
        (operators::LOGICAL_NOT, [Possible::Value(Json::Bool(value))]) => Possible::Value((!value).into()),
        (operators::EQUALS, [Possible::Value(left), Possible::Value(right)]) => {
            Possible::Value((left == right).into())
        }
        (operators::NOT_EQUALS, [Possible::Value(left), Possible::Value(right)]) => {
            Possible::Value((left != right).into())
        }
        (operators::LOGICAL_AND, _) => Possible::Unknown,
        _ if has(&Possible::Error) => Possible::Error,
        _ => Possible::Unknown,
    }
}

fn is_in(item: &Possible, list: &IdedExpr, known: &Json) -> Possible {
    let item = match item {
        Possible::Value(item) => item,
        other => return other.clone(),
    };
    let Expr::List(list) = &list.expr else { return Possible::Unknown };
    let values: Vec<Possible> = list.elements.iter().map(|element| evaluate(element, known)).collect();
    if values.contains(&Possible::Value(item.clone())) {
        return Possible::Value(true.into());
    }
    let all_known = values.iter().all(|value| matches!(value, Possible::Value(_)));
    if all_known { Possible::Value(false.into()) } else { Possible::Unknown }
}
