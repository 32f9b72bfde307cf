//! `fullsend doctor --model HARNESS`: one tiny request to the harness's model, step by step.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use model::upstream::{ProbeCause, ProbeFailure, ProbeStage, ProbeStep, Upstream};
use redact::Redactor;
use serde_json::{Value as Json, json};

use super::check::variable_or_empty;
use super::configuration::ConfigurationOptions;
use super::exit::{Exit, Failure};
use crate::check::Checked;
use crate::credentials::{self, CredentialHost, Credentials, Learn};
use crate::preflight::{PreflightContext, preflight};
use crate::provision::gateway;
use crate::provision::service::{self, ServiceInputs};
use crate::render::diagnostics::{self, Style, clean_text};
use crate::resolve::variables::Strictness;
use crate::runtime::native;
use crate::scripts;

/// Values that must not be shown, by the names of their variables.
type Learned = Arc<Mutex<Vec<(String, String)>>>;

pub fn run(place: &ConfigurationOptions, name: &str, json: bool) -> Result<Exit, Failure> {
    let mut opened = place.open()?;
    let mut problems = Vec::new();
    let context = PreflightContext {
        environment: &variable_or_empty,
        strictness: Strictness::Required,
        repository: &opened.repository,
        recording: None,
    };
    let Some(checked) = preflight(&mut opened.library, name, &opened.choices, &context, &mut problems) else {
        for problem in problems.iter().filter(|problem| problem.is_error()) {
            super::write_stderr(&format!(
                "{}\n",
                diagnostics::human(&opened.library.sources, problem, Style::Plain)
            ));
        }
        return Ok(Exit::Invalid);
    };
    let provider = gateway::provider(&checked).map_err(|error| missing(&error))?;
    if provider.provider.config.get("scenario").is_some() {
        writeln!(
            std::io::stdout(),
            "good    model: the scripted model of `{}` needs nothing",
            provider.provider.name.value
        )?;
        return Ok(Exit::Done);
    }
    let learned = Learned::default();
    let loaded = load(&checked, &opened.repository, &learned)?;
    let named = loaded.of(provider.provider.name.as_str()).collect();
    let learn = learner(&learned);
    let inputs = ServiceInputs {
        variables: &variable_or_empty,
        credentials: named,
        learn: Some(Arc::new(move |token| drop(learn("token", token)))),
    };
    let upstream = service::open(provider, inputs).map_err(|why| missing(&why))?;
    let Upstream::Http(upstream) = upstream else { return Ok(Exit::Done) };
    let (model, wire) = native::launch::model_of(&checked);
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let executor = executor.map_err(|error| missing(&error))?;
    let steps = executor.block_on(upstream.probe(wire, &model));
    print(&steps, &gateway::credential(provider), &learned, json)?;
    Ok(verdict(&steps))
}

fn missing(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Missing, clean_text(&error.to_string()))
}

fn learner(learned: &Learned) -> Learn {
    let learned = Arc::clone(learned);
    Arc::new(move |name: &str, value: &str| {
        let mut all = learned.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((name.to_owned(), value.to_owned()));
        Ok(())
    })
}

fn load(checked: &Checked, repository: &std::path::Path, learned: &Learned) -> Result<Credentials, Failure> {
    let host = CredentialHost {
        environment: scripts::base_environment(&super::run::environment()),
        variables: &variable_or_empty,
        working_directory: repository,
    };
    let serving = gateway::provider(checked).map_err(|error| missing(&error))?;
    credentials::load([serving], &host, &learner(learned)).map_err(|error| missing(&error))
}

fn print(steps: &[ProbeStep], credential: &str, learned: &Learned, json: bool) -> Result<(), Failure> {
    let learned = learned.lock().unwrap_or_else(PoisonError::into_inner);
    let known = learned.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let redactor = Redactor::with_known(known).map_err(|error| missing(&error))?;
    let clean = |text: &str| clean_text(&redactor.redact(text));
    let mut out = std::io::stdout().lock();
    if json {
        let all: Vec<Json> = steps.iter().map(|step| describe(step, credential, &clean)).collect();
        writeln!(
            out,
            "{:#}",
            json!({ "healthy": steps.iter().all(|step| step.found.is_ok()), "steps": all })
        )?;
        return Ok(());
    }
    for ProbeStep { stage, found } in steps {
        let (word, text) = match found {
            Ok(text) => ("good", text),
            Err(failure) => ("bad", &failure.reason),
        };
        writeln!(out, "{word:7} {}: {}", stage.name(), clean(text))?;
        if let Err(failure) = found {
            writeln!(out, "        fix: {}", fix(*stage, failure, credential))?;
        }
    }
    Ok(())
}

fn describe(step: &ProbeStep, credential: &str, clean: &dyn Fn(&str) -> String) -> Json {
    let ProbeStep { stage, found } = step;
    let state = if found.is_ok() { "good" } else { "bad" };
    let text = found.as_ref().unwrap_or_else(|failure| &failure.reason);
    let fix = found.as_ref().err().map(|failure| fix(*stage, failure, credential));
    json!({ "name": stage.name(), "state": state, "found": clean(text), "fix": fix })
}

fn fix(stage: ProbeStage, failure: &ProbeFailure, credential: &str) -> String {
    let text = match stage {
        ProbeStage::Dns => "check `base_url` or `region` of the provider, or set HTTPS_PROXY",
        ProbeStage::Proxy => "check HTTPS_PROXY, or name the host in NO_PROXY",
        ProbeStage::Connection => {
            "check `base_url` of the provider, or set HTTPS_PROXY if this machine needs one"
        }
        ProbeStage::Tls => {
            "if your network has a certificate authority of its own, name it in SSL_CERT_FILE; else check the server's \
             certificate and the clock of this machine"
        }
        ProbeStage::Authentication => {
            return format!("check {credential}, and whether the account may use the model");
        }
        ProbeStage::Model => match failure.cause {
            ProbeCause::Temporary => "try again later; a run waits and tries again by itself",
            ProbeCause::OtherServer => {
                "check `base_url` of the provider: what answers there is not the service of a model"
            }
            ProbeCause::Lasting => "check the model's name, and whether the account may use it",
        },
    };
    text.to_owned()
}

fn verdict(steps: &[ProbeStep]) -> Exit {
    let failed = steps.iter().find_map(|step| step.found.as_ref().err().map(|failure| (step.stage, failure)));
    match failed {
        None => Exit::Done,
        Some((_, failure)) if failure.cause == ProbeCause::Temporary => Exit::ModelUnavailable,
        Some((ProbeStage::Authentication, _)) => Exit::Missing,
        Some((ProbeStage::Model, _)) => Exit::Invalid,
        Some(_) => Exit::Missing,
    }
}
