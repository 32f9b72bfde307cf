//! Which certificate authorities are trusted: those of this machine, or those of a test.

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use std::fmt;
use std::sync::Arc;

#[derive(Debug, Clone)]
pub struct Roots {
    store: RootCertStore,
    certificates: Vec<CertificateDer<'static>>,
}

#[derive(Debug)]
pub struct RootsError {
    reasons: Vec<String>,
}

impl fmt::Display for RootsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "this machine has no usable certificate authorities (install ca-certificates, or correct SSL_CERT_FILE or SSL_CERT_DIR \
             if it is set)"
        )?;
        self.reasons.iter().try_for_each(|reason| write!(f, "; {reason}"))
    }
}

impl std::error::Error for RootsError {}

impl Roots {
    /// Fails only if there are none at all: one broken file among many is skipped.
    pub fn load() -> Result<Self, RootsError> {
        let loaded = rustls_native_certs::load_native_certs();
        let mut roots = Self::none();
        for certificate in loaded.certs {
            roots.add(certificate);
        }
        if roots.store.is_empty() {
            let reasons = loaded.errors.iter().map(ToString::to_string).collect();
            return Err(RootsError { reasons });
        }
        Ok(roots)
    }

    pub fn only(certificates: impl IntoIterator<Item = CertificateDer<'static>>) -> Self {
        let mut roots = Self::none();
        certificates.into_iter().for_each(|certificate| roots.add(certificate));
        roots
    }

    fn none() -> Self {
        Self { store: RootCertStore::empty(), certificates: Vec::new() }
    }

    fn add(&mut self, certificate: CertificateDer<'static>) {
        // A root that cannot be parsed is not trusted.
        if self.store.add(certificate.clone()).is_ok() {
            self.certificates.push(certificate);
        }
    }

    /// For the bundle that is given to the sandbox.
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.certificates
    }

    #[cfg(test)]
    pub(crate) fn client_config(&self) -> ClientConfig {
        self.clone().into_client_config()
    }

    pub(super) fn into_client_config(self) -> ClientConfig {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        #[expect(clippy::expect_used, reason = "the provider is fixed and has these versions")]
        let builder =
            builder.with_safe_default_protocol_versions().expect("ring has the default TLS versions");
        builder.with_root_certificates(self.store).with_no_client_auth()
    }
}
