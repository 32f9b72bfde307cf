//! The decision tables of the protocols whose rules read bodies: every row of the data files, decided by the real code.
//! After an intended change, copy what the test wrote.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::fs;
use std::path::{Path, PathBuf};

use policy::{
    AccessBody, AccessRequest, CallingProgram, Compiled, Denial, Policy, PolicyDecision, Reason,
    RequestAction, decide,
};
use yaml::Sources;

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/policy")
}

/// `<<N*text>>` stands for `text` N times, and `\x..` for one byte.
fn body(written: &str) -> Vec<u8> {
    let mut text = written.to_owned();
    while let Some(start) = text.find("<<") {
        let end = start + text[start..].find(">>").unwrap();
        let (count, piece) = text[start + 2..end].split_once('*').unwrap();
        let repeated = piece.repeat(count.parse().unwrap());
        text.replace_range(start..end + 2, &repeated);
    }
    let mut bytes = Vec::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("\\x") {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        bytes.push(u8::from_str_radix(&rest[at + 2..at + 4], 16).unwrap());
        rest = &rest[at + 4..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

struct Table {
    sources: Sources,
    compiled: Compiled,
}

impl Table {
    fn read(name: &str) -> Self {
        let mut sources = Sources::default();
        let text = fs::read_to_string(data().join(format!("decide/{name}.yaml"))).unwrap();
        let id = sources.add(name, text);
        let compiled = Compiled::new(&Policy::parse(&sources, id).unwrap().policy);
        Self { sources, compiled }
    }

    /// A row with the verdict, the reason and the line that were found.
    fn decided(&self, row: &str) -> String {
        let fields: Vec<&str> = row.split('\t').collect();
        let [host, request, content_type, written, ..] = fields[..] else { panic!("a short row: {row}") };
        let (method, target) = request.split_once(' ').unwrap();
        let bytes = body(written);
        let attempt = AccessRequest {
            host,
            port: 443,
            caller: CallingProgram { binary: Path::new("/usr/bin/curl"), ancestors: &[] },
            request: Some((RequestAction::Http(method), target)),
            body: match content_type {
                "-" => AccessBody::Empty,
                content_type => AccessBody::Bytes { content_type, bytes: &bytes },
            },
            addresses: None,
        };
        let decision = decide(&self.compiled, &attempt);
        let (verdict, why, cause) = match &decision {
            PolicyDecision::Allow(cause) => ("allow", "-".to_owned(), Some(cause)),
            PolicyDecision::Audit(denial) => ("audit", said(denial), denial.cause.as_ref()),
            PolicyDecision::Deny(denial) => ("deny", said(denial), denial.cause.as_ref()),
        };
        let line = cause.map_or("-".to_owned(), |cause| self.sources.locate(cause.at).line.to_string());
        format!("{}\t{verdict}\t{line}\t{why}", fields[..4].join("\t"))
    }
}

/// The operation that was refused, and why.
fn said(denial: &Denial) -> String {
    let operation = denial.operation.as_ref().map(|operation| format!("{operation}: ")).unwrap_or_default();
    match &denial.reason {
        Reason::DenyRule => format!("{operation}deny-rule"),
        Reason::NotAllowed => format!("{operation}not-allowed"),
        other => format!("{operation}{other}"),
    }
}

fn check(name: &str) {
    let file = format!("{name}.tsv");
    let expected = fs::read_to_string(data().join(&file)).unwrap();
    let table = Table::read(name);
    let mut lines = expected.lines();
    let mut found = vec![lines.next().unwrap().to_owned()];
    let mut wrong = Vec::new();
    for row in lines {
        let decided = table.decided(row);
        if decided != row {
            wrong.push(format!("expected {row}\n   found {decided}"));
        }
        found.push(decided);
    }
    if !wrong.is_empty() {
        let written = data().join(format!("../../../target/{file}"));
        fs::create_dir_all(written.parent().unwrap()).unwrap();
        fs::write(&written, found.join("\n") + "\n").unwrap();
        panic!("{} rows differ; all of it is in {}\n{}", wrong.len(), written.display(), wrong.join("\n"));
    }
    let allowed = found.iter().filter(|row| row.contains("\tallow\t")).count();
    assert!(found.len() > 60 && allowed >= 10, "{} rows, {allowed} allowed", found.len());
}

/// The harness's list of tools applies in addition to the rules, also if the endpoint only audits.
#[test]
fn listed_tools_of_mcp() {
    for (enforcement, other) in [("enforce", "deny"), ("audit", "deny")] {
        let mut sources = Sources::default();
        let text = format!(
            "version: 1\nnetwork_policies:\n  calc:\n    endpoints:\n      - {{host: mcp.example.com, port: 443, protocol: mcp, enforcement: {enforcement}, mcp: {{allow_all_known_mcp_methods: true}}}}\n    binaries: [{{path: /**}}]\n"
        );
        let id = sources.add("listed", text);
        let mut policy = Policy::parse(&sources, id).unwrap().policy;
        let verdicts = |policy: &Policy, sources: &Sources| {
            let table = Table { sources: sources.clone(), compiled: Compiled::new(policy) };
            let verdict = |asked: &str| {
                let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,{asked}}}");
                let decided = table.decided(&format!("mcp.example.com\tPOST /mcp\tapplication/json\t{body}"));
                decided.split('\t').nth(4).unwrap().to_owned()
            };
            let call = |tool: &str| {
                verdict(&format!(
                    "\"method\":\"tools/call\",\"params\":{{\"name\":\"{tool}\",\"arguments\":{{}}}}"
                ))
            };
            [verdict("\"method\":\"tools/list\""), call("add"), call("drop")]
        };
        assert_eq!(verdicts(&policy, &sources), ["allow", "allow", "allow"]);
        policy.networks[0].endpoints[0].only_tools = Some(vec!["add".to_owned()]);
        assert_eq!(verdicts(&policy, &sources), ["allow", "allow", other], "{enforcement}");
    }
}

#[test]
fn graphql() {
    check("graphql");
}

#[test]
fn json_rpc() {
    check("json-rpc");
}

#[test]
fn mcp() {
    check("mcp");
}
