//! Fields that are read, merged and explained, and that a run does not support yet. A harness that uses one is refused:
//! no field is ignored. Remove a line here when its field is implemented.

use yaml::{Diagnostic, Span};

use crate::check::Checked;

/// One error for each field that a run would have to ignore.
pub fn fields(checked: &Checked) -> Vec<Diagnostic> {
    let harness = &checked.resolved.harness;
    let mut found = Vec::new();
    let mut refuse = |at: Span, field: &str, instead: &str| {
        let message = format!("`{field}` is not supported yet");
        found.push(Diagnostic::error("not-supported", at, message).help(instead.to_owned()));
    };
    if harness.security.trace.enabled.value {
        let at = harness.security.trace.enabled.at;
        refuse(at, "security.trace", "leave it out: `events.jsonl` holds every decision");
    }
    let learned = &harness.security.host_scanners.llm_guard;
    if let Some(model) = &learned.model
        && !learned.enabled.value
        && !learned.required.value
    {
        let field = "security.host_scanners.llm_guard.model` without `llm_guard.enabled";
        refuse(model.at, field, "leave it out, or set `enabled: true` beside it");
    }
    found
}
