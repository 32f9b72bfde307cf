//! Benches of the page and of `fullsend serve`, one line each: `name ours peer ratio`.
//!
//!     cargo bench -p fullsend --bench serve [-- export|paint|idle|latency|load|many]
//!     FULLSEND_BIN=PROGRAM cargo bench -p fullsend --profile dev --bench serve     # measures a program that is built already
//!
//! `export`: a run of 10,000 events as one HTML file; the peer reads the log and writes a file of that size. `paint`: until
//! Chromium shows it; the peer is an empty page. `idle`: memory and processor time of a reader while nothing happens; the
//! peer is a connection that asks nothing. `latency`: from an append to its reader; the peer is a request for the same
//! event. `load`: 1,000 readers and 200 appends a second, with a server that is killed and started again; the peer of a count is
//! what it must be. `many`: memory and time of lists with 10,000 runs and 100,000 sessions; the peer is the server without any.

#![expect(clippy::unwrap_used, reason = "a bench that cannot go on should stop")]
#![expect(clippy::print_stdout, reason = "the figures are the output")]

mod export;
mod many;
mod readers;
mod server;

fn main() {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    if cfg!(debug_assertions) && std::env::var_os("FULLSEND_BIN").is_none() {
        println!("a debug build: only ratios and counts mean something");
    }
    println!("name ours peer ratio");
    for (name, bench) in [
        ("export", export::export as fn()),
        ("paint", export::paint),
        ("idle", readers::idle),
        ("latency", readers::latency),
        ("load", readers::load),
        ("many", many::many),
    ] {
        if name.starts_with(&wanted) {
            bench();
        }
    }
}

fn line(name: &str, ours: f64, peer: f64) {
    println!("{name} {ours:.2} {peer:.2} {:.2}", ours / peer);
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The value below which this share of all lies.
fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = ((values.len() - 1) as f64 * share).round();
    values[at as usize]
}
