//! Real programs through the proxy, by its variables.

use super::scene::{Kind, Scene, Setting, rule, scene, server};
use crate::event::AttemptDecision::{Allowed, Denied};
use std::process::Command;

/// Runs away from the reactor: the proxy must go on meanwhile.
async fn curl(scene: &Scene, arguments: &[&str]) -> Option<(bool, String)> {
    let ca =
        std::env::temp_dir().join(format!("egress-ca-{}-{}.pem", std::process::id(), scene.proxy.port()));
    std::fs::write(&ca, scene.authority.certificate_pem()).unwrap();
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "10", "--cacert"]).arg(&ca);
    command.arg("--proxy").arg(format!("http://{}", scene.proxy)).args(arguments).env_clear();
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap();
    std::fs::remove_file(ca).unwrap();
    let output = output.ok()?;
    Some((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_is_let_through_and_refused_as_the_policy_says() {
    let mut setting = Setting::new("");
    let server = server(Kind::Tls(setting.vendor.clone())).await;
    let rules = "        protocol: rest\n        enforcement: enforce\n        access: read-only";
    setting.policy = rule(server.port, rules).replace("/**", "/**/curl");
    let scene = scene(setting).await;
    let url = format!("https://api.test:{}/a", server.port);
    let Some((passed, said)) = curl(&scene, &[&url]).await else {
        crate::skip("proxy::tests::clients::curl", "curl is not installed");
        return;
    };
    assert!(passed && said.contains("GET /a HTTP/1.1"), "{said} {:?}", scene.attempts());
    let (passed, said) = curl(&scene, &["--data", "x", &url]).await.unwrap();
    assert!(passed && said.contains("policy_denied"), "{said}");
    assert_eq!(scene.decisions(2).await, [Allowed, Denied]);
    assert!(scene.attempts().iter().all(|attempt| attempt.binary.as_deref().unwrap().ends_with("/curl")));
    assert!(scene.tunnel(&format!("api.test:{}", server.port)).await.is_err(), "this process is not curl");
}
