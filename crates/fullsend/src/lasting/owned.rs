//! What the connections to one lasting sandbox share.

use std::io::{PipeWriter, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use crate::event::log::Emitter;
use crate::provision::policy_sandbox::PolicySandbox;

/// The stack size of the threads that answer connections.
pub const STACK_BYTES: usize = 256 << 10;

/// A running sandbox, as its owner holds it.
pub struct OwnedSandbox {
    pub policy_sandbox: PolicySandbox,
    pub emit: Emitter,
    pub next_command: AtomicU64,
    /// How many commands run now.
    pub commands: AtomicU64,
    /// The client that asked to remove the sandbox and waits for it.
    pub removers: Mutex<Vec<UnixStream>>,
    wake: PipeWriter,
}

impl OwnedSandbox {
    /// `wake` is what the owner waits on.
    pub fn new(policy_sandbox: PolicySandbox, emit: Emitter, wake: PipeWriter) -> Self {
        Self {
            policy_sandbox,
            emit,
            next_command: AtomicU64::new(1),
            commands: AtomicU64::new(0),
            removers: Mutex::default(),
            wake,
        }
    }

    /// Asks for the end; `stream` gets the answer when everything is gone.
    pub fn remove(&self, stream: UnixStream) {
        self.removers.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
        // The pipe is never full: the owner ends at its first byte.
        drop((&self.wake).write_all(b"r"));
    }
}
