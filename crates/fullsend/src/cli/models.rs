//! `fullsend models`: lists what models cost, shows one, and installs a newer price list.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use model::{Price, PriceList, Rates};
use serde_json::{Value as Json, json};

use super::configuration::{ConfigurationOptions, variable};
use super::exit::{Exit, Failure};
use crate::harness::names::ModelName;
use crate::provision::prices;
use crate::render::diagnostics::clean_text;
use crate::resolve;
use crate::runtime::default_model;

#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the models that have a price, in dollars for a million tokens
    #[command(after_help = "Example: fullsend models list --service bedrock")]
    List(ListArguments),
    /// Show what one model costs at each service
    #[command(after_help = "Example: fullsend models show claude-sonnet-5")]
    Show(ShowArguments),
    /// Install a newer price list
    #[command(after_help = "Example: fullsend models update prices.json")]
    Update(UpdateArguments),
}

#[derive(Args, Debug)]
struct ListArguments {
    /// List only the models of this service: anthropic, openai, azure-openai, vertex or bedrock
    #[arg(long, value_name = "SERVICE")]
    service: Option<String>,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: ConfigurationOptions,
}

#[derive(Args, Debug)]
struct ShowArguments {
    /// The model, by any of its names
    model: String,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: ConfigurationOptions,
}

#[derive(Args, Debug)]
struct UpdateArguments {
    /// A price list, as crates/model/data/make_prices.py makes it
    file: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    match &arguments.command {
        Command::List(arguments) => list(arguments),
        Command::Show(arguments) => show(arguments),
        Command::Update(arguments) => update(arguments),
    }
}

/// One price, and the service that it applies to.
struct Row<'a> {
    service: &'a str,
    model: &'a str,
    price: &'a Price,
}

/// The label for prices that the configuration sets.
const CONFIGURED: &str = "config.yaml";

fn load(place: &ConfigurationOptions) -> Result<PriceList, Failure> {
    let mut opened = place.open()?;
    let mut problems = Vec::new();
    let configured = resolve::prices(&mut opened.library, &mut problems);
    if let Some(problem) = problems.iter().find(|problem| problem.is_error()) {
        return Err(Failure::new(Exit::Invalid, problem.message.clone()).help("run `fullsend check`"));
    }
    prices::load(&configured, &variable).map_err(|error| Failure::new(Exit::Invalid, error.to_string()))
}

fn list(arguments: &ListArguments) -> Result<Exit, Failure> {
    let list = load(&arguments.place)?;
    let own = list.configured().map(|(model, price)| Row { service: CONFIGURED, model, price });
    let listed = list.models().map(|(service, model, price)| Row { service, model, price });
    let wanted = |row: &Row<'_>| arguments.service.as_deref().is_none_or(|service| service == row.service);
    let rows: Vec<Row<'_>> = own.chain(listed).filter(wanted).collect();
    if rows.is_empty() {
        let service = arguments.service.as_deref().unwrap_or_default();
        return Err(Failure::new(Exit::Usage, format!("no prices for the service `{service}`"))
            .help("known services: anthropic, openai, azure-openai, vertex, bedrock"));
    }
    print(&list, &rows, arguments.json)
}

fn show(arguments: &ShowArguments) -> Result<Exit, Failure> {
    let list = load(&arguments.place)?;
    let named = arguments.model.as_str();
    // `sonnet` and its like have no price of their own.
    let model = &default_model::of_family(named).unwrap_or_else(|| named.to_owned());
    if ModelName::parse(model).is_none() {
        return Err(Failure::new(Exit::Usage, format!("`{}` is not the name of a model", clean_text(model))));
    }
    let own = list.configured_price(model).map(|price| Row { service: CONFIGURED, model, price });
    let listed = list
        .services()
        .filter_map(|service| list.price_at(service, model).map(|price| Row { service, model, price }));
    let rows: Vec<Row<'_>> = own.into_iter().chain(listed).collect();
    if rows.is_empty() {
        let message = format!("the model `{model}` has no price in the list of {}", list.version);
        return Err(Failure::new(Exit::Missing, clean_text(&message))
            .help(prices::lines_to_paste(std::slice::from_ref(model))));
    }
    print(&list, &rows, arguments.json)
}

