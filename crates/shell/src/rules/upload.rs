//! Sending a file that is not part of the task: from outside the workspace to another machine.

use redact::{Severity, rule};

use super::{FETCHERS, Harm, harm};
use crate::script::Call;
use scan::ssrf;

const ADVICE: &str = "Send only files from the workspace. Copy what the task needs into it first.";

/// Directories whose files a task may send.
const OURS: &[&str] =
    &["/tmp/", "/var/tmp/", "/sandbox/", "/workspace/", "/dev/std", "/dev/fd/", "/dev/null"];

pub(super) fn judge(call: &Call) -> Option<Harm> {
    let file = if call.is(&["scp", "sftp", "rsync", "rclone"]) {
        copied(call)
    } else if call.is(FETCHERS) || call.is(&["socat"]) {
        posted(call).or_else(|| fed(call))
    } else {
        None
    }?;
    let addresses: Vec<&str> = call.words().filter(|word| word.contains("://")).collect();
    if !addresses.is_empty() && addresses.iter().all(|address| ssrf::is_plain_loopback(address)) {
        return None;
    }
    let detail = format!("`{}` sends `{file}`, which is outside of the workspace", call.program());
    harm(rule::command::FILE_UPLOAD, Severity::High, detail, ADVICE)
}

/// `curl -F x=@/etc/hosts`, `curl -T /etc/hosts`, `wget --post-file=/etc/hosts`.
fn posted(call: &Call) -> Option<&str> {
    let named = ["-T", "--upload-file", "--post-file", "--body-file"];
    let whole = call.value_of(&named).filter(|path| is_outside(path));
    whole.or_else(|| {
        let behind_sign = call.words().filter_map(|word| Some(word.split_once(['@', '<'])?.1));
        behind_sign.map(|path| path.split([';', ',']).next().unwrap_or(path)).find(|path| is_outside(path))
    })
}

/// `nc host 80 < /etc/hosts`
fn fed(call: &Call) -> Option<&str> {
    let is_connection = call.is(&["nc", "ncat", "netcat", "socat"]);
    let files = call.redirects.iter().filter(|redirect| is_connection && redirect.operator == "<");
    files.map(|redirect| redirect.target.text.as_str()).find(|path| is_outside(path))
}

/// `scp /etc/hosts host:`
fn copied(call: &Call) -> Option<&str> {
    let operands: Vec<&str> = call.operands().map(|word| word.text.as_str()).collect();
    let (to, from) = operands.split_last()?;
    let is_remote = |place: &str| place.split_once(':').is_some_and(|(host, _)| !host.contains('/'));
    from.iter().copied().find(|path| is_remote(to) && !is_remote(path) && is_outside(path))
}

fn is_outside(path: &str) -> bool {
    let is_absolute = path.starts_with(['/', '~']) || path.starts_with("$HOME/");
    let climbs = path.starts_with("../") || path.contains("/../");
    climbs || (is_absolute && !OURS.iter().any(|directory| path.starts_with(directory)))
}
