//! Precedence: bases and their limits, the layers' configuration, `customized/`, files of nearer layers, and one skill
//! listed twice.

use std::path::Path;

use crate::explained::Explained;
use crate::support::World;

const REPOSITORY: &str = "repo/.fullsend/harness/triage.yaml";
const ORGANISATION: &str = "org/harness/triage.yaml";

fn world(files: &[(&str, &str)]) -> World {
    let world = World::new();
    world.write("org/README", "");
    world.write("repo/.fullsend/README", "");
    for (path, text) in files {
        world.write(path, text);
    }
    world.env("FULLSEND_ORG_DIR", "../org")
}

fn refusal(world: &World) -> String {
    let ran = world.run(&["explain", "triage"]);
    assert_eq!((ran.code, ran.out.as_str()), (3, ""), "{}", ran.all());
    ran.err
}

/// `triage` extends `one`, which extends `two`, and so on to the last.
fn chain(length: usize) -> World {
    let world = world(&[]);
    let name = |index: usize| if index == 0 { "triage".to_owned() } else { format!("link{index}") };
    for index in 0..length {
        let more = if index + 1 == length {
            "agent: agents/last.md".to_owned()
        } else {
            format!("base: harness/{}.yaml", name(index + 1))
        };
        let text = format!("env: {{runner: {{LINK{index}: set}}}}\n{more}\n");
        world.write(&format!("repo/.fullsend/harness/{}.yaml", name(index)), text);
    }
    world
}

#[test]
fn five_harnesses_may_extend_each_other_and_a_sixth_may_not() {
    let explained = Explained::of(&chain(5), &[]);
    assert_eq!(explained.value("agent"), Some("agents/last.md"));
    assert_eq!(explained.below("env.runner").len(), 5);
    let error = refusal(&chain(6));
    let whole = ["triage", "link1", "link2", "link3", "link4", "link5"]
        .map(|name| format!(".fullsend/harness/{name}.yaml"))
        .join(" → ");
    assert!(error.contains(&format!("`base` chains more than 5 harnesses: {whole}")), "{error}");
    assert!(error.contains("--> .fullsend/harness/link4.yaml:2:7"), "{error}");
}

#[test]
fn a_cycle_is_shown_whole() {
    let error = refusal(&world(&[
        (REPOSITORY, "base: harness/two.yaml\n"),
        ("repo/.fullsend/harness/two.yaml", "base: harness/three.yaml\n"),
        ("org/harness/three.yaml", "base: harness/two.yaml\n"),
    ]));
    let whole = ".fullsend/harness/triage.yaml → .fullsend/harness/two.yaml → ../org/harness/three.yaml → .fullsend/harness/two.yaml";
    assert!(error.contains(&format!("forms a cycle: {whole}")), "{error}");
    assert!(error.contains("--> ../org/harness/three.yaml:1:7"), "{error}");
}

#[test]
fn a_base_of_the_same_name_is_the_one_of_the_farther_layer() {
    let explained = Explained::of(
        &world(&[
            (ORGANISATION, "agent: agents/a.md\nmodel: far\nslug: far\n"),
            (REPOSITORY, "base: ./harness//triage.yaml\nmodel: near\n"),
        ]),
        &[],
    );
    assert_eq!((explained.value("model"), explained.value("slug")), (Some("near"), Some("far")));
}

#[test]
fn a_base_of_the_same_name_without_a_farther_layer_is_refused() {
    let error = refusal(&world(&[(REPOSITORY, "agent: agents/a.md\nbase: harness/triage.yaml\n")]));
    assert!(
        error.contains("`base` names this harness itself, and no farther layer has `harness/triage.yaml`"),
        "{error}"
    );
}

#[test]
fn a_customized_harness_that_names_itself_means_the_farther_layer() {
    let files = [
        (ORGANISATION, "agent: agents/a.md\nmodel: far\n"),
        ("repo/.fullsend/customized/harness/triage.yaml", "base: harness/triage.yaml\nslug: near\n"),
    ];
    let explained = Explained::of(&world(&files), &[]);
    assert_eq!((explained.value("model"), explained.value("slug")), (Some("far"), Some("near")));
}

