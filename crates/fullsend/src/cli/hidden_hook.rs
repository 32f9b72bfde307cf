//! The hidden `__hook` command: carries a hook's input to the guard on the host, and the answer back. It parses nothing and
//! decides nothing. Without an answer the call is denied, unless the run fails open.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;

use crate::guard::dialect::HookAnswer;
use crate::guard::hook_client::{self, HookAddress};

/// The most that the guard reads, and one byte more to detect longer input.
const MAX_BODY: u64 = (64 << 20) + 1;

/// `RUNTIME closed|open TOKEN`
pub fn main(arguments: &[OsString]) -> ExitCode {
    let arguments: Vec<&str> = arguments.iter().filter_map(|argument| argument.to_str()).collect();
    let Some(address) = HookAddress::parse(&arguments) else {
        return ExitCode::from(HookAnswer::DENIED);
    };
    let mut body = Vec::new();
    let answer = match std::io::stdin().lock().take(MAX_BODY).read_to_end(&mut body) {
        Ok(_) => address.ask(Path::new(hook_client::SOCKET), &body),
        Err(error) => address.unanswered(&error),
    };
    reply(&answer)
}

fn reply(answer: &HookAnswer) -> ExitCode {
    let written = if answer.passes() {
        std::io::stdout().lock().write_all(answer.text.as_bytes())
    } else {
        std::io::stderr().lock().write_all(answer.text.as_bytes())
    };
    match written {
        Ok(()) => ExitCode::from(answer.code),
        Err(_) => ExitCode::from(HookAnswer::DENIED),
    }
}
