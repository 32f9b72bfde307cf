//! The `trigger` of a harness: an invalid expression would never start the harness, without any error.

use trigger::Trigger;
use yaml::{Diagnostic, Spanned};

pub fn problem(expression: &Spanned<String>) -> Option<Diagnostic> {
    let error = Trigger::compile(&expression.value).err()?;
    let message = format!("`trigger` cannot be used: {error}");
    let help = "write a CEL expression over `event`, such as: event.transition.kind == 'opened'";
    Some(Diagnostic::error("trigger", expression.at, message).help(help))
}
