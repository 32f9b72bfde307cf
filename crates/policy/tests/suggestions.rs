//! What is suggested really allows what was refused, and nothing is suggested where nothing should be. Every refused row
//! of the decision table is suggested for, the suggestion is added to the policy, and the row is decided again.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use policy::model::Policy;
use policy::{
    AccessBody, AccessRequest, CallingProgram, CanonicalPath, Compiled, EncodedSlash, Host, PolicyDecision,
    RefusedAccess, RequestAction, decide, suggest,
};
use yaml::{Node, ParseLimits, Sources};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/policy")
}

fn tree(name: &str, text: &str) -> Node {
    let mut sources = Sources::default();
    let id = sources.add(name, text);
    yaml::parse(&sources, id, ParseLimits::default()).unwrap()
}

fn read(node: &Node) -> Policy {
    Policy::from_node(node).map_err(|problems| format!("{problems:#?}")).unwrap().policy
}

/// The policy with the suggestion pasted in.
fn with(policy: &Node, addition: &Node) -> Policy {
    let merged = yaml::by_name(policy.clone(), addition.clone(), |_, base, overlay| {
        yaml::by_name(base, overlay, |_, _, _| panic!("a suggested rule replaces one that was there"))
    });
    read(&merged)
}

fn refused(row: &[&str]) -> Option<RefusedAccess> {
    let (host, port) = row[2].rsplit_once(':').unwrap();
    let request = (row[3] != "-").then(|| row[3].split_once(' ').unwrap());
    let request = match request {
        Some((method, target)) => {
            let path = CanonicalPath::new(target.split('?').next().unwrap(), EncodedSlash::Keep).ok()?;
            let method = if method == "TEXT" { "WEBSOCKET_TEXT" } else { method };
            Some((method.to_owned(), path.as_str().to_owned()))
        }
        None => None,
    };
    let addresses =
        if row[4] == "-" { vec![] } else { row[4].split(',').map(|a| a.parse().unwrap()).collect() };
    Some(RefusedAccess {
        host: Host::parse(host).ok()?,
        port: port.parse().unwrap(),
        binary: PathBuf::from(row[1].split("<-").next().unwrap()),
        request,
        operation: None,
        addresses,
    })
}

fn decided(policy: &Policy, refused: &RefusedAccess) -> PolicyDecision {
    let host = match &refused.host {
        Host::Name(name) => name.clone(),
        Host::Address(address) => address.to_string(),
    };
    let request = refused.request.as_ref().map(|(method, path)| {
        (
            if method == "WEBSOCKET_TEXT" {
                RequestAction::WebsocketText
            } else {
                RequestAction::Http(method)
            },
            path.as_str(),
        )
    });
    let addresses: Option<&[IpAddr]> = (!refused.addresses.is_empty()).then_some(&refused.addresses);
    let caller = CallingProgram { binary: &refused.binary, ancestors: &[] };
    decide(
        &Compiled::new(policy),
        &AccessRequest {
            host: &host,
            port: refused.port,
            caller,
            request,
            body: AccessBody::Empty,
            addresses,
        },
    )
}

#[test]
fn every_suggestion_allows_what_was_refused() {
    let table = fs::read_to_string(data().join("decisions.tsv")).unwrap();
    let mut suggested = 0;
    let mut skipped = 0;
    for row in table.lines().skip(1).map(|row| row.split('\t').collect::<Vec<_>>()) {
        let Some(refused) = refused(&row) else { continue };
        let node = tree(row[0], &fs::read_to_string(data().join(format!("decide/{}.yaml", row[0]))).unwrap());
        let policy = read(&node);
        if decided(&policy, &refused).passes() {
            continue;
        }
        let suggestion = suggest(&policy, std::slice::from_ref(&refused));
        let Some(addition) = &suggestion.node else {
            assert_eq!(suggestion.skipped.len(), 1);
            skipped += 1;
            continue;
        };
        assert!(!matches!(row[6], "deny-rule" | "address" | "not-inspected" | "body" | "method"), "{row:?}");
        assert_eq!(tree("again", &suggestion.text).entries().len(), addition.entries().len());
        let repaired = with(&node, &tree("suggested", &suggestion.text));
        let after = decided(&repaired, &refused);
        assert!(matches!(after, PolicyDecision::Allow(_)), "{row:?}: {after:?}\n{}", suggestion.text);
        suggested += 1;
    }
    assert!(suggested > 80 && skipped > 30, "{suggested} suggested, {skipped} skipped");
}

const POLICY: &str = "version: 1
network_policies:
  api:
    binaries: [{path: /usr/bin/curl}]
    endpoints:
      - host: api.test
        port: 443
        protocol: rest
        enforcement: enforce
        rules: [{allow: {method: GET, path: '/x/**'}}]
        deny_rules: [{method: '*', path: '/x/secret'}]
";

fn attempt(host: &str, binary: &str, request: Option<(&str, &str)>) -> RefusedAccess {
    RefusedAccess {
        host: Host::parse(host).unwrap(),
        port: 443,
        binary: binary.into(),
        request: request.map(|(method, path)| (method.to_owned(), path.to_owned())),
        operation: None,
        addresses: vec![],
    }
}

#[test]
fn suggestions_are_joined_by_program_and_endpoint() {
    let policy = read(&tree("p", POLICY));
    let mut internal = attempt("files.test", "/usr/bin/curl", None);
    internal.addresses = vec!["8.8.8.8".parse().unwrap(), "10.0.0.1".parse().unwrap()];
    let suggestion = suggest(
        &policy,
        &[
            attempt("api.test", "/usr/bin/curl", Some(("post", "/x/[a]*"))),
            attempt("api.test", "/usr/bin/curl", Some(("POST", "/y"))),
            attempt("api.test", "/usr/bin/curl", Some(("POST", "/y"))),
            attempt("api.test", "/usr/bin/git", None),
            attempt("other.test", "/usr/bin/git", None),
            attempt("api.test", "/usr/bin/curl", Some(("GET", "/x/secret"))),
            attempt("api.test", "/usr/bin/curl", Some(("GET", "/x/y"))),
            attempt("169.254.169.254", "/usr/bin/curl", None),
            internal,
        ],
    );
    assert_eq!(
        suggestion.skipped,
        [
            (5, "a deny rule forbids this request".to_owned()),
            (6, "the policy allows it".to_owned()),
            (7, "169.254.169.254 is a cloud metadata address".to_owned()),
            (8, "10.0.0.1 is a private address".to_owned()),
        ]
    );
    let expected = fs::read_to_string(data().join("suggestion.yaml")).unwrap();
    assert_eq!(suggestion.text, expected);
}
