//! Signals become requests to end: the first for an orderly end, the second for one without grace. A third means that
//! the program itself hangs, and ends it; its sandbox ends with it.

use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};

use super::exit::{Exit, Failure};
use crate::cancel::{Cancel, Why};

/// Hears INT, TERM and HUP from now on.
pub fn watch(handle: &Handle, cancel: &Cancel) -> Result<(), Failure> {
    let _entered = handle.enter();
    let all = [
        (SignalKind::interrupt(), Why::Interrupted, Exit::Interrupted),
        (SignalKind::terminate(), Why::Terminated, Exit::Terminated),
        (SignalKind::hangup(), Why::Terminated, Exit::Terminated),
    ];
    for (kind, why, exit) in all {
        let failed = |error| Failure::new(Exit::Bug, format!("signals cannot be heard: {error}"));
        let mut signals = signal(kind).map_err(failed)?;
        let cancel = cancel.clone();
        handle.spawn(async move {
            while signals.recv().await.is_some() {
                match cancel.cancel(why) {
                    1 => super::talk("ending; a second signal ends it without grace\n"),
                    2 => super::talk("ending at once\n"),
                    _ => end(exit),
                }
            }
        });
    }
    Ok(())
}

#[expect(clippy::exit, reason = "whatever should have ended the program in order does not")]
fn end(exit: Exit) -> ! {
    std::process::exit(i32::from(exit.code()))
}
