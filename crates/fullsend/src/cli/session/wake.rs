//! `session wake`: queues a wake for later, once or again and again, or cancels one.

use std::io::Write;

use clap::Args;
use serde_json::json;
use session::{QueuedWake, Timestamp, WakeId, WakePriority, next_after};

use super::super::exit::{Exit, Failure};
use super::store::{SessionOptions, failure, time_seed};
use crate::event::clock::Moment;

#[derive(Args, Debug)]
#[group(id = "when", required = true, multiple = false, args = ["at", "delay", "cron", "cancel"])]
pub struct Wake {
    #[command(flatten)]
    session: SessionOptions,
    /// Wake the session at this time, such as 2027-01-31T09:00:00Z
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// Wake the session after this time: a number with s, m, h or d
    #[arg(long = "in", value_name = "TIME")]
    delay: Option<String>,
    /// Wake the session on this cron schedule: minute, hour, day, month and weekday, in UTC
    #[arg(long, value_name = "SCHEDULE")]
    cron: Option<String>,
    /// Cancel the queued wakes with this id or key
    #[arg(long, value_name = "KEY")]
    cancel: Option<String>,
    /// Tell the agent why it is woken
    #[arg(long, value_name = "TEXT", default_value = "scheduled")]
    reason: String,
    /// Add a note for the agent
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Give the wake this key; while it is queued, no other wake with the same key is queued
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn wake(arguments: &Wake) -> Result<Exit, Failure> {
    let (mut sessions, id) = arguments.session.open()?;
    let mut seed = time_seed(&mut sessions)?;
    let mut out = std::io::stdout().lock();
    if let Some(key) = &arguments.cancel {
        let state = sessions.cancel_wakes(id, key, &mut seed).map_err(failure)?;
        if arguments.json {
            writeln!(out, "{}", json!({ "id": id, "status": state.status, "wakes": state.wakes.len() }))?;
        } else {
            writeln!(out, "cancelled")?;
        }
        return Ok(Exit::Done);
    }
    let due_ms = arguments.due(seed.now)?;
    let wake = QueuedWake {
        id: WakeId::generate(&mut seed),
        due_ms,
        reason: arguments.reason.clone(),
        note: arguments.note.clone(),
        dedupe_key: arguments.key.clone(),
        priority: WakePriority::Normal,
        cron: arguments.cron.clone(),
    };
    let state = sessions.queue_wake(id, &wake, &mut seed).map_err(failure)?;
    let known = |queued: &&QueuedWake| queued.id == wake.id || queued.dedupe_key == wake.dedupe_key;
    let queued = state.wakes.iter().find(known).unwrap_or(&wake);
    let due = Moment::from_millis(u64::try_from(queued.due_ms.0).unwrap_or(0)).rfc3339();
    if arguments.json {
        writeln!(out, "{}", json!({ "id": id, "wake": queued.id, "due_ms": queued.due_ms }))?;
    } else {
        writeln!(out, "wake {} at {due}", queued.id)?;
    }
    Ok(Exit::Done)
}

impl Wake {
    fn due(&self, now: Timestamp) -> Result<Timestamp, Failure> {
        let wrong = |what: &str, help: &str| Failure::new(Exit::Usage, what.to_owned()).help(help.to_owned());
        if let Some(cron) = &self.cron {
            let help = "write five fields, such as \"0 9 * * 1\" for Mondays at 9:00 UTC";
            return next_after(cron, now)
                .ok_or_else(|| wrong("--cron: this schedule is not valid or never occurs", help));
        }
        if let Some(text) = &self.at {
            let moment = Moment::parse(text).and_then(|moment| i64::try_from(moment.millis()).ok());
            let help = "write a time in UTC, such as 2027-01-31T09:00:00Z";
            return moment.map(Timestamp).ok_or_else(|| wrong("--at: this is not a time", help));
        }
        let delay = self.delay.as_deref().and_then(milliseconds);
        delay.map(|delay| now.plus_ms(delay)).ok_or_else(|| {
            wrong("--in: this is not a length of time", "write a number with s, m, h or d, such as 90m")
        })
    }
}

/// A length of time such as `90m`.
pub fn milliseconds(text: &str) -> Option<u64> {
    let unit = text.chars().last()?;
    let unit_ms = match unit {
        's' => 1_000,
        'm' => 60_000,
        'h' => 3_600_000,
        'd' => 86_400_000,
        _ => return None,
    };
    text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(unit_ms)
}

#[cfg(test)]
mod tests {
    use super::milliseconds;

    #[test]
    fn lengths_of_time() {
        assert_eq!(milliseconds("90m"), Some(5_400_000));
        assert_eq!(milliseconds("2d"), Some(172_800_000));
        for bad in ["", "m", "90", "-1s", "1w", "99999999999999999999d", "9999999999999999d"] {
            assert_eq!(milliseconds(bad), None, "{bad}");
        }
    }
}
