//! Budgets that runs share: a session's, and the day's of a repository or an organisation. A day's totals are one small file
//! beside the runs, changed under a lock, so that runs at the same time cannot spend the same dollar.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use model::Money;
use model::gateway::{SharedBudget, SharedBudgets, SharedState};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::event::clock::Moment;
use crate::event::log::sha256;
use crate::harness::Budget;
use crate::harness::names::Dollars;

/// The directory of the totals, beside the directory of the runs.
const DIRECTORY: &str = "spending";
/// Older days are removed.
const DAYS_KEPT: usize = 62;

/// The budgets that a run counts against.
pub struct RunBudgets<'a> {
    /// The directory of all runs.
    pub runs: &'a Path,
    /// `owner/name`, where it is known.
    pub repository_name: Option<&'a str>,
    pub repository: &'a Path,
    /// What the session's earlier wakes cost; `None` outside a session.
    pub session_spent: Option<Money>,
}

pub fn shared_budgets(budget: Option<&Budget>, spender: &RunBudgets<'_>) -> SharedBudgets {
    let Some(budget) = budget else { return SharedBudgets::default() };
    let limit = |field: &Option<yaml::Spanned<Dollars>>| {
        field.as_ref().and_then(|dollars| Money::from_usd(dollars.get()))
    };
    let local = spender.repository.to_string_lossy();
    let repository = spender.repository_name.unwrap_or(&local);
    let owner = spender.repository_name.and_then(|name| name.split('/').next()).unwrap_or(&local);
    let mut shared: Vec<Arc<dyn SharedBudget>> = Vec::new();
    if let (Some(limit), Some(spent)) = (limit(&budget.session_usd), spender.session_spent) {
        let state = SharedState { limit, spent, reserved: Money(0) };
        shared.push(Arc::new(SessionBudget { state: Mutex::new(state) }));
    }
    let mut add_day = |field, limit, scope: String| {
        if let Some(limit) = limit {
            let directory = spender.runs.with_file_name(DIRECTORY);
            shared.push(Arc::new(DayBudget { field, limit, directory, scope }));
        }
    };
    add_day("budget.day_usd", limit(&budget.day_usd), format!("repository {repository}"));
    let organisation = limit(&budget.organisation_day_usd);
    add_day("budget.organisation_day_usd", organisation, format!("organisation {owner}"));
    SharedBudgets::new(shared)
}

/// One wake of a session runs at a time, so that its budget needs no file.
struct SessionBudget {
    state: Mutex<SharedState>,
}

impl SharedBudget for SessionBudget {
    fn field(&self) -> &str {
        "budget.session_usd"
    }

    fn state(&self) -> Result<SharedState, String> {
        Ok(*self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn reserve(&self, amount: Money) -> Result<bool, String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = amount <= state.left();
        if fits {
            state.reserved = state.reserved.plus(amount);
        }
        Ok(fits)
    }

    fn settle(&self, reserved: Money, spent: Money) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.reserved = state.reserved.minus(reserved);
        state.spent = state.spent.plus(spent);
    }
}

/// What a scope spends on one day (UTC). A run that is killed leaves its reservation: what the vendor billed is unknown.
struct DayBudget {
    field: &'static str,
    limit: Money,
    directory: PathBuf,
    /// The owner of the day's budget, as text.
    scope: String,
}

/// The file of one scope and one day, in billionths of a dollar.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DayTotals {
    scope: String,
    spent: Money,
    reserved: Money,
}

impl SharedBudget for DayBudget {
    fn field(&self) -> &str {
        self.field
    }

    fn state(&self) -> Result<SharedState, String> {
        self.update(|_| false).map(|totals| self.shared(&totals))
    }

    fn reserve(&self, amount: Money) -> Result<bool, String> {
        let mut fits = false;
        self.update(|totals| {
            fits = amount <= self.shared(totals).left();
            if fits {
                totals.reserved = totals.reserved.plus(amount);
            }
            fits
        })?;
        Ok(fits)
    }

