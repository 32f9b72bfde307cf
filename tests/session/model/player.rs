//! Plays one history: each command goes to the store and to the model, and whatever can be seen must be equal.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::command::{Command, End, Random, Wish, command, commit_of};
use super::reference::{CurrentWake, Reference, ToolRequest, WakePhase};
use crate::fixture::{Clock, interrupt, message, worker};
use crate::suite::Place;
use session::{
    ClaimTarget, CompletedSpan, EventId, Lease, Payload, QueuedWake, RequestId, Seq, Session, SessionError,
    SessionId, SessionInput, SessionLimits, SessionRefusal, SessionState, SessionStatus, Sessions,
    Sha256Digest, Timestamp, WakeId, WakePhase as StorePhase, WakePriority,
};

const LEASE_MS: i64 = 60_000;

pub(crate) struct Player<'a> {
    place: &'a Place,
    limits: SessionLimits,
    seed: u64,
    random: Random,
    clock: Clock,
    /// One connection per worker.
    connections: Vec<Sessions>,
    leases: Vec<Option<Lease>>,
    /// The leases whose commit is stored: committing again changes nothing and is not refused.
    committed: BTreeSet<(SessionId, u64)>,
    ids: Vec<SessionId>,
    references: Vec<Reference>,
    /// The inputs that were sent, to send them again.
    said: Vec<Vec<SessionInput>>,
    /// Where the store put it.
    places: Vec<BTreeMap<Seq, EventId>>,
    played: Vec<Command>,
}

/// How the store answered, without the details.
#[derive(Debug, PartialEq)]
enum Answer {
    Done,
    Refused(&'static str),
}

impl<'a> Player<'a> {
    pub(crate) fn new(
        place: &'a Place,
        mut connections: Vec<Sessions>,
        seed: u64,
        limits: SessionLimits,
    ) -> Self {
        let mut clock = Clock::new(seed + 1_000_000);
        let ids = (0..2).map(|_| connections[0].create(&clock.header("model")).unwrap().header.id).collect();
        Self {
            place,
            limits,
            seed,
            random: Random(seed),
            clock,
            connections,
            leases: vec![None, None, None],
            committed: BTreeSet::new(),
            ids,
            references: vec![Reference::new(), Reference::new()],
            said: vec![Vec::new(), Vec::new()],
            places: vec![BTreeMap::new(), BTreeMap::new()],
            played: Vec::new(),
        }
    }

    pub(crate) fn step(&mut self) {
        let command = command(&mut self.random);
        self.played.push(command.clone());
        // No two things happen at the same time: then there is one right order of leases.
        self.clock.pass_ms(1);
        match command {
            Command::Message { session } => self.say(session, message("hello")),
            Command::Interrupt { session } => self.say(session, interrupt()),
            Command::Repeat { session, input, changed } => self.repeat(session, input, changed),
            Command::Result { session, request, forged } => self.answer(session, request, forged),
            Command::QueueWake { session, wake } => self.queue_wake(session, wake),
            Command::Terminate { session } => self.terminate(session),
            Command::Claim { worker } => self.claim(worker),
            Command::ClaimNamed { worker, session } => self.claim_named(worker, session),
            Command::Renew { worker } => self.renew(worker),
            Command::Commit { worker, end } => self.commit(worker, &end),
            Command::Crash { worker } => {
                self.leases[worker] = None;
                self.connections[worker] = self.place.open();
            }
            Command::Pass { milliseconds } => self.clock.pass_ms(milliseconds),
        }
        self.compare();
    }

    fn fail(&self, what: &str) -> ! {
        let start = self.played.len().saturating_sub(60);
        panic!("seed {}: {what}\nafter {:#?}", self.seed, &self.played[start..]);
    }

    fn expect(&self, what: &str, got: &Answer, expected: &Answer) {
        if got != expected {
            self.fail(&format!("{what}: the store says {got:?}, the model {expected:?}"));
        }
    }

    fn session(&mut self, number: usize) -> Session {
        self.connections[0].session(self.ids[number]).unwrap()
    }

