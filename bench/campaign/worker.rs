//! A worker as a process of its own: this bench starts itself again. It claims what is due, acts for a while as an agent would,
//! and commits. Every act is a line of a journal that all workers share. Like the program's lease keeper it acts only while its
//! lease is valid by its own clock, whatever the store does.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::fixture::{Clock, ending, reports};
use crate::place::{Route, try_open};
use session::{
    ClaimFilter, ClaimTarget, FailureClass, Lease, LeaseTerms, Payload, RunReport, SessionError,
    SessionUsage, Sessions, StoreError, WaitFor, WakeCommit, WakeEnding,
};

const STORE: &str = "FULLSEND_CAMPAIGN_STORE";
const JOURNAL: &str = "FULLSEND_CAMPAIGN_JOURNAL";
const SEED: &str = "FULLSEND_CAMPAIGN_SEED";

/// A worker that lacks something: it must claim nothing.
const LACKING: &str = "FULLSEND_CAMPAIGN_LACKING";

pub(crate) const LEASE_MS: u64 = 2_000;

/// The file beside the journal that exists while the provider is away.
pub(crate) const OUTAGE: &str = "outage";

/// Starts a worker of this program, or of an earlier version of it.
pub(crate) fn start(route: &Route, seed: u64, is_lacking: bool, old: Option<&Path>) -> Child {
    let program = old.map_or_else(|| std::env::current_exe().unwrap(), Path::to_owned);
    let mut command = Command::new(program);
    command.env(STORE, &route.store).env(JOURNAL, &route.journal).env(SEED, seed.to_string());
    if is_lacking {
        command.env(LACKING, "1");
    }
    command.stdin(Stdio::null()).spawn().unwrap()
}

/// Works until it is killed, if this process is a worker.
pub(crate) fn runs_as_child() -> bool {
    let Ok(store) = std::env::var(STORE) else { return false };
    let seed: u64 = std::env::var(SEED).unwrap().parse().unwrap();
    let journal = std::env::var(JOURNAL).unwrap();
    let mut worker = Worker {
        clock: Clock::new(100_000 + seed),
        journal: OpenOptions::new().create(true).append(true).open(Path::new(&journal)).unwrap(),
        terms: LeaseTerms { owner: format!("worker-{seed}-{}", std::process::id()), lease_ms: LEASE_MS },
        is_lacking: std::env::var(LACKING).is_ok(),
        outage: Path::new(&journal).with_file_name(OUTAGE),
        turn: seed,
    };
    let end = Instant::now() + Duration::from_secs(900);
    while Instant::now() < end {
        // A broken connection is replaced; nothing that happens to the store ends a worker.
        if let Ok(mut sessions) = try_open(&store) {
            while worker.step(&mut sessions).is_ok() && Instant::now() < end {}
        }
        sleep(Duration::from_millis(50));
    }
    true
}

struct Worker {
    clock: Clock,
    journal: File,
    terms: LeaseTerms,
    is_lacking: bool,
    outage: PathBuf,
    turn: u64,
}

impl Worker {
    fn step(&mut self, sessions: &mut Sessions) -> Result<(), SessionError> {
        let survey = sessions.survey()?;
        self.clock.now_ms = survey.now.0;
        let candidate = sessions.find_due(&ClaimFilter::default(), survey.now)?;
        // The check before the claim: a worker that lacks something leaves the session to others.
        let Some(candidate) = candidate.filter(|_| survey.is_due && !self.is_lacking) else {
            sessions.wait(WaitFor::Due, Duration::from_millis(100))?;
            return Ok(());
        };
        let claimed_at = Instant::now();
        let target = ClaimTarget::DueSession(candidate.header.id);
        match sessions.claim(target, &self.terms, &mut self.clock.seed()) {
            Ok(Some(claimed)) => self.run(sessions, &claimed.lease, claimed_at),
            Ok(None) | Err(SessionError::Refused(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The bounded run: acts, reports, renewals, one commit.
    fn run(
        &mut self,
        sessions: &mut Sessions,
        lease: &Lease,
        claimed_at: Instant,
    ) -> Result<(), SessionError> {
        self.turn += 1;
        if self.outage.exists() {
            return self.fail(sessions, lease);
        }
        let valid = Duration::from_millis(LEASE_MS * 9 / 10);
        let mut renewed_at = claimed_at;
        let mut pending: Vec<RunReport> = Vec::new();
        let mut all = 0;
        for act in 0..4 + self.turn % 20 {
            if renewed_at.elapsed() >= valid {
                return Ok(());
            }
            self.write(&format!("act {} {} {act}", lease.session, lease.token));
            sleep(Duration::from_millis(15));
            let used =
                Payload::RunUsage { usage: SessionUsage { turns: act + 1, ..SessionUsage::default() } };
            let attached = Payload::RunAttached { run_id: format!("run {act}"), digest: None };
            pending.extend(reports(&mut self.clock, &[attached, used]));
            all += 1;
            if sessions.report(lease, &pending, &mut self.clock.seed()).is_ok() {
                pending.clear();
            }
            let sent_at = Instant::now();
            let renewed = sessions.now().and_then(|now| sessions.renew(lease, &self.terms, now));
            match renewed {
                Ok(_) => renewed_at = sent_at,
                Err(SessionError::Store(_)) => {}
                // Another worker holds the wake.
                Err(_) => return Ok(()),
            }
        }
        self.commit(sessions, lease, &pending, all)
    }

    /// The provider does not answer.
    fn fail(&mut self, sessions: &mut Sessions, lease: &Lease) -> Result<(), SessionError> {
        let message = "the model is unavailable".to_owned();
        let failed = ending(WakeEnding::Failed { class: FailureClass::Transient, message });
        match sessions.commit(lease, &failed, &mut self.clock.seed()) {
            Ok(_) | Err(SessionError::Refused(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn commit(
        &mut self,
        sessions: &mut Sessions,
        lease: &Lease,
        pending: &[RunReport],
        reported: usize,
    ) -> Result<(), SessionError> {
        let says = serde_json::json!({"response": "ok", "summary": "s", "outcome": "sleep"});
        let commit = WakeCommit {
            reports: pending.to_vec(),
            usage: SessionUsage { turns: 1, ..SessionUsage::default() },
            ..ending(WakeEnding::Directive(crate::fixture::directive(&says)))
        };
        let end = Instant::now() + Duration::from_secs(5);
        loop {
            match sessions.commit(lease, &commit, &mut self.clock.seed()) {
                Ok(_) => {
                    self.write(&format!("committed {} {} {reported}", lease.session, lease.token));
                    return Ok(());
                }
                Err(SessionError::Store(StoreError::Unavailable { .. } | StoreError::Busy { .. }))
                    if Instant::now() < end =>
                {
                    sleep(Duration::from_millis(50));
                }
                Err(SessionError::Refused(_)) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// One line is one write, so lines of several processes do not mix, and their order is the order of the acts.
    fn write(&mut self, line: &str) {
        self.journal.write_all(format!("{line} {}\n", self.terms.owner).as_bytes()).unwrap();
    }
}