    fn settle(&self, reserved: Money, spent: Money) {
        // If the file cannot be written, the reservation stays, which covers what was spent.
        drop(self.update(|totals| {
            totals.reserved = totals.reserved.minus(reserved);
            totals.spent = totals.spent.plus(spent);
            true
        }));
    }
}

impl DayBudget {
    fn shared(&self, totals: &DayTotals) -> SharedState {
        SharedState { limit: self.limit, spent: totals.spent, reserved: totals.reserved }
    }

    /// Under a lock, reads today's totals and writes them if `change` returns new ones.
    fn update(&self, change: impl FnOnce(&mut DayTotals) -> bool) -> Result<DayTotals, String> {
        let day = self.directory.join(Moment::now().date());
        let failed = |path: &Path| {
            let path = path.display().to_string();
            move |error: io::Error| format!("{path}: {error}")
        };
        if !day.exists() {
            std::fs::create_dir_all(&day).map_err(failed(&day))?;
            remove_old_days(&self.directory);
        }
        let name = &sha256(self.scope.as_bytes())[..16];
        let path = day.join(format!("{name}.json"));
        let lock_path = day.join(format!("{name}.lock"));
        let lock = File::options().create(true).append(true).open(&lock_path).map_err(failed(&lock_path))?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)
            .map_err(|error| failed(&lock_path)(error.into()))?;
        let mut totals = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| failed(&path)(error.into()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DayTotals { scope: self.scope.clone(), ..DayTotals::default() }
            }
            Err(error) => return Err(failed(&path)(error)),
        };
        if change(&mut totals) {
            let new = day.join(format!("{name}.new"));
            let text = serde_json::to_vec(&totals).map_err(|error| error.to_string())?;
            std::fs::write(&new, text).map_err(failed(&new))?;
            std::fs::rename(&new, &path).map_err(failed(&path))?;
        }
        Ok(totals)
    }
}

fn remove_old_days(directory: &Path) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut days: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    days.sort();
    let old = days.len().saturating_sub(DAYS_KEPT);
    // Best effort: old files take little space.
    days.into_iter().take(old).for_each(|day| drop(std::fs::remove_dir_all(day)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(directory: &Path, scope: &str, limit: u64) -> DayBudget {
        let scope = scope.to_owned();
        DayBudget { field: "budget.day_usd", limit: Money(limit), directory: directory.to_owned(), scope }
    }

    #[test]
    fn runs_at_the_same_time_never_take_more_than_the_day_has() {
        let scratch = tempfile::tempdir().unwrap();
        let taken: u64 = std::thread::scope(|scope| {
            let tasks: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let budget = day(scratch.path(), "repository acme/x", 100);
                        (0..20).filter(|_| budget.reserve(Money(3)).unwrap()).count() as u64
                    })
                })
                .collect();
            tasks.into_iter().map(|task| task.join().unwrap()).sum()
        });
        assert_eq!(taken, 33, "33 reservations of 3 fit into 100");
    }

    #[test]
    fn settled_reservation_frees_the_rest() {
        let scratch = tempfile::tempdir().unwrap();
        let budget = day(scratch.path(), "repository acme/x", 100);
        assert!(budget.reserve(Money(80)).unwrap());
        assert!(!budget.reserve(Money(30)).unwrap());
        budget.settle(Money(80), Money(10));
        assert!(budget.reserve(Money(90)).unwrap());
        let other = day(scratch.path(), "repository acme/y", 100);
        assert!(other.reserve(Money(100)).unwrap(), "another repository has its own day");
    }

    #[test]
    fn totals_that_cannot_be_read_allow_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let budget = day(scratch.path(), "repository acme/x", 100);
        assert!(budget.reserve(Money(1)).unwrap());
        let folder = scratch.path().join(Moment::now().date());
        let file = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
        let file = file.into_iter().find(|path| path.extension().is_some_and(|end| end == "json")).unwrap();
        std::fs::write(file, "{}}").unwrap();
        assert!(budget.reserve(Money(1)).is_err());
        assert!(budget.state().is_err());
    }
}
