//! The budget: what was spent, what is reserved for pending requests, and whether one more fits. A request reserves
//! the most that it can cost before it is sent, so that spending stays within the budget however many run at once.

use super::known_input::{InputParts, KnownInputs};
use super::shared_budget::{SharedBudgets, SharedRefusal};
use crate::event::{ModelEvent, OnModelEvent};
use crate::price::{Money, Price, PriceList, UNKNOWN_MAX_OUTPUT};
use crate::wire::{ModelRequest, TokenUsage};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// `None` is no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BudgetLimits {
    pub usd: Option<Money>,
    pub tokens: Option<u64>,
    pub turns: Option<u64>,
}

/// What one model used, for the record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelTotals {
    pub requests: u64,
    pub usage: TokenUsage,
    /// `None`: the model has no price.
    pub cost: Option<Money>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Amount {
    money: Money,
    tokens: u64,
    turns: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BudgetRefusal {
    Spent {
        spent: String,
        /// For requests that are not answered yet.
        reserved: String,
        left: String,
        /// The most that this request can cost.
        asked: String,
    },
    Shared(SharedRefusal),
    Unpriced {
        model: String,
        list: String,
    },
}

impl fmt::Display for BudgetRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spent { spent, reserved, left, asked } => write!(
                f,
                "fullsend: the budget of this run does not allow another model request: {spent}; reserved for \
                 requests that are not answered yet: {reserved}; left: {left}; this request can cost {asked}. \
                 Finish with what you have; a person can raise `budget` in the harness."
            ),
            Self::Shared(refusal) => refusal.fmt(f),
            Self::Unpriced { model, list } => write!(
                f,
                "fullsend: a budget in dollars is set, but the model {model} has no price in list {list}; add it to `prices` \
                 in config.yaml, or use `budget.tokens`."
            ),
        }
    }
}

pub struct Ledger {
    budget: BudgetLimits,
    shared: SharedBudgets,
    prices: PriceList,
    state: Mutex<LedgerState>,
    settled: Notify,
    on_event: OnModelEvent,
}

#[derive(Default)]
struct LedgerState {
    spent: Amount,
    reserved: Amount,
    models: BTreeMap<String, ModelTotals>,
    inputs: KnownInputs,
    warned: bool,
    /// The fields of shared budgets that were warned about.
    warned_shared: BTreeSet<String>,
    /// What was spent when the first request was refused.
    refused: Option<String>,
}

/// The most that one request can cost.
struct HighestCost {
    input: u64,
    output: u64,
    input_cost: Money,
    /// Of one token.
    output_rate: Money,
}

impl HighestCost {
    /// How many output tokens this much money pays, once the input is paid.
    fn output_for(&self, money: Money) -> u64 {
        match self.output_rate.0 {
            0 => u64::MAX,
            rate => money.minus(self.input_cost).0 / rate,
        }
    }

    fn with_output(&self, output: u64) -> Amount {
        let money = self.input_cost.plus(Money(self.output_rate.0.saturating_mul(output)));
        Amount { money, tokens: self.input.saturating_add(output), turns: 1 }
    }
}

/// What one exchange used, to be added to the totals.
struct ExchangeUse<'a> {
    model: &'a str,
    usage: TokenUsage,
    cost: Option<Money>,
}

impl Ledger {
    pub fn new(
        budget: BudgetLimits,
        shared: SharedBudgets,
        prices: PriceList,
        on_event: OnModelEvent,
    ) -> Self {
        Self { budget, shared, prices, state: Mutex::default(), settled: Notify::new(), on_event }
    }

    pub fn models(&self) -> BTreeMap<String, ModelTotals> {
        self.lock().models.clone()
    }

    /// What was spent when the budget first refused a request, if it has.
    pub fn refused(&self) -> Option<String> {
        self.lock().refused.clone()
    }

