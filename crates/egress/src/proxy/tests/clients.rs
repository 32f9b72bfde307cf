//! Real programs through the proxy, by its variables.

use super::lab::{Kind, Lab, LabConfig, rule, server, start_lab};
use crate::event::ConnectionDecision::{Allowed, Denied};
use std::process::Command;

/// Runs away from the reactor: the proxy must go on meanwhile.
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
