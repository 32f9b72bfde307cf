//! The proxy that this machine must use, played by a program in Python that asks for a password: the model, what the agent reaches,
//! images and comments all go through it, and what `NO_PROXY` names does not.

use std::path::PathBuf;

use serde_json::json;

use crate::image_builder::{Layer, Packing, pack};
use crate::registry::server::{FakeRegistry, ImageParts};
use crate::services::Fake;
use crate::support::{World, has_program};

const HOST: &str = "models.lab.test";
const USER: &str = "me:p@ss/word";
const USER_IN_URL: &str = "me:p%40ss%2Fword";

/// A certificate for the proxy and for the hosts behind it, and its key. The world trusts it.
fn certificate(world: &World, hosts: &[&str]) -> (PathBuf, PathBuf) {
    let names: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let certificate = world.write("company.pem", made.cert.pem());
    let key = world.write("company.key", made.signing_key.serialize_pem());
    (certificate, key)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ProxyTls {
    Plain,
    Tls,
}

/// The proxy, and the world with the variables that name it.
fn behind(world: World, place: &str, port: u16, tls: ProxyTls) -> (World, Fake) {
    let host = place.split(':').next().unwrap();
    let (certificate, key) = certificate(&world, &[host, "localhost"]);
    let files = json!([certificate, key]);
    let mut settings = json!({ "user": USER, "routes": { place: port }, "serve": files.clone() });
    if tls == ProxyTls::Tls {
        settings["tls"] = files;
    }
    let proxy = Fake::start("proxy.py", &[&settings.to_string()]);
    (world.env("SSL_CERT_FILE", certificate.to_str().unwrap()), proxy)
}

fn model_world() -> (World, Fake) {
    let fake = Fake::start("openai.py", &["open"]);
    let world = World::with_harness();
    world.write(
        "repo/.fullsend/harness/triage.yaml",
        "agent: agents/triage.md\nruntime: native\noutput_schema: schemas/triage.json\nproviders: [model]\nmodel: qwen3:8b\n",
    );
    let provider = format!("name: model\ntype: openai\nconfig: {{base_url: 'https://{HOST}', wire: chat}}\n");
    world.write("repo/.fullsend/providers/model.yaml", provider);
    (world, fake)
}

#[test]
fn the_model_is_reached_through_it() {
    if !has_program("python3", "the_model_is_reached_through_it") {
        return;
    }
    for (variable, scheme, tls) in [
        ("HTTPS_PROXY", "http://", ProxyTls::Plain),
        ("https_proxy", "HTTP://", ProxyTls::Plain),
        ("ALL_PROXY", "", ProxyTls::Plain),
        ("HTTPS_PROXY", "https://", ProxyTls::Tls),
    ] {
        let (world, fake) = model_world();
        let (world, proxy) = behind(world, &format!("{HOST}:443"), fake.port, tls);
        let scheme = if variable == "ALL_PROXY" { "http://" } else { scheme };
        let url = format!("{scheme}{USER_IN_URL}@localhost:{}", proxy.port);
        let world = world.env(variable, &url);
        let ran = world.run(&["run", "triage"]);
        assert_eq!(ran.code, 0, "{variable}={url}: {}", ran.err);
        let asked = proxy.requests(HOST);
        assert!(!asked.is_empty() && asked.iter().all(|one| one["known"] == true), "{asked:?}");
        assert_eq!(asked[0]["host"], format!("{HOST}:443"));
        let doctor = world.run(&["doctor", "--model", "triage"]);
        assert!(doctor.out.contains("good    proxy: "), "{}", doctor.all());
        assert!(!ran.all().contains("p@ss") && !ran.all().contains("p%40ss"), "{}", ran.all());
    }
}

#[test]
fn a_wrong_password_is_explained_and_not_shown() {
    if !has_program("python3", "a_wrong_password_is_explained_and_not_shown") {
        return;
    }
    let (world, fake) = model_world();
    let (world, proxy) = behind(world, &format!("{HOST}:443"), fake.port, ProxyTls::Plain);
    let world = world.env("HTTPS_PROXY", &format!("http://me:guessed-wrong@localhost:{}", proxy.port));
    let ran = world.run(&["run", "triage"]);
    assert_ne!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("407 Proxy Authentication Required"), "{}", ran.err);
    assert!(!ran.all().contains("guessed-wrong"), "{}", ran.all());
    let doctor = world.run(&["doctor", "--model", "triage"]);
    assert!(doctor.out.contains("bad     proxy: ") && doctor.out.contains("407"), "{}", doctor.all());
    assert!(doctor.out.contains("check HTTPS_PROXY, or name the host in NO_PROXY"), "{}", doctor.all());
}

