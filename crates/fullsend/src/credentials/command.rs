//! A command whose standard output is a credential: the value alone, or a JSON object that also says how long it is
//! valid. Its time and output are bounded. Its output is never shown, except the last line of its standard error.

use std::path::PathBuf;
use std::time::Duration;

use egress::credentials::{FetchedSecret, Secret};
use serde::Deserialize;

use super::{CredentialHost, MAX_BYTES, usable};
use crate::cancel::Cancel;
use crate::event::clock::Moment;
use crate::harness::template::Template;
use crate::scripts::{self, Script, ScriptError};

const TIME: Duration = Duration::from_secs(30);

/// How much of its standard error is shown.
const MAX_COMPLAINT: usize = 200;

pub(super) struct CredentialCommand {
    text: String,
    environment: std::collections::BTreeMap<String, String>,
    working_directory: PathBuf,
}

/// The JSON form of an answer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    value: String,
    /// Seconds.
    expires_in: Option<u64>,
    /// RFC 3339, in UTC.
    expires_at: Option<String>,
}

impl CredentialCommand {
    /// The values of variables are not written into the command, where every process of the host could read them: the
    /// shell expands them.
    pub(super) fn new(template: &Template, host: &CredentialHost<'_>) -> Result<Self, String> {
        let mut environment = host.environment.clone();
        for name in template.variables() {
            let value = (host.variables)(name).ok_or_else(|| format!("{name} is not set"))?;
            environment.insert(name.to_owned(), value);
        }
        let text = template.expand(|name| Some(format!("${{{name}}}"))).unwrap_or_default();
        let text = text.trim_start_matches("exec:").trim().to_owned();
        if text.is_empty() {
            return Err("`exec:` names no command".to_owned());
        }
        Ok(Self { text, environment, working_directory: host.working_directory.to_owned() })
    }

    pub(super) fn run(&self) -> Result<FetchedSecret, String> {
        let script = Script {
            program: std::path::Path::new("/bin/sh"),
            arguments: &["-c".to_owned(), self.text.clone()],
            working_directory: &self.working_directory,
            environment: self.environment.clone(),
            time: TIME,
            cancel: &Cancel::default(),
        };
        let mut ended = scripts::run(&script).map_err(|error| match error {
            ScriptError::Timeout { time, .. } => {
                format!("the command did not end within {} seconds", time.as_secs())
            }
            other => other.to_string(),
        })?;
        let output = Secret::new(std::mem::take(&mut ended.output));
        let (printed, complaint) = output.reveal().split_at(ended.stdout_bytes);
        if !ended.status.success() {
            return Err(format!("the command ended with {}{}", ended.code(), last_line(complaint)));
        }
        if printed.len() as u64 > MAX_BYTES {
            return Err(format!("the command printed more than {MAX_BYTES} bytes"));
        }
        read(printed, Moment::now())
    }
}

/// The last line of standard error, for people; not if it contains a secret.
fn last_line(complaint: &str) -> String {
    let line = complaint.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let line: String = line.chars().filter(|c| !c.is_control()).take(MAX_COMPLAINT).collect();
    if line.is_empty() || redact::find_secret(&line).is_some() { String::new() } else { format!(": {line}") }
}

fn read(printed: &str, now: Moment) -> Result<FetchedSecret, String> {
    if !printed.trim_start().starts_with('{') {
        let secret = usable(printed.to_owned()).map_err(|why| format!("the command's output {why}"))?;
        if secret.reveal().contains('\n') {
            return Err("the command printed more than one line".to_owned());
        }
        return Ok(FetchedSecret { secret, valid_for: None });
    }
    // The parser's own message would show a part of its input.
    let answer: Answer = serde_json::from_str(printed).map_err(|_| {
        "the command printed JSON that is not {\"value\": …, \"expires_in\": SECONDS} or {…, \"expires_at\": TIME}"
            .to_owned()
    })?;
    let valid_for = match (answer.expires_in, answer.expires_at) {
        (Some(_), Some(_)) => return Err("the command printed both `expires_in` and `expires_at`".to_owned()),
        (Some(seconds), None) => Some(Duration::from_secs(seconds)),
        (None, Some(time)) => {
            let until = Moment::parse(&time)
                .ok_or("the command printed an `expires_at` that is not a time like 2030-01-31T12:00:00Z")?;
            Some(Duration::from_millis(until.millis().saturating_sub(now.millis())))
        }
        (None, None) => None,
    };
    Ok(FetchedSecret { secret: Secret::new(answer.value), valid_for })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_strictly() {
        let now = Moment::parse("2030-01-01T00:00:00Z").unwrap();
        let check =
            |printed: &str, expected: Result<(&str, Option<u64>), &str>| match (read(printed, now), expected)
            {
                (Ok(found), Ok((value, seconds))) => {
                    assert_eq!(
                        (found.secret.reveal(), found.valid_for.map(|life| life.as_secs())),
                        (value, seconds)
                    );
                }
                (Err(why), Err(part)) => assert!(why.contains(part), "{printed}: {why}"),
                (found, _) => panic!("{printed}: {found:?}"),
            };
        check("tok-1234\n", Ok(("tok-1234", None)));
        check("{\"value\":\"tok\"}", Ok(("tok", None)));
        check("{\"value\":\"tok\",\"expires_in\":90}", Ok(("tok", Some(90))));
        check("{\"value\":\"tok\",\"expires_at\":\"2030-01-01T01:00:00Z\"}", Ok(("tok", Some(3600))));
        check("{\"value\":\"tok\",\"expires_at\":\"2029-01-01T01:00:00Z\"}", Ok(("tok", Some(0))));
        check("", Err("is empty"));
        check("a\nb\n", Err("more than one line"));
        check("{\"token\":\"hunter2hunter2\"}", Err("the command printed JSON"));
        check("{\"value\":\"t\",\"expires_at\":\"tomorrow\"}", Err("2030-01-31"));
        check("{\"value\":\"t\",\"expires_in\":1,\"expires_at\":\"x\"}", Err("both"));
        assert!(!read("{\"token\":\"hunter2hunter2\"}", now).unwrap_err().contains("hunter2"));
    }
}
