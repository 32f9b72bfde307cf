//! Methods in bodies: some frameworks take the method of a request from a field of its form (`_method=DELETE`) or of its JSON
//! object. Such a body is read as it passes; once it replaces the method by one that the rules do not allow, nothing more of
//! it is sent, so that the server never has the whole request. Where the endpoint only audits, the method is recorded.

mod json;
mod multipart;
mod replaced_method;
mod urlencoded;

use super::charset::strange_charset;
use super::readings::replaces_method;
use super::refusal::Refusal;
use crate::http1::{Framing, RequestHead};
use json::JsonFields;
use multipart::MultipartFields;
use replaced_method::ReplacedMethod;
use std::sync::{Arc, OnceLock};
use urlencoded::UrlencodedFields;

/// The methods that a body may name, where the rules allow them.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
/// A method that no rule names: where it is allowed, every method is.
const ANY_METHOD: &str = "FULLSEND-ANY";
/// Of the name of a field. A longer one replaces nothing.
const MAX_NAME: usize = 128;

/// What the rules say of a method, the strictest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MethodDecision {
    Allowed,
    /// The endpoint only audits.
    Audited,
    Denied,
}

/// A method in the body of an audited request, once it was read.
pub(super) type AuditedMethod = Arc<OnceLock<Refusal>>;

/// Reads the body of one request in every way in which its server may read it.
#[derive(Clone)]
pub(super) struct FormMethodCheck {
    allowed: Vec<&'static str>,
    /// Instead of a refusal, where the endpoint only audits.
    audited: Option<AuditedMethod>,
    urlencoded: Option<UrlencodedFields>,
    multipart: Option<MultipartFields>,
    json: Option<JsonFields>,
}

/// A method in a body that is not allowed; it may be cut.
struct ForbiddenMethod(String);

impl FormMethodCheck {
    /// `None`: the body may pass as it is.
    pub(super) fn new(
        head: &RequestHead,
        decide: impl Fn(&str) -> MethodDecision,
    ) -> Result<Option<Self>, Refusal> {
        let types: Vec<String> = head
            .fields
            .all("content-type")
            .map(|value| String::from_utf8_lossy(value).to_ascii_lowercase())
            .collect();
        let has = |word: &str| types.iter().any(|name| name.contains(word));
        // Some servers take a body without a type for a form.
        let is_urlencoded = has("urlencoded") || types.iter().all(|name| name.trim().is_empty());
        let is_multipart = has("multipart");
        let is_json = has("json");
        let has_body = !matches!(head.framing, Framing::None | Framing::Length(0));
        let any = decide(ANY_METHOD);
        if !has_body || !(is_urlencoded || is_multipart || is_json) || any == MethodDecision::Allowed {
            return Ok(None);
        }
        let audited = (any == MethodDecision::Audited).then(AuditedMethod::default);
        let encoding = head
            .fields
            .words("content-encoding")
            .into_iter()
            .find(|word| word != "identity")
            .or_else(|| head.fields.all("content-type").find_map(strange_charset));
        if let Some(encoding) = encoding {
            let refusal = Refusal::unreadable(format!(
                "the body is encoded with {encoding}, and cannot be checked for a replaced method"
            ));
            let Some(audited) = audited else { return Err(refusal) };
            audited.get_or_init(|| refusal);
            let allowed = Vec::new();
            let check =
                Self { allowed, audited: Some(audited), urlencoded: None, multipart: None, json: None };
            return Ok(Some(check));
        }
        let is_allowed = |method: &&str| *method == head.method || decide(method) == MethodDecision::Allowed;
        Ok(Some(Self {
            allowed: METHODS.into_iter().filter(is_allowed).collect(),
            audited,
            urlencoded: is_urlencoded.then(UrlencodedFields::default),
            multipart: is_multipart.then(MultipartFields::default),
            json: is_json.then(JsonFields::default),
        }))
    }

    /// Where a method is noted that the endpoint only audits.
    pub(super) fn audited(&self) -> Option<&AuditedMethod> {
        self.audited.as_ref()
    }

    /// Why this portion must not pass.
    pub(super) fn refusal(&mut self, portion: &[u8]) -> Option<Refusal> {
        let Some(audited) = self.audited.clone() else { return self.unallowed(portion) };
        if audited.get().is_none()
            && let Some(refusal) = self.unallowed(portion)
        {
            audited.get_or_init(|| refusal);
        }
        None
    }

