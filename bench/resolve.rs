//! Resolving and checking 1,000 harnesses over three layers, on one core. The peer is the least that any program must
//! do with the same files: read them all and run the YAML parser's event stream over them.
//!
//!     cargo bench -p fullsend --bench resolve
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints, and stops where it cannot go on"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fullsend::Library;
use fullsend::internal::check;
use fullsend::{Choices, resolve};
use fullsend::{Layer, LayerKind, Layers};

const HARNESSES: usize = 1_000;
const ROUNDS: usize = 7;

fn main() {
    let place = tempfile::tempdir().unwrap();
    let files = lay_out(place.path());
    let ours = best(|| resolve_all(place.path()));
    let peer = best(|| read_all(&files));
    let ratio = ours.as_secs_f64() / peer.as_secs_f64();
    println!("name ours_ms peer_ms ratio");
    println!("resolve-check-{HARNESSES} {:.1} {:.1} {ratio:.2}", ms(ours), ms(peer));
    for share in [100, 300, 1000] {
        let names: Vec<String> = (0..share).map(|number| format!("h{number}")).collect();
        let time = best(|| resolve_some(place.path(), &names));
        println!("growth-{share} {:.1} us/harness {:.1}", ms(time), time.as_secs_f64() * 1e6 / share as f64);
    }
}

/// Half of the harnesses extend one of the organisation's, all share agents, skills, policies and schemas.
fn lay_out(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut write = |path: String, text: String| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        files.push(path);
    };
    write(
        "org/config.yaml".into(),
        "version: 1\nsecurity:\n  fail_mode: closed\ncaps:\n  timeout_minutes: 120\n".into(),
    );
    write("org/harness/common.yaml".into(), "agent: agents/common.md\ntimeout_minutes: 60\nproviders: [model]\nskills: [skills/one]\nenv:\n  runner: {A: one, B: two}\n".into());
    write(
        "org/agents/common.md".into(),
        "---\nname: common\ndescription: An agent.\n---\nWrite `summary`.\n".into(),
    );
    write("org/skills/one/SKILL.md".into(), "---\nname: one\ndescription: A skill.\n---\nText.\n".into());
    write(
        "org/providers/model.yaml".into(),
        "name: model\ntype: anthropic\ncredentials:\n  ANTHROPIC_API_KEY: ${ANTHROPIC_API_KEY}\n".into(),
    );
    write(
        "org/policies/p.yaml".into(),
        include_str!("../crates/fullsend/src/defaults/policies/default.yaml").into(),
    );
    write(
        "repo/schemas/s.json".into(),
        r#"{"type":"object","required":["summary"],"properties":{"summary":{"type":"string"}}}"#.into(),
    );
    for number in 0..HARNESSES {
        let first = if number % 2 == 0 {
            "base: harness/common.yaml"
        } else {
            "agent: agents/common.md\nskills: [skills/one]\nproviders: [model]"
        };
        write(
            format!("repo/harness/h{number}.yaml"),
            format!(
                "# A harness of the usual length.\ndescription: Harness number {number}.\n{first}\nruntime: native\nmodel: opus\npolicy: policies/p.yaml\noutput_schema: schemas/s.json\nrequired_env:\n  - GH_TOKEN\n  - ISSUE_NUMBER\nenv:\n  runner:\n    LEVEL: \"{number}\"\n  sandbox:\n    MODE: quick\nvalidation_loop:\n  max_iterations: 2\ntimeout_minutes: 30\nbudget:\n  usd: 1.5\n  turns: 40\nsecurity:\n  host_scanners:\n    llm_guard:\n      threshold: 0.9\n"
            ),
        );
    }
    files
}

fn open(root: &Path) -> Library {
    let layer = |kind, path: &str| Layer::directory(kind, &root.join(path), path.to_owned()).unwrap();
    Library::new(Layers::new(vec![
        layer(LayerKind::Organisation, "org"),
        layer(LayerKind::Repository, "repo"),
    ]))
}

fn resolve_all(root: &Path) {
    let names = open(root).layers.names("harness");
    assert_eq!(names.len(), HARNESSES + 1);
    resolve_some(root, &names[1..]);
}

fn resolve_some(root: &Path, names: &[String]) {
    let mut library = open(root);
    let choices = Choices { today: "2026-01-01".to_owned(), ..Choices::default() };
    for name in names {
        let mut problems = Vec::new();
        let resolved = resolve(&mut library, name, &choices, &mut problems).unwrap();
        assert!(check(&mut library, resolved, &mut problems).is_some(), "{problems:?}");
    }
}

fn read_all(files: &[PathBuf]) {
    let mut events = 0;
    for file in files {
        let text = fs::read_to_string(file).unwrap();
        if file.extension().is_some_and(|ending| ending == "yaml") {
            events += granit_parser::Parser::new_from_str(&text).filter(Result::is_ok).count();
        }
    }
    assert!(events > HARNESSES);
}

fn best(mut work: impl FnMut()) -> Duration {
    (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            work();
            started.elapsed()
        })
        .min()
        .unwrap()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
