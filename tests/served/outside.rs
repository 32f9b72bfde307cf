//! The API as outside programs see it: a validator reads its description, and schemathesis asks everything that it describes. Both
//! come from PyPI, where `FULLSEND_TEST_OUTSIDE` is set: that takes a minute.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::{Served, TOKEN, with_token};
use crate::python_packages::{install, run};
use crate::support::{World, root, skip};

const PACKAGES: [&str; 2] = ["openapi-spec-validator==0.9.0", "schemathesis==4.32.5"];

fn check(programs: &Path, name: &str, arguments: &[&str]) -> String {
    // Its notes about the test go to a directory of their own.
    let own = tempfile::tempdir().unwrap();
    let ran = run(Command::new(programs.join(name)).args(arguments).current_dir(own.path()));
    ran.unwrap_or_else(|text| panic!("{text}"))
}

#[test]
fn answers_match_the_openapi_description() {
    let programs = match install("schemathesis", "api description", &PACKAGES) {
        Ok(place) => place.join("bin"),
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
