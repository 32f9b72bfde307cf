//! What the proxy costs, beside a direct connection and beside squid, tinyproxy and mitmproxy, each in a process of its
//! own and all in one run: latency of a small request on a kept connection, requests in a second, bytes in a second,
//! and memory at a thousand streams. Needs root, for a network with an address that policies may reach.

#![expect(clippy::unwrap_used, reason = "a bench that cannot go on should stop")]
#![expect(clippy::print_stdout, reason = "its figures")]

mod asking;
mod ours;
mod peers;
mod upstream;

use asking::{Client, Route};
use peers::{Peer, Process};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const ADDRESS: &str = "10.77.0.1";
const HOST: &str = "api.lab.test";
/// Rounds of everything that is compared; the best of each counts, because the machine has other work.
const ROUNDS: usize = 5;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).filter(|word| *word != "--bench").collect();
    match words[..] {
        [_, "upstream", directory] => upstream::serve(directory.as_ref()),
        [_, "ours", directory, parent] => ours::serve(directory.as_ref(), parent.parse().unwrap()),
        [_, "inside", directory, wanted] => measure(directory.as_ref(), wanted),
        [_, wanted] => in_own_network(wanted),
        _ => in_own_network(""),
    }
}

/// Starts this program again where `10.77.0.1` exists and `api.lab.test` is its name.
fn in_own_network(wanted: &str) {
    let directory = std::env::temp_dir().join(format!("egress-bench-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("hosts"), format!("127.0.0.1 localhost\n{ADDRESS} {HOST}\n")).unwrap();
    let script = format!(
        "ip link set lo up && ip addr add {ADDRESS}/32 dev lo && mount --bind \"$1/hosts\" /etc/hosts && chmod 777 \"$1\" && exec \"$2\" inside \"$1\" \"$3\""
    );
    let status = Command::new("unshare")
        .args(["--net", "--mount", "--", "sh", "-c", &script, "sh"])
        .arg(&directory)
        .arg(std::env::current_exe().unwrap())
        .arg(wanted)
        .status();
    std::fs::remove_dir_all(&directory).unwrap();
    match status {
        Ok(status) if status.success() => {}
        _ => println!("not finished: it needs root, unshare and ip"),
    }
}

/// Those whose names hold `wanted`.
fn measure(directory: &Path, wanted: &str) {
    let upstream = Process::own(&["upstream", &directory.to_string_lossy()], &directory.join("upstream.pem"));
    let parent = std::process::id().to_string();
    let ours = Process::own(&["ours", &directory.to_string_lossy(), &parent], &directory.join("ours.pem"));
    let squid = Peer::squid(directory);
    let tinyproxy = Peer::tinyproxy(directory);
    let mitmproxy = Peer::mitmproxy(directory);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = Client::new(directory);
    let direct = Route::direct(upstream::PORT);
    let tunnel = Route::through(ours::PORT, upstream::PORT);
    let inspected = Route::through(ours::PORT, upstream::INSPECTED_PORT);
    let by = |peer: &Option<Peer>, port: u16| peer.as_ref().map(|_| Route::through(port, upstream::PORT));
    let peers = [
        ("tunnel", tunnel, "direct", Some(direct)),
        ("tunnel", tunnel, "squid", by(&squid, peers::SQUID_TUNNEL)),
        ("tunnel", tunnel, "tinyproxy", by(&tinyproxy, peers::TINYPROXY)),
        ("inspected", inspected, "direct", Some(direct)),
        ("inspected", inspected, "squid-bump", by(&squid, peers::SQUID_BUMP)),
        ("inspected", inspected, "mitmproxy", by(&mitmproxy, peers::MITMPROXY)),
    ];
    println!("name ours peer ratio");
    let tell = |name: String, own, other, question| {
        if name.contains(wanted) {
            let (own, other) = compare(&runtime, &client, own, other, question);
            println!("{name} {own:.0} {other:.0} {:.2}", own / other);
        }
    };
    for (name, own, peer, other) in peers {
        let Some(other) = other else {
            println!("{name} against {peer}: skipped, {peer} is not installed");
            continue;
        };
        tell(format!("{name}-latency-us-vs-{peer}"), own, other, Question::Latency);
        tell(format!("{name}-requests-per-s-vs-{peer}"), own, other, Question::Rate);
        tell(format!("{name}-bulk-MB-per-s-vs-{peer}"), own, other, Question::Bulk);
    }
    for (name, route) in [("tunnel", tunnel), ("inspected", inspected)] {
        let before = ours.resident_kb();
        let held = runtime.block_on(client.hold(route, 1000));
        std::thread::sleep(Duration::from_millis(300));
        let added = ours.resident_kb().saturating_sub(before) as f64 / 1024.0;
        println!("{name}-MB-at-1000-streams {added:.1} - -");
        drop(held);
        std::thread::sleep(Duration::from_millis(500));
    }
    drop((upstream, squid, tinyproxy, mitmproxy));
}

#[derive(Clone, Copy)]
enum Question {
    /// Of one request, in microseconds: less is better.
    Latency,
    Rate,
    Bulk,
}

/// Ours and the peer's, in turns.
fn compare(
    runtime: &tokio::runtime::Runtime,
    client: &Client,
    own: Route,
    other: Route,
    question: Question,
) -> (f64, f64) {
    let ask = |route| match question {
        Question::Latency => runtime.block_on(client.latency(route)),
        Question::Rate => runtime.block_on(client.rate(route)),
        Question::Bulk => runtime.block_on(client.bulk(route)),
    };
    let better = |one: f64, two: f64| match question {
        Question::Latency => one.min(two),
        Question::Rate | Question::Bulk => one.max(two),
    };
    let rounds: Vec<(f64, f64)> = (0..ROUNDS).map(|_| (ask(own), ask(other))).collect();
    rounds.into_iter().reduce(|one, two| (better(one.0, two.0), better(one.1, two.1))).unwrap()
}
