//! The decision table: every row of the data file, decided by the real code. After an intended change, copy what the
//! test wrote.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use policy::{
    AccessBody, AccessRequest, CallingProgram, Compiled, Policy, PolicyDecision, Reason, RequestAction,
    decide,
};
use yaml::{SourceId, Sources, Span};

struct Table {
    sources: Sources,
    policies: BTreeMap<String, Compiled>,
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/policy")
}

impl Table {
    fn compiled(&mut self, name: &str) -> &Compiled {
        let sources = &mut self.sources;
        self.policies.entry(name.to_owned()).or_insert_with(|| {
            let text = fs::read_to_string(data().join(format!("decide/{name}.yaml"))).unwrap();
            let id: SourceId = sources.add(name, text);
            Compiled::new(&Policy::parse(sources, id).unwrap().policy)
        })
    }

    /// A row with the verdict, the reason and the line that were found.
    fn decided(&mut self, row: &str) -> String {
        let fields: Vec<&str> = row.split('\t').collect();
        let [name, program, endpoint, request, addresses, ..] = fields[..] else {
            panic!("a short row: {row}")
        };
        let mut programs = program.split("<-").map(PathBuf::from);
        let binary = programs.next().unwrap();
        let ancestors: Vec<PathBuf> = programs.collect();
        let (host, port) = endpoint.rsplit_once(':').unwrap();
        let addresses: Option<Vec<IpAddr>> = (addresses != "-")
            .then(|| addresses.split(',').map(|address| address.parse().unwrap()).collect());
        let request = (request != "-").then(|| request.split_once(' ').unwrap()).map(|(method, target)| {
            (
                if method == "TEXT" { RequestAction::WebsocketText } else { RequestAction::Http(method) },
                target,
            )
        });
        let attempt = AccessRequest {
            host,
            port: port.parse().unwrap(),
            caller: CallingProgram { binary: &binary, ancestors: &ancestors },
            request,
            body: AccessBody::Empty,
            addresses: addresses.as_deref(),
        };
        let decision = decide(self.compiled(name), &attempt);
        let (verdict, why, at) = match &decision {
            PolicyDecision::Allow(cause) => ("allow", "-", Some(cause.at)),
            PolicyDecision::Audit(denial) => {
                ("audit", word(&denial.reason), denial.cause.as_ref().map(|cause| cause.at))
            }
            PolicyDecision::Deny(denial) => {
                ("deny", word(&denial.reason), denial.cause.as_ref().map(|cause| cause.at))
            }
        };
        let line = at.map_or("-".to_owned(), |at: Span| self.sources.locate(at).line.to_string());
        format!("{}\t{verdict}\t{why}\t{line}", fields[..5].join("\t"))
    }
}

fn word(reason: &Reason) -> &'static str {
    match reason {
        Reason::NoEndpoint => "no-endpoint",
        Reason::NoBinary => "no-binary",
        Reason::NoPath => "no-path",
        Reason::NotAllowed => "not-allowed",
        Reason::DenyRule => "deny-rule",
        Reason::EncodedSlash => "encoded-slash",
        Reason::NotInspected(_) => "not-inspected",
        Reason::Body(_) => "body",
        Reason::Method => "method",
        Reason::Host(_) => "host",
        Reason::Path(_) => "path",
        Reason::Query(_) => "query",
        Reason::Address(_) => "address",
    }
}

#[test]
fn every_row_is_decided_as_written() {
    let expected = fs::read_to_string(data().join("decisions.tsv")).unwrap();
    let mut table = Table { sources: Sources::default(), policies: BTreeMap::new() };
    let mut lines = expected.lines();
    let mut found = vec![lines.next().unwrap().to_owned()];
    let mut wrong = Vec::new();
    let mut whys = BTreeSet::new();
    for row in lines {
        let decided = table.decided(row);
        if decided != row {
            wrong.push(format!("expected {row}\n   found {decided}"));
        }
        whys.insert(decided.rsplit('\t').nth(1).unwrap().to_owned());
        found.push(decided);
    }
    if !wrong.is_empty() {
        let written = data().join("../../../target/decisions.tsv");
        fs::create_dir_all(written.parent().unwrap()).unwrap();
        fs::write(&written, found.join("\n") + "\n").unwrap();
        panic!("{} rows differ; all of it is in {}\n{}", wrong.len(), written.display(), wrong.join("\n"));
    }
    assert!(found.len() > 300, "{} rows", found.len());
    assert_eq!(whys.len(), 14, "every reason occurs: {whys:?}");
}
