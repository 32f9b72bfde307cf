//! The hidden `__hook` command: carries what a runtime gives its hook to the guard on the host, and the guard's answer
//! back. It parses nothing and decides nothing; a guard that does not answer is a denial, unless the run fails open.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;

use crate::guard::client;
use crate::guard::dialect::HookAnswer;

/// What the guard reads at most, and one byte to notice more.
const MAX_BODY: u64 = (64 << 20) + 1;

/// `RUNTIME closed|open TOKEN`
pub fn main(words: &[OsString]) -> ExitCode {
    let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    let [runtime, how, token] = words[..] else { return ExitCode::from(2) };
    let mut body = Vec::new();
    let read = std::io::stdin().lock().take(MAX_BODY).read_to_end(&mut body);
    let answer = read.and_then(|_| client::ask(Path::new(client::SOCKET), runtime, token, &body));
    let answer = match (answer, how) {
        (Ok(answer), _) => answer,
        (Err(_), "open") => HookAnswer::silent(),
        (Err(error), _) => HookAnswer::refusal(&format!("{}: {error}", client::NO_ANSWER)),
    };
    let written = if answer.code == 0 {
        std::io::stdout().lock().write_all(answer.text.as_bytes())
    } else {
        std::io::stderr().lock().write_all(answer.text.as_bytes())
    };
    match written {
        Ok(()) => ExitCode::from(answer.code),
        Err(_) => ExitCode::from(2),
    }
}