#[test]
fn a_base_that_does_not_exist_or_is_not_allowed_is_refused() {
    let error = refusal(&world(&[(REPOSITORY, "base: harness/traige.yaml\nagent: agents/a.md\n")]));
    assert!(error.contains("`base` names `harness/traige.yaml`, which no layer has"), "{error}");
    assert!(error.contains("did you mean `harness/triage.yaml`?"), "{error}");
    let url = format!("https://example.com/h.yaml#sha256={}", "a".repeat(64));
    let error = refusal(&world(&[(REPOSITORY, &format!("base: {url}\nagent: agents/a.md\n"))]));
    let said =
        "`base` is at https://example.com/h.yaml, which no prefix in `allowed_remote_resources` covers";
    assert!(error.contains(said), "{error}");
}

#[test]
fn without_base_a_nearer_harness_stands_alone() {
    let explained = Explained::of(
        &world(&[(ORGANISATION, "agent: agents/a.md\nmodel: far\n"), (REPOSITORY, "agent: agents/b.md\n")]),
        &[],
    );
    assert_eq!((explained.value("agent"), explained.value("model")), (Some("agents/b.md"), None));
    assert!(explained.replaced("agent").is_empty());
}

#[test]
fn configuration_stands_under_every_harness() {
    let rows: &[(&str, &str, &str, &str)] = &[
        // Field, the organisation's, the repository's, the harness's.
        ("runtime", "runtime: codex", "runtime: native", "runtime: claude"),
        (
            "security.trace.enabled",
            "security: {trace: {enabled: false}}",
            "",
            "security: {trace: {enabled: true}}",
        ),
        ("budget.usd", "budget: {usd: 9}", "budget: {usd: 8}", "budget: {usd: 7}"),
        (
            "allow_runtime_fetch",
            "allow_runtime_fetch: true",
            "allow_runtime_fetch: false",
            "allow_runtime_fetch: true",
        ),
        (
            "max_runtime_fetches",
            "allow_runtime_fetch: true\nmax_runtime_fetches: 9",
            "max_runtime_fetches: 8",
            "max_runtime_fetches: 7",
        ),
        (
            "allow_repo_skills",
            "allow_repo_skills: true",
            "allow_repo_skills: false",
            "allow_repo_skills: false",
        ),
    ];
    let value = |line: &str| line.rsplit(": ").next().unwrap_or("").trim_end_matches('}').to_owned();
    for (field, organisation, repository, harness) in rows {
        let agent = "agent: agents/a.md\n";
        let files = |repository: &str, harness: &str| {
            let explained = Explained::of(
                &world(&[
                    ("org/config.yaml", organisation),
                    ("repo/.fullsend/config.yaml", repository),
                    (REPOSITORY, &format!("{agent}{harness}")),
                ]),
                &[],
            );
            let set_by = explained.set_by(field).unwrap().split(':').next().unwrap().to_owned();
            (explained.value(field).unwrap().to_owned(), set_by)
        };
        assert_eq!(files("", ""), (value(organisation), "../org/config.yaml".to_owned()), "{field}");
        if !repository.is_empty() {
            assert_eq!(
                files(repository, ""),
                (value(repository), ".fullsend/config.yaml".to_owned()),
                "{field}"
            );
        }
        assert_eq!(
            files(repository, harness),
            (value(harness), ".fullsend/harness/triage.yaml".to_owned()),
            "{field}"
        );
    }
}