    fn append(&mut self, session: usize, input: &SessionInput) -> Answer {
        let seed = &mut self.clock.seed();
        let appended = self.connections[0].append(self.ids[session], std::slice::from_ref(input), seed);
        if let Ok(places) = &appended {
            let known = self.places[session].insert(places[0], input.id);
            assert!(known.is_none_or(|known| known == input.id), "two inputs have one place");
        }
        answer(appended)
    }

    fn say(&mut self, session: usize, payload: Payload) {
        let is_interrupt = matches!(payload, Payload::UserInterrupt { .. });
        let input = self.clock.input(payload);
        let got = self.append(session, &input);
        let now = self.clock.now_ms;
        let reference = &mut self.references[session];
        let count = reference.waiting().len() + reference.interrupts();
        let passes = is_interrupt && reference.interrupts() == 0;
        let expected = if reference.terminated {
            Answer::Refused("Terminated")
        } else if count >= self.limits.pending_inputs && !passes {
            Answer::Refused("TooMany")
        } else {
            match is_interrupt {
                true => reference.interrupt(input.id),
                false => reference.say(input.id, now),
            }
            self.said[session].push(input);
            Answer::Done
        };
        self.expect("append", &got, &expected);
    }

    fn repeat(&mut self, session: usize, input: usize, changed: bool) {
        let Some(mut input) = self.said[session].get(input).cloned() else { return };
        if changed {
            input.payload = message("something else");
        }
        let got = self.append(session, &input);
        let expected = if changed { Answer::Refused("IdReused") } else { Answer::Done };
        self.expect("repeat", &got, &expected);
    }

    fn answer(&mut self, session: usize, request: usize, forged: bool) {
        let open = self.references[session].requests.get(request).cloned();
        let request_id = match &open {
            Some(request) => request.id,
            None => RequestId::generate(&mut self.clock.seed()),
        };
        let shown = if forged { json!("forged") } else { json!({}) };
        let input_digest = Sha256Digest::of_json(&shown);
        let output = json!("done");
        let payload = Payload::UserCustomToolResult { request_id, input_digest, output, is_error: false };
        let input = self.clock.input(payload);
        let got = self.append(session, &input);
        let now = self.clock.now_ms;
        let reference = &mut self.references[session];
        let full = reference.waiting().len() + reference.interrupts() >= self.limits.pending_inputs;
        let expected = match open {
            _ if reference.terminated => Answer::Refused("Terminated"),
            _ if full => Answer::Refused("TooMany"),
            None => Answer::Refused("NoSuchRequest"),
            Some(open) if open.answer.is_some() => Answer::Refused("AlreadyAnswered"),
            Some(_) if forged => Answer::Refused("InputDiffers"),
            Some(open) if open.expires.is_some_and(|expires| expires <= now) => Answer::Refused("Expired"),
            Some(_) => {
                reference.say(input.id, now);
                reference.requests[request].answer = Some(input.id);
                self.said[session].push(input);
                Answer::Done
            }
        };
        self.expect("answer", &got, &expected);
    }

    fn queue_wake(&mut self, session: usize, wish: Wish) {
        let wake = self.wake(wish);
        let queued = QueuedWake {
            id: wake.id,
            due_ms: Timestamp(wake.due),
            reason: "r".to_owned(),
            note: None,
            dedupe_key: wake.key.clone(),
            priority: wake.priority,
            cron: None,
        };
        let got = answer(self.connections[0].queue_wake(self.ids[session], &queued, &mut self.clock.seed()));
        let reference = &mut self.references[session];
        let mut after = reference.clone();
        after.queue(wake);
        let expected = if reference.terminated {
            Answer::Refused("Terminated")
        } else if after.wakes.len() > self.limits.queued_wakes {
            Answer::Refused("TooMany")
        } else {
            *reference = after;
            Answer::Done
        };
        self.expect("queue a wake", &got, &expected);
    }

    fn wake(&mut self, wish: Wish) -> CurrentWake {
        let due = self.clock.now_ms + i64::try_from(wish.delay_seconds).unwrap() * 1_000;
        let key = wish.key.map(|key| format!("key {key}"));
        CurrentWake { id: WakeId::generate(&mut self.clock.seed()), due, key, priority: wish.priority }
    }

