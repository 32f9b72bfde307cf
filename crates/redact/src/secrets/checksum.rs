//! What can be verified about a token without asking its vendor: checksums, encodings, and plain randomness.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::randomness;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FormatCheck {
    /// No known checksum: only examples and placeholders are recognised.
    Randomness,
    /// The last six characters are the CRC-32 of the rest after the prefix, in base 62 (GitHub, npm).
    Crc32Base62,
    /// The vendor's encoded name is in the middle (OpenAI).
    VendorMark,
    /// The whole token is a bech32 string (age).
    Bech32,
    /// The first part is the base64 of a JSON object that names an algorithm.
    JsonWebToken,
}

/// What the check says. `Example` is not reported at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChecksumResult {
    Verified,
    Plausible,
    /// Has the vendor's format but a wrong checksum: masked, but probably not a real credential.
    Mismatch,
    Example,
}

impl FormatCheck {
    pub(crate) fn run(self, token: &str, literal: &str) -> ChecksumResult {
        let body = token.strip_prefix(literal).unwrap_or(token);
        if randomness::is_example(body) || randomness::is_name(body) {
            return ChecksumResult::Example;
        }
        let holds = match self {
            FormatCheck::Randomness => return ChecksumResult::Plausible,
            FormatCheck::VendorMark => true,
            FormatCheck::Crc32Base62 => crc32_base62(body),
            FormatCheck::Bech32 => bech32(token),
            FormatCheck::JsonWebToken => json_web_token(token),
        };
        if holds { ChecksumResult::Verified } else { ChecksumResult::Mismatch }
    }
}

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

fn crc32_base62(body: &str) -> bool {
    let Some(split) = body.len().checked_sub(6).filter(|at| body.is_char_boundary(*at)) else { return false };
    let (payload, checksum) = body.split_at(split);
    base62(crc32fast::hash(payload.as_bytes())) == checksum
}

/// Six digits, filled with zeros from the left.
pub(crate) fn base62(mut number: u32) -> String {
    let mut digits = [b'0'; 6];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[(number % 62) as usize];
        number /= 62;
    }
    digits.iter().map(|digit| char::from(*digit)).collect()
}

const BECH32: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
const BECH32_GENERATOR: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];

fn bech32(token: &str) -> bool {
    let lower = token.to_ascii_lowercase();
    let Some((prefix, data)) = lower.rsplit_once('1') else { return false };
    let values = data.bytes().map(|byte| BECH32.iter().position(|symbol| *symbol == byte));
    let expanded = prefix
        .bytes()
        .map(|byte| Some(usize::from(byte >> 5)))
        .chain([Some(0)])
        .chain(prefix.bytes().map(|byte| Some(usize::from(byte & 31))));
    let mut state = 1u32;
    for value in expanded.chain(values) {
        let Some(value) = value else { return false };
        let top = state >> 25;
        state = ((state & 0x01ff_ffff) << 5) ^ u32::try_from(value).unwrap_or(0);
        for (bit, term) in BECH32_GENERATOR.iter().enumerate() {
            if (top >> bit) & 1 == 1 {
                state ^= term;
            }
        }
    }
    state == 1
}

fn json_web_token(token: &str) -> bool {
    let header = token.split('.').next().unwrap_or_default();
    URL_SAFE_NO_PAD
        .decode(header)
        .is_ok_and(|json| json.starts_with(b"{") && memchr::memmem::find(&json, b"\"alg\"").is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn github_checksums_hold() {
        let payload = "zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ";
        let token = format!("ghp_{payload}{}", base62(crc32fast::hash(payload.as_bytes())));
        assert_eq!(token, "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");
        assert_eq!(FormatCheck::Crc32Base62.run(&token, "ghp_"), ChecksumResult::Verified);
        let other = token.replace("zQ", "zR");
        assert_eq!(FormatCheck::Crc32Base62.run(&other, "ghp_"), ChecksumResult::Mismatch);
    }

    #[test]
    fn bech32_checksums_hold() {
        // The shortest valid string of the bech32 specification.
        assert!(bech32("A12UEL5L"));
        assert!(!bech32("A12UEL5M"));
    }

    #[test]
    fn a_web_token_needs_a_header() {
        assert!(json_web_token("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln"));
        assert!(!json_web_token("eyJmb28iOiJiYXIifQ.eyJzdWIiOiIxIn0.c2ln"));
    }
}
