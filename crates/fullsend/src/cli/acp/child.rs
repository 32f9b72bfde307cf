//! One command of this program in a project: its arguments, its standard input, and its output line by line.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Child;

use crate::acp::failed;
use crate::cli::exit::Exit;
use crate::cli::own_command;
use crate::json_rpc::RpcFailure;

/// The longest line of a command.
const MAX_LINE: u64 = 8 << 20;

pub(super) struct ChildCommand<'a> {
    pub(super) directory: &'a Path,
    pub(super) arguments: Vec<String>,
    pub(super) input: Vec<u8>,
}

/// How a command ended.
#[derive(Default)]
pub(super) struct ChildEnd {
    /// `None` if it was not started or a signal ended it.
    pub(super) exit_code: Option<i32>,
    pub(super) errors: String,
}

impl<'a> ChildCommand<'a> {
    pub(super) fn new(directory: &'a Path, words: &[&str]) -> Self {
        let arguments = words.iter().map(|word| (*word).to_owned()).collect();
        Self { directory, arguments, input: Vec::new() }
    }

    pub(super) fn spawn(&self) -> Result<Child, RpcFailure> {
        own_command::spawn(self.directory, &self.arguments)
            .map_err(|error| failed(format!("cannot start a command: {error}")))
    }

    /// Reads everything, and waits for the command. `before_reaped` is called while the process still has its number.
    pub(super) fn read(
        &self,
        mut child: Child,
        on_line: &mut dyn FnMut(&str),
        before_reaped: impl FnOnce(),
    ) -> ChildEnd {
        let read = |output| read_lines(BufReader::new(output), on_line);
        let ((), errors) = own_command::exchange(&mut child, &self.input, read);
        before_reaped();
        let exit_code = child.wait().ok().and_then(|status| status.code());
        ChildEnd { exit_code, errors }
    }

    /// The output of a command that must succeed.
    pub(super) fn succeed(&self) -> Result<String, RpcFailure> {
        let mut output = String::new();
        let mut keep = |line: &str| {
            output.push_str(line);
            output.push('\n');
        };
        let end = self.read(self.spawn()?, &mut keep, || {});
        if end.exit_code == Some(Exit::Done.code().into()) { Ok(output) } else { Err(failed(end.errors)) }
    }
}

/// Every line up to the end. Lines over the limit are left out.
fn read_lines(mut from: impl BufRead, on_line: &mut dyn FnMut(&str)) {
    loop {
        let mut line = Vec::new();
        match (&mut from).take(MAX_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => on_line(String::from_utf8_lossy(&line).trim_end_matches('\n')),
        }
    }
}
