//! `runs list`: the runs, newest first, each with what it cost and how long it took.

use std::io::Write;
use std::path::Path;

use clap::Args;
use serde_json::json;

use super::super::exit::{Exit, Failure};
use super::super::local_time::time_zone;
use crate::record::Record;
use crate::record::store::{self, StoredRun};
use crate::render::diagnostics::clean_text;
use crate::render::figures::{cost, duration};
use crate::render::workflow_commands::neutralise_json;

/// The fewest characters that are shown of an id.
const SHORTEST_ID: usize = 8;

#[derive(Args, Debug)]
pub struct Arguments {
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
    /// Show runs of this harness only
    #[arg(long, value_name = "NAME")]
    harness: Option<String>,
    /// Show runs with this outcome only, such as `completed`, `invalid_output` or `running`
    #[arg(long, value_name = "OUTCOME")]
    outcome: Option<String>,
    /// Show runs of repositories whose name contains this
    #[arg(long, value_name = "TEXT")]
    repository: Option<String>,
    /// Show at most this many runs
    #[arg(long, short = 'n', value_name = "NUMBER")]
    limit: Option<usize>,
}

/// One run as it is listed.
struct Row {
    run: StoredRun,
    short_id: String,
    outcome: &'static str,
    record: Record,
    problem: Option<String>,
}

impl Row {
    fn repository(&self) -> &str {
        match self.record.repository.as_str() {
            "" => &self.record.repository_directory,
            name => name,
        }
    }

    fn is_wanted(&self, arguments: &Arguments) -> bool {
        let same = |wanted: &Option<String>, value: &str| wanted.as_ref().is_none_or(|name| name == value);
        let repository = arguments.repository.as_deref().unwrap_or_default();
        same(&arguments.harness, &self.record.harness)
            && same(&arguments.outcome, self.outcome)
            && self.repository().contains(repository)
    }
}

pub fn run(runs: &Path, arguments: &Arguments) -> Result<Exit, Failure> {
    let all = store::all(runs);
    if all.is_empty() {
        super::super::write_stderr(&format!("{} has no runs\n", runs.display()));
        return Ok(Exit::Done);
    }
    let lengths = unique_prefixes(&all.iter().map(|run| run.id.as_str()).collect::<Vec<_>>());
    let rows = all.into_iter().zip(lengths).rev().map(|(run, length)| row(run, length));
    let wanted = rows.filter(|row| row.is_wanted(arguments)).take(arguments.limit.unwrap_or(usize::MAX));
    let zone = time_zone();
    let mut out = std::io::stdout().lock();
    for row in wanted {
        let Row { run, short_id, outcome, record, problem } = &row;
        if arguments.json {
            let line = json!({
                "run_id": run.id, "owner": run.owner, "harness": record.harness, "outcome": outcome,
                "repository": record.repository, "repository_directory": record.repository_directory,
                "started": record.started, "duration_ms": record.duration_ms(),
                "exit_code": record.exit_code, "usd": record.usd(), "directory": run.path, "problem": problem,
            });
            writeln!(out, "{}", neutralise_json(&line.to_string()))?;
            continue;
        }
        let started = zone.show_text(&record.started);
        let time = record.duration_ms().map(duration).unwrap_or_default();
        let cost = cost(record).unwrap_or_default();
        let repository = row.repository();
        let harness = &record.harness;
        let line = format!(
            "{short_id:13}  {started:26}  {outcome:18} {time:>10}  {cost:>9}  {repository:20} {harness}"
        );
        writeln!(out, "{}", clean_text(line.trim_end()))?;
    }
    Ok(Exit::Done)
}

/// One unreadable log does not hide the other runs.
fn row(run: StoredRun, length: usize) -> Row {
    let short_id = run.id.get(..length).unwrap_or(&run.id).to_owned();
    match run.record() {
        Ok(record) => {
            let outcome = match record.outcome {
                Some(outcome) => outcome.as_str(),
                None if matches!(run.is_alive(), Ok(true)) => "running",
                None => "died",
            };
            Row { run, short_id, outcome, record, problem: None }
        }
        Err(error) => {
            let problem = Some(error.to_string());
            Row { run, short_id, outcome: "unreadable", record: Record::default(), problem }
        }
    }
}

/// The length of the shortest unique prefix of each id. The ids are sorted.
fn unique_prefixes(ids: &[&str]) -> Vec<usize> {
    let shared = |one: &str, other: &str| one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let length = |index: usize| {
        let before = index.checked_sub(1).map_or(0, |before| shared(ids[before], ids[index]));
        let after = ids.get(index + 1).map_or(0, |next| shared(next, ids[index]));
        (before.max(after) + 1).max(SHORTEST_ID)
    };
    (0..ids.len()).map(length).collect()
}

#[cfg(test)]
mod tests {
    use super::unique_prefixes;

    #[test]
    fn a_short_id_names_one_run() {
        let ids = ["0198c2ab-1111-7", "0198c2ab-1112-7", "0198c2ab-2000-7", "0299"];
        assert_eq!(unique_prefixes(&ids), [13, 13, 10, 8]);
        assert_eq!(unique_prefixes(&["0198c2ab-1111-7"]), [8]);
    }
}
