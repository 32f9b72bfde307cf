//! The lab of the client tests: a network with an address that policies may reach, names for it, a certificate authority
//! in the machine's bundle, and one run whose agent starts every client.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::server::{Arrived, Lab};
use crate::support::{self, Who, World};

const ADDRESS: &str = "10.77.0.1";
const NAMES: &[&str] = &["api.lab.test", "ws.lab.test", "plain.lab.test", "elsewhere.lab.test"];
/// Set in the second process, which is in the network already.
const INSIDE: &str = "FULLSEND_TEST_NETWORK";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OptionalClient {
    Go,
    Java,
}

/// The output of the agent's commands, the events of egress, and what the servers received.
pub struct Report {
    text: String,
    events: Vec<Json>,
    pub found: BTreeSet<OptionalClient>,
    arrived: Arrived,
}

impl Report {
    /// The text between this client's heading and the next.
    pub fn output(&self, mode: &str, client: &str) -> &str {
        let heading = format!("@@ {mode} {client}\n");
        let Some(start) = self.text.find(&heading) else { panic!("no {heading} in {}", self.text) };
        let rest = &self.text[start + heading.len()..];
        rest.split("@@ ").next().unwrap_or(rest)
    }

    pub fn has_event(&self, via: &str, binary: &str) -> bool {
        self.events.iter().any(|event| {
            let path = event["binary"].as_str().unwrap_or_default();
            let name = path.rsplit('/').next().unwrap_or_default();
            event["via"] == via && name.starts_with(binary)
        })
    }

    pub fn arrived(&self) -> Vec<String> {
        self.arrived.lock().unwrap().clone()
    }
}

/// Starts one test of this binary again, in a network and a view of `/etc` of its own.
pub fn in_own_network(test: &str) {
    if !rustix::process::geteuid().is_root() {
        return support::skip("clients", "the root half: making a network needs root");
    }
    if !["ip", "curl", "python3", "node"].iter().all(|program| support::has_program(program, "clients")) {
        return;
    }
    let scratch = tempfile::Builder::new().prefix("fullsend-lab-").tempdir().unwrap();
    let names = NAMES.join(" ");
    fs::write(scratch.path().join("hosts"), format!("127.0.0.1 localhost\n{ADDRESS} {names}\n")).unwrap();
    let script = format!(
        "ip link set lo up && ip addr add {ADDRESS}/32 dev lo && mount --bind \"$1/hosts\" /etc/hosts && shift && exec \"$@\""
    );
    let output = Command::new("unshare")
        .args(["--net", "--mount", "--", "sh", "-c", &script, "sh"])
        .arg(scratch.path())
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let printed = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&printed);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// `None` if it was not started in its network.
pub fn run(who: Who) -> Option<Report> {
    std::env::var_os(INSIDE)?;
    let world = World::with_harness();
    let lab = Arc::new(Lab::new(NAMES, make_repositories(&world)));
    trust(&world, &lab.certificate);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let address = |port: u16| format!("{ADDRESS}:{port}").parse().unwrap();
    runtime.block_on(Arc::clone(&lab).serve(address(8443), address(8445)));
    let found = write_clients(&world);
    write_harness(&world, &found);
    let ran = world.run_as(who, &["run", "triage"])?;
    assert_eq!(ran.code, 0, "{}", ran.err);
    let runs = fs::read_dir(world.path("state/fullsend/runs/local")).unwrap();
    let directory = runs.map(|entry| entry.unwrap().path()).next().unwrap();
    let text = fs::read_to_string(directory.join("iteration-1/output/report.txt")).unwrap();
    let events = fs::read_to_string(directory.join("events.jsonl")).unwrap();
    let events = events.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    let egress = events.filter(|event| event["type"] == "egress").map(|event| event["event"].clone());
    Some(Report { text, events: egress.collect(), found, arrived: Arc::clone(&lab.arrived) })
}

