//! Certificates for a server with TLS.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::fixture::Directory;

/// Certificates of an authority, of a server named `localhost`, and of a client, as files.
pub(crate) fn certificates(directory: &Directory) -> PathBuf {
    let path = directory.path().to_owned();
    let key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    std::fs::write(path.join("ca.pem"), authority.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(authority, key);
    for (file, names, user) in
        [("server", vec!["localhost".to_owned()], "server"), ("client", Vec::new(), "fullsend")]
    {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, user);
        let certificate = params.signed_by(&key, &issuer).unwrap();
        std::fs::write(path.join(format!("{file}.pem")), certificate.pem()).unwrap();
        std::fs::write(path.join(format!("{file}.key")), key.serialize_pem()).unwrap();
    }
    path
}
