//! What the organisation sets is the floor: for every protected field the weaker value is refused with both places, the
//! stricter one accepted, what the organisation leaves open is free, and what is built in pins nothing. The table has a
//! row for every line of the program's own lists, or fails.

use fullsend::internal::{CAPS, PINS};

use crate::support::{Ran, World};

const NEAR: &str = "repo/.fullsend/harness/triage.yaml";

/// A protected field: what the organisation says, what is weaker and what is not.
struct Row {
    field: &'static str,
    pinned: &'static str,
    weaker: &'static [&'static str],
    fine: &'static [&'static str],
}

const fn row(
    field: &'static str,
    pinned: &'static str,
    weaker: &'static [&'static str],
    fine: &'static [&'static str],
) -> Row {
    Row { field, pinned, weaker, fine }
}

/// What is on stays on.
const fn stays_true(field: &'static str) -> Row {
    row(field, "true", &["false"], &["true"])
}

const ROWS: &[Row] = &[
    row("security.fail_mode", "closed", &["open"], &["closed", "null"]),
    stays_true("security.host_scanners.unicode_normalizer"),
    stays_true("security.host_scanners.context_injection"),
    stays_true("security.host_scanners.ssrf_validator"),
    stays_true("security.host_scanners.secret_redactor"),
    stays_true("security.host_scanners.llm_guard.enabled"),
    row("security.host_scanners.llm_guard.threshold", "0.8", &["0.81", "null"], &["0.8", "0.5"]),
    row("security.host_scanners.llm_guard.threshold_instruction", "0.8", &["0.81", "null"], &["0.8", "0.5"]),
    row("security.host_scanners.llm_guard.threshold_tool", "0.8", &["0.81", "null"], &["0.8", "0.5"]),
    row("security.host_scanners.llm_guard.threshold_issue", "0.8", &["0.81", "null"], &["0.8", "0.5"]),
    row("security.host_scanners.llm_guard.match_type", "sentence", &["full"], &["sentence"]),
    row("security.host_scanners.llm_guard.required", "true", &["false", "null"], &["true"]),
    row("security.host_scanners.llm_guard.model", "/opt/guard", &["/opt/other", "null"], &["/opt/guard"]),
    stays_true("security.sandbox_hooks.tirith.enabled"),
    row("security.sandbox_hooks.tirith.fail_on", "medium", &["high", "critical", "null"], &["medium"]),
    stays_true("security.sandbox_hooks.ssrf_pretool"),
    stays_true("security.sandbox_hooks.secret_redact_posttool"),
    stays_true("security.sandbox_hooks.unicode_posttool"),
    stays_true("security.sandbox_hooks.context_suppress_posttool"),
    stays_true("security.sandbox_hooks.canary_pretool"),
    stays_true("security.sandbox_hooks.canary_posttool"),
    row("security.sandbox_hooks.tool_allowlist_pretool.enabled", "true", &["false", "null"], &["true"]),
    row("security.escalation.on_critical", "halt", &["review"], &["halt"]),
    stays_true("security.trace.enabled"),
    row(
        "allowed_remote_resources",
        "['https://example.com/a/']",
        &[
            "['https://example.com/']",
            "['https://example.org/']",
            "['https://example.com/a/', 'https://example.com/b/']",
        ],
        &["['https://example.com/a/']", "['https://example.com/a/b/']", "[]", "null"],
    ),
    row("allow_runtime_fetch", "false", &["true"], &["false", "null"]),
    row("allow_repo_skills", "false", &["true"], &["false", "null"]),
    row("max_runtime_fetches", "5", &["6", "0x0a"], &["5", "4"]),
    row("budget.usd", "2.5", &["2.51", "1e1", "null"], &["2.5", "2", "0.1e1"]),
    row("budget.tokens", "0x10", &["17", "0x11", "0o21", "null"], &["16", "0x10", "0o20", "1"]),
    row("budget.turns", "7", &["8", "null"], &["7", "+6"]),
    row("budget.session_usd", "9", &["9.5", "null"], &["9", "3"]),
    row("budget.day_usd", "50", &["51", "null"], &["50", "20"]),
    row("budget.organisation_day_usd", "500", &["501", "null"], &["500", "2"]),
    row("readonly_repo", "true", &["false", "null"], &["true"]),
    row("confirm_tools", "[Bash]", &["null"], &["[Bash]", "[Bash, Read]"]),
    row("sandbox.system_calls", "allow-list", &["deny-list", "null"], &["allow-list"]),
    row("sandbox.accept_weaker", "[memory]", &["[disk]", "[memory, disk]"], &["[memory]", "[]", "null"]),
];