    /// Waits while pending requests may still return enough of their reservation; refuses as soon as they cannot. A
    /// request that can cost more than is left gets a shorter answer, of `least_output` tokens or more.
    pub async fn reserve(
        self: &Arc<Self>,
        request: &ModelRequest,
        parts: InputParts,
        least_output: u64,
    ) -> Result<Reservation, BudgetRefusal> {
        let cost = self.highest_cost(request, &parts)?;
        loop {
            let settled = self.settled.notified();
            tokio::pin!(settled);
            // Enabled before the check, so that a settlement between the check and the wait is not missed.
            settled.as_mut().enable();
            if let Some(outcome) = self.try_reserve(&cost, least_output) {
                let output = outcome.inspect_err(|refusal| self.report_spent(refusal))?;
                return Ok(Reservation {
                    ledger: Arc::clone(self),
                    ask: cost.with_output(output),
                    bound: TokenUsage { input: cost.input, output, ..TokenUsage::default() },
                    shortened: output < cost.output,
                    parts,
                    model: request.model.clone(),
                    sent: false,
                    open: true,
                });
            }
            settled.await;
        }
    }

    /// The output tokens that are reserved. `None`: pending requests may still return enough.
    fn try_reserve(&self, cost: &HighestCost, least_output: u64) -> Option<Result<u64, BudgetRefusal>> {
        let shared_left = match self.shared.left() {
            Ok(left) => left,
            Err(refusal) => return Some(Err(BudgetRefusal::Shared(refusal))),
        };
        let mut state = self.lock();
        let by_shared = shared_left.map_or(u64::MAX, |left| cost.output_for(left));
        let least_output = least_output.min(cost.output);
        let output = cost.output.min(self.affordable_output(state.spent, cost));
        let ask = cost.with_output(output);
        if output < least_output || !self.fits(state.spent.plus(ask)) {
            let taken = state.spent.plus(state.reserved);
            return Some(Err(BudgetRefusal::Spent {
                spent: self.describe_spent(state.spent),
                reserved: self.describe(state.reserved),
                left: self.describe(self.left(taken)),
                asked: self.describe_asked(cost, least_output),
            }));
        }
        if !self.fits(state.spent.plus(state.reserved).plus(ask)) {
            return None;
        }
        // Other runs may hold their reservations for long, so this request does not wait for them: it gets a shorter answer
        // or is refused.
        let output = if by_shared >= least_output { output.min(by_shared) } else { output };
        let ask = cost.with_output(output);
        if let Err(refusal) = self.shared.reserve(ask.money) {
            return Some(Err(BudgetRefusal::Shared(refusal)));
        }
        state.reserved = state.reserved.plus(ask);
        Some(Ok(output))
    }

    /// How many output tokens can be paid once the input is.
    fn affordable_output(&self, spent: Amount, cost: &HighestCost) -> u64 {
        let left = self.left(spent.plus(cost.with_output(0)));
        let by_money = self.budget.usd.filter(|_| cost.output_rate.0 > 0);
        let by_money = by_money.map_or(u64::MAX, |_| left.money.0 / cost.output_rate.0);
        let by_tokens = self.budget.tokens.map_or(u64::MAX, |_| left.tokens);
        by_money.min(by_tokens)
    }

    /// What is left of each limit. A field without a limit is 0, so check the limit first.
    fn left(&self, taken: Amount) -> Amount {
        let BudgetLimits { usd, tokens, turns } = self.budget;
        let all = Amount {
            money: usd.unwrap_or_default(),
            tokens: tokens.unwrap_or_default(),
            turns: turns.unwrap_or_default(),
        };
        all.minus(taken)
    }

    /// The parts of a body that become tokens.
    pub fn parts(&self, body: &Value) -> InputParts {
        self.lock().inputs.parts(body)
    }

