//! Whether one policy allows nothing that another refuses. A yes is proved with the same patterns that decide requests.
//! A no may be wrong, and names the place where the proof stopped.

mod access;
mod atom;
mod body;
mod connection;
mod filesystem;
mod grant;
mod precedence;
mod widening;

use crate::file::Compatibility;
use crate::model::{Middleware, Policy};
pub use widening::Widening;

/// Checks that `inner` stays within `outer`, and returns it as it may be used there: an endpoint whose host is written
/// out under a pattern of the organisation's policy keeps to the public addresses that the pattern allows.
pub fn subset(inner: &Policy, outer: &Policy) -> Result<Policy, Widening> {
    filesystem::check(&inner.filesystem, &outer.filesystem)?;
    landlock(inner, outer)?;
    process(inner, outer)?;
    middlewares(inner, outer)?;
    let mut confined = inner.clone();
    connection::confine(&mut confined.networks, &outer.networks)?;
    Ok(confined)
}

fn landlock(inner: &Policy, outer: &Policy) -> Result<(), Widening> {
    if (inner.landlock.value, outer.landlock.value)
        == (Compatibility::BestEffort, Compatibility::HardRequirement)
    {
        let message = "`landlock.compatibility` is best_effort where hard_requirement is required";
        return Err(Widening::beyond(inner.landlock.at, outer.landlock.at, message));
    }
    Ok(())
}

fn process(inner: &Policy, outer: &Policy) -> Result<(), Widening> {
    for (key, inner_id, outer_id) in [
        ("run_as_user", &inner.process.user, &outer.process.user),
        ("run_as_group", &inner.process.group, &outer.process.group),
    ] {
        let Some(limit) = outer_id else { continue };
        if inner_id.as_ref() != Some(limit) {
            let at = inner_id.as_ref().map_or(inner.at, |identity| identity.at);
            let message = format!("`process.{key}` must be `{}`", limit.value);
            return Err(Widening::beyond(at, limit.at, message));
        }
    }
    Ok(())
}

/// The inner policy must keep the middlewares of the outer one unchanged.
fn middlewares(inner: &Policy, outer: &Policy) -> Result<(), Widening> {
    for required in &outer.middlewares {
        let found = inner.middlewares.iter().find(|middleware| middleware.key == required.key);
        let Some(found) = found else {
            let message = format!("middleware `{}` is missing", required.key.value);
            return Err(Widening::beyond(inner.at, required.key.at, message));
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
