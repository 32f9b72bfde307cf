//! Files of credentials that `host_files` delivers with `mask: true`: git, curl, npm, gh and kubectl read them inside and send
//! placeholders, and the server gets the values. The values are nowhere inside.

use std::fs;

use serde_json::json;

use crate::lab;
use crate::support::{Who, World};

const VALUE: &str = "lab-secret-value-7731";
/// `user:lab-secret-value-7731` in base64.
const ENCODED: &str = "dXNlcjpsYWItc2VjcmV0LXZhbHVlLTc3MzE=";

const POLICY: &str = "version: 1
filesystem_policy:
  include_workdir: true
network_policies:
  lab:
    endpoints: [{host: api.lab.test, port: 443}]
    binaries: [{path: '/**'}]
";

const PROFILE: &str = "id: lab
credentials:
  - {name: token, env_vars: [LAB_TOKEN], required: true, auth_style: bearer}
endpoints:
  - {host: api.lab.test, port: 443}
";

/// The name of a file on the host, where it is inside, and its contents.
fn files() -> Vec<(&'static str, &'static str, String)> {
    vec![
        ("netrc", "/sandbox/.netrc", format!("machine api.lab.test login user password {VALUE}\n")),
        (
            "npmrc",
            "/sandbox/.npmrc",
            format!("registry=https://api.lab.test/npm/\n//api.lab.test/npm/:_authToken={VALUE}\n"),
        ),
        (
            "gh/hosts.yml",
            "/sandbox/.config/gh/hosts.yml",
            format!("api.lab.test:\n    oauth_token: {VALUE}\n    user: me\n    git_protocol: https\n"),
        ),
        ("gh/config.yml", "/sandbox/.config/gh/config.yml", "version: \"1\"\n".to_owned()),
        (
            "docker.json",
            "/sandbox/.docker/config.json",
            format!("{{\"auths\": {{\"api.lab.test\": {{\"auth\": \"{ENCODED}\"}}}}}}\n"),
        ),
        (
            "kubeconfig",
            "/sandbox/.kube/config",
            format!(
                "apiVersion: v1\nkind: Config\ncurrent-context: lab\nclusters:\n- {{name: lab, cluster: {{server: 'https://api.lab.test/kube'}}}}\ncontexts:\n- {{name: lab, context: {{cluster: lab, user: me}}}}\nusers:\n- name: me\n  user:\n    token: {VALUE}\n"
            ),
        ),
    ]
}

/// Each client says where it was; a client that is not installed says so.
const PROBE: &str = r#"
export HOME=/sandbox GH_CONFIG_DIR=/sandbox/.config/gh GH_HOST=api.lab.test npm_config_cache=/tmp/npm
# The machine's own npmrc may name other authorities.
export npm_config_cafile="$NODE_EXTRA_CA_CERTS"
unset LAB_TOKEN
has() { command -v "$1" > /dev/null || { echo "$1 is not installed"; return 1; }; }
curl -sS --max-time 20 --netrc https://api.lab.test/private/curl
git ls-remote https://api.lab.test/private/git 2>&1 | tail -1
has npm && npm view lab-package --fetch-retries=0 2>&1 | head -4
has gh && gh api private/gh 2>&1 | tail -1
has kubectl && kubectl --kubeconfig /sandbox/.kube/config get --raw /private/kubectl 2>&1 | tail -1
auth=$(sed -n 's/.*"auth": "\([^"]*\)".*/\1/p' /sandbox/.docker/config.json)
curl -sS --max-time 20 -H "Authorization: Basic $auth" https://api.lab.test/private/docker
echo
files="/sandbox/.netrc /sandbox/.npmrc /sandbox/.config/gh/hosts.yml /sandbox/.docker/config.json /sandbox/.kube/config"
cat $files
echo "placeholders in $(grep -l openshell:resolve:env:v $files | wc -l) files"
printf '%s%s' lab-secret- value-7731 > /tmp/pattern
grep -rslFf /tmp/pattern --exclude=pattern /sandbox /tmp && echo "found inside"
true
"#;

