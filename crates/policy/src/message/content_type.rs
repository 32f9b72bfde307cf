//! The type of a body. A server that reads a body as another type may find another request in it.

use super::MessageError;

/// Checks that the body is one of these types, in UTF-8, and returns which.
pub(super) fn check<'a>(given: Option<&str>, wanted: &[&'a str]) -> Result<&'a str, MessageError> {
    let wrong = || {
        MessageError::new(match given {
            Some(_) => format!("the content type is not {}", wanted.join(" or ")),
            None => format!("the content type is missing; it must be {}", wanted.join(" or ")),
        })
    };
    let mut parts = given.unwrap_or_default().split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    let found = wanted.iter().find(|wanted| wanted.eq_ignore_ascii_case(essence)).ok_or_else(wrong)?;
    for parameter in parts.filter(|part| !part.is_empty()) {
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let is_charset = key.trim().eq_ignore_ascii_case("charset");
        if is_charset && !value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8") {
            return Err(MessageError::new("the charset of the content type is not utf-8"));
        }
    }
    Ok(found)
}
