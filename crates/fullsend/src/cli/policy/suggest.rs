//! `fullsend policy suggest`: from the attempts that a run was refused to the least YAML that would have allowed them.
//! What leads to an address that is not public is never suggested.

use std::io::Write;
use std::path::PathBuf;
use std::rc::Rc;

use clap::Args;
use egress::event::{ConnectionDecision, ConnectionEvent, EgressEvent, RefusalCode};
use policy::{Host, Policy, RefusedAccess};
use yaml::Diagnostic;

use super::super::configuration::ConfigurationOptions;
use super::super::exit::{Exit, Failure};
use crate::event::log;
use crate::event::{Envelope, RunEvent};
use crate::resolve::resolve;

#[derive(Args, Debug)]
pub struct Arguments {
    /// The run: its id, a unique prefix of it, or `latest`
    #[arg(value_name = "RUN", default_value = "latest")]
    run: String,
    /// The policy to add to [default: that of the run's harness, as it is now]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Read runs from this directory [default: $XDG_STATE_HOME/fullsend/runs]
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    #[command(flatten)]
    place: ConfigurationOptions,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let runs = arguments.output_dir.clone().map_or_else(super::super::run::runs_directory, Ok)?;
    let run = super::super::runs::find(&runs, &arguments.run)?;
    let events = log::read(&run.log()).map_err(|error| Failure::new(Exit::Invalid, error.to_string()))?;
    let policy = match &arguments.policy {
        Some(path) => super::read(path)?.1,
        None => policy_of(&events, &arguments.place)?,
    };
    let (refused, mut left_out) = refused(&events);
    let suggestion = policy::suggest(&policy, &refused);
    for (index, why) in &suggestion.skipped {
        let RefusedAccess { host, port, .. } = &refused[*index];
        left_out.push(format!("{host}:{port}: {why}"));
    }
    left_out.sort();
    left_out.dedup();
    for line in left_out {
        super::super::write_stderr(&format!("nothing is suggested for {line}\n"));
    }
    if suggestion.text.is_empty() {
        super::super::write_stderr("nothing to suggest: no refused request can be allowed by a rule\n");
    }
    write!(std::io::stdout().lock(), "{}", suggestion.text)?;
    Ok(Exit::Done)
}

/// The policy of the harness that ran.
fn policy_of(events: &[Envelope], place: &ConfigurationOptions) -> Result<Rc<Policy>, Failure> {
    let name = events.iter().find_map(|envelope| match &envelope.event {
        RunEvent::RunStarted { harness, .. } => Some(harness.clone()),
        _ => None,
    });
    let name = name.ok_or_else(|| Failure::new(Exit::Invalid, "the run's log names no harness"))?;
    let mut opened = place.open()?;
    let mut problems = Vec::new();
    let resolved = resolve(&mut opened.library, &name, &opened.choices, &mut problems);
    let checked =
        resolved.and_then(|resolved| crate::check::check(&mut opened.library, resolved, &mut problems));
    match checked {
        Some(checked) => Ok(Rc::new(checked.policy.policy.clone())),
        None => {
            problems.retain(Diagnostic::is_error);
            super::super::check::show(&opened.library.sources, &problems);
            Err(Failure::new(
                Exit::Invalid,
                format!("the policy of the harness `{name}` cannot be read here"),
            )
            .help("give the repository with --repo, or the policy with --policy"))
        }
    }
}

/// What the policy refused; and, in words, what was refused for another reason.
fn refused(events: &[Envelope]) -> (Vec<RefusedAccess>, Vec<String>) {
    let mut refused = Vec::new();
    let mut others = Vec::new();
    for envelope in events {
        let RunEvent::Egress { event: EgressEvent::Connection(connection) } = &envelope.event else {
            continue;
        };
        if connection.decision != ConnectionDecision::Denied {
            continue;
        }
        match attempt(connection) {
            Some(attempt) if connection.code == Some(RefusalCode::PolicyDenied) => {
                if !refused.contains(&attempt) {
                    refused.push(attempt);
                }
            }
            _ => {
                let reason = connection.reason.as_deref().unwrap_or("no reason was recorded");
                others.push(format!("{}:{}: {reason}", connection.host, connection.port));
            }
        }
    }
    (refused, others)
}

fn attempt(connection: &ConnectionEvent) -> Option<RefusedAccess> {
    Some(RefusedAccess {
        host: Host::parse(&connection.host).ok()?,
        port: connection.port,
        binary: PathBuf::from(connection.binary.clone()?),
        request: connection.method.clone().zip(connection.path.clone()),
        addresses: Vec::new(),
    })
}
