//! The limits of a session. Each has a default that a caller can change.

/// How much one session may hold or do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionLimits {
    /// The longest event that a run may report, as JSON.
    pub event_bytes: usize,
    /// The longest input. A wake loads up to `inputs_per_wake` of them.
    pub input_bytes: usize,
    pub events_per_append: usize,
    pub events_per_commit: usize,
    pub pending_inputs: usize,
    /// The most inputs of one wake. The rest waits for the next one.
    pub inputs_per_wake: usize,
    pub queued_wakes: usize,
    pub open_requests: usize,
    /// Runtimes with a stored conversation.
    pub bindings: usize,
    /// How often in a row an agent may `continue` without new input.
    pub continues: u32,
    /// The delay of a `continue` that names none.
    pub follow_up_ms: u64,
    /// The most attempts at one wake whose directive is malformed, and the fewest after other faults.
    pub attempts: u32,
    /// How long a wake is retried after faults that are not its own: a provider or a store that is down, a lost worker.
    pub retry_for_ms: u64,
    pub retry_base_ms: u64,
    pub retry_cap_ms: u64,
    /// The longest lease.
    pub lease_ms: u64,
    pub memory_files: usize,
    pub memory_file_bytes: usize,
    /// How many learnings of an agent are kept, newest first.
    pub learnings_per_agent: usize,
    pub resources: usize,
    pub labels: usize,
    /// How many sessions one session may start.
    pub children: usize,
    /// How deeply sessions may be nested.
    pub child_depth: u32,
    /// What the children of a session that a person created may cost together.
    pub children_microdollars: u64,
    /// What a child may cost if its parent does not say.
    pub child_microdollars: u64,
}

impl SessionLimits {
    /// The longest lease or back-off. One that ends later was created before the clock was set back, and counts as
    /// over.
    #[must_use]
    pub fn horizon_ms(&self) -> u64 {
        self.lease_ms.max(self.retry_cap_ms)
    }
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            event_bytes: 1 << 20,
            input_bytes: 256 << 10,
            events_per_append: 1_000,
            events_per_commit: 10_000,
            pending_inputs: 10_000,
            inputs_per_wake: 64,
            queued_wakes: 64,
            open_requests: 16,
            bindings: 16,
            continues: 5,
            follow_up_ms: 300_000,
            attempts: 5,
            retry_for_ms: 86_400_000,
            retry_base_ms: 2_000,
            retry_cap_ms: 300_000,
            lease_ms: 600_000,
            memory_files: 32,
            memory_file_bytes: 256 << 10,
            learnings_per_agent: 1_000,
            resources: 64,
            labels: 16,
            children: 32,
            child_depth: 3,
            children_microdollars: 50_000_000,
            child_microdollars: 2_000_000,
        }
    }
}