/// Adds the lab's authority to the machine's bundle, only in this view of `/etc`.
fn trust(world: &World, certificate: &str) {
    const BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";
    let bundle = fs::read_to_string(BUNDLE).unwrap() + certificate;
    let path = world.write("bundle.pem", bundle);
    let bound = Command::new("mount").arg("--bind").arg(path).arg(BUNDLE).status().unwrap();
    assert!(bound.success());
}

/// Two repositories with one commit each.
fn make_repositories(world: &World) -> PathBuf {
    let root = world.path("repositories");
    let script = "set -e; mkdir -p \"$1\"; cd \"$1\"; export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1\n\
                  git init -q -b main work; cd work; echo first > file\n\
                  git add file; git -c user.name=a -c user.email=a@b commit -qm first\n\
                  for name in open closed; do git clone -q --bare . ../$name.git; git -C ../$name.git config http.receivepack true; done";
    let made = Command::new("sh").args(["-c", script, "sh"]).arg(&root).status().unwrap();
    assert!(made.success());
    root
}

/// Puts the client programs into the repository that the agent works on.
fn write_clients(world: &World) -> BTreeSet<OptionalClient> {
    let mut found = BTreeSet::new();
    world.write("repo/client.mjs", include_str!("../data/clients/client.mjs"));
    world.write("repo/websocket.py", include_str!("../data/clients/websocket.py"));
    world.write("repo/websocket.mjs", include_str!("../data/clients/websocket.mjs"));
    world.write("repo/client.py", include_str!("../data/clients/client.py"));
    world.write("repo/Client.java", include_str!("../data/clients/Client.java"));
    match go_client() {
        Some(program) => {
            let copy = world.write("repo/go-client", fs::read(program).unwrap());
            fs::set_permissions(copy, fs::Permissions::from_mode(0o755)).unwrap();
            found.insert(OptionalClient::Go);
        }
        None => support::skip("clients go", "go is not installed"),
    }
    if Command::new("java").arg("-version").output().is_ok_and(|output| output.status.success()) {
        found.insert(OptionalClient::Java);
    } else {
        support::skip("clients java", "java is not installed");
    }
    found
}

/// Compiled once: the compiler builds all of its library for it.
fn go_client() -> Option<PathBuf> {
    let source = support::root().join("tests/data/clients/client.go");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = directory.join("go-client");
    let date = |path: &Path| fs::metadata(path).and_then(|about| about.modified()).ok();
    if date(&program) < date(&source) {
        let own = directory.join(format!("go-client-{}", std::process::id()));
        let mut command = Command::new("go");
        command.args(["build", "-o"]).arg(&own).arg(&source);
        command.env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=mod").env("GOCACHE", directory.join("go-cache"));
        let built = command.env("HOME", directory).output().ok()?;
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        fs::rename(own, &program).unwrap();
    }
    Some(program)
}

const POLICY: &str = "version: 1
filesystem_policy:
  include_workdir: true
process:
  run_as_user: sandbox
