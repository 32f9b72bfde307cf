//! Random policies over a few hosts, programs, methods and paths, and ways to make one narrower. They are written as
//! text and read by the real parser.

use policy::{Parsed, Policy};
use proptest::prelude::{Just, Strategy, prop, prop_oneof};
use yaml::Sources;

#[derive(Clone, Debug)]
pub struct Spec {
    pub read_only: Vec<&'static str>,
    pub read_write: Vec<&'static str>,
    pub workdir: bool,
    pub rules: Vec<RuleSpec>,
}

#[derive(Clone, Debug)]
pub struct RuleSpec {
    pub binaries: Vec<&'static str>,
    pub endpoints: Vec<EndpointSpec>,
}

#[derive(Clone, Debug)]
pub struct EndpointSpec {
    pub host: &'static str,
    pub ports: Vec<u16>,
    pub protocol: &'static str,
    pub path: Option<&'static str>,
    pub enforce: bool,
    pub encoded_slash: bool,
    pub allowed_ips: Vec<&'static str>,
    pub allow: Vec<HttpSpec>,
    pub deny: Vec<HttpSpec>,
}

#[derive(Clone, Debug)]
pub struct HttpSpec {
    pub method: &'static str,
    pub path: &'static str,
    pub query: Option<&'static str>,
}

/// Wide to narrow.
const HOSTS: &[&str] = &["**.t.test", "*.t.test", "*-x.t.test", "b.t.test", "a.t.test"];
const BINARIES: &[&str] = &["/**", "/bin/*", "/bin/b", "/bin/a"];
const PATHS: &[&str] = &["**", "/**", "/x/**", "/x/*", "/*", "/x/[a-b]", "/x/a", "/y"];
const METHODS: &[&str] = &["*", "GET", "POST", "HEAD", "WEBSOCKET_TEXT"];
const QUERIES: &[&str] = &["*", "v*", "v", "{v,w}"];
const DIRECTORIES: &[&str] = &["/data", "/data/a", "/data/a/b", "/srv", "/data2"];

impl Spec {
    pub fn text(&self) -> String {
        let mut text = format!(
            "version: 1\nfilesystem_policy: {{include_workdir: {}, read_only: {:?}, read_write: {:?}}}\nnetwork_policies:\n  none: {{}}\n",
            self.workdir, self.read_only, self.read_write
        );
        for (index, rule) in self.rules.iter().enumerate() {
            let binaries: Vec<String> =
                rule.binaries.iter().map(|path| format!("{{path: {path:?}}}")).collect();
            text.push_str(&format!("  r{index}:\n    binaries: [{}]\n    endpoints:\n", binaries.join(", ")));
            for endpoint in &rule.endpoints {
                text.push_str(&format!("      - {}\n", endpoint.text()));
            }
            if rule.endpoints.is_empty() {
                text.push_str("        []\n");
            }
        }
        text
    }

    /// `None` if the policy is not valid, for example if two endpoints disagree.
    pub fn read(&self) -> Option<Policy> {
        let mut sources = Sources::default();
        let id = sources.add("random.yaml", self.text());
        match Policy::parse(&sources, id) {
            Ok(Parsed { policy, .. }) => Some(policy),
            Err(problems) => {
                let expected = ["ambiguous", "missing", "deny-all"];
                let surprise = problems.iter().find(|p| p.is_error() && !expected.contains(&p.code));
                assert!(surprise.is_none(), "{surprise:?}\n{}", self.text());
                None
            }
        }
    }
}