#[test]
fn hosts_in_no_proxy_are_reached_directly() {
    if !has_program("python3", "hosts_in_no_proxy_are_reached_directly") {
        return;
    }
    for (bypass, is_direct) in [
        ("*", true),
        (".lab.test", true),
        ("lab.test", true),
        ("other.test, models.lab.test:443", true),
        ("models.lab.test:8443", false),
        ("dels.lab.test", false),
        ("10.0.0.0/8,localhost", false),
    ] {
        let (world, fake) = model_world();
        let (world, proxy) = behind(world, &format!("{HOST}:443"), fake.port, ProxyTls::Plain);
        let url = format!("http://{USER_IN_URL}@localhost:{}", proxy.port);
        let world = world.env("HTTPS_PROXY", &url).env("no_proxy", bypass);
        let doctor = world.run(&["doctor", "--model", "triage"]);
        assert_eq!(proxy.requests(HOST).is_empty(), is_direct, "{bypass}: {}", doctor.all());
        let step = if is_direct { "bad     DNS: " } else { "good    proxy: " };
        assert!(doctor.out.contains(step), "{bypass}: {}", doctor.all());
    }
}

#[test]
fn images_are_pulled_through_it() {
    if !has_program("python3", "images_are_pulled_through_it") {
        return;
    }
    let layer = Layer::default().file("usr/share/mark", "from the registry\n").bytes();
    let image = ImageParts::new(std::slice::from_ref(&layer), vec![pack(&layer, Packing::Gzip)]);
    let registry = FakeRegistry::of(image.replies());
    let port = registry.host.rsplit(':').next().unwrap().parse().unwrap();
    for tls in [ProxyTls::Plain, ProxyTls::Tls] {
        let (world, proxy) = behind(World::new(), "registry.lab.test:443", port, tls);
        let scheme = if tls == ProxyTls::Tls { "https" } else { "http" };
        let url = format!("{scheme}://{USER_IN_URL}@localhost:{}", proxy.port);
        let world = world.env("https_proxy", &url);
        let ran = world.run(&["image", "pull", "registry.lab.test/acme/tool:1"]);
        assert_eq!(ran.code, 0, "{}", ran.all());
        let asked = proxy.requests("registry.lab.test:443");
        assert!(!asked.is_empty() && asked.iter().all(|one| one["known"] == true), "{asked:?}");
    }
}

/// A forge without comments, which takes one.
const FORGE: &str = r#"
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
class Forge(BaseHTTPRequestHandler):
    def log_message(self, *arguments): pass
    def answer(self, value):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        print(json.dumps({"path": self.path, "token": self.headers["authorization"]}), flush=True)
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self): self.answer([])
    def do_POST(self): self.answer({"id": 7})
server = HTTPServer(("127.0.0.1", 0), Forge)
print(server.server_port, flush=True)
server.serve_forever()
"#;

