//! What the runs on disk cost, added up by day, harness or repository. Runs that were removed are not in it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::Record;
use super::store::StoredRun;

/// How many runs are added up at most, newest first.
const MAX_RUNS: usize = 20_000;

/// What runs are added up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CostKey {
    /// The day on which a run started, in UTC.
    Day,
    Harness,
    Repository,
}

impl CostKey {
    pub const ALL: [Self; 3] = [Self::Day, Self::Harness, Self::Repository];

    pub fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Harness => "harness",
            Self::Repository => "repository",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == word)
    }

    fn of(self, record: &Record) -> String {
        match self {
            Self::Day => record.started.get(..DAY_LENGTH).unwrap_or_default().to_owned(),
            Self::Harness => record.harness.clone(),
            Self::Repository if record.repository.is_empty() => record.repository_directory.clone(),
            Self::Repository => record.repository.clone(),
        }
    }
}

/// `YYYY-MM-DD`.
const DAY_LENGTH: usize = 10;

/// Runs that share a day, a harness or a repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CostTotal {
    /// The day, the harness or the repository; empty if a run has none.
    pub key: String,
    pub runs: u64,
    /// Dollars, without models that have no price.
    pub usd: f64,
    /// Runs that used a model without a price.
    pub unpriced_runs: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub duration_ms: u64,
}

/// What runs cost, by one key: days from the newest on, anything else from the most expensive on.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CostReport {
    pub by: CostKey,
    /// The first day that is counted; absent if all are.
    pub since: Option<String>,
    pub total: CostTotal,
    pub rows: Vec<CostTotal>,
    /// Runs whose record cannot be read.
    pub unreadable_runs: u64,
}

impl CostTotal {
    fn add(&mut self, record: &Record) {
        self.runs += 1;
        self.usd += record.usd().unwrap_or(0.0);
        self.unpriced_runs += u64::from(record.usage.values().any(|used| used.usd.is_none()));
        for used in record.usage.values() {
            self.input_tokens += used.input + used.cache_read + used.cache_write;
            self.output_tokens += used.output;
        }
        self.duration_ms += record.duration_ms().unwrap_or(0);
    }
}

/// Adds up `runs`, which are sorted oldest first. `since` is a day.
pub fn report(runs: &[StoredRun], by: CostKey, since: Option<&str>) -> CostReport {
    let mut rows: BTreeMap<String, CostTotal> = BTreeMap::new();
    let mut total = CostTotal::default();
    let mut unreadable_runs = 0;
    for run in runs.iter().rev().take(MAX_RUNS) {
        let Ok(record) = run.written_record() else {
            unreadable_runs += 1;
            continue;
        };
        // A run that has just begun has no event yet.
        if record.started.is_empty() {
            continue;
        }
        if since.is_some_and(|day| record.started.as_str() < day) {
            // Ids sort by time, so all other runs are older.
            break;
        }
        let key = by.of(&record);
        let row = rows.entry(key.clone()).or_insert_with(|| CostTotal { key, ..CostTotal::default() });
        row.add(&record);
        total.add(&record);
    }
    let mut rows: Vec<CostTotal> = rows.into_values().collect();
    match by {
        CostKey::Day => rows.reverse(),
        CostKey::Harness | CostKey::Repository => rows.sort_by(|one, other| other.usd.total_cmp(&one.usd)),
    }
    CostReport { by, since: since.map(str::to_owned), total, rows, unreadable_runs }
}

/// Whether a text is a day of the calendar.
pub fn is_day(text: &str) -> bool {
    text.len() == DAY_LENGTH && crate::event::clock::Moment::parse(&format!("{text}T00:00:00Z")).is_some()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::record::ModelUsage;

    fn stored(place: &Path, number: u32, record: &Record) -> StoredRun {
        let id = format!("01990000-0000-7000-8000-{number:012}");
        let path = place.join(&id);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("run.json"), serde_json::to_vec(record).unwrap()).unwrap();
        StoredRun { id, owner: "local".to_owned(), path }
    }

    fn record(day: u32, harness: &str, repository: &str, usd: Option<f64>) -> Record {
        let used = ModelUsage { requests: 1, input: 7, output: 2, cache_read: 3, cache_write: 0, usd };
        Record {
            harness: harness.to_owned(),
            repository: repository.to_owned(),
            repository_directory: "here".to_owned(),
            started: format!("2030-01-{day:02}T12:00:00.000Z"),
            usage: BTreeMap::from([("m".to_owned(), used)]),
            ..Record::default()
        }
    }

    #[test]
    fn runs_are_added_up_by_day_harness_and_repository() {
        let place = tempfile::tempdir().unwrap();
        let records = [
            record(1, "triage", "a/b", Some(0.5)),
            record(2, "triage", "", Some(0.25)),
            record(2, "review", "a/b", None),
            record(3, "review", "a/b", Some(4.0)),
            // One that has just begun.
            Record::default(),
        ];
        let runs: Vec<StoredRun> =
            records.iter().zip(1..).map(|(record, number)| stored(place.path(), number, record)).collect();
        let rows = |by, since: Option<&str>| {
            let report = report(&runs, by, since);
            report
                .rows
                .into_iter()
                .map(|row| (row.key, row.runs, row.usd, row.unpriced_runs))
                .collect::<Vec<_>>()
        };
        let row = |key: &str, runs, usd, unpriced| (key.to_owned(), runs, usd, unpriced);
        assert_eq!(
            rows(CostKey::Day, None),
            [row("2030-01-03", 1, 4.0, 0), row("2030-01-02", 2, 0.25, 1), row("2030-01-01", 1, 0.5, 0)]
        );
        assert_eq!(rows(CostKey::Harness, None), [row("review", 2, 4.0, 1), row("triage", 2, 0.75, 0)]);
        assert_eq!(rows(CostKey::Repository, None), [row("a/b", 3, 4.5, 1), row("here", 1, 0.25, 0)]);
        assert_eq!(
            rows(CostKey::Harness, Some("2030-01-02")),
            [row("review", 2, 4.0, 1), row("triage", 1, 0.25, 0)]
        );
        let total = report(&runs, CostKey::Day, None).total;
        assert_eq!((total.runs, total.usd, total.input_tokens, total.output_tokens), (4, 4.75, 40, 8));
    }

    #[test]
    fn days_are_days_of_the_calendar() {
        for (text, expected) in
            [("2030-01-31", true), ("2030-02-30", false), ("2030-1-1", false), ("today", false)]
        {
            assert_eq!(is_day(text), expected, "{text}");
        }
    }
}
