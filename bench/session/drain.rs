//! Four workers on one PostgreSQL server drain a thousand wakes: none may be done twice. The figures are wakes per second; the
//! peer is one worker alone.

use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use crate::cluster::{Cluster, Durability};
use crate::fixture::{Clock, message, sleeps, worker};
use crate::line;
use session::{ClaimTarget, ContextWindow, PostgresStore, SessionId, SessionLimits, Sessions};

const WAKES: usize = 1_000;

pub(crate) fn run() {
    let cluster = match Cluster::start(Durability::Disk) {
        Ok(cluster) => cluster,
        Err(reason) => return println!("# drain was left out: {reason}"),
    };
    let url = cluster.database();
    let one = drain(&url, 1);
    let four = drain(&url, 4);
    line("drain-postgres-4-workers-per-second", four, one);
}

fn drain(url: &str, workers: u64) -> f64 {
    let mut clock = Clock::new(workers << 20);
    let mut sessions = open(url);
    let ids: Vec<SessionId> = (0..WAKES)
        .map(|_| {
            let id = sessions.create(&clock.header("bench")).unwrap().header.id;
            sessions.append(id, &[clock.input(message("go"))], &mut clock.seed()).unwrap();
            id
        })
        .collect();
    let done: Mutex<Vec<SessionId>> = Mutex::default();
    let start = Instant::now();
    thread::scope(|scope| {
        for number in 0..workers {
            let done = &done;
            scope.spawn(move || {
                let mut sessions = open(url);
                let mut clock = Clock::new((workers << 20) + number + 1);
                let me = worker(&number.to_string());
                while let Some(claimed) = sessions.claim(ClaimTarget::Due, &me, &mut clock.seed()).unwrap() {
                    sessions.context(&claimed.lease, &ContextWindow::default()).unwrap();
                    sessions.commit(&claimed.lease, &sleeps(), &mut clock.seed()).unwrap();
                    done.lock().unwrap().push(claimed.lease.session);
                }
            });
        }
    });
    let rate = WAKES as f64 / start.elapsed().as_secs_f64();
    let mut done = done.into_inner().unwrap();
    done.sort();
    let mut ids = ids;
    ids.sort();
    assert_eq!(done, ids, "each wake is done once");
    rate
}

fn open(url: &str) -> Sessions {
    Sessions::new(Box::new(PostgresStore::connect(url).unwrap()), SessionLimits::default())
}
