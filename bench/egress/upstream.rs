//! The server behind everything: TLS with HTTP/1.1, `/small` and `/bulk`.

use super::{ADDRESS, HOST};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

pub(super) const PORT: u16 = 8443;
/// The same server under another port, which the policy reads requests on.
pub(super) const INSPECTED_PORT: u16 = 8444;
pub(super) const BULK_BYTES: usize = 256 << 20;

pub(super) fn serve(directory: &Path) {
    let (acceptor, pem) = acceptor();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let plain = TcpListener::bind((ADDRESS, PORT)).await.unwrap();
        let inspected = TcpListener::bind((ADDRESS, INSPECTED_PORT)).await.unwrap();
        std::fs::write(directory.join("upstream.pem"), pem).unwrap();
        loop {
            let accepted = tokio::select! {
                accepted = plain.accept() => accepted,
                accepted = inspected.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else { continue };
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                stream.set_nodelay(true).unwrap();
                if let Ok(stream) = acceptor.accept(stream).await {
                    answer(stream).await;
                }
            });
        }
    });
}

/// The head of a message, in small letters. `None`: the other side is gone.
pub(super) async fn read_head(stream: &mut (impl AsyncBufRead + Unpin)) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_until(b'\n', &mut head).await.ok()? == 0 {
            return None;
        }
    }
    Some(String::from_utf8_lossy(&head).to_ascii_lowercase())
}

async fn answer(stream: tokio_rustls::server::TlsStream<tokio::net::TcpStream>) {
    let mut stream = BufStream::new(stream);
    let portion = vec![b'x'; 256 << 10];
    while let Some(head) = read_head(&mut stream).await {
        let written = if head.starts_with("get /bulk") {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BULK_BYTES}\r\n\r\n");
            let mut written = stream.write_all(head.as_bytes()).await;
            for _ in 0..BULK_BYTES / portion.len() {
                if written.is_ok() {
                    written = stream.write_all(&portion).await;
                }
            }
            written
        } else {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nsmall").await
        };
        if written.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
}

fn acceptor() -> (TlsAcceptor, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // OpenSSL takes a leaf for self-signed that is named like its issuer.
    params.distinguished_name.push(rcgen::DnType::CommonName, "lab authority");
    let authority = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let leaf_key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new([HOST.to_owned()]).unwrap().signed_by(&leaf_key, &issuer).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(leaf_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)
        .unwrap();
    (TlsAcceptor::from(Arc::new(config)), authority.pem())
}
