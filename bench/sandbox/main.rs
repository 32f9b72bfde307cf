//! The sandbox against its peers, in one run: how long until `true` has run and everything is gone again, and how much
//! memory a sandbox takes beside what runs in it.
//!
//!     cargo bench -p sandbox --bench sandbox -- start density
//!
//! Peers that are not installed are left out and named. `FULLSEND` may name the whole program, which is then measured too.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints, and stops where it cannot go on"
)]

mod density;
mod peers;
mod spec;
mod start;

use std::path::Path;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [_, "__init"] => sandbox::init::main(),
        [_, "--once", place] => return start::once(Path::new(place)),
        _ => {}
    }
    let wanted = |name: &str| {
        let named = arguments[1..].iter().filter(|argument| !argument.starts_with("--"));
        let mut named = named.peekable();
        named.peek().is_none() || named.any(|argument| *argument == name)
    };
    let place = std::env::temp_dir().join(format!("sandbox-bench-{}", std::process::id()));
    std::fs::create_dir(&place).unwrap();
    println!("name ours peer ratio");
    if wanted("start") {
        start::compare(&place);
    }
    if wanted("density") {
        density::compare(&place);
    }
    std::fs::remove_dir_all(&place).unwrap();
}
