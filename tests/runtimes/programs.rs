//! The agent programs that the tests run: the tested versions, installed by npm into `target/cache`, once, under a lock
//! that other test processes wait for. A machine without npm or without its registry skips the tests that need them.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use crate::support::{program, root, skip};

/// How long a failed installation is remembered, so that every test does not wait for a registry that is out of reach.
const FAILURE_VALID: Duration = Duration::from_secs(600);

/// Where the programs are installed.
pub fn cache() -> PathBuf {
    root().join("target/cache")
}

/// Whether the runtime can run here. Installs its program first if it is missing; skips `test` with the reason where
/// that fails.
pub fn is_available(runtime: &str, test: &str) -> bool {
    static CLAUDE: OnceLock<Result<(), String>> = OnceLock::new();
    static CODEX: OnceLock<Result<(), String>> = OnceLock::new();
    static ACP: OnceLock<Result<(), String>> = OnceLock::new();
    let installed = match runtime {
        "native" => return true,
        "claude" => CLAUDE.get_or_init(|| install("claude")),
        "codex" => CODEX.get_or_init(|| install("codex")),
        "acp" => ACP.get_or_init(|| install("acp")),
        other => panic!("no test installs the runtime `{other}`"),
    };
    if let Err(reason) = installed {
        skip(&format!("runtimes {test}"), &format!("{runtime} cannot be installed: {reason}"));
    }
    installed.is_ok()
}

/// Whether an ordinary user can read the programs. Skips with a reason where the checkout is private to root.
pub fn user_can_read_programs() -> bool {
    let is_open =
        |place: &Path| fs::metadata(place).is_ok_and(|about| about.permissions().mode() & 0o005 == 0o005);
    let readable = cache().ancestors().all(is_open);
    if !readable {
        skip("runtimes as an ordinary user", "the checkout is in a place that only root can enter");
    }
    readable
}

/// Several processes may ask at once; the lock lets one of them install.
fn install(runtime: &str) -> Result<(), String> {
    fs::create_dir_all(cache()).map_err(|error| error.to_string())?;
    let lock = File::create(cache().join(format!("{runtime}.lock"))).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    let failure = cache().join(format!("{runtime}.failed"));
    if let Some(reason) = recent_failure(&failure) {
        return Err(reason);
    }
    let output = Command::new(program())
        .args(["runtimes", "install", runtime])
        .env("XDG_CACHE_HOME", cache())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let reason = words.lines().next().unwrap_or("it failed without a message").to_owned();
    fs::write(&failure, &reason).map_err(|error| error.to_string())?;
    Err(reason)
}

fn recent_failure(path: &Path) -> Option<String> {
    let written = fs::metadata(path).ok()?.modified().ok()?;
    let age = SystemTime::now().duration_since(written).unwrap_or_default();
    if age > FAILURE_VALID { None } else { fs::read_to_string(path).ok() }
}
