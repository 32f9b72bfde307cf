//! Which headers are accepted: names and paths within limits, resources with different ids and mounts.

use super::limits::SessionLimits;
use super::refusal::SessionRefusal;
use crate::log::header::{HEADER_VERSION, SessionEnvironment, SessionHeader, SessionResource};

const MAX_NAME_BYTES: usize = 200;
const MAX_PATH_BYTES: usize = 4_096;

pub(crate) fn check_header(header: &SessionHeader, limits: &SessionLimits) -> Result<(), SessionRefusal> {
    let SessionHeader {
        version,
        id: _,
        repository,
        reference,
        organisation,
        agent,
        harness: _,
        labels,
        environment,
        resources,
        created_ms: _,
        parent: _,
        imported: _,
    } = header;
    if !(1..=HEADER_VERSION).contains(version) {
        return Err(SessionRefusal::Field { what: "version", why: "this program does not know it" });
    }
    if let Some(repository) = repository {
        check_text("repository", repository, MAX_PATH_BYTES)?;
    }
    if let Some(reference) = reference {
        check_text("ref", reference, MAX_NAME_BYTES)?;
        check_reference(reference)?;
    }
    if let Some(organisation) = organisation {
        check_text("organisation", organisation, MAX_NAME_BYTES)?;
    }
    check_text("agent", agent, MAX_NAME_BYTES)?;
    check_labels(labels, limits.labels)?;
    if let Some(SessionEnvironment { id, digest: _ }) = environment {
        check_text("environment", id, MAX_NAME_BYTES)?;
    }
    let count = resources.len();
    let limit = limits.resources;
    if count > limit {
        return Err(SessionRefusal::TooMany { what: "resources", count, limit });
    }
    for (at, SessionResource { id, kind, source, mount, access: _ }) in resources.iter().enumerate() {
        check_text("resource id", id, MAX_NAME_BYTES)?;
        check_text("resource kind", kind, MAX_NAME_BYTES)?;
        check_text("resource source", source, MAX_PATH_BYTES)?;
        check_text("resource mount", mount, MAX_PATH_BYTES)?;
        let clashes = |other: &SessionResource| other.id == *id || other.mount == *mount;
        if resources[..at].iter().any(clashes) {
            return Err(SessionRefusal::Field { what: "resources", why: "two have the same id or mount" });
        }
    }
    Ok(())
}

fn check_labels(labels: &[String], limit: usize) -> Result<(), SessionRefusal> {
    let count = labels.len();
    if count > limit {
        return Err(SessionRefusal::TooMany { what: "labels", count, limit });
    }
    if !labels.is_sorted_by(|one, next| one < next) {
        return Err(SessionRefusal::Field { what: "labels", why: "they must be sorted and different" });
    }
    labels.iter().try_for_each(|label| check_text("label", label, MAX_NAME_BYTES))
}

/// The rules of git for names of references. An option and a pattern are none.
fn check_reference(text: &str) -> Result<(), SessionRefusal> {
    let is_part = |part: &str| {
        !part.is_empty() && !part.starts_with('.') && !part.ends_with('.') && !part.ends_with(".lock")
    };
    let is_name = !text.starts_with('-')
        && !text.contains("..")
        && !text.contains("@{")
        && !text.contains([' ', '~', '^', ':', '?', '*', '[', '\\'])
        && text.split('/').all(is_part);
    let why = "it is not the name of a branch or tag, a full reference, or a commit";
    if is_name { Ok(()) } else { Err(SessionRefusal::Field { what: "ref", why }) }
}

fn check_text(what: &'static str, text: &str, limit: usize) -> Result<(), SessionRefusal> {
    if text.trim().is_empty() {
        return Err(SessionRefusal::Empty { what });
    }
    if text.chars().any(char::is_control) {
        return Err(SessionRefusal::Field { what, why: "control characters are not allowed" });
    }
    if text.len() > limit {
        return Err(SessionRefusal::TooLarge { what, size: text.len(), limit });
    }
    Ok(())
}
