//! Asks the guard from inside the sandbox, over its socket. The hidden `__hook` command and the native runtime use it. It
//! does not parse what it carries.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::dialect::HookAnswer;
use crate::harness::security::FailMode;

/// Where the guard's socket is inside.
pub const SOCKET: &str = "/opt/fullsend/guard.sock";

/// Variables for programs inside that use the neutral contract.
pub const SOCKET_VARIABLE: &str = "FULLSEND_GUARD_SOCKET";
pub const TOKEN_VARIABLE: &str = "FULLSEND_GUARD_TOKEN";

/// The name that a hook sends before its token if it is not a runtime's.
pub(super) const NEUTRAL: &str = "neutral";

/// The start of the denial from a hook that got no answer. The gateway ends the run when it reads it.
pub const NO_ANSWER: &str = "fullsend: the guard did not answer";

/// Longer than the guard may take, shorter than any runtime waits for its hook.
const TIMEOUT: Duration = Duration::from_secs(20);
const MAX_ANSWER: u64 = 64 << 20;

/// How a hook reaches the guard of its run. The launch writes it as the arguments of `__hook`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookAddress {
    runtime: String,
    /// What it means if the guard does not answer.
    fails_open: bool,
    token: String,
}

impl HookAddress {
    pub(super) fn new(runtime: &str, fail_mode: FailMode, token: &str) -> Self {
        let fails_open = fail_mode == FailMode::Open;
        Self { runtime: runtime.to_owned(), fails_open, token: token.to_owned() }
    }

    /// `RUNTIME closed|open TOKEN`
    pub fn arguments(&self) -> [String; 3] {
        let fail_mode = if self.fails_open { FailMode::Open } else { FailMode::Closed };
        [self.runtime.clone(), fail_mode.word().to_owned(), self.token.clone()]
    }

    pub fn parse(arguments: &[&str]) -> Option<Self> {
        let [runtime, fail_mode, token] = *arguments else { return None };
        Some(Self::new(runtime, FailMode::parse(fail_mode)?, token))
    }

    /// Asks over the socket. No answer is a denial, unless the run fails open.
    pub fn ask(&self, socket: &Path, body: &[u8]) -> HookAnswer {
        ask(socket, &self.runtime, &self.token, body).unwrap_or_else(|error| self.unanswered(&error))
    }

    /// The answer of a hook that could not ask.
    pub fn unanswered(&self, error: &io::Error) -> HookAnswer {
        if self.fails_open {
            return HookAnswer::silent();
        }
        HookAnswer::refusal(&format!("{NO_ANSWER}: {error}"))
    }
}

/// Asks for programs that have no hook dialect of their own.
pub fn ask_neutral(socket: &Path, token: &str, body: &[u8]) -> io::Result<HookAnswer> {
    ask(socket, NEUTRAL, token, body)
}

fn ask(socket: &Path, runtime: &str, token: &str, body: &[u8]) -> io::Result<HookAnswer> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    // A guard that refuses may not read everything, but it still answers.
    let written = stream
        .write_all(format!("{runtime} {token}\n").as_bytes())
        .and_then(|()| stream.write_all(body))
        .and_then(|()| stream.shutdown(Shutdown::Write));
    let mut bytes = Vec::new();
    let read = stream.take(MAX_ANSWER).read_to_end(&mut bytes);
    decode(&bytes).ok_or_else(|| {
        written.and(read.map(|_| ())).err().unwrap_or_else(|| io::Error::other("the guard broke off"))
    })
}

pub(super) fn encode(answer: &HookAnswer) -> Vec<u8> {
    // The length shows whether the answer is complete.
    let mut bytes = format!("{} {}\n", answer.code, answer.text.len()).into_bytes();
    bytes.extend_from_slice(answer.text.as_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<HookAnswer> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (code, length) = std::str::from_utf8(&bytes[..end]).ok()?.split_once(' ')?;
    let text = String::from_utf8(bytes[end + 1..].to_vec()).ok()?;
    let whole = length.parse() == Ok(text.len());
    whole.then_some(HookAnswer { code: code.parse().ok()?, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_an_answer_is_none() {
        let answer = HookAnswer { code: 2, text: "no, not\nthis".to_owned() };
        let bytes = encode(&answer);
        assert_eq!(decode(&bytes), Some(answer));
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), None, "{length}");
        }
    }
}
