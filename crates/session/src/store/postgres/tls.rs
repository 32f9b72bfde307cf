//! TLS to a PostgreSQL server, with the modes of its own clients: `disable`, `prefer`, `require`, `verify-ca`, `verify-full`.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

/// How the server's certificate is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum TlsVerification {
    /// Not at all: the connection is encrypted, but the server is not verified.
    #[default]
    None,
    /// It was issued by a trusted authority.
    Authority,
    /// It was also issued for this host.
    Full,
}

/// The files and the checks of a TLS connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TlsSettings {
    pub(crate) verification: TlsVerification,
    /// The trusted authorities. `None`: the system's trusted authorities.
    pub(crate) root_certificates: Option<PathBuf>,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

impl TlsSettings {
    fn config(&self) -> Result<ClientConfig, String> {
        let provider = Arc::new(ring::default_provider());
        let verifier = self.verifier(&provider)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let (Some(certificate), Some(key)) = (&self.certificate, &self.key) else {
            return Ok(builder.with_no_client_auth());
        };
        let chain = read_certificates(certificate)?;
        let key = PrivateKeyDer::from_pem_file(key)
            .map_err(|error| format!("cannot read the key {}: {error}", key.display()))?;
        builder
            .with_client_auth_cert(chain, key)
            .map_err(|error| format!("cannot use the certificate {}: {error}", certificate.display()))
    }

    fn verifier(&self, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, String> {
        let inner = if self.verification == TlsVerification::None {
            None
        } else {
            let roots = Arc::new(self.roots()?);
            let builder = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider));
            Some(builder.build().map_err(|error| format!("cannot check certificates: {error}"))?)
        };
        let checks_name = self.verification == TlsVerification::Full;
        Ok(Arc::new(Verifier { inner, checks_name, provider: Arc::clone(provider) }))
    }

    fn roots(&self) -> Result<RootCertStore, String> {
        let certificates = match &self.root_certificates {
            Some(path) => read_certificates(path)?,
            None => rustls_native_certs::load_native_certs().certs,
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates);
        if roots.is_empty() {
            return Err("there is no trusted certificate; name a file with sslrootcert".to_owned());
        }
        Ok(roots)
    }
}

fn read_certificates(path: &std::path::Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    read.map_err(|error| format!("cannot read the certificates in {}: {error}", path.display()))
}

#[derive(Debug)]
struct Verifier {
    inner: Option<Arc<WebPkiServerVerifier>>,
    checks_name: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(inner) = &self.inner else { return Ok(ServerCertVerified::assertion()) };
        match inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is checked last, so everything else is in order.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.checks_name => Ok(ServerCertVerified::assertion()),
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Makes TLS connections, each for the host that it connects to.
#[derive(Clone)]
pub(crate) struct TlsFactory(TlsConnector);

impl TlsFactory {
    pub(crate) fn new(settings: &TlsSettings) -> Result<Self, String> {
        Ok(Self(TlsConnector::from(Arc::new(settings.config()?))))
    }
}

pub(crate) struct HostConnector {
    connector: TlsConnector,
    host: ServerName<'static>,
}

impl<S> MakeTlsConnect<S> for TlsFactory
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = EncryptedStream<S>;
    type TlsConnect = HostConnector;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, domain: &str) -> Result<HostConnector, Self::Error> {
        // A connection through a socket of this machine has no host, and no TLS.
        let name = if domain.is_empty() { "localhost" } else { domain };
        let host = ServerName::try_from(name.to_owned())?;
        Ok(HostConnector { connector: self.0.clone(), host })
    }
}

impl<S> TlsConnect<S> for HostConnector
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = EncryptedStream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<EncryptedStream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move { Ok(EncryptedStream(self.connector.connect(self.host, stream).await?)) })
    }
}

pub(crate) struct EncryptedStream<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for EncryptedStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for EncryptedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for EncryptedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
