//! `security.rules`: a repository turns one rule of the guard down or off, with a reason, unless the organisation pins it.

use crate::guarded::{findings, has, record, run, security};
use crate::support::World;
use crate::vendor::{runs, world};

/// A call that the guard denies by the rule `package-source`.
const COMMAND: &str = "pip install --index-url https://example.com/x nothing-at-all";

#[test]
fn one_rule_is_turned_down_or_off_and_recorded() {
    let check = |rules: &str, denied: u64| {
        let (port, _) = runs(&[COMMAND, "rm -rf /etc"]);
        let world = world(port, &security(&format!("{{rules: {{{rules}}}}}")));
        let ran = run(&world);
        assert_eq!(ran.code, 0, "{rules}: {}", ran.err);
        assert_eq!(record(&world)["attempts"][0]["denied_calls"], denied, "{rules}");
        (findings(&world), record(&world)["toggles"].clone(), ran.err)
    };
    let (found, toggles, _) = check("package-source: {action: on}", 2);
    assert!(has(&found, "package-source", "denied"), "{found:?}");
    assert_eq!(toggles, serde_json::json!([]));

    let (found, toggles, said) = check("package-source: {action: report, reason: our own index}", 1);
    assert!(has(&found, "package-source", "suppressed"), "{found:?}");
    let shown = found.iter().find(|finding| finding["rule"] == "package-source").unwrap();
    assert_eq!(shown["suppressed"], "our own index");
    assert_eq!(toggles[0]["field"], "security.rules.package-source");
    assert_eq!(toggles[0]["value"], "report: our own index");
    assert!(said.contains("the rule `package-source` only reports: our own index"), "{said}");

    let (found, toggles, _) = check("package-source: {action: off, reason: our own index}", 1);
    assert!(!found.iter().any(|finding| finding["rule"] == "package-source"), "{found:?}");
    assert!(has(&found, "destructive-command", "denied"), "other rules hold: {found:?}");
    assert_eq!(toggles[0]["value"], "off: our own index");
}

fn checked(organisation: &str, rules: &str) -> (i32, String) {
    let world = World::with_harness().env("FULLSEND_ORG_DIR", "../org");
    let harness = std::fs::read_to_string(world.path("repo/.fullsend/harness/triage.yaml")).unwrap();
    world.write("repo/.fullsend/harness/triage.yaml", format!("{harness}security: {{rules: {{{rules}}}}}\n"));
    world.write("org/config.yaml", organisation);
    let ran = world.run(&["check", "triage"]);
    (ran.code, ran.err)
}

#[test]
fn a_wrong_rule_says_what_to_write() {
    for (rules, words) in [
        ("git-los: {action: off, reason: x}", "did you mean `git-loss`?"),
        ("nothing-like-it: {action: off, reason: x}", "a finding names its rule"),
        ("git-loss: {action: off}", "write `git-loss: {action: off, reason: WHY}`"),
        ("git-loss: {action: off, reason: ' '}", "`security.rules.git-loss` needs a reason"),
        ("git-loss: off", "`security.rules.git-loss` must be a map"),
        ("git-loss: {action: quiet, reason: x}", "security.rules.git-loss.action"),
        ("canary: {action: off, reason: x}", "set `security.sandbox_hooks.canary_pretool`"),
        ("known-credential: {action: off, reason: x}", "are masked in every mode"),
        ("tool-not-allowed: {action: off, reason: x}", "tool_allowlist_pretool"),
        ("'*': {action: off, reason: x}", "`security.rules.*` takes only `on`"),
    ] {
        let (code, said) = checked("", rules);
        assert_eq!(code, 3, "{rules}: {said}");
        assert!(said.contains(words), "{rules}: {said}");
    }
    let (code, said) = checked("", "git-loss: {action: report, reason: we reset on purpose}");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("the rule `git-loss` only reports: we reset on purpose"), "{said}");
}

#[test]
fn the_organisation_pins_one_rule_or_all() {
    let off = "git-loss: {action: off, reason: x}";
    let report = "git-loss: {action: report, reason: x}";
    let pin = |rule: &str, more: &str| format!("security: {{rules: {{'{rule}': {{action: {more}}}}}}}\n");
    for (organisation, rules, words) in [
        (pin("git-loss", "on"), off, "is `off`, and the organisation pins `on`"),
        (pin("*", "on"), report, "is `report`, and the organisation pins `on`"),
        (pin("git-loss", "report, reason: y"), off, "is `off`, and the organisation pins `report`"),
    ] {
        let (code, said) = checked(&organisation, rules);
        assert_eq!(code, 3, "{organisation}: {said}");
        assert!(said.contains("`security.rules.git-loss`") && said.contains(words), "{organisation}: {said}");
    }
    for (organisation, rules) in [
        (pin("git-loss", "report, reason: y"), report),
        (pin("git-loss", "off, reason: y"), "git-loss: {action: on}"),
        (pin("privilege", "on"), off),
    ] {
        let (code, said) = checked(&organisation, rules);
        assert_eq!(code, 0, "{organisation}: {said}");
    }
    let excepted = format!(
        "{}overrides:\n- {{repo: '*', field: security.rules.git-loss, reason: a trial, until: 2999-01-01}}\n",
        pin("*", "on")
    );
    let (code, said) = checked(&excepted, off);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("an override allows it until 2999-01-01"), "{said}");
}

#[test]
fn explain_names_the_line_of_a_changed_rule() {
    let world = World::with_harness();
    let harness = std::fs::read_to_string(world.path("repo/.fullsend/harness/triage.yaml")).unwrap();
    world.write(
        "repo/.fullsend/harness/triage.yaml",
        format!("{harness}security:\n  rules:\n    git-loss: {{action: report, reason: on purpose}}\n"),
    );
    let ran = world.run(&["explain", "triage", "security.rules"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("git-loss") && ran.out.contains("triage.yaml:7"), "{}", ran.out);
}
