//! Our proxy in a process of its own: one port of the server is tunnelled, the other is read.

use super::{ADDRESS, HOST, upstream};
use egress::credentials::CredentialStore;
use egress::dial::{Dialer, Roots};
use egress::door::upstream::{HttpConfig, HttpUpstream};
use egress::door::{Door, DoorConfig, Upstream};
use egress::identity::Identifier;
use egress::names::{Directory, NamePlan, PlannedSocket, Purpose};
use egress::proxy::{Proxy, ProxyConfig, ProxyLimits, ServedSocket, start};
use egress::resolver::FixedResolver;
use egress::tls::Authority;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

pub(super) const PORT: u16 = 3128;
pub(super) const DOOR_PORT: u16 = 3127;

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

/// The door, with the same server as its model.
fn serve_door(dialer: &Arc<Dialer>) -> egress::door::Serving {
    let base_url = format!("https://{HOST}:{}", upstream::PORT);
    let http = HttpUpstream::new(HttpConfig { base_url, key: None, dialer: Arc::clone(dialer) }).unwrap();
    let door = Door::new(DoorConfig::new(Upstream::http(http), Arc::new(|_| {})));
    let listener = TcpListener::bind((ADDRESS, DOOR_PORT)).unwrap();
    egress::door::start(listener, Arc::new(door)).unwrap()
}

pub(super) fn serve(directory: &Path, parent: u32) {
    let policy = policy();
    let plan = NamePlan::new(&policy, &[]).unwrap();
    let authority = Arc::new(Authority::new().unwrap());
    let certificate = CertificateDer::from_pem_file(directory.join("upstream.pem")).unwrap();
    let resolver = FixedResolver::new([(HOST, vec![ADDRESS.parse().unwrap()])]);
    let dialer = Arc::new(Dialer::new(Arc::new(resolver), Roots::only([certificate])));
    let proxy = Arc::new(Proxy::new(ProxyConfig {
        directory: Arc::new(Directory::new(&plan, policy.clone())),
        policy: Arc::new(policy),
        dialer: Arc::clone(&dialer),
        identifier: Arc::new(Identifier::new(parent)),
        authority: Arc::clone(&authority),
        credentials: Arc::new(CredentialStore::new(Vec::new()).unwrap()),
        door: None,
        locate: Arc::new(|cause| cause.rule.clone()),
        on_event: Arc::new(|_| {}),
        limits: ProxyLimits::default(),
    }));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let _entered = runtime.enter();
    let door = serve_door(&dialer);
    let listener = TcpListener::bind((ADDRESS, PORT)).unwrap();
    let planned = PlannedSocket { purpose: Purpose::Proxy, address: listener.local_addr().unwrap() };
    let serving = start(&proxy, vec![(planned, ServedSocket::Tcp(listener))]).unwrap();
    std::fs::write(directory.join("ours.pem"), authority.certificate_pem()).unwrap();
    runtime.block_on(std::future::pending::<()>());
    drop((serving, door));
}
