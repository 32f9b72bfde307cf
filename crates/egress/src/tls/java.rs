//! A trust store for Java, which reads no PEM files and brings its own certificates.

use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use rustls::pki_types::CertificateDer;

/// Java's default password. The certificates are public; the digest only detects damage.
const PASSWORD: &str = "changeit";
const MAGIC: u32 = 0xfeed_feed;
const VERSION: u32 = 2;
const TRUSTED_CERTIFICATE: u32 = 2;
/// The timestamp of the entries; not used.
const DATE_MS: u64 = 0;

/// The certificates as a `JKS` file.
pub fn java_trust_store<'a>(certificates: impl Iterator<Item = &'a CertificateDer<'static>>) -> Vec<u8> {
    let mut entries = Vec::new();
    let mut count = 0_u32;
    for certificate in certificates {
        entries.extend_from_slice(&TRUSTED_CERTIFICATE.to_be_bytes());
        text(&mut entries, &format!("certificate-{count}"));
        entries.extend_from_slice(&DATE_MS.to_be_bytes());
        text(&mut entries, "X.509");
        let length = u32::try_from(certificate.len()).unwrap_or_default();
        entries.extend_from_slice(&length.to_be_bytes());
        entries.extend_from_slice(certificate);
        count += 1;
    }
    let mut out = Vec::new();
    for number in [MAGIC, VERSION, count] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.extend_from_slice(&entries);
    let mut digest = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    for unit in PASSWORD.encode_utf16() {
        digest.update(&unit.to_be_bytes());
    }
    digest.update(b"Mighty Aphrodite");
    digest.update(&out);
    out.extend_from_slice(digest.finish().as_ref());
    out
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&u16::try_from(text.len()).unwrap_or_default().to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn javas_own_tool_reads_it() {
        let authority = crate::tls::RunAuthority::new().unwrap();
        let store = java_trust_store([authority.certificate(), authority.certificate()].into_iter());
        let path = std::env::temp_dir().join(format!("egress-trust-{}.jks", std::process::id()));
        std::fs::write(&path, store).unwrap();
        let mut command = Command::new("keytool");
        command.args(["-list", "-storepass", PASSWORD, "-keystore"]).arg(&path);
        let output = command.output();
        std::fs::remove_file(path).unwrap();
        let Ok(output) = output else {
            return crate::skip("tls::java", "keytool is not installed");
        };
        let listing = String::from_utf8_lossy(&output.stdout);
        assert!(listing.contains("contains 2 entries") && listing.contains("trustedCertEntry"), "{listing}");
    }
}
