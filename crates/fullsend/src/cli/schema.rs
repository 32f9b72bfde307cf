//! `fullsend schema`: the JSON Schema of a kind of file, made from the types that read it.

use std::io::Write;

use clap::{Args, ValueEnum};

use super::always_json::AlwaysJson;
use super::exit::{Exit, Failure};
use crate::render::schema;
use crate::serve::openapi;

#[derive(Args, Debug)]
pub struct Arguments {
    /// File format to print
    #[arg(value_enum)]
    kind: Kind,
    #[command(flatten)]
    always: AlwaysJson,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    Harness,
    Policy,
    Provider,
    Config,
    Run,
    Event,
    /// The data of a run's page: `runs export --json`
    Page,
    /// The HTTP API of `fullsend serve`, as OpenAPI 3.1
    Openapi,
    /// Where sessions run: environments/ID.yaml
    Environment,
    /// What an agent returns at the end of a wake
    Directive,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let document = match arguments.kind {
        Kind::Harness => schema::harness(),
        Kind::Policy => schema::policy(),
        Kind::Provider => schema::provider(),
        Kind::Config => schema::config(),
        Kind::Run => schema::run(),
        Kind::Event => schema::event(),
        Kind::Page => schema::page(),
        Kind::Openapi => openapi::document(),
        Kind::Environment => schema::environment(),
        Kind::Directive => schema::directive(),
    };
    writeln!(std::io::stdout().lock(), "{document:#}")?;
    Ok(Exit::Done)
}
