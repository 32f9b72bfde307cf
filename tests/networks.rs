//! Networks by name: each lets its package manager read, and nothing else pass. One test for each.

use std::fs;

use crate::support::{World, root};

/// Whether a request passes a named network.
fn passes(network: &str, request: &str, binary: &str) -> bool {
    let file = root().join(format!("crates/fullsend/src/defaults/networks/{network}.yaml"));
    let (method, url) = request.split_once(' ').unwrap();
    let words = ["policy", "test", "--policy", file.to_str().unwrap(), method, url, "--binary", binary];
    let ran = World::new().run(&words);
    assert!(matches!(ran.code, 0 | 1), "{network}: {}", ran.err);
    ran.code == 0
}

fn check(network: &str, binary: &str, reads: &[&str], writes: &[&str]) {
    for request in reads {
        assert!(passes(network, request, binary), "{network}: {request}");
        assert!(!passes(network, request, "/usr/bin/nc"), "{network}: {request} by another program");
    }
    for request in writes {
        assert!(!passes(network, request, binary), "{network}: {request}");
    }
}

#[test]
fn npm() {
    check(
        "npm",
        "/opt/node/bin/node",
        &["GET https://registry.npmjs.org/left-pad/-/left-pad-1.3.0.tgz"],
        &[
            "PUT https://registry.npmjs.org/left-pad",
            "POST https://registry.npmjs.org/-/npm/v1/login",
            "GET https://example.com/",
        ],
    );
}

#[test]
fn pip() {
    check(
        "pip",
        "/usr/bin/python3.11",
        &["GET https://pypi.org/simple/attrs/", "GET https://files.pythonhosted.org/packages/a/b.whl"],
        &["POST https://pypi.org/legacy/", "POST https://upload.pypi.org/legacy/"],
    );
}

#[test]
fn cargo() {
    check(
        "cargo",
        "/root/.cargo/bin/cargo",
        &["GET https://index.crates.io/se/rd/serde", "GET https://static.crates.io/crates/serde/1.crate"],
        &["PUT https://crates.io/api/v1/crates/new", "PUT https://static.crates.io/x"],
    );
}

#[test]
fn go() {
    check(
        "go",
        "/usr/local/go/bin/go",
        &["GET https://proxy.golang.org/a/@v/list", "GET https://sum.golang.org/lookup/a"],
        &["POST https://proxy.golang.org/a"],
    );
}

#[test]
fn maven() {
    check(
        "maven",
        "/usr/lib/jvm/java-17/bin/java",
        &["GET https://repo.maven.apache.org/maven2/a.pom", "GET https://repo1.maven.org/maven2/a.jar"],
        &["PUT https://repo1.maven.org/maven2/a.jar"],
    );
}

#[test]
fn apt() {
    check(
        "apt",
        "/usr/lib/apt/methods/http",
        &[
            "GET http://deb.debian.org/debian/dists/stable/InRelease",
            "GET https://archive.ubuntu.com/ubuntu/x",
        ],
        &["POST http://deb.debian.org/debian/", "GET http://deb.debian.org:8080/"],
    );
}

#[test]
fn github() {
    check(
        "github",
        "/usr/lib/git-core/git-remote-https",
        &[
            "GET https://github.com/a/b.git/info/refs",
            "POST https://github.com/a/b.git/git-upload-pack",
            "GET https://api.github.com/repos/a/b",
        ],
        &[
            "POST https://github.com/a/b.git/git-receive-pack",
            "POST https://api.github.com/repos/a/b/issues",
            "DELETE https://api.github.com/repos/a/b",
        ],
    );
}

/// One line in the harness; it includes the host's own mirror, and an organisation's ceiling applies.
#[test]
fn one_line_allows_a_network_and_the_hosts_mirror() {
    let scenario = r#"{"turns":[[{"finish":{"summary":"x"}}]]}"#;
    let world = World::scripted("network: [npm, pip]\n", scenario);
    world.write("home/.npmrc", "registry=https://user:secret@npm.corp.example/all/\n");
    let dry = world.run(&["run", "triage", "--dry-run"]);
    assert_eq!(dry.code, 0, "{}", dry.err);
    let ran = world.run(&["run", "triage", "--quiet"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let harness = fs::read_to_string(world.path("repo/.fullsend/harness/triage.yaml")).unwrap();
    world.write("repo/.fullsend/harness/triage.yaml", harness.replace("npm", "npmm"));
    let wrong = world.run(&["check"]);
    let said = format!("{}{}", wrong.out, wrong.err);
    assert_eq!(wrong.code, 3, "{said}");
    assert!(said.contains("there are: apt, cargo, github, go, maven, npm, pip"), "{said}");

    world.write("repo/.fullsend/harness/triage.yaml", harness);
    world.write("org/config.yaml", "policy_ceiling: policies/ceiling.yaml\n");
    world.write("org/policies/ceiling.yaml", "version: 1\nnetwork_policies: {}\n");
    let world = world.env("FULLSEND_ORG_DIR", "../org");
    let capped = world.run(&["check"]);
    let said = format!("{}{}", capped.out, capped.err);
    assert_eq!(capped.code, 3, "{said}");
    assert!(said.contains("wider than the organisation allows"), "{said}");
}
