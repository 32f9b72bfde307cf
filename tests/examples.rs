//! The examples are real: `check` finds nothing wrong with the two harnesses of the original design but their image, each of their fields is explained with
//! its origin, and every `fullsend run X` in a pipeline resolves. The committed schemas are those that the types make.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use yaml::{Node, ParseLimits, Sources};

use crate::support::{Ran, World, has_program, root};

fn examples() -> String {
    root().join("examples/ci").to_string_lossy().into_owned()
}

/// With the variables that a file of theirs is expanded with.
fn check(name: &str) -> Ran {
    let world = World::new().with_runtime_programs();
    let world = world.env("ANTHROPIC_VERTEX_PROJECT_ID", "project").env("CLOUD_ML_REGION", "global");
    world.run(&["check", name, "--repo", &examples()])
}

/// Their images are in a registry, which `check` does not ask.
#[test]
fn the_harnesses_of_the_original_design_are_accepted() {
    if !has_program("python3", "the original's api server") {
        return;
    }
    for name in ["triage", "code"] {
        let ran = check(name);
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
}

#[test]
fn each_of_their_fields_is_explained_with_its_origin() {
    for name in ["triage", "code"] {
        let path = root().join(format!("examples/ci/.fullsend/harness/{name}.yaml"));
        let mut sources = Sources::default();
        let id = sources.add("x", fs::read_to_string(path).unwrap());
        let tree = yaml::parse(&sources, id, ParseLimits::default()).unwrap();
        let ran = World::new().run(&["explain", name, "--format", "json", "--repo", &examples()]);
        let rows: Json = serde_json::from_str(&ran.out).unwrap();
        let explained: BTreeMap<&str, &Json> =
            rows.as_array().unwrap().iter().map(|row| (row["field"].as_str().unwrap(), row)).collect();
        let mut fields = 0;
        tree.each_scalar(&mut |field, node: &Node| {
            let row = explained.get(field).unwrap_or_else(|| panic!("{name}: `{field}` is not explained"));
            assert_eq!(row["value"], node.scalar().unwrap());
            assert_eq!(row["set_by"]["line"], sources.locate(node.at).line, "{field}");
            assert!(row["set_by"]["file"].as_str().unwrap().ends_with(&format!("harness/{name}.yaml")));
            fields += 1;
        });
        assert!(fields > 25, "{fields}");
    }
}

#[test]
fn every_run_in_a_pipeline_resolves() {
    if !has_program("python3", "the original's api server") {
        return;
    }
    let mut calls = 0;
    for file in ["github", "gitlab"].iter().flat_map(|forge| files(&root().join("examples/ci").join(forge))) {
        for line in fs::read_to_string(&file).unwrap().lines() {
            let Some((_, name)) = line.split_once("fullsend run ") else { continue };
            let ran = check(name.trim());
            assert_eq!(ran.code, 0, "{}: {}", file.display(), ran.err);
            calls += 1;
        }
    }
    assert_eq!(calls, 10);
}

fn files(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// `UPDATE_SCHEMAS=1 cargo test schemas` writes them anew.
#[test]
fn the_committed_schemas_are_those_that_the_types_make() {
    for kind in [
        "harness",
        "policy",
        "provider",
        "config",
        "run",
        "event",
        "page",
        "openapi",
        "environment",
        "directive",
    ] {
        let made = World::new().run(&["schema", kind]).out;
        let path = root().join(format!("schemas/{kind}.json"));
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &made).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == made,
            "schemas/{kind}.json is not what `fullsend schema {kind}` prints: UPDATE_SCHEMAS=1 cargo test schemas"
        );
        let schema: Json = serde_json::from_str(&made).unwrap();
        jsonschema::draft202012::meta::validate(&schema).unwrap();
    }
}

/// What an editor accepts by the schema is what the program reads, for every harness in the tree.
#[test]
fn the_harness_schema_accepts_the_harnesses_we_ship() {
    let schema: Json = serde_json::from_str(&World::new().run(&["schema", "harness"]).out).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let shipped = ["examples/ci/.fullsend/harness", "examples/hello/.fullsend/harness"];
    for file in shipped.iter().flat_map(|place| files(&root().join(place))) {
        let mut sources = Sources::default();
        let id = sources.add("x", fs::read_to_string(&file).unwrap());
        let document = json(&yaml::parse(&sources, id, ParseLimits::default()).unwrap());
        let errors: Vec<String> = validator
            .iter_errors(&document)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{}: {errors:?}", file.display());
    }
    let wrong = serde_json::json!({ "agent": "agents/a.md", "timeout_minuts": 3 });
    assert!(!validator.is_valid(&wrong));
}

/// A YAML document as JSON.
pub fn json(node: &Node) -> Json {
    match &node.value {
        yaml::Value::Null => Json::Null,
        yaml::Value::Bool(value) => Json::Bool(*value),
        yaml::Value::Number(raw) => serde_json::from_str(raw).unwrap(),
        yaml::Value::Text(text) => Json::String(text.clone()),
        yaml::Value::List(items) => items.iter().map(json).collect(),
        yaml::Value::Map(entries) => {
            entries.iter().map(|entry| (entry.key.clone(), json(&entry.node))).collect()
        }
    }
}

/// The walk through `examples/tickets`, as its page tells it.
#[test]
fn the_session_of_the_example_goes_as_its_page_says() {
    let world = crate::support::example("tickets");
    let page = fs::read_to_string(root().join("examples/tickets/README.md")).unwrap();
    let commands = page.lines().filter_map(|line| line.strip_prefix("    fullsend "));
    let mut id = String::new();
    let mut request = String::new();
    let mut shown = String::new();
    for command in commands {
        let words = command.replace("ID", &id).replace("REQUEST", &request);
        let mut parts: Vec<&str> = Vec::new();
        for (number, part) in words.split('"').enumerate() {
            // Every second part was quoted.
            if number % 2 == 1 {
                parts.push(part);
            } else {
                parts.extend(part.split_whitespace());
            }
        }
        let words = parts;
        let ran = world.run(&words);
        let code = if words[1] == "run" { 10 } else { 0 };
        assert_eq!(ran.code, code, "{command}: {}{}", ran.out, ran.err);
        match words[1] {
            "create" => {
                let line: Json = serde_json::from_str(&ran.out).unwrap();
                id = line["id"].as_str().unwrap().to_owned();
            }
            "run" => {
                assert!(ran.out.contains("I need a ticket for the printer."), "{}", ran.out);
                let answer = ran.out.lines().last().unwrap();
                assert!(answer.contains("session tool-result"), "{answer}");
                request = answer.split_whitespace().rev().nth(1).unwrap().to_owned();
            }
            _ => {}
        }
        shown = ran.out;
    }
    assert!(shown.contains("look at ticket 42"), "{shown}");
}