impl EndpointSpec {
    fn text(&self) -> String {
        let mut text = format!("{{host: {:?}, ports: {:?}", self.host, self.ports);
        if !self.allowed_ips.is_empty() {
            text.push_str(&format!(", allowed_ips: {:?}", self.allowed_ips));
        }
        if self.reads() {
            let allow: Vec<String> =
                self.allow.iter().map(|rule| format!("{{allow: {}}}", rule.text())).collect();
            text.push_str(&format!(
                ", protocol: {}, enforcement: {}, allow_encoded_slash: {}, rules: [{}]",
                self.protocol,
                if self.enforce { "enforce" } else { "audit" },
                self.encoded_slash,
                allow.join(", ")
            ));
            if let Some(path) = self.path {
                text.push_str(&format!(", path: {path:?}"));
            }
            if !self.deny.is_empty() {
                let deny: Vec<String> = self.deny.iter().map(HttpSpec::text).collect();
                text.push_str(&format!(", deny_rules: [{}]", deny.join(", ")));
            }
        }
        text.push('}');
        text
    }

    pub fn reads(&self) -> bool {
        !self.protocol.is_empty()
    }
}

impl HttpSpec {
    fn text(&self) -> String {
        let query = self.query.map_or(String::new(), |glob| format!(", query: {{k: {glob:?}}}"));
        format!("{{method: {:?}, path: {:?}{query}}}", self.method, self.path)
    }
}

fn http() -> impl Strategy<Value = HttpSpec> {
    let query = prop_oneof![3 => Just(None), 1 => prop::sample::select(QUERIES).prop_map(Some)];
    (prop::sample::select(METHODS), prop::sample::select(PATHS), query)
        .prop_map(|(method, path, query)| HttpSpec { method, path, query })
}

/// Whether endpoints are spread over the universe, or crowd at one host so that they come into play together.
#[derive(Clone, Copy, PartialEq)]
enum Crowd {
    Spread,
    Crowded,
}

fn endpoint(crowd: Crowd) -> impl Strategy<Value = EndpointSpec> {
    let crowded = crowd == Crowd::Crowded;
    let hosts = if crowded { vec!["*.t.test", "a.t.test"] } else { [HOSTS, HOSTS, &["10.0.0.1"]].concat() };
    let host = prop::sample::select(hosts);
    let ports = prop_oneof![3 => Just(vec![443]), u32::from(!crowded) => Just(vec![80, 443])];
    let protocol = prop_oneof![2 => Just(""), 8 => Just("rest"), 1 => Just("websocket")];
    let path = prop_oneof![3 => Just(None), if crowded { 6 } else { 1 } => prop::sample::select(PATHS).prop_map(Some)];
    let allowed_ips = prop_oneof![
        if crowded { 100 } else { 8 } => Just(vec![]),
        1 => Just(vec!["10.0.0.0/8"]),
        1 => Just(vec!["10.1.0.0/16", "8.8.8.8"]),
    ];
    let rules = prop::collection::vec(http(), 1..3);
    let deny = prop_oneof![2 => Just(vec![]), 1 => prop::collection::vec(http(), 1..3)];
    let flags = (prop::bool::weighted(if crowded { 0.6 } else { 0.8 }), prop::bool::weighted(0.2));
    (host, ports, protocol, path, flags, allowed_ips, rules, deny).prop_map(
        |(host, ports, protocol, path, (enforce, encoded_slash), allowed_ips, allow, deny)| EndpointSpec {
            host,
            ports,
            protocol,
            path,
            enforce,
            encoded_slash,
            allowed_ips,
            allow,
            deny,
        },
    )
}

fn rule(crowd: Crowd) -> impl Strategy<Value = RuleSpec> {
    let binaries = prop::collection::vec(prop::sample::select(BINARIES), 1..3);
    (binaries, prop::collection::vec(endpoint(crowd), 1..3))
        .prop_map(|(binaries, endpoints)| RuleSpec { binaries, endpoints })
}

pub fn spec() -> impl Strategy<Value = Spec> {
    policy(Crowd::Spread)
}

fn policy(crowd: Crowd) -> impl Strategy<Value = Spec> {
    let directories = || prop::collection::vec(prop::sample::select(DIRECTORIES), 0..3);
    (directories(), directories(), prop::bool::ANY, prop::collection::vec(rule(crowd), 1..3))
        .prop_map(|(read_only, read_write, workdir, rules)| Spec { read_only, read_write, workdir, rules })
}

