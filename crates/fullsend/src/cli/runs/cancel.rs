//! `fullsend runs cancel`: asks the runner of a run to cancel it and shut down cleanly.

use std::time::{Duration, Instant};

use super::super::configuration::variable;
use super::super::exit::{Exit, Failure};
use crate::record::store::StoredRun;
use crate::run::cancel_request;

/// How long a runner may take to answer.
const MAX_TIME: Duration = Duration::from_secs(20);
const TICK: Duration = Duration::from_millis(50);

pub fn run(run: &StoredRun) -> Result<Exit, Failure> {
    let failed = |why: &str| Failure::new(Exit::Failed, format!("cannot cancel the run {}: {why}", run.id));
    let is_alive = || run.is_alive().map_err(|error| failed(&error.to_string()));
    if !is_alive()? {
        return Err(
            failed("it has ended").help("`fullsend runs list --outcome running` lists the running ones")
        );
    }
    let by = ["USER", "LOGNAME"].into_iter().find_map(variable).filter(|name| !name.is_empty());
    let asked = cancel_request::ask(&run.path, by.as_deref().unwrap_or("operator"));
    asked.map_err(|error| failed(&error.to_string()))?;
    let deadline = Instant::now() + MAX_TIME;
    while cancel_request::is_waiting(&run.path) {
        if (Instant::now() > deadline || !is_alive()?) && cancel_request::take_back(&run.path) {
            return Err(failed("its runner does not answer: it has just ended, or it belongs to a session")
                .help("`fullsend session interrupt` stops the run of a session"));
        }
        std::thread::sleep(TICK);
    }
    super::super::write_stderr(&format!("cancelled {}\n", run.id));
    Ok(Exit::Done)
}
