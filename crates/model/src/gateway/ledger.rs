//! The budget: what was spent, what is reserved for pending requests, and whether one more fits. A request reserves
//! the most that it can cost before it is sent, so that spending stays within the budget however many run at once.

use crate::event::{ModelEvent, OnModelEvent};
use crate::price::{Money, Price, PriceList, UNKNOWN_MAX_OUTPUT};
use crate::wire::{ContentBlock, ModelRequest, TokenUsage};
use std::collections::BTreeMap;
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
    /// `needs`: what the request can cost at most.
    Spent {
        needs: String,
        spent: String,
    },
    Unpriced {
        model: String,
        list: String,
    },
}

impl fmt::Display for BudgetRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spent { needs, spent } => write!(
                f,
                "fullsend: the budget of this run does not allow another model request: {spent}, and this request \
                 may need {needs}. Finish with what you have; a person can raise `budget` in the harness."
            ),
            Self::Unpriced { model, list } => write!(
                f,
                "fullsend: `budget.usd` is set, but the model {model} has no price in list {list}; use a priced \
                 model, or `budget.tokens`."
            ),
        }
    }
}

pub struct Ledger {
    budget: BudgetLimits,
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
    warned: bool,
    /// What was spent when the first request was refused.
    refused: Option<String>,
}

/// What one exchange used, to be added to the totals.
struct Used<'a> {
    model: &'a str,
    usage: TokenUsage,
    cost: Option<Money>,
}

/// About the most tokens that a vendor counts for one image or page, which may be fewer bytes in the body.
const TOKENS_OF_OTHER_BLOCK: u64 = 5000;

impl Ledger {
    pub fn new(budget: BudgetLimits, prices: PriceList, on_event: OnModelEvent) -> Self {
        Self { budget, prices, state: Mutex::default(), settled: Notify::new(), on_event }
    }

    pub fn models(&self) -> BTreeMap<String, ModelTotals> {
        self.lock().models.clone()
    }

    /// What was spent when the budget first refused a request, if it has.
    pub fn refused(&self) -> Option<String> {
        self.lock().refused.clone()
    }

    /// Waits while pending requests may still return enough of their reservation; refuses as soon as they cannot.
    pub async fn reserve(
        self: &Arc<Self>,
        request: &ModelRequest,
        body_bytes: usize,
    ) -> Result<Reservation, BudgetRefusal> {
        let (ask, bound) = self.upper_bound(request, body_bytes)?;
        loop {
            let settled = self.settled.notified();
            tokio::pin!(settled);
            // Enabled before the check, so that a settlement between the check and the wait is not missed.
            settled.as_mut().enable();
            if let Some(outcome) = self.try_reserve(ask) {
                let refused = |refusal| {
                    self.say_spent();
                    refusal
                };
                let ledger = Arc::clone(self);
                return outcome
                    .map(|()| Reservation {
                        ledger,
                        ask,
                        bound,
                        model: request.model.clone(),
                        sent: false,
                        open: true,
                    })
                    .map_err(refused);
            }
            settled.await;
        }
    }

    /// `None`: pending requests may still return enough.
    fn try_reserve(&self, ask: Amount) -> Option<Result<(), BudgetRefusal>> {
        let mut state = self.lock();
        if !self.fits(state.spent.plus(ask)) {
            let refusal =
                BudgetRefusal::Spent { needs: self.describe(ask), spent: self.describe_spent(state.spent) };
            return Some(Err(refusal));
        }
        let with_all = state.spent.plus(state.reserved).plus(ask);
        if !self.fits(with_all) {
            return None;
        }
        state.reserved = state.reserved.plus(ask);
        Some(Ok(()))
    }

