//! The organisation's exceptions to what it pins: for which repository, which field, until when, and what is wrong with
//! an exception itself.

use crate::support::{Ran, World};

const OPEN: &str = "security: {fail_mode: open}";
const TIRITH_OFF: &str = "security: {sandbox_hooks: {tirith: {enabled: false}}}";

/// Explains a harness that says `chosen` under an organisation that pins it and has one override.
fn explain(chosen: &str, repo: &str, field: &str, until: &str, asking: Option<&str>) -> Ran {
    let world = World::new();
    let pins = "security:\n  fail_mode: closed\n  sandbox_hooks: {tirith: {enabled: true}}\nbudget: {usd: 5}\ncaps: {timeout_minutes: 20}\n";
    let entry = format!(
        "overrides:\n  - repo: '{repo}'\n    field: '{field}'\n    reason: a migration\n    until: '{until}'\n"
    );
    world.write("org/config.yaml", format!("{pins}{entry}"));
    world.write("repo/.fullsend/harness/triage.yaml", format!("agent: agents/a.md\n{chosen}\n"));
    let world = world.env("FULLSEND_ORG_DIR", "../org");
    match asking {
        Some(name) => world.env("GITHUB_REPOSITORY", name).run(&["explain", "triage"]),
        None => world.run(&["explain", "triage"]),
    }
}

fn assert_allowed(ran: &Ran, what: &str) {
    assert_eq!(ran.code, 0, "{what}: {}", ran.all());
    assert!(ran.err.starts_with("warning[override-used]"), "{what}: {}", ran.all());
    assert!(ran.err.contains("allowed here: a migration"), "{what}: {}", ran.all());
    assert!(ran.out.contains("\nexception: "), "{what}: {}", ran.all());
}

fn assert_pinned(ran: &Ran, what: &str) {
    assert_eq!((ran.code, ran.out.as_str()), (3, ""), "{what}: {}", ran.all());
    assert!(ran.err.contains("error[pinned]"), "{what}: {}", ran.all());
}

#[test]
fn an_override_holds_for_its_repository_alone() {
    let acme = Some("acme/widgets");
    let ask = |repo: &str, asking| explain(OPEN, repo, "security.fail_mode", "2999-12-31", asking);
    assert_allowed(&ask("acme/widgets", acme), "named");
    assert_allowed(&ask("Acme/Widgets", acme), "names of repositories have no case");
    assert_allowed(&ask("*", acme), "everybody");
    assert_allowed(&ask("*", None), "everybody, also one without a name");
    assert_pinned(&ask("acme/other", acme), "another repository");
    assert_pinned(&ask("acme/widgets", None), "a repository without a name");
    assert_pinned(&ask("acme/widget", acme), "the beginning of a name");
}

#[test]
fn an_override_holds_for_its_field_and_what_is_below_it() {
    let ask = |chosen: &str, field: &str| explain(chosen, "*", field, "2999-12-31", None);
    assert_allowed(&ask(TIRITH_OFF, "security.sandbox_hooks.tirith.enabled"), "the field");
    assert_allowed(&ask(TIRITH_OFF, "security.sandbox_hooks"), "above it");
    assert_pinned(&ask(TIRITH_OFF, "security.host_scanners"), "beside it");
    assert_pinned(&ask(OPEN, "security.sandbox_hooks"), "another");
    assert_allowed(&ask("budget: {usd: 6}", "budget"), "a budget");
    assert_allowed(&ask("budget: null", "budget"), "no budget at all");
    assert_allowed(&ask("timeout_minutes: 21", "timeout_minutes"), "a cap");
    assert_pinned(&ask("timeout_minutes: 21", "budget"), "another field than the cap");
}

#[test]
fn security_as_a_whole_is_the_full_bypass_and_nothing_more() {
    let everything =
        "security: {fail_mode: open, sandbox_hooks: {tirith: {enabled: false}}}\nbudget: {usd: 6}";
    let ran = explain(everything, "*", "security", "2999-12-31", None);
    assert_pinned(&ran, "the budget is not security");
    assert_eq!(ran.err.matches("warning[override-used]").count(), 2, "{}", ran.all());
    assert_eq!(ran.err.matches("error[").count(), 1, "{}", ran.all());
    let security = "security: {fail_mode: open, sandbox_hooks: {tirith: {enabled: false}}}";
    let ran = explain(security, "*", "security", "2999-12-31", None);
    assert_allowed(&ran, "all of security");
    assert_eq!(ran.out.matches("\nexception: ").count(), 2, "{}", ran.all());
}

#[test]
fn an_override_that_ended_is_shown_and_does_not_hold() {
    let ran = explain(OPEN, "*", "security", "2020-01-01", None);
    assert_pinned(&ran, "ended");
    assert!(ran.err.contains("an override ended on 2020-01-01"), "{}", ran.all());
    assert!(ran.err.contains("renew it"), "{}", ran.all());
    let today = fullsend::event::clock::Moment::now().date();
    assert_allowed(&explain(OPEN, "*", "security", &today, None), "its last day");
}

#[test]
fn an_override_that_nobody_needs_is_silent() {
    let ran = explain("", "*", "security", "2020-01-01", None);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(!ran.out.contains("exception"), "{}", ran.all());
}

#[test]
fn a_wrong_override_is_an_error_of_the_organisation() {
    for until in [
        "soon",
        "2999-13-01",
        "2999-02-30",
        "2999-1-1",
        "31-12-2999",
        "2999-12-31T00:00:00",
        "2999-12-00",
        "",
    ] {
        let ran = explain("", "*", "security", until, None);
        assert_eq!(ran.code, 3, "{until}: {}", ran.all());
        assert!(ran.err.contains("`until` must be a date written YYYY-MM-DD"), "{until}: {}", ran.all());
    }
    for field in ["securty", "security.enabled", "agent", "budget.usd.more", "", "policy_ceiling"] {
        let ran = explain("", "*", field, "2999-12-31", None);
        assert_eq!(ran.code, 3, "{field}: {}", ran.all());
        assert!(
            ran.err.contains(&format!("`{field}` is not a field that the organisation can pin")),
            "{}",
            ran.all()
        );
    }
    for repo in ["widgets", "", "**"] {
        let ran = explain("", repo, "security", "2999-12-31", None);
        assert_eq!(ran.code, 3, "{repo}: {}", ran.all());
        assert!(ran.err.contains("`repo` must be `owner/name` or `*`"), "{}", ran.all());
    }
    assert_eq!(explain("", "*", "policy", "2996-02-29", None).code, 0);
}

#[test]
fn every_part_of_an_override_is_needed() {
    for missing in ["repo", "field", "reason", "until"] {
        let world = World::new();
        let parts = [("repo", "'*'"), ("field", "security"), ("reason", "r"), ("until", "2999-12-31")];
        let entry: Vec<String> = parts
            .iter()
            .filter(|(key, _)| *key != missing)
            .map(|(key, value)| format!("{key}: {value}"))
            .collect();
        world.write("org/config.yaml", format!("overrides: [{{{}}}]\n", entry.join(", ")));
        world.write("repo/.fullsend/harness/triage.yaml", "agent: agents/a.md\n");
        let ran = world.env("FULLSEND_ORG_DIR", "../org").run(&["explain", "triage"]);
        assert_eq!(ran.code, 3, "{missing}: {}", ran.all());
        assert!(ran.err.contains(&format!("`overrides.0.{missing}` is missing")), "{}", ran.all());
    }
}