    fn terminate(&mut self, session: usize) {
        self.connections[0].terminate(self.ids[session], "over", &mut self.clock.seed()).unwrap();
        let reference = &mut self.references[session];
        if !reference.terminated {
            reference.terminated = true;
            reference.turn = None;
            reference.wakes.clear();
            reference.requests.clear();
        }
    }

    /// The model gives up lost turns and finds the best sessions; the store may choose any of the equally good ones.
    fn claim(&mut self, worker_number: usize) {
        let now = self.clock.now_ms;
        let claimed = self.connections[worker_number]
            .claim(ClaimTarget::Due, &worker(&worker_number.to_string()), &mut self.clock.seed())
            .unwrap();
        let chosen = claimed.as_ref().map(|claimed| self.number(claimed.lease.session));
        loop {
            let ranks: Vec<_> = self.references.iter().map(|reference| reference.rank(now)).collect();
            let Some(best) = ranks.iter().flatten().min().copied() else { break };
            let mut candidates: Vec<usize> = (0..2).filter(|number| ranks[*number] == Some(best)).collect();
            candidates.sort_by_key(|number| Some(*number) != chosen);
            let number = candidates[0];
            let reference = &mut self.references[number];
            if reference.running().is_some() {
                reference.lose(now, &self.limits);
                if reference.rank(now).is_none() {
                    continue;
                }
            }
            reference.begin(now, now + LEASE_MS, &self.limits);
            if Some(number) != chosen {
                self.fail(&format!("the store claimed {chosen:?}, the model {number}"));
            }
            self.leases[worker_number] = claimed.map(|claimed| claimed.lease);
            return;
        }
        if chosen.is_some() {
            self.fail(&format!("the store claimed {chosen:?}, the model nothing"));
        }
    }

    fn number(&self, id: SessionId) -> usize {
        self.ids.iter().position(|known| *known == id).expect("a session of this history")
    }

    fn claim_named(&mut self, worker_number: usize, session: usize) {
        let now = self.clock.now_ms;
        let worker = worker(&worker_number.to_string());
        let claimed = self.connections[worker_number].claim(
            ClaimTarget::Session(self.ids[session]),
            &worker,
            &mut self.clock.seed(),
        );
        let reference = &mut self.references[session];
        let mut after = reference.clone();
        let held = after.running().is_some_and(|(_, until)| until > now);
        if after.running().is_some() && !held {
            after.lose(now, &self.limits);
        }
        let blocked = after.turn.is_none() && after.is_blocked() && after.rank(now).is_none();
        let expected = if after.terminated {
            Answer::Refused("Terminated")
        } else if held {
            Answer::Refused("Leased")
        } else if blocked {
            Answer::Refused("Blocked")
        } else {
            after.begin(now, now + LEASE_MS, &self.limits);
            *reference = after;
            Answer::Done
        };
        if let Ok(claimed) = &claimed {
            self.leases[worker_number] = claimed.as_ref().map(|claimed| claimed.lease.clone());
        }
        self.expect("claim by name", &answer(claimed), &expected);
    }

    /// The session that a lease is about, if it still holds.
    fn held(&self, lease: &Lease) -> Option<usize> {
        let number = self.number(lease.session);
        let running = self.references[number].running();
        running.is_some_and(|(token, _)| token == lease.token).then_some(number)
    }

    fn renew(&mut self, worker_number: usize) {
        let Some(lease) = self.leases[worker_number].clone() else { return };
        let now = self.clock.now();
        let renewed = self.connections[worker_number].renew(&lease, &worker(&worker_number.to_string()), now);
        match self.held(&lease) {
            None => self.expect("renew", &answer(renewed), &Answer::Refused("Stale")),
            Some(number) => {
                let renewal = renewed.unwrap();
                let reference = &mut self.references[number];
                assert_eq!(renewal.interrupted, reference.interrupts() > 0);
                let phase = WakePhase::Running { token: lease.token, until: now.0 + LEASE_MS };
                reference.turn.as_mut().unwrap().phase = phase;
            }
        }
    }

