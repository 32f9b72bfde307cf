//! Signatures of AWS requests, version 4. The model gateway signs requests to Bedrock with it, and the proxy those of
//! endpoints with `credential_signing`. It uses no clock and no sockets.

use crate::credentials::Secret;
use percent_encoding::percent_decode_str;
use ring::{digest, hmac};
use std::time::SystemTime;
use time::OffsetDateTime;
use zeroize::Zeroizing;

pub const DATE: &str = "x-amz-date";
pub const TOKEN: &str = "x-amz-security-token";
pub const CONTENT_HASH: &str = "x-amz-content-sha256";
/// Instead of a hash: the signature does not cover the body.
pub const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";

/// A key of AWS, with the token of a session where it has one.
#[derive(Debug, Clone)]
pub struct AwsKey {
    pub id: Secret,
    pub secret: Secret,
    pub session_token: Option<Secret>,
}

/// The body as the signature covers it.
#[derive(Debug, Clone, Copy)]
pub enum SignedPayload<'a> {
    Bytes(&'a [u8]),
    /// A hash, or a constant of S3 in its place, such as `UNSIGNED-PAYLOAD`.
    Hash(&'a str),
}

/// The request to sign.
#[derive(Debug, Clone, Copy)]
pub struct SignedRequest<'a> {
    pub method: &'a str,
    pub host: &'a str,
    /// Path and query, encoded once, as they are sent.
    pub target: &'a str,
    /// Further headers that the signature covers, with lower-case names.
    pub headers: &'a [(String, String)],
    pub payload: SignedPayload<'a>,
    pub region: &'a str,
    pub service: &'a str,
}

