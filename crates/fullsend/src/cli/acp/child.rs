//! One command of this program in a project: its words, its standard input, and its output line by line.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::acp::failed;
use crate::cli::exit::Exit;
use crate::cli::json_lines::read_start;
use crate::json_rpc::RpcFailure;
use crate::render::diagnostics::clean_text;

/// The longest line of a command, and the most of its errors.
const MAX_LINE: u64 = 8 << 20;
const MAX_ERRORS: u64 = 256 << 10;

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
        let cannot = |error: std::io::Error| failed(format!("cannot start a command: {error}"));
        Command::new(std::env::current_exe().map_err(cannot)?)
            .args(&self.arguments)
            .current_dir(self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(cannot)
    }

    /// Reads everything, and waits for the command. `before_reaped` is called while the process still has its number.
    pub(super) fn read(
        &self,
        mut child: Child,
        on_line: &mut dyn FnMut(&str),
        before_reaped: impl FnOnce(),
    ) -> ChildEnd {
        let mut input = child.stdin.take();
        let output = child.stdout.take();
        let errors = child.stderr.take();
        let errors = std::thread::scope(|scope| {
            scope.spawn(move || {
                if let Some(input) = &mut input {
                    // A command that ends early reads nothing more.
                    drop(input.write_all(&self.input));
                }
            });
            let errors =
                scope.spawn(move || errors.map(|from| read_start(from, MAX_ERRORS)).unwrap_or_default());
            if let Some(output) = output {
                read_lines(BufReader::new(output), on_line);
            }
            errors.join().unwrap_or_default()
        });
        before_reaped();
        let exit_code = child.wait().ok().and_then(|status| status.code());
        let errors = clean_text(String::from_utf8_lossy(&errors.bytes).trim_end());
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

/// Every line up to the end. What is longer than a line may be is left out.
fn read_lines(mut from: impl BufRead, on_line: &mut dyn FnMut(&str)) {
    loop {
        let mut line = Vec::new();
        match (&mut from).take(MAX_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => on_line(String::from_utf8_lossy(&line).trim_end_matches('\n')),
        }
    }
}
