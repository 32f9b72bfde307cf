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
    BodyRequest, CallingProgram, CanonicalPath, Compiled, ConnectionRequest, EncodedSlash, Host,
    InspectedRequest, Operations, Policy, Query, RequestAction, subset,
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
        bodies(size);
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
    let request = InspectedRequest {
        action: RequestAction::Http("GET"),
        path: &path,
        query: &Query::default(),
        operations: &Operations::default(),
    };
    let ours = each(|| {
        compiled
            .admit(black_box(&connection))
            .is_ok_and(|admitted| admitted.decide(black_box(&request)).passes())
    });
    let set = globs(patterns);
    let peer = each(|| set.is_match(black_box(candidate)));
    println!("{name} {ours:.0} {peer:.0} {:.2}", ours / peer);
}

/// Reading and deciding a body, with as many rules; the peer is `serde_json` alone on the same bytes.
fn bodies(size: usize) {
    let tools: Vec<String> = (0..size).map(|number| format!("{{allow: {{tool: tool{number}}}}}")).collect();
    let fields: Vec<String> = (0..size)
        .map(|number| format!("{{allow: {{operation_type: query, fields: [field{number}]}}}}"))
        .collect();
    let last = size - 1;
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"tool{last}","arguments":{{"a":1}}}}}}"#
    );
    let query = format!(
        r#"{{"query":"query Q($a: Int) {{ field{last}(a: $a) {{ id name }} }}","variables":{{"a":1}}}}"#
    );
    for (protocol, rules, body) in [("mcp", tools, call), ("graphql", fields, query)] {
        let endpoint =
            format!("{{host: api.test, port: 443, protocol: {protocol}, rules: [{}]}}", rules.join(", "));
        let compiled = Compiled::new(&read(&file(&[endpoint])));
        let host = Host::parse("api.test").unwrap();
        let caller = CallingProgram { binary: Path::new("/usr/bin/curl"), ancestors: &[] };
        let admitted = compiled.admit(&ConnectionRequest { host: &host, port: 443, caller }).unwrap();
        let path = CanonicalPath::new("/x", EncodedSlash::Refuse).unwrap();
        let query = Query::default();
        let asked = BodyRequest {
            method: "POST",
            query: &query,
            content_type: Some("application/json"),
            body: body.as_bytes(),
        };
        let ours = each(|| {
            let operations = admitted.operations("/x", black_box(&asked)).unwrap();
            let action = RequestAction::Http("POST");
            let request = InspectedRequest { action, path: &path, query: &query, operations: &operations };
            admitted.decide(&request).passes()
        });
        let peer = each(|| serde_json::from_slice::<serde_json::Value>(black_box(body.as_bytes())).is_ok());
        println!("{protocol}-{size} {ours:.0} {peer:.0} {:.2}", ours / peer);
    }
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
