//! The tasks of one connection. They end with it, whether it ends by itself or is cancelled.

use hyper::rt::Executor;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::task::JoinSet;

/// Dropping it ends every task.
#[derive(Default)]
pub(super) struct ConnectionTasks {
    running: Arc<Mutex<JoinSet<()>>>,
}

/// A weak reference, because tasks hold it themselves.
#[derive(Clone)]
pub(super) struct TaskExecutor {
    running: Weak<Mutex<JoinSet<()>>>,
}

impl ConnectionTasks {
    pub(super) fn executor(&self) -> TaskExecutor {
        TaskExecutor { running: Arc::downgrade(&self.running) }
    }
}

impl<F: Future + Send + 'static> Executor<F> for TaskExecutor {
    fn execute(&self, future: F) {
        let Some(running) = self.running.upgrade() else { return };
        let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
        while running.try_join_next().is_some() {}
        running.spawn(async move {
            future.await;
        });
    }
}
