//! Everything that can be asked in the small universe of the random policies.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use policy::baseline::{PathAccess, baseline};
use policy::{
    CallingProgram, CanonicalPath, Compiled, ConnectionRequest, EncodedSlash, Host, InspectedRequest,
    Operations, Policy, PolicyDecision, Query, RequestAction,
};

const HOSTS: [&str; 7] = ["a.t.test", "b.t.test", "a-x.t.test", "a.b.t.test", "t.test", "10.0.0.1", "u.test"];
const ACTIONS: [RequestAction<'static>; 5] = [
    RequestAction::Http("GET"),
    RequestAction::Http("HEAD"),
    RequestAction::Http("POST"),
    RequestAction::Http("delete"),
    RequestAction::WebsocketText,
];
const PATHS: [&str; 8] = ["/", "/x", "/x/", "/x/a", "/x/a/b", "/y", "/x/a%2Fb", "/z/q"];
const QUERIES: [&str; 4] = ["", "k=v", "k=v&k=z", "k=w"];
const ADDRESSES: [&str; 7] =
    ["8.8.8.8", "10.0.0.1", "10.1.2.3", "192.168.0.1", "100.64.0.1", "127.0.0.1", "8.8.8.8 10.1.2.3"];
const FILES: [&str; 8] =
    ["/", "/data", "/data/a", "/data/a/b/c", "/data2", "/srv/x", "/etc/passwd", "/tmp/x"];

fn callers() -> Vec<(PathBuf, Vec<PathBuf>)> {
    let chain =
        |binary: &str, above: &[&str]| (PathBuf::from(binary), above.iter().map(PathBuf::from).collect());
    vec![
        chain("/bin/a", &[]),
        chain("/bin/b", &[]),
        chain("/bin/a", &["/bin/b"]),
        chain("/opt/c", &[]),
        chain("/opt/c", &["/bin/a"]),
    ]
}

/// Something that passes under one policy and not under the other, if there is any.
pub fn widening(inner: &Policy, outer: &Policy) -> Option<String> {
    let below = Compiled::new(inner);
    let above = Compiled::new(outer);
    for host in HOSTS.map(|host| Host::parse(host).unwrap()) {
        for port in [80, 443, 22] {
            for (binary, ancestors) in callers() {
                let caller = CallingProgram { binary: Path::new(&binary), ancestors: &ancestors };
                let connection = ConnectionRequest { host: &host, port, caller };
                if let Some(found) = connection_widening(&below, &above, &connection) {
                    return Some(format!("{binary:?} under {ancestors:?} to {host}:{port}: {found}"));
                }
            }
        }
    }
    file_widening(inner, outer)
}

fn connection_widening(
    below: &Compiled,
    above: &Compiled,
    connection: &ConnectionRequest<'_>,
) -> Option<String> {
    let inner = below.admit(connection).ok()?;
    let Ok(outer) = above.admit(connection) else { return Some("the connection".to_owned()) };
    for addresses in ADDRESSES {
        let list: Vec<IpAddr> = addresses.split(' ').map(|address| address.parse().unwrap()).collect();
        let passes = |admitted: &policy::Admitted| admitted.reach().check(connection.port, &list).is_ok();
        if passes(&inner) && !passes(&outer) {
            return Some(format!("dialling {addresses}"));
        }
    }
    if outer.reads_requests() && !inner.reads_requests() {
        return Some("raw bytes".to_owned());
    }
    each_request(|request| {
        let low = inner.decide(request);
        let high = outer.decide(request);
        (low.passes() && !high.passes()).then(|| format!("{request:?}: {low:?} but {high:?}"))
    })
}

pub fn each_request<T>(mut visit: impl FnMut(&InspectedRequest<'_>) -> Option<T>) -> Option<T> {
    for path in PATHS.map(|path| CanonicalPath::new(path, EncodedSlash::Keep).unwrap()) {
        for query in QUERIES.map(|query| Query::parse(query).unwrap()) {
            for action in ACTIONS {
                if let Some(found) = visit(&InspectedRequest {
                    action,
                    path: &path,
                    query: &query,
                    operations: &Operations::default(),
                }) {
                    return Some(found);
                }
            }
        }
    }
    None
}

fn file_widening(inner: &Policy, outer: &Policy) -> Option<String> {
    let below = baseline(inner);
    let above = baseline(outer);
    let rank = |access: Option<PathAccess>| match access {
        None => 0,
        Some(PathAccess::ReadOnly) => 1,
        Some(PathAccess::ReadWrite) => 2,
    };
    if below.include_workdir && !above.include_workdir {
        return Some("writing the working directory".to_owned());
    }
    FILES
        .iter()
        .find(|path| rank(below.access(path)) > rank(above.access(path)))
        .map(|path| format!("access to {path}: {:?} but {:?}", below.access(path), above.access(path)))
}

/// Every decision of a policy, in a fixed order.
pub fn decisions(policy: &Policy) -> Vec<bool> {
    let compiled = Compiled::new(policy);
    let mut all = Vec::new();
    for host in HOSTS.map(|host| Host::parse(host).unwrap()) {
        for (binary, ancestors) in callers() {
            let caller = CallingProgram { binary: Path::new(&binary), ancestors: &ancestors };
            let connection = ConnectionRequest { host: &host, port: 443, caller };
            let admitted = compiled.admit(&connection);
            each_request(|request| {
                all.push(admitted.as_ref().is_ok_and(|admitted| admitted.decide(request).passes()));
                None::<PolicyDecision>
            });
        }
    }
    all
}
