//! Why a request to an S3-compatible store failed: the bucket, the name, the status, the cause, and what to try. No
//! part of a credential is shown, even if the server repeats it.

use std::fmt;

use hyper::Method;

use super::s3_address::S3Address;
use crate::fetch::FetchError;

#[derive(Debug)]
pub struct S3Error {
    place: String,
    region: String,
    method: Method,
    key: String,
    refusal: Refusal,
}

#[derive(Debug)]
pub enum Refusal {
    /// There is no key to sign with.
    Key(String),
    /// No whole answer came.
    Unreachable(FetchError),
    Answered {
        status: u16,
        code: String,
        message: String,
        /// Where the bucket is, if the server says so.
        region: Option<String>,
    },
}

impl S3Error {
    pub fn new(address: &S3Address, method: &Method, key: &str, refusal: Refusal) -> Box<Self> {
        let region = address.region.clone();
        let place = address.to_string();
        Box::new(Self { place, region, method: method.clone(), key: key.to_owned(), refusal })
    }

    /// Whether the same request may succeed a moment later.
    pub fn is_transient(&self) -> bool {
        match &self.refusal {
            Refusal::Key(_) => false,
            Refusal::Unreachable(error) => error.is_transient(),
            Refusal::Answered { status, code, .. } => {
                matches!(status, 408 | 429 | 500 | 502 | 503 | 504) || code == "RequestTimeout"
            }
        }
    }
}

impl Refusal {
    /// From an answer that is not a success.
    pub fn answered(status: u16, body: &[u8], region: Option<String>) -> Self {
        let text = String::from_utf8_lossy(body);
        Self::Answered { status, code: element(&text, "Code"), message: element(&text, "Message"), region }
    }

    pub fn is_missing_key(&self) -> bool {
        matches!(self, Self::Answered { status: 404, code, .. } if code == "NoSuchKey")
    }
}

/// The text of an element of the short document that S3 sends as an error.
fn element(text: &str, name: &str) -> String {
    let inner =
        text.split_once(&format!("<{name}>")).and_then(|(_, rest)| rest.split_once(&format!("</{name}>")));
    let inner = inner.map(|(inner, _)| inner).unwrap_or_default();
    inner.chars().filter(|c| !c.is_control()).take(300).collect()
}

impl fmt::Display for S3Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, region, method, key, refusal } = self;
        write!(f, "{place}: {method} {key} ")?;
        match refusal {
            Refusal::Key(why) => write!(f, "was not sent: {why}"),
            Refusal::Unreachable(source) => write!(f, "failed: {source}"),
            Refusal::Answered { status, code, message, region: real } => {
                write!(f, "was answered with {status}")?;
                for part in [code, message] {
                    if !part.is_empty() {
                        write!(f, " {part}")?;
                    }
                }
                match advice(*status, code, region, real.as_deref()) {
                    Some(advice) => write!(f, "; {advice}"),
                    None => Ok(()),
                }
            }
        }
    }
}

fn advice(status: u16, code: &str, region: &str, real: Option<&str>) -> Option<String> {
    if let Some(real) = real.filter(|real| *real != region) {
        return Some(format!("the bucket is in the region {real}, and AWS_REGION is {region}"));
    }
    let text = match (status, code) {
        (_, "NoSuchBucket") => "create the bucket, or correct the address",
        (_, "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken") => {
            "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or the profile"
        }
        (_, "ExpiredToken") => "the key's session has expired: get a new key",
        (_, "RequestTimeTooSkewed") => "set the clock of this machine",
        (301 | 307, _) | (_, "PermanentRedirect" | "AuthorizationHeaderMalformed") => {
            "set AWS_REGION to the region of the bucket"
        }
        (401 | 403, _) => "the key needs s3:PutObject, s3:GetObject, s3:DeleteObject and s3:ListBucket",
        (503, _) | (_, "SlowDown") => "the server is busy; this was tried several times",
        _ => return None,
    };
    Some(text.to_owned())
}

impl std::error::Error for S3Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.refusal {
            Refusal::Unreachable(source) => Some(source),
            Refusal::Key(_) | Refusal::Answered { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(refusal: Refusal) -> Box<S3Error> {
        let variable = |name: &str| (name == "AWS_REGION").then(|| "eu-west-1".to_owned());
        let address = S3Address::parse("s3://runs/a", &variable).unwrap();
        S3Error::new(&address, &Method::PUT, "a/s/d", refusal)
    }

    #[test]
    fn a_refusal_names_the_place_the_cause_and_what_to_try() {
        for (status, code, region, words) in [
            (
                404,
                "NoSuchBucket",
                None,
                "404 NoSuchBucket It says.; create the bucket, or correct the address",
            ),
            (403, "AccessDenied", None, "403 AccessDenied It says.; the key needs s3:PutObject"),
            (403, "SignatureDoesNotMatch", None, "SignatureDoesNotMatch It says.; check AWS_ACCESS_KEY_ID"),
            (
                301,
                "PermanentRedirect",
                Some("us-east-2"),
                "is in the region us-east-2, and AWS_REGION is eu-west-1",
            ),
            (503, "SlowDown", None, "503 SlowDown It says.; the server is busy"),
        ] {
            let body = format!(
                "<?xml version='1.0'?><Error><Code>{code}</Code><Message>It says.</Message>\
                 <AWSAccessKeyId>AKIAFAKE</AWSAccessKeyId></Error>"
            );
            let refusal = Refusal::answered(status, body.as_bytes(), region.map(str::to_owned));
            let text = error(refusal).to_string();
            assert!(text.starts_with("s3://runs/a: PUT a/s/d was answered with"), "{text}");
            assert!(text.contains(words) && !text.contains("AKIAFAKE"), "{text}");
        }
        let bare = error(Refusal::answered(500, b"<html>oops\x07", None));
        assert_eq!(bare.to_string(), "s3://runs/a: PUT a/s/d was answered with 500");
        assert!(bare.is_transient());
        assert!(!error(Refusal::answered(403, b"", None)).is_transient());
    }
}
