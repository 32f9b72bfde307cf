//! Our proxy in a process of its own: one port of the server is tunnelled, the other is read.

use super::{ADDRESS, HOST, upstream};
use egress::credentials::CredentialStore;
use egress::dial::{Dialer, Roots};
use egress::identity::ProcIdentifier;
use egress::names::{NameDirectory, NamePlan, PlannedSocket, SocketPurpose};
use egress::proxy::{Proxy, ProxyConfig, ProxyLimits, ServedSocket, start};
use egress::resolver::FixedResolver;
use egress::tls::RunAuthority;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

pub(super) const PORT: u16 = 3128;

fn policy() -> policy::Compiled {
    let text = format!(
        "version: 1\nnetwork_policies:\n  lab:\n    endpoints:\n      - {{host: {HOST}, port: {}}}\n      - {{host: {HOST}, port: {}, protocol: rest, enforcement: enforce, access: read-only}}\n    binaries:\n      - path: '/**'\n",
        upstream::PORT,
        upstream::INSPECTED_PORT
    );
    let mut sources = yaml::Sources::default();
    let source = sources.add("policy.yaml", text.as_str());
    policy::Compiled::new(&policy::Policy::parse(&sources, source).unwrap().policy)
}

pub(super) fn serve(directory: &Path, parent: u32) {
    let policy = policy();
    let plan = NamePlan::new(&policy, &[]).unwrap();
    let authority = Arc::new(RunAuthority::new().unwrap());
    let certificate = CertificateDer::from_pem_file(directory.join("upstream.pem")).unwrap();
    let resolver = FixedResolver::new([(HOST, vec![ADDRESS.parse().unwrap()])]);
    let dialer = Arc::new(Dialer::new(Arc::new(resolver), Roots::only([certificate])));
    let proxy = Arc::new(Proxy::new(ProxyConfig {
        directory: Arc::new(NameDirectory::new(&plan, policy.clone())),
        policy: Arc::new(policy),
        dialer,
        identifier: Arc::new(ProcIdentifier::new(parent)),
        authority: Some(Arc::clone(&authority)),
        credentials: Arc::new(CredentialStore::new(Vec::new()).unwrap()),
        gateway: None,
        leak_watcher: None,
        locate: Arc::new(|cause| cause.rule.clone()),
        on_event: Arc::new(|_| {}),
        limits: ProxyLimits::default(),
    }));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let _entered = runtime.enter();
    let listener = TcpListener::bind((ADDRESS, PORT)).unwrap();
    let planned = PlannedSocket { purpose: SocketPurpose::Proxy, address: listener.local_addr().unwrap() };
    let serving = start(&proxy, vec![(planned, ServedSocket::Tcp(listener))]).unwrap();
    std::fs::write(directory.join("ours.pem"), authority.certificate_pem()).unwrap();
    runtime.block_on(std::future::pending::<()>());
    drop(serving);
}