/// A policy and another that was made from it by steps that should each make it narrower.
pub fn narrowed() -> impl Strategy<Value = (Spec, Spec)> {
    changed(policy(Crowd::Spread), 0..14)
}

/// A policy and another that was made from it by steps of which some make it wider.
pub fn altered() -> impl Strategy<Value = (Spec, Spec)> {
    changed(prop_oneof![1 => policy(Crowd::Spread), 3 => policy(Crowd::Crowded)], 0..23)
}

fn changed(
    policies: impl Strategy<Value = Spec>,
    kinds: std::ops::Range<usize>,
) -> impl Strategy<Value = (Spec, Spec)> {
    let step = (kinds, 0..8usize, http());
    (policies, prop::collection::vec(step, 0..4)).prop_map(|(outer, steps)| {
        let mut inner = outer.clone();
        for (kind, which, http) in steps {
            narrow(&mut inner, kind, which, http);
        }
        (inner, outer)
    })
}

fn narrow(spec: &mut Spec, kind: usize, which: usize, http: HttpSpec) {
    if kind == 0 && spec.rules.len() > 1 {
        spec.rules.remove(which % spec.rules.len());
        return;
    }
    if kind == 1 {
        spec.workdir = false;
        spec.read_write.pop();
        spec.read_only.iter_mut().for_each(|path| *path = narrower(DIRECTORIES, path, 1));
        return;
    }
    if kind == 22 {
        spec.read_write.extend(spec.read_only.first());
        return;
    }
    let count = spec.rules.len();
    let Some(rule) = spec.rules.get_mut(which % count) else { return };
    match kind {
        2 if rule.endpoints.len() > 1 => drop(rule.endpoints.pop()),
        3 => rule.binaries.iter_mut().for_each(|path| *path = narrower(BINARIES, path, which)),
        4 if rule.binaries.len() > 1 => drop(rule.binaries.pop()),
        _ => {
            let count = rule.endpoints.len();
            narrow_endpoint(&mut rule.endpoints[(which / 2) % count], kind, which, http);
        }
    }
}

fn narrow_endpoint(endpoint: &mut EndpointSpec, kind: usize, which: usize, http: HttpSpec) {
    match kind {
        5 => endpoint.host = narrower(HOSTS, endpoint.host, which),
        6 => endpoint.enforce = true,
        7 => endpoint.deny.push(http),
        8 if endpoint.allow.len() > 1 => drop(endpoint.allow.pop()),
        9 => endpoint.allow.iter_mut().for_each(|rule| rule.path = narrower(PATHS, rule.path, which)),
        10 => endpoint.allow.iter_mut().for_each(|rule| rule.method = narrower(METHODS, rule.method, which)),
        11 => endpoint.allow.iter_mut().for_each(|rule| rule.query = Some("v")),
        12 if endpoint.path.is_none() => endpoint.path = Some("/x/**"),
        13 => endpoint.encoded_slash = false,
        14 | 15 => endpoint.enforce = false,
        16 => drop(endpoint.deny.pop()),
        17 => endpoint.path = [None, Some(PATHS[which])][which % 2],
        18 => endpoint.encoded_slash = true,
        19 => endpoint.allow.push(http),
        20 => endpoint.protocol = ["", "rest", "websocket"][which % 3],
        21 => endpoint.allowed_ips = [vec![], vec!["10.1.0.0/16"]][which % 2].clone(),
        _ => drop(
            endpoint.ports.pop().filter(|_| endpoint.ports.is_empty()).map(|port| endpoint.ports.push(port)),
        ),
    }
}

/// A word further down its list, which is often a narrower one.
fn narrower(list: &[&'static str], word: &'static str, by: usize) -> &'static str {
    match list.iter().position(|known| *known == word) {
        Some(index) => list[(index + by % 3).min(list.len() - 1)],
        None => word,
    }
}
