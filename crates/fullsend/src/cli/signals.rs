//! Signals cancel a run: the first asks for an orderly end, the second for an immediate one. The third exits at once; the
//! sandbox ends with the process.

use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};

use super::exit::{Exit, Failure};
use crate::cancel::{Cancel, CancelReason};

/// Handles INT, TERM and HUP from now on.
pub fn watch(handle: &Handle, cancel: &Cancel) -> Result<(), Failure> {
    let _entered = handle.enter();
    let all = [
        (SignalKind::interrupt(), CancelReason::Interrupted, Exit::Interrupted),
        (SignalKind::terminate(), CancelReason::Terminated, Exit::Terminated),
        (SignalKind::hangup(), CancelReason::Terminated, Exit::Terminated),
    ];
    for (kind, why, exit) in all {
        let failed = |error| Failure::new(Exit::Bug, format!("cannot handle signals: {error}"));
        let mut signals = signal(kind).map_err(failed)?;
        let cancel = cancel.clone();
        handle.spawn(async move {
            while signals.recv().await.is_some() {
                match cancel.cancel(why) {
                    1 => super::write_stderr("stopping; send the signal again to stop at once\n"),
                    2 => super::write_stderr("stopping at once\n"),
                    _ => end(exit),
                }
            }
        });
    }
    Ok(())
}

#[expect(clippy::exit, reason = "the orderly end hangs")]
fn end(exit: Exit) -> ! {
    std::process::exit(i32::from(exit.code()))
}