    fn unallowed(&mut self, portion: &[u8]) -> Option<Refusal> {
        let Self { allowed, urlencoded, multipart, json, .. } = self;
        let read = portion.iter().try_for_each(|byte| {
            urlencoded.as_mut().map_or(Ok(()), |fields| fields.push(*byte, allowed))?;
            multipart.as_mut().map_or(Ok(()), |fields| fields.push(*byte, allowed))?;
            json.as_mut().map_or(Ok(()), |fields| fields.push(*byte, allowed))
        });
        read.err().map(|ForbiddenMethod(method)| {
            Refusal::path(format!("the body replaces the method by `{method}`, which no rule allows here"))
        })
    }
}

/// Whether a field of this name replaces the method. A name that is encoded once more may be any.
fn is_override(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(name);
    replaces_method(&name) || name.contains("=?")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(content_type: &str, body: &str, size: usize) -> bool {
        let head = format!(
            "POST /x HTTP/1.1\r\nHost: a\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let head = RequestHead::parse(head.as_bytes()).unwrap();
        let decide = |method: &str| match method {
            "GET" | "POST" => MethodDecision::Allowed,
            _ => MethodDecision::Denied,
        };
        let Ok(check) = FormMethodCheck::new(&head, decide) else { return true };
        let mut check = check.expect("the body is read");
        body.as_bytes().chunks(size).any(|portion| check.refusal(portion).is_some())
    }

    #[track_caller]
    fn check(content_type: &str, body: &str, is_refused: bool) {
        for size in [1, 2, 3, 7, body.len()] {
            assert_eq!(refused(content_type, body, size), is_refused, "{content_type} {size} {body}");
        }
    }

    #[test]
    fn a_method_in_a_form_is_found() {
        let form = "application/x-www-form-urlencoded; charset=utf-8";
        for body in [
            "_method=DELETE",
            "a=b&_method=delete",
            "a=b;_method=PUT&c=d",
            "%5fmethod=%44ELETE",
            "_method=GET&_method=DELETE",
            "a=b&x-http-method-override=+patch",
            "_METHOD%5B%5D=DELETE",
            "_method%00x=DELETE",
            "+.method=DELETE",
            "_method=x",
            "&&_method=DELETE",
        ] {
            check(form, body, true);
            check("", body, true);
        }
        for body in
            ["_method=POST", "_method=get+&a=_method=DELETE", "_method=", "a=_method", "method=DELETE"]
        {
            check(form, body, false);
        }
        check("application/x-www-form-urlencoded; charset=ibm037", "a=b", true);
    }

    #[test]
    fn a_method_in_parts_is_found() {
        let multipart = "multipart/form-data; boundary=x";
        let part = |header: &str, value: &str| {
            format!(
                "--x\r\nname=a\r\n\r\nfirst\r\n--x\r\nContent-Disposition: form-data; {header}\r\n\r\n{value}\r\n--x--\r\n"
            )
        };
        for header in [
            "name=\"_method\"",
            "NAME=_method",
            "filename=a; name = \"_method\"",
            "\r\n name=\"_method\"",
            "name=\"\\_method\"",
            "name*=utf-8''%5Fmethod",
            "name='_method'",
            "\r\nX: name=_method",
            "name=\"=?utf-8?B?X21ldGhvZA==?=\"",
        ] {
            check(multipart, &part(header, "DELETE"), true);
            check(multipart, &part(header, "delete").replace("\r\n", "\n"), true);
            check(multipart, &part(header, "POST"), false);
        }
        check(multipart, &part("name=\"method\"", "DELETE"), false);
        check(multipart, &part("name=page", "<input name=\"_method\" value=\"DELETE\">"), false);
    }

    #[test]
    fn a_method_in_an_object_is_found() {
        let json = "application/json";
        for body in [
            r#"{"_method":"DELETE"}"#,
            r#"{"a":{"_method":"x"},"b":[1,{"c":"}"}], "_method" : "delete"}"#,
            r#"{"\u005fmethod":"\u0044ELETE"}"#,
            r#"{"_method":["DELETE"]}"#,
            r#"{"a":"\"","_Method":"PUT"}"#,
        ] {
            check(json, body, true);
        }
        for body in [
            r#"{"_method":"POST"}"#,
            r#"{"_method":null,"a":1}"#,
            r#"{"a":"_method","b":{"_method":"DELETE"},"c":["_method"]}"#,
            r#"["_method","DELETE"]"#,
        ] {
            check(json, body, false);
        }
    }
}
