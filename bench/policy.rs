//! Deciding one request, with ten to a thousand rules: rules of one endpoint (the last one matches), endpoints with
//! hosts written out, and host patterns. The peer is the least that any program must do with the same patterns: one
//! lookup in a `globset::GlobSet` of them all.
//!
//!     cargo bench -p policy --bench policy
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints, and stops where it cannot go on"
)]

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use policy::{
    CallingProgram, CanonicalPath, Compiled, ConnectionRequest, EncodedSlash, Host, InspectedRequest, Operations, Policy,
    Query, RequestAction, subset,
};
use yaml::Sources;

const ROUNDS: usize = 7;
const DECISIONS: u32 = 2_000;
const SIZES: [usize; 3] = [10, 100, 1000];

fn main() {
    println!("name ours_ns peer_ns ratio");
    for size in SIZES {
        let patterns: Vec<String> = (0..size).map(|number| format!("/repos/*/area{number}/**")).collect();
        let rules = patterns.iter().map(|path| format!("{{allow: {{method: GET, path: '{path}'}}}}"));
        let text = format!(
            "{{host: api.test, port: 443, protocol: rest, enforcement: enforce, rules: [{}]}}",
            rules.collect::<Vec<_>>().join(", ")
        );
        let path = format!("/repos/one/area{}/issues/12", size - 1);
        report(&format!("rules-{size}"), &[text], "api.test", &path, &patterns, &path);
    }
    for size in SIZES {
        let hosts: Vec<String> = (0..size).map(|number| format!("h{number}.test.example")).collect();
        let host = hosts[size - 1].clone();
        report(&format!("hosts-{size}"), &endpoints(&hosts), &host, "/x", &hosts, &host);
    }
    for size in SIZES {
        let hosts: Vec<String> = (0..size).map(|number| format!("*.h{number}.test.example")).collect();
        let host = format!("a.h{}.test.example", size - 1);
        report(&format!("patterns-{size}"), &endpoints(&hosts), &host, "/x", &hosts, &host);
    }
    for size in SIZES {
        let hosts: Vec<String> = (0..size).map(|number| format!("h{number}.test.example")).collect();
        let text = file(&endpoints(&hosts));
        let policy = read(&text);
        let parse = best(|| drop(black_box(read(&text))));
        let compare = best(|| drop(black_box(subset(&policy, &policy).unwrap())));
        println!("parse-{size} {} us, subset-{size} {} us", parse.as_micros(), compare.as_micros());
    }
}

fn endpoints(hosts: &[String]) -> Vec<String> {
    let one = |host: &String| {
        format!("{{host: '{host}', port: 443, protocol: rest, enforcement: enforce, access: read-only}}")
    };
    hosts.iter().map(one).collect()
}

fn file(endpoints: &[String]) -> String {
    format!(
        "version: 1\nnetwork_policies:\n  n:\n    binaries: [{{path: '/usr/bin/*'}}]\n    endpoints:\n      - {}\n",
        endpoints.join("\n      - ")
    )
}

fn read(text: &str) -> Policy {
    let mut sources = Sources::default();
    let id = sources.add("bench.yaml", text);
    Policy::parse(&sources, id).unwrap().policy
}

fn report(name: &str, endpoints: &[String], host: &str, path: &str, patterns: &[String], candidate: &str) {
    let compiled = Compiled::new(&read(&file(endpoints)));
    let host = Host::parse(host).unwrap();
    let caller = CallingProgram { binary: Path::new("/usr/bin/curl"), ancestors: &[] };
    let connection = ConnectionRequest { host: &host, port: 443, caller };
    let path = CanonicalPath::new(path, EncodedSlash::Refuse).unwrap();
    let request =
        InspectedRequest { action: RequestAction::Http("GET"), path: &path, query: &Query::default(), operations: &Operations::default() };
    let ours = each(|| {
        compiled
            .admit(black_box(&connection))
            .is_ok_and(|admitted| admitted.decide(black_box(&request)).passes())
    });
    let set = globs(patterns);
    let peer = each(|| set.is_match(black_box(candidate)));
    println!("{name} {ours:.0} {peer:.0} {:.2}", ours / peer);
}

fn globs(patterns: &[String]) -> GlobSet {
    let mut builder = GlobSetBuilder::new();
    for pattern in patterns {
        builder.add(GlobBuilder::new(pattern).literal_separator(true).build().unwrap());
    }
    builder.build().unwrap()
}

/// Nanoseconds for one, which must be true.
fn each(one: impl Fn() -> bool) -> f64 {
    let time = best(|| {
        for _ in 0..DECISIONS {
            assert!(black_box(one()));
        }
    });
    time.as_secs_f64() * 1e9 / f64::from(DECISIONS)
}

fn best(work: impl Fn()) -> Duration {
    let round = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..ROUNDS).map(round).min().unwrap()
}
