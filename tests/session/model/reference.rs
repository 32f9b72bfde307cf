//! The model: what a session is, said as plainly as possible. It shares no code with what it is compared to, knows no events
//! and no store, and is told of the other side only what chance decides there: ids and the length of a back-off.

use session::{EventId, RequestId, SessionLimits, SessionStatus, WakeId, WakePriority};

#[derive(Debug, Clone)]
pub(crate) struct Reference {
    pub(crate) inputs: Vec<SessionInput>,
    pub(crate) requests: Vec<ToolRequest>,
    pub(crate) wakes: Vec<CurrentWake>,
    pub(crate) turn: Option<Turn>,
    pub(crate) token: u64,
    pub(crate) continues: u32,
    pub(crate) terminated: bool,
    /// Since when something waits that no turn has been offered.
    pub(crate) waiting_since: i64,
    /// How many inputs a turn gets at most, after one failed.
    pub(crate) batch: Option<usize>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SessionInput {
    pub(crate) id: EventId,
    pub(crate) is_interrupt: bool,
    pub(crate) done: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolRequest {
    pub(crate) id: RequestId,
    pub(crate) expires: Option<i64>,
    /// The input that answered it.
    pub(crate) answer: Option<EventId>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CurrentWake {
    pub(crate) id: WakeId,
    pub(crate) due: i64,
    pub(crate) key: Option<String>,
    pub(crate) priority: WakePriority,
}

/// One wake over all its attempts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Turn {
    pub(crate) inputs: Vec<EventId>,
    pub(crate) wakes: Vec<WakeId>,
    pub(crate) attempt: u32,
    /// How many attempts had a malformed directive.
    pub(crate) failures: u32,
    pub(crate) phase: WakePhase,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum WakePhase {
    Running { token: u64, until: i64 },
    Waiting { until: i64 },
}

/// Where a session stands in the queue of all: the lane first, then the time.
pub(crate) type Rank = (u8, i64);

impl Reference {
    pub(crate) fn new() -> Self {
        Self {
            inputs: Vec::new(),
            requests: Vec::new(),
            wakes: Vec::new(),
            turn: None,
            token: 0,
            continues: 0,
            terminated: false,
            waiting_since: 0,
            batch: None,
        }
    }

    pub(crate) fn running(&self) -> Option<(u64, i64)> {
        match self.turn.as_ref()?.phase {
            WakePhase::Running { token, until } => Some((token, until)),
            WakePhase::Waiting { .. } => None,
        }
    }

    pub(crate) fn waiting(&self) -> Vec<EventId> {
        self.inputs.iter().filter(|input| !input.done && !input.is_interrupt).map(|input| input.id).collect()
    }

    pub(crate) fn interrupts(&self) -> usize {
        self.inputs.iter().filter(|input| !input.done && input.is_interrupt).count()
    }

    pub(crate) fn is_blocked(&self) -> bool {
        self.requests.iter().any(|request| request.answer.is_none())
    }

    pub(crate) fn status(&self) -> SessionStatus {
        if self.terminated {
            SessionStatus::Terminated
        } else if self.running().is_some() {
            SessionStatus::Running
        } else if self.turn.is_some() {
            SessionStatus::Rescheduling
        } else if self.is_blocked() {
            SessionStatus::RequiresAction
        } else if !self.waiting().is_empty() || !self.wakes.is_empty() {
            SessionStatus::Rescheduling
        } else {
            SessionStatus::Idle
        }
    }

    /// The place in the queue, if it is due.
    pub(crate) fn rank(&self, now: i64) -> Option<Rank> {
        if self.terminated {
            return None;
        }
        if let Some(turn) = &self.turn {
            let until = match turn.phase {
                WakePhase::Running { until, .. } | WakePhase::Waiting { until } => until,
            };
            return (until <= now).then_some((0, until));
        }
        if self.is_blocked() {
            let expiries = self.requests.iter().filter(|request| request.answer.is_none());
            let first = expiries.filter_map(|request| request.expires).min()?;
            return (first <= now).then_some((3, first));
        }
        if !self.waiting().is_empty() {
            return Some((1, self.waiting_since));
        }
        let lane = |priority| match priority {
            WakePriority::High => 2,
            WakePriority::Normal => 3,
            WakePriority::Low => 4,
        };
        let due = self.wakes.iter().filter(|wake| wake.due <= now);
        due.map(|wake| (lane(wake.priority), wake.due)).min()
    }

    pub(crate) fn say(&mut self, id: EventId, now: i64) {
        if self.waiting().is_empty() {
            self.waiting_since = now;
        }
        self.inputs.push(SessionInput { id, is_interrupt: false, done: false });
    }

    pub(crate) fn interrupt(&mut self, id: EventId) {
        let running = self.running().is_some();
        self.inputs.push(SessionInput { id, is_interrupt: true, done: !running });
        if !running {
            self.fall_silent();
        }
    }

    fn fall_silent(&mut self) {
        if let Some(turn) = self.turn.take() {
            self.done_with(&turn.inputs);
        }
        self.wakes.clear();
        self.requests.retain(|request| request.answer.is_some());
        self.continues = 0;
    }

    fn done_with(&mut self, inputs: &[EventId]) {
        for input in self.inputs.iter_mut().filter(|input| inputs.contains(&input.id)) {
            input.done = true;
        }
        self.requests.retain(|request| request.answer.is_none_or(|answer| !inputs.contains(&answer)));
    }

    /// Adds a wake unless one with its key is there.
    pub(crate) fn queue(&mut self, wake: CurrentWake) {
        if wake.key.is_none() || self.wakes.iter().all(|other| other.key != wake.key) {
            self.wakes.push(wake);
        }
    }

    /// Ends the turn for good. Gives whether it was interrupted.
    pub(crate) fn end_turn(&mut self, now: i64) -> bool {
        let turn = self.turn.take().expect("a turn is on");
        self.done_with(&turn.inputs);
        self.wakes.retain(|wake| !turn.wakes.contains(&wake.id));
        let interrupts = self.inputs.iter_mut().filter(|input| input.is_interrupt && !input.done);
        let interrupted = interrupts.map(|input| input.done = true).count() > 0;
        self.waiting_since = now;
        self.batch = self.batch.map(|batch| batch * 2).filter(|batch| *batch < 1_024);
        interrupted
    }

    /// Gives the turn up. Several inputs wait again, for smaller turns; a single one is done with.
    pub(crate) fn give_up(&mut self, now: i64) {
        let count = self.turn.as_ref().expect("a turn is on").inputs.len();
        if count > 1 {
            self.batch = Some((count / 2).max(1));
            self.turn = None;
            self.waiting_since = now;
        } else {
            self.end_turn(now);
        }
    }

    pub(crate) fn obey(&mut self, interrupted: bool) {
        if interrupted {
            self.fall_silent();
        }
    }

    /// A lease ended without a commit. Returns whether the turn continues with another attempt.
    pub(crate) fn lose(&mut self, now: i64, limits: &SessionLimits) {
        let attempt = self.turn.as_ref().expect("a turn is on").attempt;
        if self.interrupts() > 0 {
            let kept = self.continues;
            let interrupted = self.end_turn(now);
            self.continues = kept;
            self.obey(interrupted);
        } else if attempt >= limits.attempts {
            self.give_up(now);
        } else {
            self.wait_until(now, now);
        }
    }

    pub(crate) fn wait_until(&mut self, until: i64, now: i64) {
        self.turn.as_mut().expect("a turn is on").phase = WakePhase::Waiting { until };
        self.waiting_since = now;
    }

    /// Begins the next attempt of the turn that waits, or a new turn.
    pub(crate) fn begin(&mut self, now: i64, until: i64, limits: &SessionLimits) {
        self.token += 1;
        let phase = WakePhase::Running { token: self.token, until };
        if let Some(turn) = &mut self.turn {
            turn.attempt += 1;
            turn.phase = phase;
            return;
        }
        let inputs = self
            .waiting()
            .into_iter()
            .take(self.batch.map_or(limits.inputs_per_wake, |batch| batch.min(limits.inputs_per_wake)))
            .collect();
        let wakes = self.wakes.iter().filter(|wake| wake.due <= now).map(|wake| wake.id).collect();
        self.requests.retain(|request| {
            request.answer.is_some() || request.expires.is_none_or(|expires| expires > now)
        });
        self.turn = Some(Turn { inputs, wakes, attempt: 1, failures: 0, phase });
    }
}
