//! The invariants of a campaign, judged by the logs, the acknowledgements and the journal of the workers.

use std::collections::{BTreeMap, BTreeSet};

use crate::fixture::Directory;
use crate::place::Place;
use crate::sender::Sent;
use session::{
    CompletedSpan, EventId, ImportTerms, Payload, Seq, SessionEvent, SessionId, SessionLimits, Sessions,
    SqliteStore,
};

pub(crate) fn judge(name: &str, place: &Place, ids: &[SessionId], sent: &[Sent]) -> usize {
    let mut sessions = place.direct();
    let mut verdict = Verdict { name: name.to_owned(), failures: 0 };
    let journal = std::fs::read_to_string(place.journal()).unwrap_or_default();
    let mut totals = (0, 0, 0);
    for id in ids {
        let log = read_log(&mut sessions, *id);
        let state = sessions.session(*id).unwrap().state;
        let mine: Vec<&Sent> = sent.iter().filter(|sent| sent.session == *id).collect();
        verdict.check(
            "acknowledged messages are stored once, where they were acknowledged",
            is_stored(&log, &mine),
        );
        let inputs = log.iter().filter(|event| event.payload.is_input()).count();
        let consumed = consumed(&log);
        verdict.check(
            "every message is consumed once",
            consumed.len() == inputs && consumed.values().all(|n| *n == 1),
        );
        verdict.check("nothing is set aside", state.dead.is_empty());
        verdict.check("nothing is left", state.pending.is_empty() && state.wake.is_none());
        verdict.check("a log and its state survive a move", moves(&mut sessions, *id));
        verdict.check("no two agents act at once", acts_in_turn(&journal, *id));
        verdict.check("reports of a commit are stored once", reports_are_there(&journal, &log, *id));
        verdict.check("usage counts lost attempts", state.usage.turns >= consumed_wakes(&log));
        totals.0 += inputs;
        totals.1 += log.len();
        totals.2 += log.iter().filter(|event| event.payload.kind() == "session.error").count();
    }
    verdict.check("a worker that lacks something does nothing", !journal.contains("worker-999-"));
    println!(
        "{name}: {} sessions, {} acknowledged, {} stored, {} events, {} lost attempts, {} failures",
        ids.len(),
        sent.len(),
        totals.0,
        totals.1,
        totals.2,
        verdict.failures
    );
    verdict.failures
}

struct Verdict {
    name: String,
    failures: usize,
}

impl Verdict {
    fn check(&mut self, what: &str, holds: bool) {
        if !holds {
            self.failures += 1;
            println!("{}: DOES NOT HOLD: {what}", self.name);
        }
    }
}

fn read_log(sessions: &mut Sessions, id: SessionId) -> Vec<SessionEvent> {
    let mut log: Vec<SessionEvent> = Vec::new();
    loop {
        let after = log.last().map_or(Seq(0), |event| event.seq);
        let page = sessions.events(id, after, 1_000).unwrap();
        if page.is_empty() {
            return log;
        }
        log.extend(page);
    }
}

fn is_stored(log: &[SessionEvent], sent: &[&Sent]) -> bool {
    let places: BTreeMap<EventId, Seq> = log.iter().map(|event| (event.id, event.seq)).collect();
    places.len() == log.len() && sent.iter().all(|sent| places.get(&sent.event) == Some(&sent.seq))
}

fn consumed(log: &[SessionEvent]) -> BTreeMap<Seq, usize> {
    let mut counts = BTreeMap::new();
    for event in log {
        if let Payload::SpanCompleted { span: CompletedSpan::Wake(end), .. } = &event.payload {
            end.consumed.iter().for_each(|seq| *counts.entry(seq).or_default() += 1);
        }
    }
    counts
}

fn consumed_wakes(log: &[SessionEvent]) -> u64 {
    log.iter().filter(|event| event.payload.kind() == "agent.message").count() as u64
}

/// The log folds to the same state in another store.
fn moves(sessions: &mut Sessions, id: SessionId) -> bool {
    let mut bundle = Vec::new();
    sessions.export(id, &mut std::iter::empty(), &mut bundle).unwrap();
    let directory = Directory::new();
    let store = SqliteStore::open(&directory.database()).unwrap();
    let mut other = Sessions::new(Box::new(store), SessionLimits::default());
    let imported = other.import(&mut bundle.as_slice(), &ImportTerms::default()).unwrap();
    imported.session.state == sessions.session(id).unwrap().state
}

/// In the order of the journal, the token of a session's acts never falls.
fn acts_in_turn(journal: &str, id: SessionId) -> bool {
    let mut highest = 0;
    for (token, _) in lines(journal, "act", id) {
        if token < highest {
            return false;
        }
        highest = token;
    }
    true
}

/// Every act of a committed attempt was reported, and each report is one event.
fn reports_are_there(journal: &str, log: &[SessionEvent], id: SessionId) -> bool {
    let committed: BTreeSet<(u64, u64)> = lines(journal, "committed", id).collect();
    let mut token = 0;
    let mut found: BTreeMap<u64, u64> = BTreeMap::new();
    for event in log {
        match &event.payload {
            Payload::SpanStarted { span: session::StartedSpan::Wake(start), .. } => token = start.token,
            Payload::RunAttached { .. } => *found.entry(token).or_default() += 1,
            _ => {}
        }
    }
    committed.iter().all(|(token, reported)| found.get(token) == Some(reported))
}

/// The token and the number of each line of one kind about a session.
fn lines<'a>(journal: &'a str, kind: &'a str, id: SessionId) -> impl Iterator<Item = (u64, u64)> + 'a {
    let id = id.to_string();
    journal.lines().filter_map(move |line| {
        let words: Vec<&str> = line.split(' ').collect();
        let [found, session, token, number, _] = words[..] else { return None };
        (found == kind && session == id).then(|| (token.parse().unwrap_or(0), number.parse().unwrap_or(0)))
    })
}
