//! What may leave the sandbox, and how: the proxy, names, program identity, TLS and credentials. It serves sockets that
//! were opened inside the sandbox, asks the policy for every decision, and never reads the environment.
//!
//! A proxy that lets nothing out, on a port of this machine:
//!
//! ```
//! use egress::dial::{Dialer, Roots};
//! use egress::identity::ProcIdentifier;
//! use egress::names::{NameDirectory, NamePlan, PlannedSocket, SocketPurpose};
//! use egress::proxy::{Proxy, ProxyConfig, ProxyLimits, ServedSocket, start};
//! use egress::resolver::SystemResolver;
//! use egress::tls::RunAuthority;
//! use std::sync::Arc;
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let mut sources = yaml::Sources::default();
//! let id = sources.add("policy.yaml", "version: 1\nnetwork_policies: {}\n");
//! let policy = policy::Compiled::new(&policy::Policy::parse(&sources, id).unwrap().policy);
//! let plan = NamePlan::new(&policy, &[]).unwrap();
//! let proxy = Proxy::new(ProxyConfig {
//!     directory: Arc::new(NameDirectory::new(&plan, policy.clone())),
//!     policy: Arc::new(policy),
//!     dialer: Arc::new(Dialer::new(Arc::new(SystemResolver::load()), Roots::only([]))),
//!     // The programs whose connections it serves are this process and those below it.
//!     identifier: Arc::new(ProcIdentifier::new(std::process::id())),
//!     authority: Some(Arc::new(RunAuthority::new().unwrap())),
//!     credentials: Arc::default(),
//!     gateway: None,
//!     leak_watcher: None,
//!     locate: Arc::new(|cause| cause.rule.to_string()),
//!     on_event: Arc::new(|_event| {}),
//!     limits: ProxyLimits::default(),
//! });
//! let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
//! let address = listener.local_addr().unwrap();
//! let planned = PlannedSocket { purpose: SocketPurpose::Proxy, address };
//! let serving = start(&Arc::new(proxy), vec![(planned, ServedSocket::Tcp(listener))]).unwrap();
//!
//! let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
//! client.write_all(b"CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n").await.unwrap();
//! let mut answer = [0; 12];
//! client.read_exact(&mut answer).await.unwrap();
//! assert_eq!(&answer, b"HTTP/1.1 403");
//! # drop(serving);
//! # });
//! ```

pub mod credentials;
pub mod dial;
pub mod dns;
pub mod event;
pub mod http1;
pub mod identity;
pub mod names;
pub mod proxy;
pub mod resolver;
pub mod sigv4;
pub mod tls;
pub mod websocket;

/// Records that a test could not run on this machine.
#[cfg(test)]
pub(crate) fn skip(name: &str, reason: &str) {
    use std::io::Write;
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/skips.txt");
    let directory = std::path::Path::new(file).parent().expect("it has one");
    std::fs::create_dir_all(directory).expect("the target directory can be made");
    let mut file =
        std::fs::OpenOptions::new().append(true).create(true).open(file).expect("it can be written");
    writeln!(file, "SKIP {name}: {reason}").expect("it can be written");
}
