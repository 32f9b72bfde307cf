//! The certificate authority of one run, and the certificates that it issues for hosts.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use time::{Duration, OffsetDateTime};

/// Longer than any run, and too short for a stolen certificate to be useful.
const LIFE: Duration = Duration::days(7);
/// The start of validity: clocks inside images may be behind.
const BACKDATED: Duration = Duration::hours(24);
const MAX_SERVERS: usize = 256;

/// A host, and the protocol that its server chose.
type Server = (String, Option<Vec<u8>>);

pub struct RunAuthority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
    /// Created for the first inspected connection.
    leaf_key: OnceLock<KeyPair>,
    servers: Mutex<HashMap<Server, Arc<ServerConfig>>>,
}

#[derive(Debug)]
pub enum AuthorityError {
    Make(rcgen::Error),
    Key(rustls::Error),
}

impl fmt::Display for AuthorityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Make(source) => write!(f, "cannot create a certificate: {source}"),
            Self::Key(source) => write!(f, "cannot use a certificate: {source}"),
        }
    }
}

impl std::error::Error for AuthorityError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Make(source) => Some(source),
            Self::Key(source) => Some(source),
        }
    }
}

impl RunAuthority {
    pub fn new() -> Result<Self, AuthorityError> {
        let key = KeyPair::generate().map_err(AuthorityError::Make)?;
        let mut params = CertificateParams::new(Vec::<String>::new()).map_err(AuthorityError::Make)?;
        params.distinguished_name = named("fullsend sandbox authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        date(&mut params);
        let certificate = params.self_signed(&key).map_err(AuthorityError::Make)?;
        Ok(Self {
            certificate: certificate.der().clone(),
            pem: certificate.pem(),
            issuer: Issuer::new(params, key),
            leaf_key: OnceLock::new(),
            servers: Mutex::default(),
        })
    }

    /// For the trust stores inside the sandbox.
    pub fn certificate_pem(&self) -> &str {
        &self.pem
    }

    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// The TLS settings for this host, with exactly the protocol that the upstream chose. They are cached, because clients
    /// connect to the same few hosts again and again, and resume their sessions.
    pub fn server_config(
        &self,
        host: &str,
        protocol: Option<&[u8]>,
    ) -> Result<Arc<ServerConfig>, AuthorityError> {
        let wanted: Server = (host.to_owned(), protocol.map(<[u8]>::to_vec));
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = servers.get(&wanted) {
            return Ok(Arc::clone(server));
        }
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(AuthorityError::Key)?;
        let resolver = Arc::new(SingleCertAndKey::from(self.make_leaf(host)?));
        let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = wanted.1.clone().into_iter().collect();
        let config = Arc::new(config);
        if servers.len() >= MAX_SERVERS {
            servers.clear();
        }
        servers.insert(wanted, Arc::clone(&config));
        Ok(config)
    }

    fn make_leaf(&self, host: &str) -> Result<CertifiedKey, AuthorityError> {
        let mut params = CertificateParams::new([host.to_owned()]).map_err(AuthorityError::Make)?;
        // A common name has at most 64 characters; clients check the alternative name.
        params.distinguished_name = named("fullsend sandbox leaf");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        date(&mut params);
        let leaf_key = self.leaf_key()?;
        let certificate = params.signed_by(leaf_key, &self.issuer).map_err(AuthorityError::Make)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(leaf_key.serialize_der()));
        let key = ring::sign::any_supported_type(&key).map_err(AuthorityError::Key)?;
        Ok(CertifiedKey::new(vec![certificate.der().clone(), self.certificate.clone()], key))
    }

    fn leaf_key(&self) -> Result<&KeyPair, AuthorityError> {
        if let Some(key) = self.leaf_key.get() {
            return Ok(key);
        }
        let key = KeyPair::generate().map_err(AuthorityError::Make)?;
        Ok(self.leaf_key.get_or_init(|| key))
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut out = DistinguishedName::new();
    out.push(DnType::CommonName, name);
    out
}

fn date(params: &mut CertificateParams) {
    let now = OffsetDateTime::now_utc();
    params.not_before = now - BACKDATED;
    params.not_after = now + LIFE;
}
