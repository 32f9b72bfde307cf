//! `fullsend policy show`: the network rules of a harness, each with its file: the policy's own, those of `network:`,
//! and those of its providers' profiles.

use std::io::Write;

use clap::Args;
use policy::model::{Endpoint, RuleSubject};
use serde_json::json;
use yaml::Sources;

use crate::cli::check;
use crate::cli::configuration::ConfigurationOptions;
use crate::cli::exit::{Exit, Failure};
use crate::preflight::{PreflightContext, preflight};
use crate::resolve::variables::Strictness;

#[derive(Args, Debug)]
pub struct Arguments {
    /// The name of the harness
    #[arg(value_name = "NAME")]
    name: String,
    /// No effect: this command always shows the effective rules
    #[arg(long)]
    effective: bool,
    /// Print JSON, one object for each rule
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: ConfigurationOptions,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let mut opened = arguments.place.open()?;
    let mut problems = Vec::new();
    let context = PreflightContext {
        environment: &check::variable_or_empty,
        strictness: Strictness::Warned,
        repository: &opened.repository,
        recording: None,
    };
    let checked = preflight(&mut opened.library, &arguments.name, &opened.choices, &context, &mut problems);
    let Some(checked) = checked else {
        check::show(&opened.library.sources, &problems);
        return Ok(check::verdict(&problems));
    };
    let sources = &opened.library.sources;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        for rule in &checked.policy.policy.networks {
            let endpoints: Vec<String> =
                rule.endpoints.iter().map(|endpoint| shown(endpoint, sources)).collect();
            let binaries: Vec<&str> = rule.binaries.iter().map(|binary| binary.value.as_str()).collect();
            let place = sources.locate(rule.key.at).to_string();
            let object =
                json!({ "rule": rule.name, "at": place, "endpoints": endpoints, "binaries": binaries });
            writeln!(out, "{object}")?;
        }
        return Ok(Exit::Done);
    }
    if checked.policy.policy.networks.is_empty() {
        writeln!(out, "network_policies: {{}}  # the model gateway only")?;
        return Ok(Exit::Done);
    }
    writeln!(out, "network_policies:")?;
    for rule in &checked.policy.policy.networks {
        writeln!(out, "  {}:  # {}", rule.name, sources.locate(rule.key.at))?;
        writeln!(out, "    endpoints:")?;
        for endpoint in &rule.endpoints {
            writeln!(out, "      - {}", shown(endpoint, sources))?;
        }
        let binaries: Vec<&str> = rule.binaries.iter().map(|binary| binary.value.as_str()).collect();
        writeln!(out, "    binaries: {}", serde_json::Value::from(binaries))?;
    }
    Ok(Exit::Done)
}

/// One endpoint and what may be asked of it.
fn shown(endpoint: &Endpoint, sources: &Sources) -> String {
    let mut text = format!("{} {}", endpoint.selector(), endpoint.protocol);
    if let Some(path) = &endpoint.path {
        text.push_str(&format!(" {}", path.value));
    }
    let words = |rules: &[policy::model::RequestRule]| -> Vec<String> {
        rules
            .iter()
            .map(|rule| match &rule.on {
                RuleSubject::Http(http) => format!("{} {}", http.method, http.path),
                RuleSubject::Graphql(graphql) => graphql.to_string(),
                RuleSubject::Rpc(rpc) => rpc.to_string(),
                RuleSubject::Sql { command } => command.clone(),
            })
            .collect()
    };
    for (word, rules) in [("allow", &endpoint.allow), ("deny", &endpoint.deny)] {
        if !rules.is_empty() {
            text.push_str(&format!(", {word} {}", words(rules).join("; ")));
        }
    }
    if !endpoint.enforce {
        text.push_str(", audit only");
    }
    if !endpoint.is_inspected() {
        text.push_str(", refused: not inspected yet");
    }
    format!("{text}  # {}", sources.locate(endpoint.at))
}
