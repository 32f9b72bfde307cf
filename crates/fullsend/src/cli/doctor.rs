//! `fullsend doctor`: checks what this machine can enforce for this user and has for a run, and says what to do about the rest.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use sandbox::doctor::{Check, CheckState, Doctor, TrialSandbox};
use serde_json::{Value as Json, json};

use super::configuration::{ConfigurationOptions, installed_weights};
use super::doctor_host;
use super::doctor_model;
use super::exit::{Exit, Failure};
use crate::event::log::sha256;
use crate::guard::weights_file;

#[derive(Args, Debug)]
pub struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Make one tiny request to the model of this harness instead, and report each step
    #[arg(long, value_name = "HARNESS")]
    model: Option<String>,
    #[command(flatten)]
    place: ConfigurationOptions,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    if let Some(harness) = &arguments.model {
        return doctor_model::run(&arguments.place, harness, arguments.json);
    }
    let scratch = tempfile::Builder::new().prefix("fullsend-doctor-").tempdir();
    let scratch = scratch.map_err(|error| {
        Failure::new(Exit::Missing, format!("cannot create a temporary directory: {error}"))
    })?;
    let mut doctor = sandbox::doctor::doctor(scratch.path(), sandbox::InitProgram::default());
    doctor.checks.push(learned_scanner());
    doctor.checks.extend(doctor_host::checks());
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(out, "{:#}", json(&doctor))?;
    } else {
        out.write_all(human(&doctor).as_bytes())?;
    }
    Ok(if doctor.is_healthy() { Exit::Done } else { Exit::SandboxUnavailable })
}

/// Whether the learned scanner's weights are installed, and which.
fn learned_scanner() -> Check {
    let name = "learned scanner";
    let search = installed_weights();
    let missing = |found: String| {
        let install =
            |place: &PathBuf| format!("install -D -m 644 models/{} {}", weights_file::NAME, place.display());
        let unset = || format!("unset {}", weights_file::VARIABLE);
        let fix = search.places.last().map_or_else(unset, install);
        Check { name, state: CheckState::Weak, found, fix: Some(fix) }
    };
    let Some(path) = &search.found else {
        return missing("its weights file is not installed; the rules scan alone".to_owned());
    };
    match std::fs::read(path) {
        Ok(bytes) => {
            let found = format!("{} (sha256 {})", path.display(), sha256(&bytes));
            Check { name, state: CheckState::Good, found, fix: None }
        }
        Err(error) => missing(format!("{}: {error}", path.display())),
    }
}

fn word(state: CheckState) -> &'static str {
    match state {
        CheckState::Good => "good",
        CheckState::Weak => "weaker",
        CheckState::Bad => "bad",
    }
}

fn human(doctor: &Doctor) -> String {
    let mut text = String::new();
    for check in &doctor.checks {
        text.push_str(&format!("{:7} {}: {}\n", word(check.state), check.name, check.found));
        if let Some(fix) = &check.fix {
            text.push_str(&format!("        fix: {fix}\n"));
        }
    }
    match &doctor.trial {
        TrialSandbox::Works { description, proof, start, prove } => {
            text.push_str(&format!(
                "\nA sandbox starts in {:.1} ms and is proved to hold in {:.1} ms ({} attempts).\n",
                start.as_secs_f64() * 1e3,
                prove.as_secs_f64() * 1e3,
                proof.results.len()
            ));
            for fact in &description.facts {
                text.push_str(&format!(
                    "  {:20} {:9} {}\n",
                    fact.part.to_string(),
                    fact.status.to_string(),
                    fact.reason
                ));
            }
        }
        TrialSandbox::Fails { message } => text.push_str(&format!("\nCannot start a sandbox: {message}\n")),
    }
    text
}

fn json(doctor: &Doctor) -> Json {
    let checks: Vec<Json> = doctor
        .checks
        .iter()
        .map(|check| json!({ "name": check.name, "state": word(check.state), "found": check.found, "fix": check.fix }))
        .collect();
    let trial = match &doctor.trial {
        TrialSandbox::Works { description, start, prove, .. } => {
            let part = |fact: &sandbox::Fact| json!({ "part": fact.part.to_string(), "status": fact.status.to_string(), "reason": fact.reason });
            let parts: Vec<Json> = description.facts.iter().map(part).collect();
            json!({ "works": true, "start_us": start.as_micros(), "prove_us": prove.as_micros(), "parts": parts })
        }
        TrialSandbox::Fails { message } => json!({ "works": false, "message": message }),
    };
    json!({ "healthy": doctor.is_healthy(), "checks": checks, "sandbox": trial })
}
