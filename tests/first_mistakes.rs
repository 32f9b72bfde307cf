//! The first mistakes a person makes, and what they read then. One snapshot for each message.

use crate::support::World;

fn check(name: &str, harness: &str) {
    let world = World::with_harness();
    world.write("repo/.fullsend/harness/triage.yaml", harness);
    insta::assert_snapshot!(name, world.run(&["check", "triage"]).all());
}

#[test]
fn a_misspelt_key() {
    check(
        "misspelt_key",
        "agnet: agents/triage.md\ntimeout-minutes: 5\noutput_schema: schemas/triage.json\n",
    );
}

#[test]
fn a_wrong_kind() {
    check("wrong_kind", "agent: agents/triage.md\nskills: one\nreadonly_repo: yes\ntimeout_minutes: soon\n");
}

#[test]
fn a_kill_switch() {
    check(
        "kill_switch",
        "agent: agents/triage.md\noutput_schema: schemas/triage.json\nsecurity:\n  enabled: false\ntools_binaries: [gh]\n",
    );
}

#[test]
fn a_file_that_is_not_there() {
    check(
        "missing_file",
        "agent: agents/traige.md\npre_script: scripts/none.sh\noutput_schema: schemas/triage.json\n",
    );
}

#[test]
fn a_credential_in_the_file() {
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    check(
        "credential",
        &format!(
            "agent: agents/triage.md\noutput_schema: schemas/triage.json\nenv:\n  runner:\n    GH_TOKEN: {token}\n"
        ),
    );
}

#[test]
fn a_tab_instead_of_spaces() {
    check("tab", "agent: agents/triage.md\nenv:\n\trunner: {}\n");
}

#[test]
fn a_harness_that_does_not_exist() {
    insta::assert_snapshot!(World::with_harness().run(&["check", "traige"]).all());
}

#[test]
fn several_agents_in_one_run() {
    insta::assert_snapshot!(World::with_harness().run(&["run", "triage", "code"]).all());
}