/// Whoever lists prefixes means these: a harness can ask for less than everybody else gets.
#[test]
fn a_nearer_allow_list_replaces_a_farther_one() {
    let lists = |repository: &str, harness: &str| {
        let world = world(&[
            ("org/config.yaml", "allowed_remote_resources: ['https://example.com/']\n"),
            ("repo/.fullsend/config.yaml", repository),
            (REPOSITORY, &format!("agent: agents/a.md\n{harness}\n")),
        ]);
        let explained = Explained::of(&world, &[]);
        let found =
            explained.below("allowed_remote_resources").into_iter().map(|(_, value)| value.to_owned());
        found.collect::<Vec<_>>()
    };
    let narrower = "allowed_remote_resources: ['https://example.com/a/']";
    assert_eq!(lists("", ""), ["https://example.com/"]);
    assert_eq!(lists(narrower, ""), ["https://example.com/a/"]);
    assert_eq!(
        lists(narrower, "allowed_remote_resources: ['https://example.com/b/']"),
        ["https://example.com/b/"]
    );
    assert_eq!(lists(narrower, "allowed_remote_resources: []"), ["[]"]);
}

#[test]
fn a_limit_on_fetches_says_nothing_to_a_harness_that_fetches_nothing() {
    let world = World::with_harness();
    world.write("org/config.yaml", "max_runtime_fetches: 5\n");
    let world = world.env("FULLSEND_ORG_DIR", "../org");
    assert_eq!(world.run(&["check", "triage"]).code, 0);
    assert_eq!(Explained::of(&world, &[]).value("max_runtime_fetches"), None);
    world.write(
        REPOSITORY,
        "agent: agents/triage.md\noutput_schema: schemas/triage.json\nruntime: native\nproviders: [model]\nallow_runtime_fetch: true\nallowed_remote_resources: ['https://example.com/']\n",
    );
    let checked = world.run(&["check", "triage"]);
    assert_eq!(checked.code, 0, "{}", checked.all());
    assert_eq!(Explained::of(&world, &[]).value("max_runtime_fetches"), Some("5"));
}

#[test]
fn the_organisation_is_found_by_option_then_variable_then_configuration() {
    let world = World::new();
    for place in ["option", "variable", "configuration"] {
        world.write(&format!("{place}/harness/shared.yaml"), format!("agent: agents/a.md\nslug: {place}\n"));
    }
    world.write(REPOSITORY, "base: harness/shared.yaml\n");
    world.write("repo/.fullsend/config.yaml", "org: ../configuration\n");
    assert_eq!(Explained::of(&world, &[]).value("slug"), Some("configuration"));
    let world = world.env("FULLSEND_ORG_DIR", "../variable");
    assert_eq!(Explained::of(&world, &[]).value("slug"), Some("variable"));
    assert_eq!(Explained::of(&world, &["--org-dir", "../option"]).value("slug"), Some("option"));
}

#[test]
fn an_organisation_s_repository_keeps_its_layer_in_a_directory_of_its_own() {
    let world = World::new();
    world.write("org/harness/triage.yaml", "agent: agents/a.md\nslug: outside\n");
    world.write("org/.fullsend/harness/triage.yaml", "agent: agents/a.md\nslug: inside\n");
    assert_eq!(Explained::of(&world, &["--org-dir", "../org"]).value("slug"), Some("inside"));
}

#[test]
fn customized_stands_over_plain_in_each_layer() {
    let place = |files: &[&str]| {
        let world = world(&[]);
        for path in files {
            world.write(path, "agent: agents/a.md\n");
        }
        Explained::of(&world, &[]).set_by("agent").unwrap().to_owned()
    };
    let organisation = "org/customized/harness/triage.yaml";
    let repository = "repo/.fullsend/customized/harness/triage.yaml";
    assert_eq!(place(&[ORGANISATION, organisation]), "../org/customized/harness/triage.yaml:1");
    assert_eq!(place(&[organisation, REPOSITORY]), ".fullsend/harness/triage.yaml:1");
    assert_eq!(place(&[REPOSITORY, repository]), ".fullsend/customized/harness/triage.yaml:1");
    let listed = {
        let world = world(&[(organisation, "agent: agents/a.md\n")]);
        world.run(&["list"]).out
    };
    assert!(listed.starts_with("triage"), "{listed}");
}

