//! Properties of resolving, over random layers: resolving again gives the same, and what `explain --resolved` prints,
//! read back as the harness, means the same, with its layers and without them. Failures found are kept in
//! `tests/properties.regressions`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fullsend::ForgeName;
use fullsend::Library;
use fullsend::internal::self_contained;
use fullsend::{Choices, Resolved, resolve};
use fullsend::{Layer, LayerKind, Layers};
use proptest::test_runner::{Config, FileFailurePersistence, TestRunner};
use yaml::{Diagnostic, Node, Value};

use crate::random_harness::{Files, files};
use crate::support::World;

fn runner() -> TestRunner {
    let kept = crate::support::root().join("tests/properties.regressions");
    let kept = Box::leak(kept.to_string_lossy().into_owned().into_boxed_str());
    TestRunner::new(Config {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(kept))),
        ..Config::default()
    })
}

/// The layers as they lie in the directory; the organisation's only if it is wanted.
fn library(root: &Path, with_organisation: bool) -> Library {
    let layer = |kind, name: &str| Layer::directory(kind, &root.join(name), name.to_owned()).unwrap();
    let mut layers = vec![layer(LayerKind::Repository, "repo/.fullsend")];
    if with_organisation {
        layers.push(layer(LayerKind::Organisation, "org"));
    }
    Library::new(Layers::new(layers))
}

fn choices(forge: Option<ForgeName>) -> Choices {
    let repo = Some("acme/widgets".to_owned());
    let today = "2026-01-01".to_owned();
    Choices { forge, repo, today, ..Choices::default() }
}

/// Resolves `triage`, or says why it cannot be.
fn resolved(library: &mut Library, forge: Option<ForgeName>) -> Result<Resolved, Vec<String>> {
    let mut problems = Vec::new();
    let found = resolve(library, "triage", &choices(forge), &mut problems);
    let errors: Vec<&Diagnostic> = problems.iter().filter(|problem| problem.is_error()).collect();
    match found {
        Some(found) if errors.is_empty() => Ok(found),
        _ => Err(errors.iter().map(|problem| problem.message.clone()).collect()),
    }
}

/// Every value with its path, and nothing about where it was written.
fn values(resolved: &Resolved) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    collect(&self_contained(resolved), String::new(), &mut values);
    values
}

fn collect(node: &Node, path: String, values: &mut BTreeMap<String, String>) {
    match &node.value {
        Value::Map(entries) if !entries.is_empty() => {
            entries.iter().for_each(|entry| collect(&entry.node, format!("{path}.{:?}", entry.key), values));
        }
        Value::List(items) if !items.is_empty() => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, item)| collect(item, format!("{path}.{index}"), values));
        }
        other => {
            values.insert(path, format!("{other:?}"));
        }
    }
}

fn lay_out(files: &Files) -> World {
    let world = World::new();
    world.write("org/README", "");
    world.write("repo/.fullsend/README", "");
    for (path, text) in &files.texts {
        world.write(path, text);
    }
    world
}

/// Runs `test` on random layers that resolve, and fails if too few of them do.
fn for_all(test: impl Fn(&World, &Files, &Resolved)) {
    let resolved_cases = AtomicUsize::new(0);
    let refusals = Mutex::new(BTreeMap::<String, usize>::new());
    let mut runner = runner();
    let outcome = runner.run(&files(), |files| {
        let world = lay_out(&files);
        match resolved(&mut library(&world.path(""), true), files.forge) {
            Ok(found) => {
                resolved_cases.fetch_add(1, Ordering::Relaxed);
                test(&world, &files, &found);
            }
            Err(messages) => {
                let mut refusals = refusals.lock().unwrap();
                messages.into_iter().for_each(|message| *refusals.entry(message).or_default() += 1);
            }
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    let count = resolved_cases.load(Ordering::Relaxed);
    let cases = runner.config().cases;
    assert!(
        count * 2 > cases as usize,
        "only {count} of {cases} random harnesses resolve: {:#?}",
        refusals.into_inner().unwrap()
    );
}

#[test]
fn resolving_again_gives_the_same() {
    for_all(|world, files, first| {
        let mut library = library(&world.path(""), true);
        for _ in 0..2 {
            let again = resolved(&mut library, files.forge).unwrap();
            assert_eq!(values(first), values(&again));
            assert_eq!(first.harness, again.harness);
            assert_eq!(first.exceptions, again.exceptions);
        }
    });
}

#[test]
fn the_resolved_harness_means_the_same_in_its_layers() {
    for_all(|world, files, first| {
        let text = yaml::emit(&self_contained(first), &|_| None);
        world.write("repo/.fullsend/customized/harness/triage.yaml", &text);
        let again = resolved(&mut library(&world.path(""), true), files.forge)
            .unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
        assert_eq!(values(first), values(&again), "{text}");
        assert_eq!(first.harness, again.harness);
        assert_eq!(text, yaml::emit(&self_contained(&again), &|_| None), "written twice, the same text");
    });
}

#[test]
fn the_resolved_harness_means_the_same_alone() {
    for_all(|_, files, first| {
        if first.harness.allow_repo_skills.value {
            return; // Without its organisation a repository may not say that.
        }
        let text = yaml::emit(&self_contained(first), &|_| None);
        let alone = World::new();
        alone.write("repo/.fullsend/harness/triage.yaml", &text);
        let again = resolved(&mut library(&alone.path(""), false), files.forge)
            .unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
        assert_eq!(values(first), values(&again), "{text}");
        assert_eq!(first.harness, again.harness);
    });
}

/// The same through the program: what it prints, it reads, checks and explains as before.
#[test]
fn the_program_reads_back_what_it_printed() {
    let outcome = TestRunner::new(Config { cases: 12, failure_persistence: None, ..Config::default() }).run(
        &files(),
        |files| {
            let world = lay_out(&files).env("FULLSEND_ORG_DIR", "../org");
            let world = match files.forge {
                Some(ForgeName::Github) => world.env("GITHUB_ACTIONS", "true"),
                Some(ForgeName::Gitlab) => world.env("GITLAB_CI", "true"),
                _ => world,
            };
            let printed = world.run(&["explain", "triage", "--resolved"]);
            if printed.code != 0 {
                return Ok(());
            }
            let before = explained(&world);
            world.write("repo/.fullsend/customized/harness/triage.yaml", &printed.out);
            assert_eq!(before, explained(&world), "{}", printed.out);
            assert_eq!(world.run(&["explain", "triage", "--resolved"]).out, printed.out);
            Ok(())
        },
    );
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

/// Fields and values of `explain --format json`, without their origins.
fn explained(world: &World) -> Vec<(String, String)> {
    let ran = world.run(&["explain", "triage", "--format", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    let rows: Vec<serde_json::Value> = serde_json::from_str(&ran.out).unwrap();
    rows.iter().map(|row| (row["field"].to_string(), row["value"].to_string())).collect()
}