/// The headers that carry the signature, with lower-case names. All of them are sent.
pub fn sign(
    key: &AwsKey,
    request: &SignedRequest<'_>,
    now: SystemTime,
) -> Vec<(&'static str, Zeroizing<String>)> {
    let SignedRequest { method, host, target, headers, payload, region, service } = *request;
    let time = timestamp(now);
    let date = &time[..8];
    let hash = match payload {
        SignedPayload::Bytes(bytes) => sha256(bytes),
        SignedPayload::Hash(hash) => hash.to_owned(),
    };
    let mut added = vec![(DATE, Zeroizing::new(time.clone()))];
    if let Some(token) = &key.session_token {
        added.push((TOKEN, Zeroizing::new(token.reveal().to_owned())));
    }
    if is_s3(service) || matches!(payload, SignedPayload::Hash(_)) {
        added.push((CONTENT_HASH, Zeroizing::new(hash.clone())));
    }
    let mut signed: Vec<(&str, &str)> = vec![("host", host)];
    signed.extend(added.iter().map(|(name, value)| (*name, value.as_str())));
    signed.extend(headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    signed.sort_by_key(|(name, _)| *name);
    let names: Vec<&str> = signed.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let lines: String = signed.iter().map(|(name, value)| format!("{name}:{}\n", one_line(value))).collect();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = canonical_path(path, service);
    let query = canonical_query(query);
    let canonical = Zeroizing::new(format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{hash}"));
    let scope = format!("{date}/{region}/{service}/aws4_request");
    let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", sha256(canonical.as_bytes()));
    let secret = Zeroizing::new(format!("AWS4{}", key.secret.reveal()));
    let mut signing = hmac_sha256(secret.as_bytes(), date);
    for part in [region, service, "aws4_request"] {
        signing = hmac_sha256(signing.as_ref(), part);
    }
    let signature = hexadecimal(hmac_sha256(signing.as_ref(), &to_sign).as_ref());
    let id = key.id.reveal();
    let authorization =
        format!("AWS4-HMAC-SHA256 Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}");
    added.push(("authorization", Zeroizing::new(authorization)));
    added
}

/// The region in the name of an AWS host; services without one in their name are signed for `us-east-1`.
pub fn region_of_host(host: &str) -> Option<&str> {
    let host = host.trim_end_matches('.');
    let suffixes = [".amazonaws.com", ".amazonaws.com.cn", ".api.aws", ".on.aws"];
    let name = suffixes.iter().find_map(|suffix| host.strip_suffix(suffix))?;
    let named = name.split('.').rev().find_map(|label| {
        // `s3-eu-west-1` is an old spelling.
        let label = label.strip_prefix("s3-").unwrap_or(label);
        is_region(label).then_some(label)
    });
    Some(named.unwrap_or("us-east-1"))
}

/// Such as `eu-west-1` or `us-gov-west-1`.
fn is_region(label: &str) -> bool {
    let parts: Vec<&str> = label.split('-').collect();
    let Some((number, words)) = parts.split_last() else { return false };
    let is_word = |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    words.len() >= 2
        && words[0].len() == 2
        && words.iter().all(is_word)
        && number.len() == 1
        && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// S3 signs the path as it is; related services have names such as `s3-outposts` and `s3express`.
fn is_s3(service: &str) -> bool {
    service.starts_with("s3")
}

fn canonical_path(path: &str, service: &str) -> String {
    if !is_s3(service) {
        // Every service but S3 encodes the path once more.
        return encode(path.as_bytes(), b"-._~/");
    }
    let segment = |segment: &str| encode(&percent_decode_str(segment).collect::<Vec<u8>>(), b"-._~");
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

fn canonical_query(query: &str) -> String {
    let part = |text: &str| {
        // AWS reads a plus sign as a space.
        let plain: Vec<u8> = percent_decode_str(&text.replace('+', "%20")).collect();
        encode(&plain, b"-._~")
    };
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (part(name), part(value))
    };
    let mut pairs: Vec<(String, String)> =
        query.split('&').filter(|text| !text.is_empty()).map(pair).collect();
    pairs.sort();
    let written: Vec<String> = pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    written.join("&")
}

/// Trims spaces, and replaces several spaces by one.
fn one_line(value: &str) -> String {
    value.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

/// `20150830T123600Z`.
fn timestamp(now: SystemTime) -> String {
    let at = OffsetDateTime::from(now);
    let month = u8::from(at.month());
    let time = format!("{:02}{:02}{:02}", at.hour(), at.minute(), at.second());
    format!("{:04}{month:02}{:02}T{time}Z", at.year(), at.day())
}

fn encode(bytes: &[u8], kept: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || kept.contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn sha256(bytes: &[u8]) -> String {
    hexadecimal(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hmac_sha256(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn key(id: &str, secret: &str) -> AwsKey {
        let secret_of = |text: &str| Secret::new(text.to_owned());
        AwsKey { id: secret_of(id), secret: secret_of(secret), session_token: None }
    }

    fn signature(key: &AwsKey, request: &SignedRequest<'_>, seconds: u64) -> String {
        let fields = sign(key, request, UNIX_EPOCH + Duration::from_secs(seconds));
        fields.into_iter().find(|(name, _)| *name == "authorization").unwrap().1.to_string()
    }

    /// From the public test suite of the signature: `get-vanilla`, `post-vanilla`, `get-vanilla-query-order-key-case`.
    #[test]
    fn the_public_vectors_are_signed_alike() {
        let key = key("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
        for (method, target, expected) in [
            ("GET", "/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            ("POST", "/", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
            (
                "GET",
                "/?Param2=value2&Param1=value1",
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
        ] {
            let request = SignedRequest {
                method,
                host: "example.amazonaws.com",
                target,
                headers: &[],
                payload: SignedPayload::Bytes(b""),
                region: "us-east-1",
                service: "service",
            };
            let expected = format!(
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
                 SignedHeaders=host;x-amz-date, Signature={expected}"
            );
            assert_eq!(signature(&key, &request, 1_440_938_160), expected);
        }
    }

    /// The example of S3's documentation: `GET Object` with a range.
    #[test]
    fn the_example_of_s3_is_signed_alike() {
        let request = SignedRequest {
            method: "GET",
            host: "examplebucket.s3.amazonaws.com",
            target: "/test.txt",
            headers: &[("range".to_owned(), "bytes=0-9".to_owned())],
            payload: SignedPayload::Bytes(b""),
            region: "us-east-1",
            service: "s3",
        };
        let key = key("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
        let signed = signature(&key, &request, 1_369_353_600);
        let expected = "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, \
                        Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
        assert!(signed.ends_with(expected), "{signed}");
    }

    #[test]
    fn a_path_is_encoded_as_its_service_wants_it() {
        assert_eq!(canonical_path("/a%20b/(c)~", "s3"), "/a%20b/%28c%29~");
        assert_eq!(canonical_path("/model/a%3A0/invoke", "bedrock"), "/model/a%253A0/invoke");
        assert_eq!(canonical_query("b=2&a=%2f+x&acl"), "a=%2F%20x&acl=&b=2");
    }

    #[test]
    fn the_region_is_in_the_name_of_the_host() {
        for (host, region) in [
            ("bucket.s3.eu-west-1.amazonaws.com", Some("eu-west-1")),
            ("b.s3.dualstack.us-gov-west-1.amazonaws.com", Some("us-gov-west-1")),
            ("s3-ap-southeast-2.amazonaws.com", Some("ap-southeast-2")),
            ("dynamodb.cn-north-1.amazonaws.com.cn", Some("cn-north-1")),
            ("lambda.eu-west-1.api.aws", Some("eu-west-1")),
            ("iam.amazonaws.com", Some("us-east-1")),
            ("api.example.com", None),
            ("amazonaws.com.example.com", None),
        ] {
            assert_eq!(region_of_host(host), region, "{host}");
        }
    }

    #[test]
    fn times_are_written_as_aws_writes_them() {
        for (seconds, written) in [
            (0, "19700101T000000Z"),
            (1_709_251_199, "20240229T235959Z"),
            (4_107_542_401, "21000301T000001Z"),
        ] {
            assert_eq!(timestamp(UNIX_EPOCH + Duration::from_secs(seconds)), written);
        }
    }
}
