//! `runs cost`: what the runs cost, by day, harness or repository.

use std::io::Write;
use std::path::Path;

use clap::{Args, ValueEnum};

use super::super::exit::{Exit, Failure};
use crate::event::clock::Moment;
use crate::record::costs::{self, CostKey, CostReport, CostTotal};
use crate::record::store;
use crate::render::diagnostics::clean_text;
use crate::render::figures::duration;
use crate::render::workflow_commands::neutralise_json;

const DAY_MS: u64 = 86_400_000;

#[derive(Args, Debug)]
pub struct Arguments {
    /// Add up the runs by this
    #[arg(long, value_enum, default_value_t = GroupBy::Day, value_name = "KEY")]
    by: GroupBy,
    /// Count runs from this day on: `YYYY-MM-DD` in UTC, or `7d` for the last seven days
    #[arg(long, value_name = "DAY", value_parser = parse_day)]
    since: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum GroupBy {
    Day,
    Harness,
    Repository,
}

impl From<GroupBy> for CostKey {
    fn from(by: GroupBy) -> Self {
        match by {
            GroupBy::Day => Self::Day,
            GroupBy::Harness => Self::Harness,
            GroupBy::Repository => Self::Repository,
        }
    }
}

/// The first day that counts.
fn parse_day(text: &str) -> Result<String, String> {
    if let Some(days) =
        text.strip_suffix('d').and_then(|days| days.parse::<u64>().ok()).filter(|days| *days > 0)
    {
        let before = (days - 1).saturating_mul(DAY_MS);
        return Ok(Moment::from_millis(Moment::now().millis().saturating_sub(before)).date());
    }
    if costs::is_day(text) {
        Ok(text.to_owned())
    } else {
        Err("use YYYY-MM-DD, or a number of days such as 7d".to_owned())
    }
}

pub fn run(runs: &Path, arguments: &Arguments) -> Result<Exit, Failure> {
    let report = costs::report(&store::all(runs), arguments.by.into(), arguments.since.as_deref());
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let text = serde_json::to_string_pretty(&report).unwrap_or_default();
        writeln!(out, "{}", neutralise_json(&text))?;
    } else {
        write!(out, "{}", table(&report))?;
    }
    if report.unreadable_runs > 0 {
        super::super::write_stderr(&format!(
            "warning: {} runs cannot be read and are not counted\n",
            report.unreadable_runs
        ));
    }
    Ok(Exit::Done)
}

fn table(report: &CostReport) -> String {
    let total = CostTotal { key: "total".to_owned(), ..report.total.clone() };
    let width = report.rows.iter().map(|row| row.key.chars().count()).max().unwrap_or(0).max(10);
    let mut text = format!(
        "{:width$}  {:>6}  {:>12}  {:>12}  {:>12}  {:>12}\n",
        report.by.name(),
        "runs",
        "cost",
        "tokens in",
        "tokens out",
        "time"
    );
    for row in report.rows.iter().chain([&total]) {
        let CostTotal { key, runs, usd, unpriced_runs, input_tokens, output_tokens, duration_ms } = row;
        let cost = format!("${usd:.4}");
        let note = match unpriced_runs {
            0 => String::new(),
            1 => "  1 run used a model without a price".to_owned(),
            many => format!("  {many} runs used a model without a price"),
        };
        let time = duration(*duration_ms);
        let line = format!(
            "{key:width$}  {runs:>6}  {cost:>12}  {input_tokens:>12}  {output_tokens:>12}  {time:>12}{note}"
        );
        text.push_str(&clean_text(&line));
        text.push('\n');
    }
    text
}
