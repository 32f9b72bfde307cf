//! People who send messages. A message counts as sent when the store says so; until then the same message is sent again.

use std::thread::{Scope, ScopedJoinHandle, sleep};
use std::time::{Duration, Instant};

use crate::Plan;
use crate::fixture::{Clock, message};
use crate::place::{Place, Route, try_open};
use session::{EventId, Seq, SessionId, SessionInput};

/// A message that the store has acknowledged.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) session: SessionId,
    pub(crate) event: EventId,
    pub(crate) seq: Seq,
}

pub(crate) fn create_sessions(place: &Place, plan: &Plan) -> Vec<SessionId> {
    let mut sessions = place.direct();
    let mut clock = Clock::new(plan.seed);
    clock.now_ms = sessions.now().unwrap().0;
    (0..plan.sessions).map(|_| sessions.create(&clock.header("triage")).unwrap().header.id).collect()
}

pub(crate) fn spawn<'a>(
    scope: &'a Scope<'a, '_>,
    route: &Route,
    ids: &[SessionId],
    plan: &Plan,
    number: u64,
) -> ScopedJoinHandle<'a, Vec<Sent>> {
    let route = route.clone();
    let ids = ids.to_vec();
    let plan = plan.clone();
    scope.spawn(move || {
        let mut clock = Clock::new(1_000 + plan.seed * 10 + number);
        let count = plan.messages / 2;
        let pause = plan.time.mul_f64(0.5) / u32::try_from(count).unwrap();
        let mut sent = Vec::new();
        let end = Instant::now() + plan.time;
        for turn in 0..count {
            let session = ids[(turn * 7 + usize::try_from(number).unwrap()) % ids.len()];
            let input = clock.input(message(&format!("message {turn} of sender {number}")));
            while Instant::now() < end {
                if let Some(seq) = send(&route, session, &input, &mut clock) {
                    sent.push(Sent { session, event: input.id, seq });
                    break;
                }
                sleep(Duration::from_millis(50));
            }
            sleep(pause);
        }
        sent
    })
}

fn send(route: &Route, session: SessionId, input: &SessionInput, clock: &mut Clock) -> Option<Seq> {
    let mut sessions = try_open(&route.store).ok()?;
    clock.now_ms = sessions.now().ok()?.0;
    sessions.append(session, std::slice::from_ref(input), &mut clock.seed()).ok().map(|seqs| seqs[0])
}
