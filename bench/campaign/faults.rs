//! The faults of a campaign, one after the other, chosen by the seed.

use std::collections::BTreeMap;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::Plan;
use crate::place::Place;
use crate::proxy::Traffic;
use crate::worker::{self, LEASE_MS};
use session::{SessionId, SessionStatus};

pub(crate) struct Faults {
    plan: Plan,
    random: u64,
    workers: Vec<Child>,
    lacking: Option<Child>,
    started: u64,
    counts: BTreeMap<&'static str, usize>,
    newer: Option<SessionId>,
}

impl Faults {
    pub(crate) fn new(plan: &Plan, ids: &[SessionId]) -> Self {
        Self {
            plan: plan.clone(),
            random: plan.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            workers: Vec::new(),
            lacking: None,
            started: 0,
            counts: BTreeMap::new(),
            newer: ids.first().copied(),
        }
    }

    pub(crate) fn counts(&self) -> &BTreeMap<&'static str, usize> {
        &self.counts
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }

    /// Makes faults for a part of the time, then heals everything.
    pub(crate) fn run(&mut self, place: &mut Place) {
        let route = place.through();
        for _ in 0..self.plan.workers {
            self.started += 1;
            self.workers.push(worker::start(&route, self.started, false, self.plan.old.as_deref()));
        }
        self.lacking = Some(worker::start(&route, 999, true, None));
        if self.plan.old.is_some() {
            self.counts.insert("upgraded", 0);
        }
        let end = Instant::now() + self.plan.time.mul_f64(0.6);
        let outage_at = Instant::now() + self.plan.time.mul_f64(0.2);
        let mut had_outage = false;
        while Instant::now() < end {
            if !had_outage && Instant::now() >= outage_at {
                had_outage = true;
                self.outage(place);
            }
            self.one(place);
            let pause = 100 + self.below(400);
            sleep(Duration::from_millis(pause));
        }
    }

    fn one(&mut self, place: &mut Place) {
        // Without a proxy connections cannot be disturbed, and without a moved clock it cannot jump.
        let kinds = match &place.server {
            Some(server) if place.proxy().is_some() && server.has_clock() => 8,
            Some(_) => 4,
            None => 3,
        };
        let name = match self.below(kinds) {
            0 => self.kill(place),
            1 => self.freeze(),
            2 => self.upgrade(place),
            3 => {
                let server = place.server.as_mut().unwrap();
                server.cluster.crash();
                sleep(Duration::from_millis(300));
                server.cluster.start_again();
                "server stopped"
            }
            4 => self.traffic(place, Traffic::Stalls),
            5 => self.traffic(place, Traffic::LosesReplies),
            6 => {
                place.proxy().unwrap().cut();
                "cut"
            }
            _ => self.jump(place),
        };
        *self.counts.entry(name).or_default() += 1;
    }

    fn kill(&mut self, place: &Place) -> &'static str {
        let at = usize::try_from(self.below(self.workers.len() as u64)).unwrap();
        let mut victim = self.workers.swap_remove(at);
        victim.kill().unwrap();
        victim.wait().unwrap();
        self.started += 1;
        // A worker that starts now has this version: an upgrade, worker by worker.
        self.workers.push(worker::start(&place.through(), self.started, false, None));
        if let Some(upgraded) = self.counts.get_mut("upgraded") {
            *upgraded += 1;
        }
        "killed"
    }

    /// The provider is away. On a server whose clock can be moved that takes ten minutes of its time.
    fn outage(&mut self, place: &Place) {
        let file = place.journal().with_file_name(worker::OUTAGE);
        std::fs::write(&file, "").unwrap();
        for minute in 1..=10 {
            if let Some(server) = place.server.as_ref().filter(|server| server.has_clock()) {
                server.cluster.set_clock(&format!("+{minute}m"));
            }
            sleep(self.plan.time.mul_f64(0.015));
        }
        std::fs::remove_file(&file).unwrap();
        *self.counts.entry("outage").or_default() += 1;
    }

    /// Stops a worker past its lease and lets it go on.
    fn freeze(&mut self) -> &'static str {
        let at = usize::try_from(self.below(self.workers.len() as u64)).unwrap();
        signal(&self.workers[at], "-STOP");
        sleep(Duration::from_millis(LEASE_MS + 500));
        signal(&self.workers[at], "-CONT");
        "frozen"
    }

    fn traffic(&mut self, place: &Place, traffic: Traffic) -> &'static str {
        let time = 500 + self.below(2_500);
        let proxy = place.proxy().unwrap();
        proxy.set(traffic);
        sleep(Duration::from_millis(time));
        proxy.set(Traffic::Passes);
        if traffic == Traffic::Stalls { "stalled" } else { "replies lost" }
    }

    /// The clock of the server jumps ahead and back.
    fn jump(&mut self, place: &Place) -> &'static str {
        let cluster = &place.server.as_ref().unwrap().cluster;
        cluster.set_clock("+1h");
        sleep(Duration::from_millis(500));
        cluster.set_clock("+10m");
        "clock jumped"
    }

    /// A newer program has written a row that these workers cannot read; later they are upgraded.
    fn upgrade(&mut self, place: &Place) -> &'static str {
        let Some(id) = self.newer else { return "newer row" };
        set_version(place, id, "\"version\":3", "\"version\":99");
        sleep(Duration::from_millis(500));
        set_version(place, id, "\"version\":99", "\"version\":3");
        "newer row"
    }

    /// Waits until nothing is left to do, or the time is over. Then all workers end.
    pub(crate) fn drain(&mut self, place: &mut Place, ids: &[SessionId]) {
        let start = Instant::now();
        let limit = self.plan.time.max(Duration::from_secs(30));
        let mut sessions = place.direct();
        while start.elapsed() < limit {
            let idle = |id: &SessionId| {
                sessions.session(*id).is_ok_and(|session| session.state.status == SessionStatus::Idle)
            };
            if ids.iter().all(idle) {
                break;
            }
            sleep(Duration::from_millis(200));
        }
        println!("drained in {:.1} s", start.elapsed().as_secs_f64());
        for mut worker in self.workers.drain(..).chain(self.lacking.take()) {
            worker.kill().unwrap();
            worker.wait().unwrap();
        }
    }
}

impl Drop for Faults {
    /// No worker outlives its campaign, however that ends.
    fn drop(&mut self) {
        for mut worker in self.workers.drain(..).chain(self.lacking.take()) {
            drop(worker.kill());
            drop(worker.wait());
        }
    }
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

fn set_version(place: &Place, id: SessionId, from: &str, to: &str) {
    match &place.server {
        Some(server) => {
            let mut client = postgres::Client::connect(&server.database, postgres::NoTls).unwrap();
            let sql = "UPDATE fullsend.sessions SET state = replace(state, $2, $3), revision = revision + 1,
                       unreadable_by = NULL WHERE id::text = $1";
            client.execute(sql, &[&id.to_string(), &from, &to]).unwrap();
        }
        None => {
            let connection = rusqlite::Connection::open(place.through().store).unwrap();
            connection.busy_timeout(Duration::from_secs(10)).unwrap();
            let sql = "UPDATE sessions SET state = replace(state, ?2, ?3), unreadable_by = NULL
                       WHERE lower(hex(id)) = ?1";
            let digits = id.to_string().replace('-', "");
            connection.execute(sql, rusqlite::params![digits, from, to]).unwrap();
        }
    }
}
