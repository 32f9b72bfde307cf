//! Certificates from files: which authorities are trusted, and our client certificate.

use super::Roots;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file of certificates or of a key that cannot be used.
#[derive(Debug)]
pub struct CertificateError {
    path: PathBuf,
    why: String,
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot use the certificate or key {}: {}", self.path.display(), self.why)
    }
}

impl std::error::Error for CertificateError {}

/// A client certificate and its key, for servers that ask for one.
#[derive(Clone, Debug)]
pub struct ClientCertificate(pub(super) Arc<SingleCertAndKey>);

impl ClientCertificate {
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, CertificateError> {
        let chain = read(certificate)?;
        let wrong = |path: &Path, why: String| CertificateError { path: path.to_owned(), why };
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error.to_string()))?;
        let certified = CertifiedKey::from_der(chain, private, &ring::default_provider());
        let certified = certified.map_err(|error| wrong(certificate, error.to_string()))?;
        Ok(Self(Arc::new(SingleCertAndKey::from(certified))))
    }
}

impl Roots {
    /// The authorities in this file and no others.
    pub fn from_file(path: &Path) -> Result<Self, CertificateError> {
        let roots = Self::only(read(path)?);
        if roots.certificates().is_empty() {
            let why = "it has no certificate of an authority".to_owned();
            return Err(CertificateError { path: path.to_owned(), why });
        }
        Ok(roots)
    }
}

fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    read.map_err(|error| CertificateError { path: path.to_owned(), why: error.to_string() })
}
