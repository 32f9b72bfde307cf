//! The API as outside programs see it: a validator reads its description, and schemathesis asks everything that it describes. Both
//! come from PyPI into `target/cache`, once, under a lock, where `FULLSEND_TEST_OUTSIDE` is set: that takes a minute.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::{Served, TOKEN, with_token};
use crate::support::{World, has_program, root, skip};

const PACKAGES: [&str; 2] = ["openapi-spec-validator==0.9.0", "schemathesis==4.32.5"];

/// The directory of the installed programs.
fn install() -> Result<PathBuf, String> {
    if std::env::var_os("FULLSEND_TEST_OUTSIDE").is_none() {
        return Err("set FULLSEND_TEST_OUTSIDE=1 to install schemathesis from PyPI".to_owned());
    }
    if !has_program("python3", "api description") {
        return Err("python3 is not installed".to_owned());
    }
    let place = root().join("target/cache/schemathesis");
    let failed = |error: std::io::Error| error.to_string();
    fs::create_dir_all(&place).map_err(failed)?;
    let lock = File::create(place.with_extension("lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let marker = place.join("installed");
    let wanted = PACKAGES.join("\n");
    if fs::read_to_string(&marker).is_ok_and(|installed| installed == wanted) {
        return Ok(place.join("bin"));
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
    let quickly = ["install", "--quiet", "--timeout", "5", "--retries", "0"];
    run(Command::new(place.join("bin/pip")).args(quickly).args(PACKAGES))?;
    fs::write(marker, wanted).map_err(failed)?;
    Ok(place.join("bin"))
}

/// What the program said, or why it failed.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() { Ok(text) } else { Err(text) }
}

fn check(programs: &Path, name: &str, arguments: &[&str]) -> String {
    // Its notes about the test go to a directory of their own.
    let own = tempfile::tempdir().unwrap();
    let ran = run(Command::new(programs.join(name)).args(arguments).current_dir(own.path()));
    ran.unwrap_or_else(|text| panic!("{text}"))
}

#[test]
fn what_the_api_describes_is_what_it_answers() {
    let programs = match install() {
        Ok(programs) => programs,
        Err(why) => return skip("api description", why.lines().last().unwrap_or("pip failed")),
    };
    let described = root().join("schemas/openapi.json");
    let said = check(&programs, "openapi-spec-validator", &[&described.to_string_lossy()]);
    assert!(said.contains("OK"), "{said}");

    let world = with_token(World::with_harness());
    assert_eq!(world.run(&["run", "triage", "--quiet"]).code, 0);
    let served = Served::start(&world);
    let run = served.get("/v1/runs").json()["runs"][0]["id"].as_str().unwrap().to_owned();
    let session =
        served.post("/v1/sessions", &json!({ "agent": "triage" })).json()["id"].as_str().unwrap().to_owned();
    let names = |kind: &str, id: &str| {
        format!(
            "[[operations]]\ninclude-path-regex = \"^/v1/{kind}/\"\nparameters = {{ \"path.id\" = \"{id}\" }}\n"
        )
    };
    let config = world.write("schemathesis.toml", names("runs", &run) + &names("sessions", &session));
    let said = check(
        &programs,
        "schemathesis",
        &[
            "--config-file",
            &config.to_string_lossy(),
            "run",
            &format!("http://{}/v1/openapi.json", served.host),
            "--header",
            &format!("Authorization: Bearer {TOKEN}"),
            "--checks",
            "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
            "--phases",
            "fuzzing",
            "--max-examples",
            "2",
            "--seed",
            "1",
            "--suppress-health-check",
            "all",
            "--no-color",
        ],
    );
    assert!(said.contains("passed") && !said.contains("failed"), "{said}");
}
