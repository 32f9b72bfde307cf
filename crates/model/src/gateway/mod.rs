//! The model gateway: the one way from the sandbox to the model. It limits, inspects and meters every request and answer
//! of every runtime, and charges it to the budget. It holds the key and never passes it to the sandbox.

mod backoff;
mod client;
mod command_output;
mod count_tokens;
mod exchange;
mod hosted;
mod inspect;
mod inspect_request;
mod known_input;
mod ledger;
mod memory;
mod relay;
mod response;
mod retry;
mod rules;
mod seen_results;
mod serve;
mod shared_budget;
mod start_signal;
mod stream_filter;
#[cfg(test)]
mod tests;
mod whole_answer;

pub use backoff::BackoffLimits;
pub use client::CheckClient;
pub use command_output::{ChunkFormat, CommandOutputs, EarlierOutput, OutputChunk, PlacedText};
pub use inspect::{HoldBack, Inspect, Inspected, Verdict};
pub use ledger::{BudgetLimits, ModelTotals};
pub use retry::RetryLimits;
pub use rules::{ModelRules, RequestRules};
pub use seen_results::ResultDigest;
pub use serve::{GatewayServer, service, start};
pub use shared_budget::{SharedBudget, SharedBudgets, SharedState};
pub use start_signal::StartSignal;

use crate::event::{ModelEvent, OnModelEvent};
use crate::price::PriceList;
use crate::upstream::Upstream;
use backoff::Backoff;
use ledger::Ledger;
use memory::MemoryBudget;
use rules::Rules;
use seen_results::SeenResults;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub struct GatewayConfig {
    pub upstream: Upstream,
    pub rules: RequestRules,
    pub budget: BudgetLimits,
    pub shared_budgets: SharedBudgets,
    pub prices: PriceList,
    pub inspect: Inspect,
    pub hold_back: HoldBack,
    pub chunk_format: ChunkFormat,
    pub on_event: OnModelEvent,
    pub limits: GatewayLimits,
    pub retry: RetryLimits,
    /// Models that are asked, one after the other, when the run's own is busy or cannot be reached.
    pub fallback: Vec<String>,
    /// The provider and the variable of the key, for a refusal that names them.
    pub credential: Option<String>,
    /// `None`: a runtime without a start hook.
    pub start: Option<StartSignal>,
    /// Results of a conversation that is resumed; see `Gateway::seen_results`.
    pub known_results: HashSet<ResultDigest>,
}

