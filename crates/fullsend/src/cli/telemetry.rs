//! Sends the telemetry of an ended run. If a collector does not answer, it prints one line; the outcome of the run does
//! not change.

use std::path::Path;

use super::configuration::variable;
use super::write_stderr;
use crate::render::diagnostics::clean_text;
use crate::telemetry;

/// `run` is the run's directory; without one, no run has started.
pub fn send(run: Option<&Path>) {
    let sent = run.map_or(Ok(()), |run| telemetry::send(run, &variable));
    if let Err(error) = sent {
        let why = clean_text(&error.to_string());
        write_stderr(&format!(
            "warning: the telemetry of this run was not sent: {}\n",
            why.replace('\n', " ")
        ));
    }
}