    fn commit(&mut self, worker_number: usize, end: &End) {
        let Some(lease) = self.leases[worker_number].clone() else { return };
        let commit = commit_of(end);
        let outcome = self.connections[worker_number].commit(&lease, &commit, &mut self.clock.seed());
        let Some(number) = self.held(&lease) else {
            let is_known = self.committed.contains(&(lease.session, lease.token));
            let expected = if is_known { Answer::Done } else { Answer::Refused("Stale") };
            self.expect("commit", &answer(outcome), &expected);
            return;
        };
        let mut after = self.references[number].clone();
        let stored = outcome.as_ref().ok();
        self.conclude(&mut after, end, stored);
        let room = after.wakes.len() <= self.limits.queued_wakes
            && after.requests.len() <= self.limits.open_requests;
        let expected = if room { Answer::Done } else { Answer::Refused("TooMany") };
        self.expect("commit", &answer(outcome), &expected);
        if room {
            self.committed.insert((lease.session, lease.token));
            self.references[number] = after;
        }
    }

    /// What an ending means. Ids and the jitter of a back-off are the store's to choose.
    fn conclude(&mut self, reference: &mut Reference, end: &End, stored: Option<&SessionState>) {
        let now = self.clock.now_ms;
        let turn = reference.turn.clone().unwrap();
        match end {
            End::Directive { goes_on, wakes, tools } => {
                let continues = if turn.inputs.is_empty() { reference.continues } else { 0 };
                let interrupted = reference.end_turn(now);
                reference.continues = 0;
                reference.wakes.retain(|wake| wake.key.as_deref() != Some("session.follow_up"));
                for wish in wakes {
                    let wake = self.wake(*wish);
                    reference.queue(wake);
                }
                if *goes_on && tools.is_empty() && continues < self.limits.continues {
                    reference.continues = continues + 1;
                    let due = now + i64::try_from(self.limits.follow_up_ms).unwrap();
                    let (id, key) =
                        (WakeId::generate(&mut self.clock.seed()), "session.follow_up".to_owned());
                    reference.queue(CurrentWake { id, due, key: Some(key), priority: WakePriority::Normal });
                }
                for expires_seconds in tools {
                    let expires =
                        expires_seconds.map(|seconds| now + i64::try_from(seconds).unwrap() * 1_000);
                    let id = RequestId::generate(&mut self.clock.seed());
                    reference.requests.push(ToolRequest { id, expires, answer: None });
                }
                reference.obey(interrupted);
            }
            End::Permanent if reference.interrupts() == 0 => {
                reference.give_up(now);
                reference.continues = 0;
            }
            End::Permanent | End::Interrupted => {
                let interrupted = reference.end_turn(now);
                reference.continues = 0;
                reference.obey(interrupted);
            }
            End::Transient | End::Malformed => {
                let is_malformed = matches!(end, End::Malformed);
                let tried = if is_malformed { turn.failures + 1 } else { turn.attempt };
                if reference.interrupts() == 0 && tried >= self.limits.attempts {
                    reference.give_up(now);
                    reference.continues = 0;
                } else if reference.interrupts() > 0 {
                    let interrupted = reference.end_turn(now);
                    reference.continues = 0;
                    reference.obey(interrupted);
                } else {
                    let phase = stored.and_then(|state| state.wake.as_ref()).map(|wake| wake.phase);
                    let Some(StorePhase::Retrying { at_ms }) = phase else { self.fail("no other attempt") };
                    let full = 2_000 << (turn.attempt - 1);
                    assert!(
                        (full / 2..=full).contains(&(at_ms.0 - now)),
                        "a back-off of {} ms",
                        at_ms.0 - now
                    );
                    reference.turn.as_mut().unwrap().failures += u32::from(is_malformed);
                    reference.wait_until(at_ms.0, now);
                }
            }
        }
        if let Some(state) = stored {
            adopt_ids(reference, state);
        }
    }