fn print(list: &PriceList, rows: &[Row<'_>], json: bool) -> Result<Exit, Failure> {
    let mut out = std::io::stdout().lock();
    if json {
        for row in rows {
            writeln!(out, "{}", describe(row, &list.version))?;
        }
        return Ok(Exit::Done);
    }
    let heads = ["input", "output", "cache read", "cache write"].map(str::to_owned);
    writeln!(out, "{}", line("service", "model", &heads))?;
    for Row { service, model, price } in rows {
        writeln!(out, "{}", line(service, &clean_text(model), &shown(&price.rates)))?;
        for (start, rates) in &price.tiers {
            writeln!(out, "{}", line("", &format!("  above {start} input tokens"), &shown(rates)))?;
        }
    }
    writeln!(out, "\nDollars for a million tokens, of {}: {}", list.version, clean_text(&list.source))?;
    Ok(Exit::Done)
}

fn line(service: &str, model: &str, [input, output, read, write]: &[String; 4]) -> String {
    format!("{service:13} {model:44} {input:>9} {output:>9} {read:>11} {write:>12}")
}

fn shown(rates: &Rates) -> [String; 4] {
    [rates.input, rates.output, rates.cache_read, rates.cache_write].map(|rate| per_million(rate.0))
}

/// A price in nanodollars per token, as dollars per million tokens: divide by 1,000.
fn per_million(nanos: u64) -> String {
    let text = format!("{}.{:03}", nanos / 1000, nanos % 1000);
    text.strip_suffix('0').map_or(text.clone(), str::to_owned)
}

fn describe(row: &Row<'_>, version: &str) -> Json {
    let Row { service, model, price } = row;
    let tiers: Vec<Json> = price
        .tiers
        .iter()
        .map(|(start, rates)| json!({ "input_tokens": start, "usd_per_million": amounts(rates) }))
        .collect();
    json!({
        "service": service, "model": model, "usd_per_million": amounts(&price.rates), "above": tiers,
        "max_output_tokens": price.max_output_tokens, "prices_of": version,
    })
}

fn amounts(rates: &Rates) -> Json {
    let amount = |nanos: u64| nanos as f64 / 1e3;
    json!({
        "input": amount(rates.input.0), "output": amount(rates.output.0), "cache_read": amount(rates.cache_read.0),
        "cache_write": amount(rates.cache_write.0), "cache_write_hour": amount(rates.cache_write_hour.0),
    })
}

fn update(arguments: &UpdateArguments) -> Result<Exit, Failure> {
    let refused = |error: &dyn std::fmt::Display| Failure::new(Exit::Invalid, error.to_string());
    let list = prices::read(arguments.file.clone()).map_err(|error| refused(&error))?;
    let built_in = PriceList::built_in().version;
    if list.version <= built_in {
        let message =
            format!("the list of {} is not newer than the built-in one of {built_in}", list.version);
        return Err(refused(&message));
    }
    let Some(path) = prices::installed(&variable) else {
        return Err(Failure::new(Exit::Missing, "neither XDG_DATA_HOME nor HOME is set"));
    };
    let unwritable = |error: std::io::Error| {
        Failure::new(Exit::Missing, format!("{} cannot be written: {error}", path.display()))
    };
    let text = std::fs::read(&arguments.file).map_err(|error| refused(&error))?;
    let directory = path.parent().unwrap_or(&path);
    std::fs::create_dir_all(directory).map_err(unwritable)?;
    // By one rename, so that a run that starts now reads the old list or the new one.
    let mut new = tempfile::NamedTempFile::new_in(directory).map_err(unwritable)?;
    new.write_all(&text).map_err(unwritable)?;
    new.persist(&path).map_err(|error| unwritable(error.error))?;
    let count = list.models().count();
    writeln!(std::io::stdout(), "{count} prices of {} are in {}", list.version, path.display())?;
    Ok(Exit::Done)
}
