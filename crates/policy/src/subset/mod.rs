//! Whether one policy allows nothing that another refuses. The answer yes is proved, by the very patterns that decide;
//! the answer no may be wrong, and says where the proof stopped.

mod access;
mod connection;
mod filesystem;
mod grant;
mod play;

use yaml::{Diagnostic, Span};

use crate::file::Compatibility;
use crate::model::{Middleware, Policy};

/// The first thing that a policy allows, or may allow, beyond the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Widening {
    /// In the lower policy.
    pub at: Span,
    /// In the upper policy, where one line can be named.
    pub limit: Option<Span>,
    pub message: String,
}

impl Widening {
    fn new(at: Span, message: impl Into<String>) -> Self {
        Self { at, limit: None, message: message.into() }
    }

    fn beyond(at: Span, limit: Span, message: impl Into<String>) -> Self {
        Self { at, limit: Some(limit), message: message.into() }
    }

    pub fn diagnostic(&self) -> Diagnostic {
        let problem = Diagnostic::error("widening", self.at, self.message.clone());
        match self.limit {
            Some(limit) => problem.related(limit, "the limit"),
            None => problem,
        }
    }
}

/// Checks that `lower` stays within `upper`, and returns it as it may be used there: an endpoint whose host is written
/// out under a pattern of the upper policy keeps to the public addresses that the pattern allows.
pub fn subset(lower: &Policy, upper: &Policy) -> Result<Policy, Widening> {
    filesystem::check(&lower.filesystem, &upper.filesystem)?;
    landlock(lower, upper)?;
    process(lower, upper)?;
    middlewares(lower, upper)?;
    let mut confined = lower.clone();
    connection::confine(&mut confined.networks, &upper.networks)?;
    Ok(confined)
}

fn landlock(lower: &Policy, upper: &Policy) -> Result<(), Widening> {
    if (lower.landlock.value, upper.landlock.value)
        == (Compatibility::BestEffort, Compatibility::HardRequirement)
    {
        let message = "`landlock.compatibility` is best_effort where hard_requirement is required";
        return Err(Widening::beyond(lower.landlock.at, upper.landlock.at, message));
    }
    Ok(())
}

fn process(lower: &Policy, upper: &Policy) -> Result<(), Widening> {
    for (key, lower_id, upper_id) in [
        ("run_as_user", &lower.process.user, &upper.process.user),
        ("run_as_group", &lower.process.group, &upper.process.group),
    ] {
        let Some(limit) = upper_id else { continue };
        if lower_id.as_ref() != Some(limit) {
            let at = lower_id.as_ref().map_or(lower.at, |identity| identity.at);
            let message = format!("`process.{key}` must be `{}`", limit.value);
            return Err(Widening::beyond(at, limit.at, message));
        }
    }
    Ok(())
}

/// What must look at requests must go on looking, in the same way.
fn middlewares(lower: &Policy, upper: &Policy) -> Result<(), Widening> {
    for required in &upper.middlewares {
        let found = lower.middlewares.iter().find(|middleware| middleware.key == required.key);
        let Some(found) = found else {
            let message = format!("middleware `{}` is missing", required.key.value);
            return Err(Widening::beyond(lower.at, required.key.at, message));
        };
        if !same_middleware(found, required) {
            let message = format!("middleware `{}` is not as required", required.key.value);
            return Err(Widening::beyond(found.key.at, required.key.at, message));
        }
    }
    Ok(())
}

fn same_middleware(one: &Middleware, two: &Middleware) -> bool {
    let Middleware { key: _, name: _, middleware, order, config, on_error, include, exclude } = one;
    (middleware, order, on_error) == (&two.middleware, &two.order, &two.on_error)
        && (config, include, exclude) == (&two.config, &two.include, &two.exclude)
}
