//! The protocol between `fullsend fetch-skill` inside the sandbox and the server on the host: a line with a URL, and a
//! line of JSON as the answer.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Where the server's socket is inside.
pub const SOCKET: &str = "/opt/fullsend/skills.sock";
/// The most that a request may hold.
pub const MAX_REQUEST: u64 = 8 << 10;
const MAX_REPLY: u64 = 64 << 10;
/// Longer than a download may take.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkillReply {
    /// The skill is there: its name, and its SKILL.md inside.
    Fetched { name: String, path: String },
    /// The skill was refused: why, and what the agent can do.
    Refused { why: String, instead: String },
}

/// Asks from inside the sandbox.
pub fn ask(socket: &Path, url: &str) -> io::Result<SkillReply> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(format!("{url}\n").as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut bytes = Vec::new();
    stream.take(MAX_REPLY).read_to_end(&mut bytes)?;
    serde_json::from_slice(&bytes).map_err(io::Error::other)
}
