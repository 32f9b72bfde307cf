//! A certificate authority and TLS servers for tests: valid, expired, for another name.

use super::Roots;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

pub struct TestAuthority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

impl Default for TestAuthority {
    fn default() -> Self {
        Self::new()
    }
}

impl TestAuthority {
    pub fn new() -> Self {
        let key = KeyPair::generate().expect("a certificate for tests");
        let mut params = CertificateParams::new(Vec::<String>::new()).expect("a certificate for tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate for tests").der().clone();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    pub fn roots(&self) -> Roots {
        Roots::only([self.certificate.clone()])
    }

    pub fn acceptor(&self, name: &str, expired: bool, protocols: &[&[u8]]) -> TlsAcceptor {
        let key = KeyPair::generate().expect("a certificate for tests");
        let mut params = CertificateParams::new([name.to_owned()]).expect("a certificate for tests");
        if expired {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2002, 1, 1);
        }
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate for tests");
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("a certificate for tests")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .expect("a certificate for tests");
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}