network_policies:
  api:
    endpoints:
      - host: api.lab.test
        port: 8443
        protocol: rest
        enforcement: enforce
        rules:
          - allow: {method: GET, path: /open}
          - allow: {method: GET, path: /events}
          - allow: {method: '*', path: /git/open.git/**}
      - host: ws.lab.test
        port: 8445
        protocol: websocket
        enforcement: enforce
        rules:
          - allow: {method: GET, path: /ws/open}
          - allow: {method: WEBSOCKET_TEXT, path: /ws/open}
          - allow: {method: GET, path: /ws/quiet}
      - host: plain.lab.test
        port: 8443
    binaries:
      - path: '/**'
";

/// What each program shows of a host that no rule names; and the run's certificate alone.
const REFUSED: &str = "at=https://elsewhere.lab.test:8443/\n\
    curl -sS $at; echo curl ended with $?\n\
    curl -sSv $at 2>&1 | grep '^< HTTP' | sed 's/^/curl -v: /'\n\
    GIT_CURL_VERBOSE=1 git ls-remote $at 2>&1 | grep -i '403 F' | sed 's/^/git: /'\n\
    python3 -c \"import urllib.request as u; u.urlopen('$at')\" 2>&1 | tail -1 | sed 's/^/python: /'\n\
    python3 -m pip download --retries 0 --timeout 5 --no-deps -d /tmp/d -i $at/simple x 2>&1 | head -3 | sed 's/^/pip: /'\n\
    node -e \"fetch('$at').catch(e => console.log(e, e.cause))\" 2>&1 | head -12 | sed 's/^/node: /'\n\
    npm view x --registry $at --fetch-retries 0 --cache /tmp/npm 2>&1 | head -6 | sed 's/^/npm: /'\n\
    grep -c BEGIN /etc/fullsend/ca.pem | sed 's/^/certificates: /'";

/// The commands of one client; they are run twice.
fn commands(found: &BTreeSet<OptionalClient>) -> Vec<(&'static str, String)> {
    let urls = "https://api.lab.test:8443/open https://api.lab.test:8443/closed";
    let curl = |version: &str| format!("curl -sS {version} -w ' %{{http_code}}\\n' {urls}");
    let git = "export GIT_CONFIG_GLOBAL=/dev/null; rm -rf /tmp/clone /tmp/closed\n\
               git clone -q https://api.lab.test:8443/git/open.git /tmp/clone && echo cloned: $(cat /tmp/clone/file)\n\
               git -C /tmp/clone -c user.name=a -c user.email=a@b commit -q --allow-empty -m $1 && git -C /tmp/clone push -q origin HEAD:refs/heads/$1 && echo pushed\n\
               git clone -q https://api.lab.test:8443/git/closed.git /tmp/closed || echo closed: refused";
    let websocket = "for place in open quiet closed; do python3 websocket.py wss://ws.lab.test:8445/ws/$place; done\n\
                     node --experimental-websocket --no-warnings websocket.mjs wss://ws.lab.test:8445/ws/open";
    let mut all = vec![
        ("curl-h1", curl("--http1.1")),
        ("curl-h2", curl("--http2")),
        ("python", format!("python3 client.py {urls}")),
        ("node", format!("node client.mjs {urls}")),
        ("git", git.to_owned()),
        ("events", "curl -sSN https://api.lab.test:8443/events".to_owned()),
        ("tunnel", "curl -sSv https://plain.lab.test:8443/anything".to_owned()),
        ("websocket", websocket.to_owned()),
        ("elsewhere", "curl -sS https://elsewhere.lab.test:8443/open".to_owned()),
        ("refused", REFUSED.to_owned()),
    ];
    if found.contains(&OptionalClient::Go) {
        all.push(("go", format!("./go-client {urls}")));
    }
    if found.contains(&OptionalClient::Java) {
        all.push(("java", format!("java Client.java {urls}")));
    }
    all
}

fn write_harness(world: &World, found: &BTreeSet<OptionalClient>) {
    world.write("repo/.fullsend/harness/triage.yaml", "agent: agents/triage.md\nruntime: native\npolicy: policies/p.yaml\noutput_schema: schemas/triage.json\nproviders: [model]\n");
    world.write(
        "repo/.fullsend/providers/model.yaml",
        "name: model\ntype: anthropic\nconfig:\n  scenario: scenarios/s.json\n",
    );
    world.write("repo/.fullsend/policies/p.yaml", POLICY);
    let unset = "for name in HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy; do unset $name; done\n\
                 JAVA_TOOL_OPTIONS=$(echo $JAVA_TOOL_OPTIONS | tr ' ' '\\n' | grep -v -i proxy | tr '\\n' ' ')\n";
    let mut turns = Vec::new();
    for (mode, before) in [("proxied", ""), ("unset", unset)] {
        for (client, command) in commands(found) {
            let script = format!("repo/{mode}-{client}.sh");
            world.write(&script, format!("{before}echo '@@ {mode} {client}'\n{command}\n"));
            turns.push(json!([{ "shell": format!(
                "timeout 100 sh {mode}-{client}.sh {mode} >> /sandbox/workspace/output/report.txt 2>&1 </dev/null; true"
            )}]));
        }
    }
    turns.push(json!([{ "finish": { "summary": "looked" } }]));
    world.write("repo/.fullsend/scenarios/s.json", json!({ "turns": turns }).to_string());
}