#[test]
fn comments_are_posted_through_it() {
    if !has_program("python3", "comments_are_posted_through_it") {
        return;
    }
    let comment = [
        "post-comment",
        "--forge",
        "github",
        "--repo",
        "acme/widgets",
        "--number",
        "7",
        "--marker",
        "<!-- m -->",
        "--reason",
        "done",
        "--base-url",
        "https://forge.lab.test",
    ];
    for (tls, bypass) in [(ProxyTls::Plain, ""), (ProxyTls::Tls, ""), (ProxyTls::Plain, ".lab.test")] {
        let world = World::new().env("GH_TOKEN", "token-of-the-forge");
        let script = world.write("forge.py", FORGE);
        let forge = Fake::start(script.to_str().unwrap(), &[]);
        let (world, proxy) = behind(world, "forge.lab.test:443", forge.port, tls);
        let scheme = if tls == ProxyTls::Tls { "https" } else { "http" };
        let url = format!("{scheme}://{USER_IN_URL}@localhost:{}", proxy.port);
        let world = world.env("HTTPS_PROXY", &url).env("NO_PROXY", bypass);
        let ran = world.run(&comment);
        let asked = proxy.requests("forge.lab.test:443");
        if !bypass.is_empty() {
            assert!(asked.is_empty() && ran.err.contains("forge.lab.test has no address"), "{}", ran.all());
            continue;
        }
        assert_eq!(ran.code, 0, "{}", ran.all());
        assert!(!asked.is_empty() && asked.iter().all(|one| one["known"] == true), "{asked:?}");
        let posted = forge.requests("/repos/acme/widgets/issues/7/comments");
        assert!(posted.iter().all(|one| one["token"] == "Bearer token-of-the-forge"), "{posted:?}");
        assert!(posted.len() >= 2, "a look at the comments, and one more: {posted:?}");
    }
}

/// What the agent may reach goes through this machine's proxy too, also where that proxy uses TLS.
#[test]
fn egress_goes_through_it() {
    if !has_program("python3", "egress_goes_through_it") {
        return;
    }
    let probe = "exec 3<>/dev/tcp/127.0.0.1/3128\nprintf 'CONNECT 8.8.4.4:8443 HTTP/1.1\\r\\nHost: 8.8.4.4:8443\\r\\n\\r\\n' >&3\nread -r -t 30 line <&3; echo \"$line\"\nread -r -t 30 line <&3\nprintf 'ping\\n' >&3\nread -r -t 30 line <&3; echo \"$line\"\n";
    let policy = "version: 1\nfilesystem_policy:\n  include_workdir: true\n  read_only: [/usr, /lib, /etc, /proc, /dev/urandom]\n  read_write: [/sandbox, /tmp, /dev/null]\nnetwork_policies:\n  far:\n    endpoints: [{host: 8.8.4.4, port: 8443, tls: skip}]\n    binaries: [{path: '/**'}]\n";
    for tls in [ProxyTls::Plain, ProxyTls::Tls] {
        let shell = "bash probe.sh > /sandbox/workspace/output/report.txt 2>&1; true";
        let scenario = json!({ "turns": [[{ "shell": shell }], [{ "finish": { "summary": "x" } }]] });
        let world = World::scripted("policy: policies/p.yaml\n", scenario);
        world.write("repo/.fullsend/policies/p.yaml", policy);
        world.write("repo/probe.sh", probe);
        let echo = world.write("echo.py", ECHO);
        let far = Fake::start(echo.to_str().unwrap(), &[]);
        let (certificate, key) = certificate(&world, &["localhost"]);
        let mut settings = json!({ "user": USER, "routes": { "8.8.4.4:8443": far.port } });
        if tls == ProxyTls::Tls {
            settings["tls"] = json!([certificate, key]);
        }
        let proxy = Fake::start("proxy.py", &[&settings.to_string()]);
        let scheme = if tls == ProxyTls::Tls { "https" } else { "http" };
        let url = format!("{scheme}://{USER_IN_URL}@localhost:{}", proxy.port);
        let world = world.env("SSL_CERT_FILE", certificate.to_str().unwrap()).env("HTTPS_PROXY", &url);
        let ran = world.run(&["run", "triage"]);
        assert_eq!(ran.code, 0, "{}", ran.all());
        let asked = proxy.requests("8.8.4.4:8443");
        assert_eq!(asked.len(), 1, "{}", ran.all());
        assert_eq!(asked[0]["known"], true, "{asked:?}");
        let run =
            std::fs::read_dir(world.path("state/fullsend/runs/local")).unwrap().next().unwrap().unwrap();
        let report = std::fs::read_to_string(run.path().join("iteration-1/output/report.txt")).unwrap();
        assert!(report.contains(" 200 ") && report.contains("ping back"), "{report}");
        assert!(!ran.all().contains("p@ss"), "{}", ran.all());
    }
}

/// Answers one line.
const ECHO: &str = r#"
import socketserver
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        line = self.rfile.readline().decode().strip()
        self.wfile.write(f"{line} back\n".encode())
server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo)
print(server.server_address[1], flush=True)
server.serve_forever()
"#;