impl GatewayConfig {
    /// Without budget, inspection and start signal; set others with `..GatewayConfig::new(…)`.
    pub fn new(upstream: Upstream, on_event: OnModelEvent) -> Self {
        Self {
            upstream,
            rules: RequestRules::default(),
            budget: BudgetLimits::default(),
            shared_budgets: SharedBudgets::default(),
            prices: PriceList::built_in(),
            inspect: inspect::pass_all(),
            hold_back: Arc::new(|| 0),
            chunk_format: ChunkFormat::NONE,
            on_event,
            limits: GatewayLimits::default(),
            retry: RetryLimits::default(),
            fallback: Vec::new(),
            credential: None,
            start: None,
            known_results: HashSet::new(),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct GatewayLimits {
    pub connections: usize,
    pub request_bytes: usize,
    /// For all requests together while they are read, inspected and sent.
    pub memory_bytes: usize,
    /// For an answer that is not streamed.
    pub answer_bytes: usize,
    /// From the head of a request to the last byte of its body.
    pub request_time: Duration,
    /// Between two chunks of an answer, and before the first.
    pub answer_idle: Duration,
    /// How long the gateway keeps reading an answer after the client disconnected.
    pub drain_time: Duration,
    /// For a whole streamed answer.
    pub stream_bytes: usize,
    pub backoff: BackoffLimits,
}

impl Default for GatewayLimits {
    fn default() -> Self {
        Self {
            connections: 256,
            request_bytes: 32 << 20,
            memory_bytes: 512 << 20,
            answer_bytes: 32 << 20,
            request_time: Duration::from_secs(60),
            answer_idle: Duration::from_secs(600),
            drain_time: Duration::from_secs(30),
            stream_bytes: 256 << 20,
            backoff: BackoffLimits::default(),
        }
    }
}

pub struct Gateway {
    upstream: Upstream,
    rules: Rules,
    memory: MemoryBudget,
    ledger: Arc<Ledger>,
    inspect: Inspect,
    hold_back: HoldBack,
    chunk_format: ChunkFormat,
    on_event: OnModelEvent,
    limits: GatewayLimits,
    backoff: Backoff,
    /// Each has its own back-off, because rate limits apply per model.
    fallback: Vec<(String, Backoff)>,
    retry: RetryLimits,
    credential: Option<String>,
    /// Whether the upstream has ever answered.
    upstream_answered: AtomicBool,
    /// Whether the upstream refused the key.
    key_refused: AtomicBool,
    /// Why the model could not be reached until the retry time was over (`RetryLimits`).
    unavailable: Mutex<Option<String>>,
    /// The last conversation that did not fit into a model's context.
    too_long: Mutex<Option<String>>,
    start: Option<StartSignal>,
    results: SeenResults,
    exchanges: AtomicU64,
    /// Why requests are refused, once the run is stopped.
    stopped: Mutex<Option<String>>,
}

impl Gateway {
    pub fn new(config: GatewayConfig) -> Self {
        let GatewayConfig {
            upstream,
            rules,
            budget,
            shared_budgets,
            prices,
            inspect,
            hold_back,
            chunk_format,
            on_event,
            limits,
            retry,
            fallback,
            credential,
            start,
            known_results,
        } = config;
        let fallback = fallback.into_iter().map(|model| (model, Backoff::new(limits.backoff))).collect();
        Self {
            upstream,
            rules: Rules::new(rules),
            memory: MemoryBudget::new(limits.memory_bytes),
            ledger: Arc::new(Ledger::new(budget, shared_budgets, prices, Arc::clone(&on_event))),
            inspect,
            hold_back,
            chunk_format,
            on_event,
            limits,
            backoff: Backoff::new(limits.backoff),
            fallback,
            retry,
            credential,
            upstream_answered: AtomicBool::new(false),
            key_refused: AtomicBool::new(false),
            unavailable: Mutex::new(None),
            too_long: Mutex::new(None),
            start,
            results: SeenResults::new(known_results),
            exchanges: AtomicU64::new(0),
            stopped: Mutex::new(None),
        }
    }

    /// What each model has used so far.
    pub fn usage(&self) -> BTreeMap<String, ModelTotals> {
        self.ledger.models()
    }

    /// What was spent when the budget first refused a request, if it has.
    pub fn budget_refused(&self) -> Option<String> {
        self.ledger.refused()
    }

    /// Why the model could not be reached until the retry time was over (`RetryLimits`), if so.
    pub fn unavailable(&self) -> Option<String> {
        self.unavailable.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The latest refusal of a conversation that was too long: the model and the vendor's message.
    pub fn too_long(&self) -> Option<String> {
        self.too_long.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Every tool result that passed, for the gateway of a later run that continues the conversation.
    pub fn seen_results(&self) -> HashSet<ResultDigest> {
        self.results.all()
    }

    /// Refuses every request from now on. The first reason stays.
    pub fn stop(&self, reason: &str) {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| reason.to_owned());
    }

    fn stop_reason(&self) -> Option<String> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn stop_by_guard(&self, exchange: u64, reason: &str) {
        self.stop(reason);
        self.emit(ModelEvent::Stop { exchange, reason: reason.to_owned() });
    }

    /// Refuses later requests, so that the runtime does not retry by itself.
    fn mark_unavailable(&self, reason: &str) {
        let mut unavailable = self.unavailable.lock().unwrap_or_else(PoisonError::into_inner);
        unavailable.get_or_insert_with(|| reason.to_owned());
        drop(unavailable);
        self.stop(&format!("the model is not available: {reason}"));
    }

    fn mark_too_long(&self, exchange: u64, model: &str, reason: &str) {
        let text = format!("the conversation does not fit into the context of {model}: {reason}");
        *self.too_long.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        self.emit(ModelEvent::ContextTooLong {
            exchange,
            model: model.to_owned(),
            reason: reason.to_owned(),
        });
    }

    /// The model that is asked after this one.
    fn fallback_after(&self, model: &str) -> Option<String> {
        let place = self.fallback.iter().position(|(name, _)| name == model);
        let next = place.map_or(0, |place| place + 1);
        self.fallback.get(next).map(|(name, _)| name.clone())
    }

    fn backoff_of(&self, model: &str) -> &Backoff {
        let own = self.fallback.iter().find(|(name, _)| name == model);
        own.map_or(&self.backoff, |(_, backoff)| backoff)
    }

    fn mark_upstream_answered(&self) {
        self.upstream_answered.store(true, Ordering::Relaxed);
    }

    fn has_upstream_answered(&self) -> bool {
        self.upstream_answered.load(Ordering::Relaxed)
    }

    /// Names the key that the upstream does not accept or that is missing, if there is one.
    pub fn refused_credential(&self) -> Option<String> {
        let refused = self.key_refused.load(Ordering::Relaxed);
        self.credential.clone().filter(|_| refused)
    }

    /// The upstream was not asked, because there is no credential for it.
    fn mark_credential_missing(&self) {
        self.key_refused.store(true, Ordering::Relaxed);
    }

    fn mark_credential_refused(&self, exchange: u64, status: u16) {
        self.key_refused.store(true, Ordering::Relaxed);
        if let Some(credential) = &self.credential {
            self.emit(ModelEvent::CredentialRefused { exchange, status, credential: credential.clone() });
        }
    }

    fn next_exchange(&self) -> u64 {
        self.exchanges.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn emit(&self, event: ModelEvent) {
        (self.on_event)(event);
    }
}