    fn compare(&mut self) {
        for number in 0..2 {
            let Session { state, .. } = self.session(number);
            let reference = &self.references[number];
            let pending: Vec<_> = state.pending.iter().map(|seq| self.places[number][&seq]).collect();
            let reference_wakes: Vec<_> =
                reference.wakes.iter().map(|wake| (wake.due, wake.key.clone(), wake.priority)).collect();
            let wakes: Vec<_> = state
                .wakes
                .iter()
                .map(|wake| (wake.due_ms.0, wake.dedupe_key.clone(), wake.priority))
                .collect();
            let requests: Vec<_> =
                state.requests.iter().map(|request| (request.id, request.answered.is_some())).collect();
            let reference_requests: Vec<_> =
                reference.requests.iter().map(|request| (request.id, request.answer.is_some())).collect();
            let attempt = state.wake.as_ref().map(|wake| wake.attempt);
            let reference_attempt = reference.turn.as_ref().map(|turn| turn.attempt);
            let same = state.status == reference.status()
                && pending == reference.waiting()
                && state.interrupts.len() == reference.interrupts()
                && wakes == reference_wakes
                && requests == reference_requests
                && attempt == reference_attempt
                && (state.token, state.continues) == (reference.token, reference.continues);
            if !same {
                self.fail(&format!("session {number} differs\nstore: {state:#?}\nmodel: {reference:#?}"));
            }
        }
    }

    /// The log agrees: it folds to the state, and every input is there and consumed at most once.
    pub(crate) fn finish(mut self) -> Vec<Sessions> {
        for number in 0..2 {
            let id = self.ids[number];
            let events = self.connections[1].events(id, Seq(0), 1_000).unwrap();
            let mut state = SessionState::default();
            let mut consumed: BTreeMap<Seq, usize> = BTreeMap::new();
            for event in &events {
                state.apply(event).unwrap();
                if let Payload::SpanCompleted { span: CompletedSpan::Wake(end), .. } = &event.payload {
                    end.consumed.iter().for_each(|seq| *consumed.entry(seq).or_default() += 1);
                }
            }
            assert_eq!(state, self.session(number).state, "seed {}", self.seed);
            assert!(consumed.values().all(|count| *count == 1), "seed {}: {consumed:?}", self.seed);
            let logged: Vec<EventId> =
                events.iter().filter(|event| event.payload.is_input()).map(|event| event.id).collect();
            let said: Vec<EventId> = self.said[number].iter().map(|input| input.id).collect();
            assert_eq!(logged, said, "seed {}", self.seed);
            self.connections[0].terminate(id, "the history is over", &mut self.clock.seed()).unwrap();
            assert_eq!(self.session(number).state.status, SessionStatus::Terminated);
        }
        self.connections
    }
}

fn answer<T>(outcome: Result<T, SessionError>) -> Answer {
    let Err(error) = outcome else { return Answer::Done };
    let SessionError::Refused(refusal) = error else { panic!("{error}") };
    Answer::Refused(match refusal {
        SessionRefusal::Terminated => "Terminated",
        SessionRefusal::TooMany { .. } => "TooMany",
        SessionRefusal::IdReused { .. } => "IdReused",
        SessionRefusal::NoSuchRequest { .. } => "NoSuchRequest",
        SessionRefusal::AlreadyAnswered { .. } => "AlreadyAnswered",
        SessionRefusal::InputDiffers { .. } => "InputDiffers",
        SessionRefusal::Expired { .. } => "Expired",
        SessionRefusal::Leased { .. } => "Leased",
        SessionRefusal::Blocked { .. } => "Blocked",
        SessionRefusal::Stale { .. } => "Stale",
        other => panic!("{other}"),
    })
}

/// Takes over the ids that the store gave to new wakes and requests, where all else is the same.
fn adopt_ids(reference: &mut Reference, state: &SessionState) {
    for (wake, stored) in reference.wakes.iter_mut().zip(&state.wakes) {
        wake.id = stored.id;
    }
    for (request, stored) in reference.requests.iter_mut().zip(&state.requests) {
        request.id = stored.id;
    }
}
