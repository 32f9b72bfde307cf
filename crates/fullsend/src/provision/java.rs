//! What Java needs of its own: it reads no PEM files and no proxy variables, and its settings are in the host's `/etc`.

use std::net::SocketAddr;
use std::path::PathBuf;

use egress::dial::Roots;
use egress::tls::{RunAuthority, java_trust_store};
use sandbox::{Mount, MountKind};

const TRUST_STORE: &str = "/etc/fullsend/ca-bundle.jks";

/// The certificates that this machine trusts and that of this run.
pub fn trust_store(roots: Option<&Roots>, authority: &RunAuthority) -> Mount {
    let machine = roots.into_iter().flat_map(Roots::certificates);
    let contents = java_trust_store(machine.chain([authority.certificate()]));
    Mount { target: TRUST_STORE.into(), kind: MountKind::File { contents, mode: 0o444 } }
}

pub fn options(proxy: SocketAddr, with_trust_store: bool) -> (String, String) {
    let mut options = Vec::new();
    if with_trust_store {
        options.push(format!("-Djavax.net.ssl.trustStore={TRUST_STORE}"));
    }
    for scheme in ["http", "https"] {
        let host = proxy.ip();
        let port = proxy.port();
        options.push(format!("-D{scheme}.proxyHost={host} -D{scheme}.proxyPort={port}"));
    }
    ("JAVA_TOOL_OPTIONS".to_owned(), options.join(" "))
}

/// Debian keeps files that Java needs to start here; other systems keep them under `/usr`.
pub fn settings() -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir("/etc") else { return Vec::new() };
    let named = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("java-");
    entries.filter_map(Result::ok).filter(named).map(|entry| entry.path()).collect()
}
