//! Signatures of webhooks: of GitHub, of GitLab, and of Standard Webhooks. A comparison takes as long for a wrong signature as for
//! the right one.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

/// How far the clock of a sender may be from ours.
const MAX_AGE: Duration = Duration::from_secs(300);

/// The most signatures of one request: one for each secret while secrets change.
const MAX_SIGNATURES: usize = 8;

fn key(secret: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret)
}

/// `X-Hub-Signature-256` of GitHub: `sha256=` and the digest in hexadecimal.
pub(super) fn is_of_github(secret: &str, body: &[u8], shown: &str) -> bool {
    let digest = shown.strip_prefix("sha256=").and_then(decode_hex);
    digest.is_some_and(|digest| hmac::verify(&key(secret.as_bytes()), body, &digest).is_ok())
}

/// `X-Gitlab-Token` is the secret itself.
pub(super) fn is_secret(secret: &str, shown: &str) -> bool {
    let key = key(b"compare");
    let expected = hmac::sign(&key, secret.as_bytes());
    hmac::verify(&key, shown.as_bytes(), expected.as_ref()).is_ok()
}

/// The headers of Standard Webhooks, which GitLab also sends.
pub(super) struct StandardSignature<'a> {
    pub(super) id: &'a str,
    /// Seconds since 1970.
    pub(super) timestamp: &'a str,
    /// `v1,` and the digest in base64; several with spaces between them.
    pub(super) signatures: &'a str,
}

impl StandardSignature<'_> {
    /// Refuses requests older than `MAX_AGE`: somebody may be replaying them.
    pub(super) fn is_valid(&self, secret: &str, body: &[u8], now: SystemTime) -> bool {
        let sent = self
            .timestamp
            .parse()
            .ok()
            .and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
        let Some(sent) = sent else { return false };
        let age = now.duration_since(sent).or_else(|_| sent.duration_since(now));
        let Some(key) = standard_key(secret).filter(|_| age.is_ok_and(|age| age <= MAX_AGE)) else {
            return false;
        };
        let content = [format!("{}.{}.", self.id, self.timestamp).as_bytes(), body].concat();
        let shown = self.signatures.split(' ').take(MAX_SIGNATURES).filter_map(|one| one.strip_prefix("v1,"));
        shown
            .filter_map(|text| STANDARD.decode(text).ok())
            .any(|tag| hmac::verify(&key, &content, &tag).is_ok())
    }
}

/// A secret of Standard Webhooks is `whsec_` and the key in base64.
fn standard_key(secret: &str) -> Option<hmac::Key> {
    let bytes = STANDARD.decode(secret.strip_prefix("whsec_")?).ok()?;
    Some(key(&bytes))
}

/// A signature over id, time and body; `None` if the secret is not one of Standard Webhooks.
pub(super) fn sign_standard(secret: &str, id: &str, timestamp: &str, body: &[u8]) -> Option<String> {
    let content = [format!("{id}.{timestamp}.").as_bytes(), body].concat();
    Some(format!("v1,{}", STANDARD.encode(hmac::sign(&standard_key(secret)?, &content))))
}

/// Whether a secret is `whsec_` and a key of 24 to 64 bytes, as the specification wants.
pub fn is_standard_secret(secret: &str) -> bool {
    let key = secret.strip_prefix("whsec_").and_then(|text| STANDARD.decode(text).ok());
    key.is_some_and(|key| (24..=64).contains(&key.len()))
}

fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.as_bytes().chunks(2).map(|pair| match *pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of GitHub's documentation.
    #[test]
    fn a_signature_of_github_is_that_of_the_secret_and_the_body() {
        let secret = "It's a Secret to Everybody";
        let shown = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        assert!(is_of_github(secret, b"Hello, World!", shown));
        assert!(!is_of_github("another", b"Hello, World!", shown));
        assert!(!is_of_github(secret, b"Hello, World", shown));
        for wrong in ["", "sha256=", "sha256=7", "sha256=zz", &shown[7..], "sha1=757107ea"] {
            assert!(!is_of_github(secret, b"Hello, World!", wrong), "{wrong}");
        }
        assert!(is_secret("a-secret", "a-secret"));
        assert!(!is_secret("a-secret", "a-secre") && !is_secret("a-secret", ""));
    }

    /// The example of the specification of Standard Webhooks.
    #[test]
    fn a_standard_signature_covers_id_time_and_body() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let body = br#"{"test": 2432232314}"#;
        let signatures = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        let shown = |id, timestamp| StandardSignature { id, timestamp, signatures };
        let now = UNIX_EPOCH + Duration::from_secs(1_614_265_330);
        let good = shown("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330");
        assert_eq!(sign_standard(secret, good.id, good.timestamp, body).as_deref(), Some(signatures));
        assert!(is_standard_secret(secret) && !is_standard_secret("whsec_c2hvcnQ="));
        assert!(good.is_valid(secret, body, now));
        assert!(good.is_valid(secret, body, now + MAX_AGE) && good.is_valid(secret, body, now - MAX_AGE));
        let second = Duration::from_secs(1);
        assert!(!good.is_valid(secret, body, now + MAX_AGE + second), "too old");
        assert!(!good.is_valid(secret, body, now - MAX_AGE - second), "from the future");
        assert!(!good.is_valid(secret, b"{}", now));
        assert!(!good.is_valid("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", body, now), "not such a secret");
        assert!(!shown("msg_other", "1614265330").is_valid(secret, body, now));
        assert!(!shown("msg_p5jXN8AQM9LWM0D4loKWxJek", "x").is_valid(secret, body, now));
    }
}