fn world(more: &str) -> World {
    let world = World::with_harness();
    let mut host_files = String::new();
    for (name, place, text) in files() {
        world.write(&format!("credentials/{name}"), text);
        let source = world.path(&format!("credentials/{name}"));
        host_files.push_str(&format!("  - {{src: {}, dest: {place}, mask: true}}\n", source.display()));
    }
    world.write(
        "repo/.fullsend/harness/triage.yaml",
        format!("agent: agents/triage.md\nruntime: native\npolicy: policies/p.yaml\noutput_schema: schemas/triage.json\nproviders: [model, lab]\nhost_files:\n{host_files}{more}# What holds here is the egress: the guard would deny the probe before it ran.\nsecurity: {{sandbox_hooks: {{tirith: {{enabled: false}}, ssrf_pretool: false}}}}\n"),
    );
    world.write(
        "repo/.fullsend/providers/model.yaml",
        "name: model\ntype: anthropic\nconfig:\n  scenario: scenarios/s.json\n",
    );
    world.write(
        "repo/.fullsend/providers/lab.yaml",
        "name: lab\ntype: lab\ncredentials:\n  LAB_TOKEN: ${HOST_TOKEN}\n",
    );
    world.write("repo/.fullsend/profiles/lab.yaml", PROFILE);
    world.write("repo/.fullsend/policies/p.yaml", POLICY);
    let turns = json!({ "turns": [
        [{ "shell": format!("({PROBE}) > /sandbox/workspace/output/report.txt 2>&1; true") }],
        [{ "finish": { "summary": "looked" } }],
    ]});
    world.write("repo/.fullsend/scenarios/s.json", turns.to_string());
    world.env("HOST_TOKEN", VALUE)
}

fn clients_send_what_they_cannot_read(who: Who) {
    let Some(world) = lab::build(world("")) else { return };
    let Some(ran) = lab::run(&world, who, &["run", "triage"]) else { return };
    assert_eq!(ran.code, 0, "{}", ran.err);
    let runs = fs::read_dir(world.path("state/fullsend/runs/local")).unwrap();
    let directory = runs.map(|entry| entry.unwrap().path()).next().unwrap();
    let report = fs::read_to_string(directory.join("iteration-1/output/report.txt")).unwrap();
    let received = String::from_utf8_lossy(&lab::received(&world)).into_owned();
    let bearer = format!("Bearer {VALUE}");
    let token = format!("token {VALUE}");
    let basic = format!("Basic {ENCODED}");
    for (client, path, authorization) in [
        ("curl", "/private/curl", &basic),
        ("git", "/private/git", &basic),
        ("npm", "/npm/lab-package", &bearer),
        ("gh", "/api/v3/private/gh", &token),
        ("kubectl", "/private/kubectl", &bearer),
        ("docker", "/private/docker", &basic),
    ] {
        if report.contains(&format!("{client} is not installed")) {
            continue;
        }
        let request = received.split("\n=== ").filter(|request| request.contains(&format!("GET {path}")));
        let sent = request.filter(|request| request.contains(authorization.as_str())).count();
        assert!(sent > 0, "{client}: {report}\n{received}");
    }
    assert!(!report.contains(VALUE) && !report.contains(ENCODED), "{report}");
    assert!(!report.contains("found inside"), "{report}");
    assert!(report.contains("placeholders in 4 files\n"), "in each but Docker's, which is encoded: {report}");
    let record: serde_json::Value =
        serde_json::from_slice(&fs::read(directory.join("run.json")).unwrap()).unwrap();
    assert_eq!(record["exceptions"], json!([]), "no value enters");
}

#[test]
fn clients_send_values_that_they_cannot_read() {
    clients_send_what_they_cannot_read(Who::Caller);
}

#[test]
fn clients_of_an_ordinary_user_send_values_that_they_cannot_read() {
    clients_send_what_they_cannot_read(Who::User);
}

/// What no provider declares would be delivered as it is, so the run does not start.
#[test]
fn a_file_with_another_credential_is_refused() {
    for (text, why) in [
        (
            "machine a.example login me password hunter2\n",
            "has a value of `password` that no provider declares",
        ),
        (
            "{\"auths\":{\"r.example\":{\"auth\":\"dXNlcjpodW50ZXIy\"}}}",
            "has a value of `auth` that no provider declares",
        ),
        (concat!("note = ghp", "_KWdp0G9qmCG5CW3c", "CW1qiXNxqTm8Mf3awWru\n"), "that no provider declares"),
    ] {
        let world = world("");
        world.write("credentials/netrc", text);
        let ran = world.run(&["run", "triage"]);
        assert_eq!(ran.code, 4, "{text}: {}", ran.err);
        assert!(ran.err.contains(why) && ran.err.contains("deliver the file without `mask`"), "{}", ran.err);
        assert!(!ran.err.contains("hunter2"), "{}", ran.err);
    }
}
