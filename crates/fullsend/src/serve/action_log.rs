//! Logs of one JSON object per line, bounded in size. `actions.jsonl` has one line for each action that an operator or
//! a webhook asked for, with the caller and the answer. Runs and sessions have their own events; this file also has
//! actions without such events, such as an import or a refusal.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hyper::header::LOCATION;
use hyper::{Response, StatusCode};
use serde_json::{Value as Json, json};

use super::Server;
use super::answer::AnswerBody;
use super::problem::Problem;
use crate::event::clock::Moment;

/// A longer file is renamed to `NAME.1` and replaces the previous one.
const MAX_BYTES: u64 = 8 << 20;

/// A log of the server's own.
pub(super) struct ActionLog {
    path: PathBuf,
    /// One line at a time.
    writing: Mutex<()>,
}

impl ActionLog {
    pub(super) fn new(directory: &Path, name: &str) -> Self {
        Self { path: directory.join(name), writing: Mutex::default() }
    }

    /// A line that cannot be written changes nothing for the caller.
    pub(super) fn append(&self, line: &Json) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if std::fs::metadata(&self.path).is_ok_and(|about| about.len() > MAX_BYTES) {
            drop(std::fs::rename(&self.path, self.path.with_extension("jsonl.1")));
        }
        let file = File::options().create(true).append(true).open(&self.path);
        drop(file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes())));
    }
}

impl Server {
    /// Logs the answer to an action, and the path of what the action created.
    pub(super) async fn log_answer(
        self: &Arc<Self>,
        by: &str,
        path: &str,
        done: &Result<Response<AnswerBody>, Problem>,
    ) {
        let made = done.as_ref().ok().and_then(|response| response.headers().get(LOCATION)?.to_str().ok());
        self.log_action(by, path, done.as_ref().map(Response::status), made).await;
    }

    /// `done` is the answer, `made` the path of what was created.
    pub(super) async fn log_action(
        self: &Arc<Self>,
        by: &str,
        path: &str,
        done: Result<StatusCode, &Problem>,
        made: Option<&str>,
    ) {
        let status = done.unwrap_or_else(Problem::status).as_u16();
        let mut line = json!({ "time": Moment::now().rfc3339(), "by": by, "path": path, "status": status });
        if let Err(problem) = done {
            line["problem"] = problem.detail().into();
        }
        if let Some(made) = made {
            line["made"] = made.into();
        }
        let logged = self.blocking(move |server| {
            server.action_log.append(&line);
            Ok(())
        });
        drop(logged.await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_appended_and_the_file_is_bounded() {
        let place = tempfile::tempdir().unwrap();
        let log = ActionLog::new(place.path(), "actions.jsonl");
        let path = place.path().join("actions.jsonl");
        log.append(&json!({ "by": "alice" }));
        log.append(&json!({ "by": "bob" }));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"by\":\"alice\"}\n{\"by\":\"bob\"}\n");
        File::options().append(true).open(&path).unwrap().set_len(MAX_BYTES + 1).unwrap();
        log.append(&json!({ "by": "carol" }));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"by\":\"carol\"}\n");
        assert!(place.path().join("actions.jsonl.1").is_file());
    }
}
