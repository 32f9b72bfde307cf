//! Whether the runtime's hooks run at all: the gateway holds the first request until the start hook has reached the guard.

use std::fmt;
use std::time::Duration;
use tokio::sync::watch;

/// The guard sets it when the runtime's start hook has reached it.
#[derive(Clone)]
pub struct StartSignal {
    pub started: watch::Receiver<bool>,
    pub patience: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NotStarted {
    patience: Duration,
}

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the runtime's start hook did not reach the guard within {} s", self.patience.as_secs())
    }
}

impl std::error::Error for NotStarted {}

impl StartSignal {
    pub(super) async fn wait(&self) -> Result<(), NotStarted> {
        let mut started = self.started.clone();
        let waiting = async { started.wait_for(|started| *started).await.is_ok() };
        match tokio::time::timeout(self.patience, waiting).await {
            Ok(true) => Ok(()),
            // `false`: the guard is gone, so the signal will never come.
            Ok(false) | Err(_) => Err(NotStarted { patience: self.patience }),
        }
    }
}
