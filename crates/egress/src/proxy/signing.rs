//! Signs requests to endpoints with `credential_signing`, over the bytes that are sent. The client inside signs with
//! placeholders: its signature is dropped and a new one is made with the real key, which never enters the sandbox.

use super::refusal::Refusal;
use crate::http1::{Fields, RequestHead};
use crate::sigv4::{
    AwsKey, CONTENT_HASH, DATE, SignedPayload, SignedRequest, TOKEN, UNSIGNED_PAYLOAD, region_of_host, sign,
};
use policy::model::{Signature, Signing};
use std::time::SystemTime;

/// A body is held in memory while it is hashed. A client that sends the hash itself may send any length.
pub(super) const MAX_HASHED_BODY: u64 = 16 << 20;

/// The chunks carry no signatures, only a checksum at the end.
const UNSIGNED_TRAILER: &str = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";

/// Headers that belong to the client's own signature.
const OF_SIGNATURE: &[&str] = &["authorization", DATE, TOKEN, CONTENT_HASH];

/// A signature that waits for the final head and body.
pub(super) struct PendingSignature {
    key: AwsKey,
    service: String,
    region: String,
    payload: PayloadHash,
}

/// What the signature says about the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PayloadHash {
    /// The client's own value: a hash, which the service checks, or a constant that means "no hash".
    Named(String),
    /// Computed from the body.
    OfBody,
}

/// Removes the client's signature. Its value for the body decides how the body is signed.
pub(super) fn take_client_signature(
    head: &mut RequestHead,
    target: &str,
    signature: &Signature,
) -> Result<PayloadHash, Refusal> {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let names = query.split('&').map(|pair| pair.split('=').next().unwrap_or_default());
    if names.into_iter().any(|name| name.eq_ignore_ascii_case("x-amz-signature")) {
        let detail = "the URL is presigned, and this endpoint signs requests itself; send a plain request";
        return Err(Refusal::unreadable(detail.to_owned()));
    }
    let named: Vec<String> =
        head.fields.all(CONTENT_HASH).map(|value| String::from_utf8_lossy(value).into_owned()).collect();
    if named.len() > 1 {
        return Err(Refusal::unreadable(format!("the request has two {CONTENT_HASH} headers")));
    }
    let payload = payload_hash(named.into_iter().next(), signature.scheme)?;
    for name in OF_SIGNATURE {
        head.fields.remove(name);
    }
    Ok(payload)
}

fn payload_hash(named: Option<String>, scheme: Signing) -> Result<PayloadHash, Refusal> {
    let is_hash = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let refuse = |reason: String| Err(Refusal::unreadable(reason));
    match (named, scheme) {
        (Some(word), _) if word.starts_with("STREAMING-AWS4-") => refuse(format!(
            "the body is signed chunk by chunk ({word}), which only the client's own key could do; send it whole, or \
             with {UNSIGNED_TRAILER}"
        )),
        (Some(word), Signing::Sigv4Body) if !is_hash(&word) => refuse(format!(
            "the endpoint signs bodies (`sigv4:body`), and the request asks for {word}; send the hash of the body"
        )),
        (Some(word), _) if is_hash(&word) && scheme != Signing::Sigv4NoBody => Ok(PayloadHash::Named(word)),
        (Some(word), _) if word == UNSIGNED_PAYLOAD || word == UNSIGNED_TRAILER => {
            Ok(PayloadHash::Named(word))
        }
        (_, Signing::Sigv4NoBody) => Ok(PayloadHash::Named(UNSIGNED_PAYLOAD.to_owned())),
        (None, _) => Ok(PayloadHash::OfBody),
        (Some(word), _) => refuse(format!("{CONTENT_HASH} is neither a hash nor a known word: {word}")),
    }
}

impl PendingSignature {
    pub(super) fn new(
        key: AwsKey,
        signature: &Signature,
        host: &str,
        payload: PayloadHash,
    ) -> Result<Self, Refusal> {
        let region = signature.region.as_deref().or_else(|| region_of_host(host));
        let Some(region) = region else {
            let detail = format!("{host} names no AWS region; give the endpoint a `signing_region`");
            return Err(Refusal::unreadable(detail));
        };
        Ok(Self { key, service: signature.service.clone(), region: region.to_owned(), payload })
    }

    /// Whether the body must be there before the head can be written.
    pub(super) fn needs_body(&self) -> bool {
        self.payload == PayloadHash::OfBody
    }

    /// Adds the signature to the head of a request with this body.
    pub(super) fn add_to(&self, head: &mut RequestHead, host: &str, target: &str, body: &[u8]) {
        let headers = covered(&head.without_hop());
        let request = SignedRequest {
            method: &head.method,
            host,
            target,
            headers: &headers,
            payload: match &self.payload {
                PayloadHash::Named(hash) => SignedPayload::Hash(hash),
                PayloadHash::OfBody => SignedPayload::Bytes(body),
            },
            region: &self.region,
            service: &self.service,
        };
        for (name, value) in sign(&self.key, &request, SystemTime::now()) {
            head.fields.set(name, value.as_bytes().to_vec());
        }
    }
}

/// The headers that a signature covers beside its own: all AWS headers, and those that describe the body. Other headers
/// may be changed on the way.
fn covered(fields: &Fields) -> Vec<(String, String)> {
    let mut covered: Vec<(String, String)> = Vec::new();
    for (name, value) in fields.iter() {
        let name = name.to_ascii_lowercase();
        let is_covered = name.starts_with("x-amz-") || name == "content-type" || name == "content-md5";
        if !is_covered {
            continue;
        }
        let value = String::from_utf8_lossy(value).into_owned();
        match covered.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = format!("{known},{value}"),
            None => covered.push((name, value)),
        }
    }
    covered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_signed_as_the_endpoint_and_the_client_say() {
        let hash = "a".repeat(64);
        let named = |text: &str| Ok(PayloadHash::Named(text.to_owned()));
        let check = |sent: Option<&str>, scheme: Signing, expected: Result<PayloadHash, &str>| match (
            payload_hash(sent.map(str::to_owned), scheme),
            expected,
        ) {
            (Err(refusal), Err(words)) => assert!(refusal.detail.contains(words), "{}", refusal.detail),
            (found, expected) => assert_eq!(found.ok(), expected.ok(), "{sent:?} {scheme:?}"),
        };
        check(None, Signing::Sigv4, Ok(PayloadHash::OfBody));
        check(None, Signing::Sigv4Body, Ok(PayloadHash::OfBody));
        check(None, Signing::Sigv4NoBody, named(UNSIGNED_PAYLOAD));
        check(Some(&hash), Signing::Sigv4, named(&hash));
        check(Some(&hash), Signing::Sigv4Body, named(&hash));
        check(Some(&hash), Signing::Sigv4NoBody, named(UNSIGNED_PAYLOAD));
        check(Some(UNSIGNED_PAYLOAD), Signing::Sigv4, named(UNSIGNED_PAYLOAD));
        check(Some(UNSIGNED_PAYLOAD), Signing::Sigv4Body, Err("signs bodies"));
        check(Some(UNSIGNED_TRAILER), Signing::Sigv4, named(UNSIGNED_TRAILER));
        check(Some(UNSIGNED_TRAILER), Signing::Sigv4NoBody, named(UNSIGNED_TRAILER));
        for scheme in [Signing::Sigv4, Signing::Sigv4Body, Signing::Sigv4NoBody] {
            check(Some("STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), scheme, Err("chunk by chunk"));
        }
        check(Some("nonsense"), Signing::Sigv4, Err("neither a hash nor a known word"));
    }
}
