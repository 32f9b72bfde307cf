//! The composite action in `action.yml`: its steps run here as a runner would run them, over the demo with its scripted
//! model.

use std::collections::BTreeMap;
use std::fs;

use yaml::{Node, ParseLimits, Sources};

use crate::support::{World, example, has_programs, root};

fn action() -> Node {
    let mut sources = Sources::default();
    let id = sources.add("action.yml", fs::read_to_string(root().join("action.yml")).unwrap());
    yaml::parse(&sources, id, ParseLimits::default()).unwrap()
}

fn text<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    node.get(key).and_then(Node::scalar)
}

/// The value of an expression: an input, or the text itself.
fn value(expression: &str, inputs: &BTreeMap<&str, &str>) -> String {
    let name = expression.strip_prefix("${{ inputs.").and_then(|rest| rest.strip_suffix(" }}"));
    name.map_or(expression.to_owned(), |name| inputs[name].to_owned())
}

/// Runs every step that is a script, in order, and returns the outputs.
fn run_steps(world: &World, inputs: &BTreeMap<&str, &str>) -> (i32, BTreeMap<String, String>, String) {
    let action = action();
    let programs = std::path::Path::new(env!("CARGO_BIN_EXE_fullsend")).parent().unwrap();
    let outputs = world.write("outputs", "");
    fs::create_dir_all(world.path("temp")).unwrap();
    let mut said = String::new();
    let mut code = 0;
    for step in action.get("runs").unwrap().get("steps").unwrap().items() {
        let Some(script) = text(step, "run") else { continue };
        if text(step, "if")
            .is_some_and(|condition| condition == "inputs.release != ''" && inputs["release"].is_empty())
        {
            continue;
        }
        assert!(!script.contains("${{"), "a script has no expression in it: {script}");
        let mut exports = format!(
            "export RUNNER_TEMP='{}' GITHUB_OUTPUT='{}' PATH='{}':\"$PATH\"\n",
            world.path("temp").display(),
            outputs.display(),
            programs.display()
        );
        for entry in step.get("env").map(Node::entries).unwrap_or_default() {
            let value = value(entry.node.scalar().unwrap(), inputs);
            exports += &format!("export {}='{value}'\n", entry.key);
        }
        let file = world.write("step.sh", format!("set -eo pipefail\n{exports}{script}"));
        let ran = world.run_program("/bin/bash".as_ref(), &[file.as_os_str()]);
        said += &ran.all();
        code = ran.code;
        if code != 0 {
            break;
        }
    }
    let lines = fs::read_to_string(outputs).unwrap();
    let pairs = lines.lines().filter_map(|line| line.split_once('='));
    (code, pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(), said)
}

#[test]
fn the_steps_of_the_action_run_a_harness() {
    if !has_programs(&["/bin/bash", "unshare"], "the CI action") {
        return;
    }
    let world = example("hello");
    let inputs =
        BTreeMap::from([("harness", "hello"), ("release", ""), ("options", "--quiet\n"), ("artifact", "")]);
    let (code, outputs, said) = run_steps(&world, &inputs);
    assert_eq!(code, 0, "{said}");
    assert_eq!(outputs["outcome"], "completed");
    assert_eq!((outputs["exit_code"].as_str(), outputs["skipped"].as_str()), ("0", "false"));
    assert!(outputs["cost"].parse::<f64>().unwrap() > 0.0);
    for file in ["result", "patch"] {
        assert!(fs::metadata(&outputs[file]).unwrap().len() > 0, "{file}");
    }
    assert!(fs::read_to_string(format!("{}/run.json", outputs["record"])).is_ok());
}

#[test]
fn a_run_that_fails_fails_the_action_and_says_how() {
    if !has_programs(&["/bin/bash", "unshare"], "the CI action") {
        return;
    }
    let world = example("hello");
    let inputs = BTreeMap::from([
        ("harness", "hello"),
        ("release", ""),
        ("options", "--max-usd\n0.0001"),
        ("artifact", ""),
    ]);
    let (code, outputs, said) = run_steps(&world, &inputs);
    assert_eq!(code, 7, "{said}");
    assert_eq!((outputs["outcome"].as_str(), outputs["exit_code"].as_str()), ("budget", "7"));
    assert!(!outputs.contains_key("result"));
    let wrong = BTreeMap::from([("harness", "helo"), ("release", ""), ("options", ""), ("artifact", "")]);
    let (code, _, said) = run_steps(&world, &wrong);
    assert!(code != 0 && said.contains("hello"), "{said}");
}

/// Every output of the action is one that the program writes.
#[test]
fn every_output_is_one_that_the_program_writes() {
    let written = fs::read_to_string(root().join("crates/fullsend/src/cli/ci_outputs.rs")).unwrap();
    for output in action().get("outputs").unwrap().entries() {
        let value = text(&output.node, "value").unwrap();
        let name =
            value.strip_prefix("${{ steps.run.outputs.").and_then(|rest| rest.strip_suffix(" }}")).unwrap();
        assert!(written.contains(&format!("(\"{name}\", ")), "{name}");
    }
}