/// Every kind of file that a harness names, in a directory of its own.
#[test]
fn a_nearer_layer_replaces_single_files() {
    let harness = "agent: agents/a.md\npolicy: policies/p.yaml\noutput_schema: schemas/s.json\nproviders: [model]\nskills: [skills/k]\npre_script: scripts/run.sh\nruntime: native\n";
    let files = [
        ("agents/a.md", "---\nname: a\n---\nWrite `summary`.\n"),
        ("policies/p.yaml", include_str!("../crates/fullsend/src/defaults/policies/default.yaml")),
        ("schemas/s.json", "{}"),
        ("providers/model.yaml", "name: model\ntype: anthropic\n"),
        ("skills/k/SKILL.md", "---\nname: k\ndescription: d\n---\n"),
    ];
    let broken = [
        ("agents/a.md", "---\nnaem: a\n---\nWrite.\n", "naem"),
        ("policies/p.yaml", "verison: 1\n", "verison"),
        ("schemas/s.json", "{", "is not JSON"),
        ("providers/model.yaml", "name: model\ntype: anthropic\nconfg: {}\n", "confg"),
        ("skills/k/SKILL.md", "---\nname: k\ndescriptoin: d\n---\n", "descriptoin"),
    ];
    for (path, text, said) in broken {
        let layers = |organisation: &str, nearer: Option<&str>| {
            let world = world(&[(ORGANISATION, harness)]);
            world.script("org/scripts/run.sh", "#!/bin/sh\n");
            for (path, text) in files {
                world.write(&format!("org/{path}"), text);
            }
            world.write(&format!("org/{path}"), organisation);
            if let Some(text) = nearer {
                world.write(&format!("repo/.fullsend/{path}"), text);
            }
            world.run(&["check", "triage"])
        };
        let whole = files.iter().find(|(name, _)| *name == path).map(|(_, text)| *text).unwrap();
        assert_eq!(layers(whole, None).code, 0, "{path}: {}", layers(whole, None).all());
        let refused = layers(whole, Some(text));
        assert_eq!(refused.code, 3, "{path}: {}", refused.all());
        assert!(refused.err.contains(said), "{}", refused.all());
        assert!(refused.err.contains(&format!(".fullsend/{path}")), "{}", refused.all());
        // A policy of the organisation's is a limit even where it is replaced, so it must be readable.
        let still_read = if path.starts_with("policies/") { 3 } else { 0 };
        assert_eq!(layers(text, Some(whole)).code, still_read, "{path}: {}", layers(text, Some(whole)).all());
    }
}

#[test]
fn one_skill_listed_twice_is_refused_wherever_it_is() {
    let twice = "agent: agents/a.md\nskills: [skills/a, ./skills/a/]\n";
    let error = refusal(&world(&[(REPOSITORY, twice)]));
    assert!(error.contains("a skill is listed twice") && error.contains("the first one"), "{error}");
    let in_a_block = "agent: agents/a.md\nforge: {github: {skills: [a/github, a/github/]}}\n";
    assert!(refusal(&world(&[(REPOSITORY, in_a_block)])).contains("a skill is listed twice"));
}

#[test]
fn two_host_files_on_one_destination_are_refused() {
    let file = "agent: agents/a.md\nhost_files: [{src: a, dest: /sandbox/x}, {src: b, dest: /sandbox/x}]\n";
    let error = refusal(&world(&[(REPOSITORY, file)]));
    assert!(error.contains("two host files have the destination `/sandbox/x`"), "{error}");
}

#[test]
fn the_repository_is_the_one_around_the_current_directory() {
    let world = World::with_harness();
    std::fs::create_dir_all(world.path("repo/src/deep")).unwrap();
    let from = |arguments: &[&str], directory: &str| {
        let output = std::process::Command::new(crate::support::program())
            .args(arguments)
            .current_dir(world.path(directory))
            .env_clear()
            .output()
            .unwrap();
        output.status.code()
    };
    assert_eq!(from(&["explain", "triage"], "repo/src/deep"), Some(0));
    assert_eq!(from(&["explain", "triage"], "home"), Some(3));
    assert_eq!(from(&["explain", "triage", "--repo", "../repo"], "home"), Some(0));
    assert!(Path::new(&world.path("repo/src/deep")).is_dir());
}
