//! What may leave the sandbox, and how: the model's door, the scripted model, and the wire formats of the vendors.
//! Served on sockets that were made inside the sandbox; decides nothing about policy by itself and never reads the
//! environment.

pub mod client;
pub mod credentials;
pub mod dial;
pub mod dns;
pub mod door;
pub mod event;
pub mod http1;
pub mod identity;
pub mod names;
pub mod proxy;
pub mod resolver;
pub mod scripted;
pub mod tls;
pub mod websocket;
pub mod wire;

/// Tells that a test could not be made on this machine.
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