    /// The most that the request can cost: every input token at the highest input rate, and the longest answer.
    fn highest_cost(&self, request: &ModelRequest, parts: &InputParts) -> Result<HighestCost, BudgetRefusal> {
        let price = self.prices.price(&request.model);
        if price.is_none() && (self.budget.usd.is_some() || !self.shared.is_empty()) {
            let model = request.model.clone();
            let list = self.prices.version.clone();
            return Err(BudgetRefusal::Unpriced { model, list });
        }
        let input = self.lock().inputs.bound(parts);
        let longest = price.map_or(UNKNOWN_MAX_OUTPUT, |price| price.max_output_tokens);
        let rates = price.map(|price| price.rates_for(input));
        Ok(HighestCost {
            input,
            output: request.max_tokens.unwrap_or(longest),
            input_cost: rates.map_or(Money(0), |rates| Money(rates.max_input_rate().0.saturating_mul(input))),
            output_rate: rates.map_or(Money(0), |rates| rates.output),
        })
    }

    fn fits(&self, amount: Amount) -> bool {
        let BudgetLimits { usd, tokens, turns } = self.budget;
        usd.is_none_or(|most| amount.money <= most)
            && tokens.is_none_or(|most| amount.tokens <= most)
            && turns.is_none_or(|most| amount.turns <= most)
    }

    fn settle(&self, ask: Amount, requested: &str, answered: Option<(&str, TokenUsage)>) -> Option<Money> {
        let Some((model, usage)) = answered else {
            self.settle_reservation(ask, None);
            return None;
        };
        let model = if model.is_empty() { requested } else { model };
        let price = self.prices.price(model).or_else(|| self.prices.price(requested));
        let cost = price.map(|price: &Price| price.cost(&usage));
        self.settle_reservation(ask, Some(&ExchangeUse { model, usage, cost }));
        cost
    }

    fn settle_reserved(&self, ask: Amount, model: &str, bound: TokenUsage) -> Option<Money> {
        let cost = self.prices.price(model).map(|_| ask.money);
        self.settle_reservation(ask, Some(&ExchangeUse { model, usage: bound, cost }));
        cost
    }

    /// Ends a reservation and adds what was used.
    fn settle_reservation(&self, ask: Amount, used: Option<&ExchangeUse<'_>>) {
        let spent = used.and_then(|used| used.cost).unwrap_or_default();
        self.shared.settle(ask.money, spent);
        let near = self.shared.near();
        let warnings = {
            let mut state = self.lock();
            state.reserved = state.reserved.minus(ask);
            if let Some(ExchangeUse { model, usage, cost }) = used {
                let money = cost.unwrap_or_default();
                state.spent = state.spent.plus(Amount { money, tokens: usage.total(), turns: 1 });
                let entry = state.models.entry((*model).to_owned()).or_default();
                entry.requests += 1;
                entry.usage.add(usage);
                entry.cost = cost.map(|cost| entry.cost.unwrap_or_default().plus(cost));
            }
            let own = (self.is_near(state.spent) && !state.warned).then(|| self.describe_spent(state.spent));
            state.warned |= own.is_some();
            let shared = near.into_iter().filter(|(field, _)| state.warned_shared.insert(field.clone()));
            own.into_iter().chain(shared.map(|(_, spent)| spent)).collect::<Vec<String>>()
        };
        self.settled.notify_waiters();
        for spent in warnings {
            (self.on_event)(ModelEvent::BudgetWarning { spent });
        }
    }

    fn is_near(&self, spent: Amount) -> bool {
        let near = |value: u64, most: Option<u64>| {
            most.is_some_and(|most| u128::from(value) * 5 >= u128::from(most) * 4)
        };
        let BudgetLimits { usd, tokens, turns } = self.budget;
        near(spent.money.0, usd.map(|most| most.0)) || near(spent.tokens, tokens) || near(spent.turns, turns)
    }

    fn report_spent(&self, refusal: &BudgetRefusal) {
        let spent = {
            let mut state = self.lock();
            let first = state.refused.is_none();
            let spent = match refusal {
                BudgetRefusal::Shared(refusal) => refusal.spent(),
                BudgetRefusal::Spent { spent, asked, .. } => {
                    format!("{spent}; the next request can cost {asked}")
                }
                BudgetRefusal::Unpriced { .. } => self.describe_spent(state.spent),
            };
            state.refused.get_or_insert_with(|| spent.clone());
            first.then_some(spent)
        };
        if let Some(spent) = spent {
            (self.on_event)(ModelEvent::BudgetSpent { spent });
        }
    }