    /// Every byte of a body is at most one token, and every token at most at the dearest rate.
    fn upper_bound(
        &self,
        request: &ModelRequest,
        body_bytes: usize,
    ) -> Result<(Amount, TokenUsage), BudgetRefusal> {
        let price = self.prices.price(&request.model);
        if price.is_none() && self.budget.usd.is_some() {
            let model = request.model.clone();
            let list = self.prices.version.clone();
            return Err(BudgetRefusal::Unpriced { model, list });
        }
        let blocks = request.messages.iter().flat_map(|message| &message.blocks);
        let others = blocks.filter(|block| matches!(block, ContentBlock::Other(_))).count() as u64;
        let input = (body_bytes as u64).saturating_add(others.saturating_mul(TOKENS_OF_OTHER_BLOCK));
        let longest = price.map_or(UNKNOWN_MAX_OUTPUT, |price| price.max_output_tokens);
        let output = request.max_tokens.unwrap_or(longest);
        let money = price.map_or(Money(0), |price| {
            let rates = price.rates_for(input);
            let input_cost = Money(rates.dearest_input().0.saturating_mul(input));
            input_cost.plus(Money(rates.output.0.saturating_mul(output)))
        });
        let bound = TokenUsage { input, output, ..TokenUsage::default() };
        Ok((Amount { money, tokens: bound.total(), turns: 1 }, bound))
    }

    fn fits(&self, amount: Amount) -> bool {
        let BudgetLimits { usd, tokens, turns } = self.budget;
        usd.is_none_or(|most| amount.money <= most)
            && tokens.is_none_or(|most| amount.tokens <= most)
            && turns.is_none_or(|most| amount.turns <= most)
    }

    fn settle(&self, ask: Amount, requested: &str, answered: Option<(&str, TokenUsage)>) -> Option<Money> {
        let Some((model, usage)) = answered else {
            self.book(ask, None);
            return None;
        };
        let model = if model.is_empty() { requested } else { model };
        let price = self.prices.price(model).or_else(|| self.prices.price(requested));
        let cost = price.map(|price: &Price| price.cost(&usage));
        self.book(ask, Some(&Used { model, usage, cost }));
        cost
    }

    fn settle_reserved(&self, ask: Amount, model: &str, bound: TokenUsage) -> Option<Money> {
        let cost = self.prices.price(model).map(|_| ask.money);
        self.book(ask, Some(&Used { model, usage: bound, cost }));
        cost
    }

    /// Ends a reservation and adds what was used.
    fn book(&self, ask: Amount, used: Option<&Used<'_>>) {
        let warning = {
            let mut state = self.lock();
            state.reserved = state.reserved.minus(ask);
            if let Some(Used { model, usage, cost }) = used {
                let money = cost.unwrap_or_default();
                state.spent = state.spent.plus(Amount { money, tokens: usage.total(), turns: 1 });
                let entry = state.models.entry((*model).to_owned()).or_default();
                entry.requests += 1;
                entry.usage.add(usage);
                entry.cost = cost.map(|cost| entry.cost.unwrap_or_default().plus(cost));
            }
            let near = self.is_near(state.spent) && !std::mem::replace(&mut state.warned, true);
            near.then(|| self.describe_spent(state.spent))
        };
        self.settled.notify_waiters();
        if let Some(spent) = warning {
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

    fn say_spent(&self) {
        let spent = {
            let mut state = self.lock();
            let first = state.refused.is_none();
            let spent = self.describe_spent(state.spent);
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
            turns.map(|_| format!("{} turn", amount.turns)),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
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
    model: String,
    sent: bool,
    open: bool,
}

impl Reservation {
    /// From now on the upstream may bill it.
    pub fn mark_sent(&mut self) {
        self.sent = true;
    }

    /// The upstream answered. Returns the cost if the model has a price.
    pub fn charge(mut self, model: &str, usage: TokenUsage) -> Charge {
        self.open = false;
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
        if self.open {
            let mut state = self.ledger.lock();
            state.reserved = state.reserved.minus(self.ask);
            if self.sent {
                state.spent = state.spent.plus(self.ask);
            }
            drop(state);
            self.ledger.settled.notify_waiters();
        }
    }
}
