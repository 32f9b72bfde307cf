//! Providers' profiles as rules of the policy: what they open, for whom, what limits them, and the switch that closes them.

use std::fs;

use serde_json::json;

use crate::lab;
use crate::support::{Who, World};

const PROFILE: &str = "id: lab
endpoints:
  - {host: api.lab.test, port: 443, protocol: rest, access: read-only, enforcement: enforce}
  - {host: api.lab.test, port: 443, protocol: graphql, access: read-only, enforcement: enforce, path: /graphql}
binaries: ['**/curl']
";

const POLICY: &str = "version: 1\nfilesystem_policy: {include_workdir: true}\n";

fn world(more: &str) -> World {
    let world = World::with_harness();
    world.write(
        "repo/.fullsend/harness/triage.yaml",
        format!(
            "agent: agents/triage.md\nruntime: native\npolicy: policies/p.yaml\noutput_schema: schemas/triage.json\nproviders: [model, lab]\n\
             security: {{sandbox_hooks: {{tirith: {{enabled: false}}, ssrf_pretool: false}}}}\n{more}"
        ),
    );
    world.write("repo/.fullsend/policies/p.yaml", POLICY);
    world.write("repo/.fullsend/providers/lab.yaml", "name: lab\ntype: lab\ncredentials: {_NOOP: \"\"}\n");
    world.write("repo/.fullsend/profiles/lab.yaml", PROFILE);
    world
}

#[test]
fn a_profile_is_a_rule_of_the_policy_that_is_shown() {
    let shown = world("").run(&["policy", "show", "triage", "--effective"]);
    assert_eq!(shown.code, 0, "{}", shown.all());
    for expected in
        ["_provider_lab:  # .fullsend/profiles/lab.yaml:1", "api.lab.test:443 rest, allow GET **", "**/curl"]
    {
        assert!(shown.out.contains(expected), "{expected} is missing: {}", shown.all());
    }
    assert!(shown.out.contains("graphql /graphql, allow query"), "{}", shown.all());
    let closed = world("openshell: {profile_network: closed}\n").run(&["policy", "show", "triage"]);
    assert_eq!(closed.out, "network_policies: {}  # the model gateway only\n", "{}", closed.all());
}

#[test]
fn a_profile_without_programs_and_the_models_profile_open_nothing() {
    let world = world("");
    let without = PROFILE.replace("binaries: ['**/curl']\n", "");
    world.write("repo/.fullsend/profiles/lab.yaml", without);
    let shown = world.run(&["policy", "show", "triage"]);
    assert!(shown.out.contains("{}"), "{}", shown.all());
    world.write(
        "repo/.fullsend/profiles/anthropic.yaml",
        "id: anthropic\ninference_capable: true\nendpoints: [{host: api.lab.test, port: 443}]\nbinaries: ['/**']\n",
    );
    let shown = world.run(&["policy", "show", "triage"]);
    assert!(shown.out.contains("{}"), "{}", shown.all());
}

#[test]
fn an_organisation_limits_profiles_too() {
    let world = world("").env("FULLSEND_ORG_DIR", "../org");
    world.write("org/config.yaml", "policy_ceiling: policies/ceiling.yaml\n");
    world.write("org/policies/ceiling.yaml", POLICY);
    let refused = world.run(&["check", "triage"]);
    assert_ne!(refused.code, 0, "{}", refused.all());
    assert!(refused.err.contains("is wider than the organisation allows"), "{}", refused.err);
}

#[test]
fn endpoints_that_disagree_are_refused() {
    let world = world("");
    world.write(
        "repo/.fullsend/policies/p.yaml",
        format!(
            "{POLICY}network_policies:\n  own:\n    endpoints: [{{host: api.lab.test, port: 443, protocol: rest, access: full, allow_encoded_slash: true}}]\n    binaries: [{{path: /usr/bin/curl}}]\n"
        ),
    );
    let refused = world.run(&["check", "triage"]);
    assert_ne!(refused.code, 0, "{}", refused.all());
    assert!(refused.err.contains("may match the same request but disagree"), "{}", refused.err);
}

/// Real requests of real programs: a policy without any network, and a provider whose profile opens one host.
#[test]
fn a_run_reaches_what_its_profiles_open_and_nothing_else() {
    let probe = r#"
        ask() { "$@" -sS --max-time 20; echo; }
        cp /usr/bin/curl /tmp/other
        echo "get $(ask curl https://api.lab.test/a)"
        echo "post $(ask curl -d x https://api.lab.test/a)"
        graphql() { ask curl -H 'content-type: application/json' -d "{\"query\": \"$1\"}" https://api.lab.test/graphql; }
        echo "query $(graphql '{ viewer }')"
        echo "mutation $(graphql 'mutation { drop }')"
        echo "program $(ask /tmp/other https://api.lab.test/a)"
        echo "host $(ask curl https://other.lab.test/a)""#;
    let run = |more: &str| {
        let world = world(more);
        let turns = json!({ "turns": [
            [{ "shell": format!("({probe}\n) > /sandbox/workspace/output/report.txt 2>&1; true") }],
            [{ "finish": { "summary": "looked" } }],
        ]});
        world.write("repo/.fullsend/scenarios/s.json", turns.to_string());
        let world = lab::build(world)?;
        let ran = lab::run(&world, Who::Caller, &["run", "triage"])?;
        assert_eq!(ran.code, 0, "{}", ran.all());
        let runs = world.path("state/fullsend/runs/local");
        let run = fs::read_dir(runs).unwrap().next().unwrap().unwrap().path();
        Some(fs::read_to_string(run.join("iteration-1/output/report.txt")).unwrap())
    };
    let Some(open) = run("") else { return };
    assert!(open.contains("get reached GET\n"), "{open}");
    assert!(open.contains("query reached POST\n"), "{open}");
    assert!(open.contains("mutation { drop }: no rule allows this request"), "{open}");
    assert_eq!(open.matches("reached").count(), 2, "only what the profile opens: {open}");
    let Some(closed) = run("openshell: {profile_network: closed}\n") else { return };
    assert_eq!(closed.matches("reached").count(), 0, "{closed}");
}
