//! The threads on which a command does its network work.

use tokio::runtime::{Builder, Runtime};

use super::exit::{Exit, Failure};

pub fn start(threads: usize) -> Result<Runtime, Failure> {
    let executor = Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    executor.map_err(|error| Failure::new(Exit::Bug, format!("cannot start threads: {error}")))
}
