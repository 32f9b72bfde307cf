//! What may leave the sandbox, and how: the proxy, names, program identity, TLS and credentials. It serves sockets that
//! were opened inside the sandbox, asks the policy for every decision, and never reads the environment.

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
