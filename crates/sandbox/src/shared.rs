//! What the host side's threads share: the control socket, the state of each command, and whether PID 1 is gone.

use crate::channel;
use crate::command_exit::CommandExit;
use crate::error::{ExecError, WaitError};
use crate::limits::LimitExceeded;
use crate::message::InitRequest;
use crate::proof::{ProbeRequest, ProbeResult};
use rustix::process::Signal;
use std::collections::HashMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

pub(crate) struct Shared {
    pub(crate) socket: UnixStream,
    pidfd: OnceLock<OwnedFd>,
    sending: Mutex<()>,
    state: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Default)]
struct Progress {
    processes: HashMap<u64, ProcessState>,
    proof: Option<Result<Vec<ProbeResult>, String>>,
    gone: Option<String>,
    exceeded: Option<LimitExceeded>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ProcessState {
    Starting,
    NotStarted { errno: i32 },
    Running { pid: i32 },
    Exited(CommandExit),
}

impl Shared {
    pub(crate) fn new(socket: UnixStream) -> Self {
        Self {
            socket,
            pidfd: OnceLock::new(),
            sending: Mutex::new(()),
            state: Mutex::new(Progress::default()),
            changed: Condvar::new(),
        }
    }

    /// The state is plain data and valid at every step, so a panic elsewhere does not spoil it.
    fn state(&self) -> MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_pidfd(&self, pidfd: OwnedFd) {
        // PID 1 is reported once; a second report would be dropped here and kills through the first.
        drop(self.pidfd.set(pidfd));
    }

    /// Kills PID 1, and with it everything inside. Through the descriptor, so never another process.
    pub(crate) fn kill(&self) {
        if let Some(pidfd) = self.pidfd.get() {
            // It fails only when PID 1 has ended already.
            let _ = rustix::process::pidfd_send_signal(pidfd, Signal::KILL);
        }
    }

    /// Kills everything because of a limit.
    pub(crate) fn stop(&self, exceeded: LimitExceeded) {
        self.state().exceeded = Some(exceeded);
        self.kill();
    }

    pub(crate) fn exceeded(&self) -> Option<LimitExceeded> {
        self.state().exceeded.clone()
    }

    pub(crate) fn send(&self, request: &InitRequest, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let _one_at_a_time = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        channel::send(&self.socket, request, descriptors)
    }

    pub(crate) fn expect(&self, id: u64) {
        self.state().processes.insert(id, ProcessState::Starting);
    }

    pub(crate) fn update(&self, id: u64, now: ProcessState) {
        // Only what was asked for: PID 1 cannot make this table grow.
        if let Some(process) = self.state().processes.get_mut(&id) {
            *process = now;
        }
        self.changed.notify_all();
    }

    pub(crate) fn mark_gone(&self, how: &str) {
        let mut state = self.state();
        let how = match &state.exceeded {
            Some(LimitExceeded { limit, detail }) => {
                format!("stopped because of its limit on {limit}: {detail}")
            }
            None => how.to_owned(),
        };
        state.gone = Some(how);
        drop(state);
        self.changed.notify_all();
    }

    pub(crate) fn how_it_ended(&self) -> String {
        self.state().gone.clone().unwrap_or_else(|| "it is ending".to_owned())
    }

    pub(crate) fn wait_until_gone(&self, limit: Duration) -> bool {
        self.wait(limit, |state| state.gone.is_some().then_some(())).is_some()
    }

    pub(crate) fn wait_for_start(&self, id: u64, program: &str, limit: Duration) -> Result<i32, ExecError> {
        let outcome = self.wait(limit, |state| match (state.processes.get(&id), &state.gone) {
            (Some(ProcessState::Running { pid }), _) => Some(Ok(*pid)),
            // It ended before anyone asked: its pid is useless now, but its exit status is kept.
            (Some(ProcessState::Exited(_)), _) => Some(Ok(0)),
            (Some(ProcessState::NotStarted { errno }), _) => Some(Err(ExecError::NotStarted {
                program: program.to_owned(),
                source: io::Error::from_raw_os_error(*errno),
            })),
            (_, Some(how)) => Some(Err(ExecError::Gone { how: how.clone() })),
            (_, None) => None,
        });
        outcome.unwrap_or(Err(ExecError::Timeout { limit }))
    }

    pub(crate) fn wait_for_exit(&self, id: u64, limit: Duration) -> Result<CommandExit, WaitError> {
        let outcome = self.wait(limit, |state| match (state.processes.get(&id), &state.gone) {
            (Some(ProcessState::Exited(exit)), _) => Some(Ok(*exit)),
            (_, Some(how)) => Some(Err(WaitError::Gone { how: how.clone() })),
            (_, None) => None,
        });
        outcome.unwrap_or(Err(WaitError::Deadline { limit }))
    }

    pub(crate) fn proven(&self, outcome: Result<Vec<ProbeResult>, String>) {
        self.state().proof = Some(outcome);
        self.changed.notify_all();
    }

    pub(crate) fn prove(&self, request: ProbeRequest, limit: Duration) -> Result<Vec<ProbeResult>, String> {
        self.state().proof = None;
        self.send(&InitRequest::Prove(request), &[]).map_err(|e| e.to_string())?;
        let outcome = self.wait(limit, |state| match (&state.proof, &state.gone) {
            (Some(outcome), _) => Some(outcome.clone()),
            (None, Some(how)) => Some(Err(how.clone())),
            (None, None) => None,
        });
        outcome.unwrap_or_else(|| Err(format!("no answer within {} ms", limit.as_millis())))
    }

    pub(crate) fn signal(&self, id: u64, signal: i32) -> Result<(), WaitError> {
        let sent = self.send(&InitRequest::Signal { id, signal }, &[]);
        sent.map_err(|_| WaitError::Gone { how: self.how_it_ended() })
    }

    pub(crate) fn kill_tree(&self, id: u64) -> Result<(), WaitError> {
        let sent = self.send(&InitRequest::KillTree { id }, &[]);
        sent.map_err(|_| WaitError::Gone { how: self.how_it_ended() })
    }

    pub(crate) fn forget(&self, id: u64) {
        self.state().processes.remove(&id);
    }

    fn wait<T>(&self, limit: Duration, mut look: impl FnMut(&Progress) -> Option<T>) -> Option<T> {
        let deadline = Instant::now().checked_add(limit);
        let mut state = self.state();
        loop {
            if let Some(found) = look(&state) {
                return Some(found);
            }
            // A limit beyond the clock's range never passes; still wake up now and then.
            let left = deadline.map_or(Duration::from_secs(3600), |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return None;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