const CAP_ROWS: &[Row] = &[
    row("timeout_minutes", "20", &["21", "0x15"], &["20", "5", "null"]),
    row("sandbox_timeout_seconds", "60", &["61"], &["60", "30", "null"]),
    row("max_iterations", "1", &["2"], &["1", "null"]),
];

/// `a.b` and a value, as YAML.
fn nested(field: &str, value: &str) -> String {
    let (first, rest) = field.split_once('.').map_or((field, None), |(first, rest)| (first, Some(rest)));
    match rest {
        Some(rest) => format!("{first}: {{{}}}", nested(rest, value)),
        None => format!("{first}: {value}"),
    }
}

/// The ways in which the organisation and a nearer file can meet: files, given what each of them says.
type Way = fn(&str, &str) -> Vec<(&'static str, String)>;

/// The organisation's configuration, and the repository's harness.
fn configuration_and_harness(pinned: &str, chosen: &str) -> Vec<(&'static str, String)> {
    vec![("org/config.yaml", pinned.to_owned()), (NEAR, format!("agent: agents/a.md\n{chosen}\n"))]
}

/// Both configurations.
fn two_configurations(pinned: &str, chosen: &str) -> Vec<(&'static str, String)> {
    vec![
        ("org/config.yaml", pinned.to_owned()),
        ("repo/.fullsend/config.yaml", chosen.to_owned()),
        (NEAR, "agent: agents/a.md\n".to_owned()),
    ]
}

/// The organisation's harness, extended.
fn extended_harness(pinned: &str, chosen: &str) -> Vec<(&'static str, String)> {
    vec![
        ("org/harness/triage.yaml", format!("agent: agents/a.md\n{pinned}\n")),
        (NEAR, format!("base: harness/triage.yaml\n{chosen}\n")),
    ]
}

/// The organisation's harness, replaced.
fn replaced_harness(pinned: &str, chosen: &str) -> Vec<(&'static str, String)> {
    vec![
        ("org/harness/triage.yaml", format!("agent: agents/a.md\n{pinned}\n")),
        (NEAR, format!("agent: agents/a.md\n{chosen}\n")),
    ]
}

const IN_HARNESSES: &[Way] = &[extended_harness, replaced_harness];
const IN_CONFIGURATIONS: &[Way] = &[configuration_and_harness, two_configurations];

fn explain(files: &[(&str, String)]) -> Ran {
    let world = World::new();
    world.write("org/README", "");
    for (path, text) in files {
        world.write(path, text);
    }
    world.env("FULLSEND_ORG_DIR", "../org").run(&["explain", "triage"])
}

fn ways(row: &Row) -> Vec<Way> {
    let in_configuration =
        !["readonly_repo", "sandbox.accept_weaker", "sandbox.system_calls", "confirm_tools"]
            .contains(&row.field);
    let configured = IN_CONFIGURATIONS.iter().filter(|_| in_configuration);
    IN_HARNESSES.iter().chain(configured).copied().collect()
}

/// The refusal names the field and both places.
fn assert_refused(ran: &Ran, field: &str, what: &str) {
    assert_eq!((ran.code, ran.out.as_str()), (3, ""), "{what}: {}", ran.all());
    let first = ran.err.lines().next().unwrap_or("");
    assert!(first.contains("[pinned]") && first.contains(&format!("`{field}`")), "{what}: {}", ran.all());
    assert!(ran.err.contains(".fullsend/"), "{what}: {}", ran.all());
    assert!(ran.err.contains("../org/"), "{what}: {}", ran.all());
    assert!(ran.err.contains("the organisation pins it here"), "{what}: {}", ran.all());
}

#[test]
fn every_protected_field_has_a_row() {
    let rows: Vec<&str> = ROWS.iter().map(|row| row.field).collect();
    let pinned: Vec<&str> = PINS.iter().map(|(field, _)| *field).collect();
    assert!(pinned.iter().all(|field| rows.contains(field)), "pins without a row: {pinned:?}");
    assert!(rows.iter().all(|field| pinned.contains(field)), "rows that nothing pins: {rows:?}");
    let caps: Vec<&str> = CAPS.iter().map(|(cap, _)| *cap).collect();
    let rows: Vec<&str> = CAP_ROWS.iter().map(|row| row.field).collect();
    assert_eq!(caps, rows);
}

/// What a row's field needs beside it to mean anything.
fn chosen(row: &Row, value: &str) -> String {
    let beside = if row.field == "max_runtime_fetches" { "allow_runtime_fetch: true\n" } else { "" };
    format!("{beside}{}", nested(row.field, value))
}

#[test]
fn what_is_weaker_is_refused() {
    for row in ROWS {
        for (way, weaker) in ways(row).iter().flat_map(|way| row.weaker.iter().map(move |value| (way, value)))
        {
            let ran = explain(&way(&nested(row.field, row.pinned), &chosen(row, weaker)));
            assert_refused(&ran, row.field, &format!("{} is {weaker} under {}", row.field, row.pinned));
        }
    }
}

#[test]
fn what_is_as_strict_or_stricter_is_accepted() {
    for row in ROWS {
        for (way, fine) in ways(row).iter().flat_map(|way| row.fine.iter().map(move |value| (way, value))) {
            let ran = explain(&way(&nested(row.field, row.pinned), &chosen(row, fine)));
            assert_eq!(ran.code, 0, "{} is {fine} under {}: {}", row.field, row.pinned, ran.all());
        }
    }
}

#[test]
fn what_the_organisation_leaves_open_is_free_and_what_is_built_in_pins_nothing() {
    let pinnable = ROWS.iter().filter(|row| row.field != "allow_repo_skills");
    for (row, weaker) in pinnable.flat_map(|row| row.weaker.iter().map(move |value| (row, value))) {
        let harness = format!("agent: agents/a.md\n{}\n", chosen(row, weaker));
        let other = if row.field.starts_with("budget") { "runtime: native" } else { "budget: {usd: 5}" };
        let open = explain(&[("org/config.yaml", other.to_owned()), (NEAR, harness)]);
        assert_eq!(open.code, 0, "{} is {weaker}: {}", row.field, open.all());
        assert_eq!(open.err, "", "{} is {weaker}", row.field);
    }
}

#[test]
fn the_organisation_may_be_weak_itself() {
    for (field, weak) in [("security.fail_mode", "open"), ("security.sandbox_hooks.canary_pretool", "false")]
    {
        for way in [configuration_and_harness as Way, two_configurations, extended_harness, replaced_harness]
        {
            assert_eq!(explain(&way(&nested(field, weak), &nested(field, weak))).code, 0, "{field}");
        }
    }
    let agent = "agent: agents/a.md\n";
    let refined = [
        ("org/harness/common.yaml", format!("{agent}security: {{fail_mode: closed}}\n")),
        ("org/harness/triage.yaml", "base: harness/common.yaml\nsecurity: {fail_mode: open}\n".to_owned()),
        (NEAR, "base: harness/triage.yaml\nsecurity: {fail_mode: open}\n".to_owned()),
    ];
    assert_eq!(explain(&refined).code, 0, "its harnesses may refine each other");
}

/// The configuration applies to every harness, also to the organisation's own.
#[test]
fn the_organisation_s_configuration_binds_its_own_harnesses() {
    let files = [
        ("org/config.yaml", "security: {fail_mode: closed}".to_owned()),
        ("org/harness/triage.yaml", "agent: agents/a.md\nsecurity: {fail_mode: open}\n".to_owned()),
    ];
    let ran = explain(&files);
    assert_eq!(ran.code, 3, "{}", ran.all());
    assert!(
        ran.err.contains("`security.fail_mode` is `open`, and the organisation pins `closed`"),
        "{}",
        ran.all()
    );
}

#[test]
fn what_a_replaced_harness_does_not_repeat_is_still_pinned() {
    for (field, pinned) in [
        ("budget.usd", "2"),
        ("readonly_repo", "true"),
        ("security.sandbox_hooks.tool_allowlist_pretool.enabled", "true"),
        ("security.host_scanners.llm_guard.threshold", "0.5"),
    ] {
        let ran = explain(&replaced_harness(&nested(field, pinned), ""));
        assert_refused(&ran, field, field);
        assert!(ran.err.contains("extend the organisation's harness with `base:`"), "{}", ran.all());
        assert_eq!(explain(&extended_harness(&nested(field, pinned), "")).code, 0, "{field}");
    }
}

/// Replacing a file does not remove its pins.
#[test]
fn replacing_or_avoiding_a_base_does_not_remove_its_pins() {
    let open = "security: {fail_mode: open}\n";
    let closed = "security: {fail_mode: closed}\n";
    let common = ("org/harness/common.yaml", format!("agent: agents/a.md\n{closed}"));
    let triage = ("org/harness/triage.yaml", "base: harness/common.yaml\n".to_owned());
    let mine = |text: String| ("repo/.fullsend/harness/common.yaml", text);
    let near = |text: String| (NEAR, text);
    let agent = "agent: agents/a.md\n";
    for files in [
        // The base of the organisation's harness is replaced.
        vec![common.clone(), triage.clone(), mine(format!("{agent}{open}"))],
        // The harness is replaced, and no longer extends the base that pinned.
        vec![common.clone(), triage.clone(), near(format!("{agent}{open}"))],
        // It is replaced, and extends a laxer harness of the organisation's.
        vec![
            ("org/harness/lax.yaml", format!("{agent}{open}")),
            ("org/harness/triage.yaml", format!("{agent}{closed}")),
            near("base: harness/lax.yaml\n".to_owned()),
        ],
        // The one that stands in its place lies in `customized/`.
        vec![
            ("org/harness/triage.yaml", format!("{agent}{closed}")),
            ("repo/.fullsend/customized/harness/triage.yaml", format!("{agent}{open}")),
        ],
    ] {
        let ran = explain(&files);
        assert_eq!(ran.code, 3, "{files:?}: {}", ran.all());
        assert!(ran.err.contains("`security.fail_mode` is `open`"), "{}", ran.all());
        assert!(ran.err.contains("the organisation pins it here"), "{}", ran.all());
    }
    let lax =
        vec![("org/harness/lax.yaml", format!("{agent}{open}")), near("base: harness/lax.yaml\n".to_owned())];
    assert_eq!(explain(&lax).code, 0, "a laxer harness that the organisation offers may be extended");
}

#[test]
fn an_organisation_s_harness_that_cannot_be_read_is_not_forgotten() {
    let files =
        [("org/harness/triage.yaml", "agent: [\n".to_owned()), (NEAR, "agent: agents/a.md\n".to_owned())];
    let ran = explain(&files);
    assert_eq!(ran.code, 3, "{}", ran.all());
    assert!(ran.err.contains("../org/harness/triage.yaml"), "{}", ran.all());
}

#[test]
fn caps_hold_for_what_is_asked_and_for_what_is_built_in() {
    for (row, (_, field)) in CAP_ROWS.iter().zip(CAPS) {
        let caps = format!("caps: {{{}: {}}}\n", row.field, row.pinned);
        let files = |value: &str| {
            [
                ("org/config.yaml", caps.clone()),
                (NEAR, format!("agent: agents/a.md\n{}\n", nested(field, value))),
            ]
        };
        for weaker in row.weaker {
            assert_refused(&explain(&files(weaker)), field, &format!("{field} is {weaker}"));
        }
        for fine in row.fine {
            let ran = explain(&files(fine));
            assert_eq!(ran.code, 0, "{field} is {fine}: {}", ran.all());
            let value = if *fine == "null" { row.pinned } else { fine };
            let line = ran.out.lines().find(|line| line.starts_with(field)).unwrap();
            assert_eq!(line.split_whitespace().nth(1), Some(value), "{field} is {fine}: {line}");
        }
        let silent = explain(&[("org/config.yaml", caps.clone()), (NEAR, "agent: agents/a.md\n".to_owned())]);
        assert_eq!(silent.code, 0, "{field}: {}", silent.all());
        let line = silent.out.lines().find(|line| line.starts_with(field)).unwrap();
        assert!(line.contains(row.pinned) && line.ends_with("../org/config.yaml:1 (organisation)"), "{line}");
        for weaker in row.weaker {
            let file = format!("agent: agents/a.md\n{}\n", nested(field, weaker));
            let free = explain(&[("org/config.yaml", String::new()), (NEAR, file)]);
            assert_eq!(free.code, 0, "{field} without a cap: {}", free.all());
        }
    }
}

#[test]
fn a_cap_reaches_into_a_forge_block() {
    let harness = "agent: agents/a.md\nforge: {github: {validation_loop: {max_iterations: 4}}}\n";
    let world = World::new();
    world.write("org/config.yaml", "caps: {max_iterations: 3}\n");
    world.write(NEAR, harness);
    let world = world.env("FULLSEND_ORG_DIR", "../org");
    assert_eq!(world.run(&["explain", "triage"]).code, 0);
    assert_refused(
        &world.run(&["explain", "triage", "--forge", "github"]),
        "validation_loop.max_iterations",
        "forge",
    );
}

#[test]
fn check_and_run_refuse_as_explain_does() {
    let world = World::with_harness();
    world.write("org/config.yaml", "security: {fail_mode: closed}\n");
    world.write(
        NEAR,
        "agent: agents/triage.md\noutput_schema: schemas/triage.json\nsecurity: {fail_mode: open}\n",
    );
    let world = world.env("FULLSEND_ORG_DIR", "../org");
    assert_refused(&world.run(&["check", "triage"]), "security.fail_mode", "check");
    assert_refused(&world.run(&["run", "triage"]), "security.fail_mode", "run");
    assert_refused(&world.run(&["run", "triage", "--dry-run"]), "security.fail_mode", "run --dry-run");
}

#[test]
fn only_the_organisation_turns_repository_skills_on() {
    let on = "allow_repo_skills: true";
    let agent = "agent: agents/a.md\n";
    let near = |text: &str| (NEAR, format!("{agent}{text}\n"));
    let own = |text: &str| ("repo/.fullsend/config.yaml", text.to_owned());
    let organisation = |text: &str| ("org/config.yaml", text.to_owned());
    for files in [vec![near(on)], vec![own(on), near("")], vec![organisation("runtime: native"), near(on)]] {
        let ran = explain(&files);
        assert_eq!(ran.code, 3, "{files:?}");
        assert!(
            ran.err.contains("`allow_repo_skills` can only be turned on by the organisation"),
            "{}",
            ran.all()
        );
    }
    for files in [
        vec![organisation(on), near("")],
        vec![organisation(on), near(on)],
        vec![
            ("org/harness/triage.yaml", format!("{agent}{on}\n")),
            (NEAR, "base: harness/triage.yaml\n".to_owned()),
        ],
        vec![organisation(on), near("allow_repo_skills: false")],
    ] {
        assert_eq!(explain(&files).code, 0, "{files:?}: {}", explain(&files).all());
    }
}

#[test]
fn organisation_only_fields_are_refused_in_other_layers() {
    for (key, text) in [
        ("policy_ceiling", "policy_ceiling: policies/p.yaml"),
        ("overrides", "overrides: [{repo: '*', field: security, reason: r, until: '2999-01-01'}]"),
        ("require_output_schema", "require_output_schema: true"),
        ("caps", "caps: {timeout_minutes: 5}"),
    ] {
        let ran = explain(&[
            ("repo/.fullsend/config.yaml", text.to_owned()),
            (NEAR, "agent: agents/a.md\n".to_owned()),
        ]);
        assert_eq!(ran.code, 3, "{key}: {}", ran.all());
        let said = format!("`{key}` is only allowed in the organisation's config.yaml");
        assert!(ran.err.contains(&said), "{}", ran.all());
    }
    let files = [("org/config.yaml", "org: ../other".to_owned()), (NEAR, "agent: agents/a.md\n".to_owned())];
    let ran = explain(&files);
    assert_eq!(ran.code, 3, "{}", ran.all());
    assert!(ran.err.contains("`org` is only allowed in a repository's config.yaml"), "{}", ran.all());
}
