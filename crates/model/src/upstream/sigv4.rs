//! Signatures of AWS requests, version 4.

use super::fetch::encode;
use data_encoding::HEXLOWER;
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue, InvalidHeaderValue};
use ring::{digest, hmac};
use std::time::SystemTime;

use super::aws_time::timestamp;

/// A key of AWS, with the token of a session where it has one.
#[derive(Clone)]
pub(super) struct AwsKey {
    pub(super) id: String,
    pub(super) secret: String,
    pub(super) session_token: Option<String>,
}

/// What is signed.
pub(super) struct SignedRequest<'a> {
    pub(super) method: &'a str,
    pub(super) host: &'a str,
    /// Encoded once, as it is sent.
    pub(super) path: &'a str,
    pub(super) body: &'a [u8],
    pub(super) region: &'a str,
    pub(super) service: &'a str,
}

/// Adds `authorization` and the headers that it covers.
pub(super) fn sign(
    key: &AwsKey,
    request: &SignedRequest<'_>,
    now: SystemTime,
    headers: &mut HeaderMap,
) -> Result<(), InvalidHeaderValue> {
    let SignedRequest { method, host, path, body, region, service } = *request;
    let time = timestamp(now);
    let date = &time[..8];
    let mut signed = vec![("host", host), ("x-amz-date", time.as_str())];
    if let Some(token) = &key.session_token {
        signed.push(("x-amz-security-token", token));
    }
    let names: Vec<&str> = signed.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let lines: String = signed.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    // Every service but S3 encodes the path once more.
    let canonical_path = encode(path, b"-._~/");
    let canonical = format!("{method}\n{canonical_path}\n\n{lines}\n{names}\n{}", sha256(body));
    let scope = format!("{date}/{region}/{service}/aws4_request");
    let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", sha256(canonical.as_bytes()));
    let mut signing = hmac_sha256(format!("AWS4{}", key.secret).as_bytes(), date);
    for part in [region, service, "aws4_request"] {
        signing = hmac_sha256(signing.as_ref(), part);
    }
    let signature = HEXLOWER.encode(hmac_sha256(signing.as_ref(), &to_sign).as_ref());
    let id = &key.id;
    let value =
        format!("AWS4-HMAC-SHA256 Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}");
    let mut authorization = HeaderValue::from_str(&value)?;
    authorization.set_sensitive(true);
    headers.insert(AUTHORIZATION, authorization);
    for (name, value) in signed.iter().filter(|(name, _)| *name != "host") {
        let mut value = HeaderValue::from_str(value)?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_static(if *name == "x-amz-date" { DATE } else { TOKEN }), value);
    }
    Ok(())
}

const DATE: &str = "x-amz-date";
const TOKEN: &str = "x-amz-security-token";

fn sha256(bytes: &[u8]) -> String {
    HEXLOWER.encode(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hmac_sha256(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    /// From the public test suite of the signature: `get-vanilla` and `post-vanilla`.
    #[test]
    fn the_public_vectors_are_signed_alike() {
        let key = AwsKey {
            id: "AKIDEXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned(),
            session_token: None,
        };
        let now = UNIX_EPOCH + Duration::from_secs(1_440_938_160);
        for (method, signature) in [
            ("GET", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            ("POST", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        ] {
            let request = SignedRequest {
                method,
                host: "example.amazonaws.com",
                path: "/",
                body: b"",
                region: "us-east-1",
                service: "service",
            };
            let mut headers = HeaderMap::new();
            sign(&key, &request, now, &mut headers).unwrap();
            let expected = format!(
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
                 SignedHeaders=host;x-amz-date, Signature={signature}"
            );
            assert_eq!(headers[AUTHORIZATION], expected.as_str());
            assert_eq!(headers[DATE], "20150830T123600Z");
        }
    }
}
