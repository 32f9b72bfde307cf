//! Budgets that this run shares with others: a session's, a day's. The caller stores them; the ledger reserves in all of them
//! before it sends a request.

use crate::price::Money;
use std::fmt;
use std::sync::Arc;

/// One budget in dollars that several runs spend from. Reserving and settling take effect for all of them at once.
pub trait SharedBudget: Send + Sync {
    /// The field that sets it, such as `budget.day_usd`.
    fn field(&self) -> &str;
    /// What is spent and reserved now.
    fn state(&self) -> Result<SharedState, String>;
    /// Reserves `amount` if it fits.
    fn reserve(&self, amount: Money) -> Result<bool, String>;
    /// Ends a reservation, and counts what was spent.
    fn settle(&self, reserved: Money, spent: Money);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SharedState {
    pub limit: Money,
    pub spent: Money,
    /// For requests of all runs that are not answered yet.
    pub reserved: Money,
}

impl SharedState {
    pub fn left(&self) -> Money {
        self.limit.minus(self.spent.plus(self.reserved))
    }

    fn is_near(&self) -> bool {
        u128::from(self.spent.0) * 5 >= u128::from(self.limit.0) * 4
    }

    fn describe_spent(&self, field: &str) -> String {
        format!("{} of {} are spent (`{field}`)", self.spent, self.limit)
    }
}

/// Why a shared budget refuses a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SharedRefusal {
    Spent { field: String, state: SharedState, asked: Money },
    Unreadable { field: String, why: String },
}

impl SharedRefusal {
    /// What is spent, for the event and the outcome.
    pub fn spent(&self) -> String {
        match self {
            Self::Spent { field, state, asked } => {
                format!("{}; the next request can cost {asked}", state.describe_spent(field))
            }
            Self::Unreadable { field, why } => format!("`{field}` cannot be read: {why}"),
        }
    }
}

impl fmt::Display for SharedRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spent { field, state, asked } => write!(
                f,
                "fullsend: `{field}` does not allow another model request: {} of {} are spent; reserved for requests that \
                 are not answered yet: {}; left: {}; this request can cost {asked}. Finish with what you have; a person \
                 can raise `{field}`.",
                state.spent,
                state.limit,
                state.reserved,
                state.left()
            ),
            Self::Unreadable { field, why } => write!(
                f,
                "fullsend: `{field}` allows no model request because what was spent cannot be read: {why}"
            ),
        }
    }
}

/// All shared budgets of one run.
#[derive(Clone, Default)]
pub struct SharedBudgets(Vec<Arc<dyn SharedBudget>>);

impl SharedBudgets {
    pub fn new(budgets: Vec<Arc<dyn SharedBudget>>) -> Self {
        Self(budgets)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The least that any of them has left. `None`: there is none.
    pub(super) fn left(&self) -> Result<Option<Money>, SharedRefusal> {
        let mut least: Option<Money> = None;
        for budget in &self.0 {
            let left = budget.state().map_err(|why| unreadable(budget.as_ref(), why))?.left();
            least = Some(least.map_or(left, |least| least.min(left)));
        }
        Ok(least)
    }

    /// Reserves in all of them or in none.
    pub(super) fn reserve(&self, amount: Money) -> Result<(), SharedRefusal> {
        for (index, budget) in self.0.iter().enumerate() {
            let refusal = match budget.reserve(amount) {
                Ok(true) => continue,
                Ok(false) => SharedRefusal::Spent {
                    field: budget.field().to_owned(),
                    state: budget.state().unwrap_or_default(),
                    asked: amount,
                },
                Err(why) => unreadable(budget.as_ref(), why),
            };
            self.0[..index].iter().for_each(|taken| taken.settle(amount, Money(0)));
            return Err(refusal);
        }
        Ok(())
    }

    pub(super) fn settle(&self, reserved: Money, spent: Money) {
        self.0.iter().for_each(|budget| budget.settle(reserved, spent));
    }

    /// The budgets of which four fifths are spent: the field and how much.
    pub(super) fn near(&self) -> Vec<(String, String)> {
        let near = |budget: &Arc<dyn SharedBudget>| {
            let state = budget.state().ok().filter(SharedState::is_near)?;
            Some((budget.field().to_owned(), state.describe_spent(budget.field())))
        };
        self.0.iter().filter_map(near).collect()
    }
}

fn unreadable(budget: &dyn SharedBudget, why: String) -> SharedRefusal {
    SharedRefusal::Unreadable { field: budget.field().to_owned(), why }
}