    fn describe(&self, amount: Amount) -> String {
        let BudgetLimits { usd, tokens, turns } = self.budget;
        let parts = [
            usd.map(|_| amount.money.to_string()),
            tokens.map(|_| format!("{} tokens", amount.tokens)),
            turns.map(|_| format!("turns: {}", amount.turns)),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// The whole request, and the same with the shortest answer that is sent.
    fn describe_asked(&self, cost: &HighestCost, least_output: u64) -> String {
        let whole = self.describe(cost.with_output(cost.output));
        let has_length = self.budget.usd.is_some() || self.budget.tokens.is_some();
        if !has_length || least_output >= cost.output {
            return whole;
        }
        let shortest = self.describe(cost.with_output(least_output));
        format!("{whole}, or {shortest} with an answer of {least_output} tokens")
    }

    fn describe_spent(&self, spent: Amount) -> String {
        let BudgetLimits { usd, tokens, turns } = self.budget;
        let parts = [
            usd.map(|most| format!("{} of {most} are spent", spent.money)),
            tokens.map(|most| format!("{} of {most} tokens are spent", spent.tokens)),
            turns.map(|most| format!("{} of {most} turns are used", spent.turns)),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    fn lock(&self) -> MutexGuard<'_, LedgerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Amount {
    fn plus(self, other: Self) -> Self {
        Self {
            money: self.money.plus(other.money),
            tokens: self.tokens.saturating_add(other.tokens),
            turns: self.turns.saturating_add(other.turns),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            money: self.money.minus(other.money),
            tokens: self.tokens.saturating_sub(other.tokens),
            turns: self.turns.saturating_sub(other.turns),
        }
    }
}

/// What one exchange cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Charge {
    pub usage: TokenUsage,
    /// `None`: the model has no price.
    pub cost: Option<Money>,
}

/// Held while a request is pending. If it is dropped unsettled (the client went away, a task died), it is charged in full if
/// the request was sent, because what the upstream did is then unknown.
pub struct Reservation {
    ledger: Arc<Ledger>,
    ask: Amount,
    /// The tokens in `ask`.
    bound: TokenUsage,
    /// The answer may be shorter than the request asks for.
    shortened: bool,
    parts: InputParts,
    model: String,
    sent: bool,
    open: bool,
}

impl Reservation {
    /// The longest answer that is paid, if it is shorter than the request asks for.
    pub fn shortened_output(&self) -> Option<u64> {
        self.shortened.then_some(self.bound.output)
    }

    /// From now on the upstream may bill it.
    pub fn mark_sent(&mut self) {
        self.sent = true;
    }

    /// The upstream answered. Returns the cost if the model has a price.
    pub fn charge(mut self, model: &str, usage: TokenUsage) -> Charge {
        self.open = false;
        let counted = usage.total().saturating_sub(usage.output);
        self.ledger.lock().inputs.learn(&self.parts, counted);
        let cost = self.ledger.settle(self.ask, &self.model, Some((model, usage)));
        Charge { usage, cost }
    }

    /// The upstream answered and did not report what it used: everything that was reserved is charged.
    pub fn charge_reserved(mut self) -> Charge {
        self.open = false;
        let cost = self.ledger.settle_reserved(self.ask, &self.model, self.bound);
        Charge { usage: self.bound, cost }
    }

    /// The upstream bills nothing.
    pub fn release(mut self) -> Charge {
        self.open = false;
        self.ledger.settle(self.ask, &self.model, None);
        Charge::default()
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.open && self.sent {
            self.ledger.settle_reserved(self.ask, &self.model, self.bound);
        } else if self.open {
            self.ledger.settle(self.ask, &self.model, None);
        }
    }
}
