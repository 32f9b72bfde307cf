//! Real programs through the proxy, by its variables.

use super::lab::{Kind, Lab, LabConfig, rule, server, start_lab};
use crate::event::ConnectionDecision::{Allowed, Denied};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The certificate authority of the proxy, in a file for a program.
struct AuthorityFile(PathBuf);

impl AuthorityFile {
    fn new(lab: &Lab) -> Self {
        let name = format!("egress-ca-{}-{}.pem", std::process::id(), lab.proxy.port());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, lab.authority.certificate_pem()).unwrap();
        Self(path)
    }
}

impl Drop for AuthorityFile {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// What a program printed, standard output first. `None` if it is not installed.
async fn printed(mut command: Command) -> Option<String> {
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().ok()?;
    Some(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

async fn gh(lab: &Lab, port: u16, query: &str) -> Option<String> {
    let authority = AuthorityFile::new(lab);
    let mut command = Command::new("gh");
    command.args(["api", "graphql", "-f"]).arg(format!("query={query}"));
    for (name, value) in [
        ("GH_HOST", format!("api.test:{port}")),
        ("GH_ENTERPRISE_TOKEN", "not-a-token".to_owned()),
        ("HTTPS_PROXY", format!("http://{}", lab.proxy)),
        ("SSL_CERT_FILE", authority.0.display().to_string()),
        ("GH_CONFIG_DIR", "/nonexistent".to_owned()),
    ] {
        command.env(name, value);
    }
    printed(command).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gh_may_query_and_not_mutate() {
    let mut config = LabConfig::new("");
    let server = server(Kind::Tls(config.vendor.clone())).await;
    let rules = "        path: /api/graphql\n        protocol: graphql\n        access: read-only";
    config.policy = rule(server.port, rules).replace("/**", "/**/gh");
    let lab = start_lab(config).await;
    let Some(output) = gh(&lab, server.port, "{ viewer { login } }").await else {
        crate::skip("proxy::tests::clients::gh", "gh is not installed");
        return;
    };
    assert!(output.contains("POST /api/graphql HTTP/1.1"), "{output}");
    let output = gh(&lab, server.port, "mutation { deleteIssue { id } }").await.unwrap();
    assert!(output.contains("mutation { deleteIssue }: no rule allows this request"), "{output}");
    assert!(output.contains("gh: POST api.test:"), "{output}");
    assert_eq!(lab.decisions(2).await, [Allowed, Denied], "{:?}", lab.connections());
    assert_eq!(server.heads.lock().unwrap().len(), 1, "the mutation never arrived");
}

/// Ends with the test.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

const SDK: &str = "@modelcontextprotocol/sdk";
const SDK_VERSION: &str = "1.32.2";

/// The MCP SDK, which npm installs into the cache of the checkout, once. `None` where it cannot.
fn mcp_sdk() -> Option<PathBuf> {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/cache");
    let place = cache.join(format!("mcp-sdk-{SDK_VERSION}"));
    if !place.exists() {
        let part = cache.join(format!("mcp-sdk-{}.part", std::process::id()));
        std::fs::create_dir_all(&part).ok()?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]).arg(&part);
        npm.arg(format!("{SDK}@{SDK_VERSION}")).stdout(Stdio::null()).stderr(Stdio::null());
        if !npm.status().is_ok_and(|status| status.success()) {
            drop(std::fs::remove_dir_all(&part));
            return None;
        }
        std::fs::rename(part, &place).ok()?;
    }
    Some(place.join("node_modules").join(SDK))
}

/// The server of the MCP SDK, and its port.
fn mcp_server(scripts: &Path, sdk: &Path) -> Option<(KilledOnDrop, u16)> {
    let mut command = Command::new("node");
    command.arg(scripts.join("mcp-server.cjs")).arg(sdk).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    Some((KilledOnDrop(child), line.trim().parse().unwrap()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_the_mcp_sdk_calls_the_tool_that_a_rule_names() {
    let skip = |reason| crate::skip("proxy::tests::clients::mcp", reason);
    let Some(sdk) = tokio::task::spawn_blocking(mcp_sdk).await.unwrap() else {
        return skip("npm cannot install @modelcontextprotocol/sdk");
    };
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/clients");
    let Some((_server, port)) = mcp_server(&scripts, &sdk) else { return skip("node is not installed") };
    let methods = ["initialize", "notifications/initialized", "tools/list"];
    let methods: String =
        methods.iter().map(|method| format!("          - allow: {{method: {method}}}\n")).collect();
    let rules =
        format!("        protocol: mcp\n        rules:\n{methods}          - allow: {{tool: echo}}\n");
    let lab = start_lab(LabConfig::new(rule(port, &rules).replace("/**", "/**/node"))).await;
    let mut command = Command::new("node");
    command.arg(scripts.join("mcp-client.cjs")).arg(&sdk).arg(format!("http://api.test:{port}/mcp"));
    command.arg(lab.proxy.to_string()).args(["echo", "drop", "echo"]);
    let output = printed(command).await.unwrap();
    let lines: Vec<&str> = output.lines().collect();
    let [listed, first, refused, second] = lines[..] else { panic!("{output}") };
    assert_eq!((listed, first, second), ("tools: echo drop", "echo says hello", "echo says hello"));
    assert!(refused.starts_with("drop failed: MCP error -32040: POST api.test:"), "{refused}");
    assert!(refused.ends_with("/mcp: tools/call drop: no rule allows this request"), "{refused}");
}

/// Runs on another thread: the proxy must continue meanwhile.
async fn curl(lab: &Lab, arguments: &[&str]) -> Option<(bool, String)> {
    let ca = std::env::temp_dir().join(format!("egress-ca-{}-{}.pem", std::process::id(), lab.proxy.port()));
    std::fs::write(&ca, lab.authority.certificate_pem()).unwrap();
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "10", "--cacert"]).arg(&ca);
    command.arg("--proxy").arg(format!("http://{}", lab.proxy)).args(arguments).env_clear();
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap();
    std::fs::remove_file(ca).unwrap();
    let output = output.ok()?;
    Some((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_is_let_through_and_refused_as_the_policy_says() {
    let mut config = LabConfig::new("");
    let server = server(Kind::Tls(config.vendor.clone())).await;
    let rules = "        protocol: rest\n        enforcement: enforce\n        access: read-only";
    config.policy = rule(server.port, rules).replace("/**", "/**/curl");
    let lab = start_lab(config).await;
    let url = format!("https://api.test:{}/a", server.port);
    let Some((passed, body)) = curl(&lab, &[&url]).await else {
        crate::skip("proxy::tests::clients::curl", "curl is not installed");
        return;
    };
    assert!(passed && body.contains("GET /a HTTP/1.1"), "{body} {:?}", lab.connections());
    let (passed, body) = curl(&lab, &["--data", "x", &url]).await.unwrap();
    assert!(passed && body.contains("policy_denied"), "{body}");
    assert_eq!(lab.decisions(2).await, [Allowed, Denied]);
    assert!(
        lab.connections().iter().all(|connection| connection.binary.as_deref().unwrap().ends_with("/curl"))
    );
    assert!(lab.tunnel(&format!("api.test:{}", server.port)).await.is_err(), "this process is not curl");
}
