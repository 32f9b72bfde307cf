//! A command of this program that another one starts (`acp`, `mcp`): its arguments, standard input, standard output and
//! standard error.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::render::diagnostics::clean_text;

/// The most of a command's errors that is kept.
const MAX_ERRORS: u64 = 256 << 10;

pub fn spawn(directory: &Path, arguments: &[String]) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

/// Writes the input while it reads the output and the errors, all to their end. The process is not waited for.
pub fn exchange<T: Default>(
    child: &mut Child,
    input: &[u8],
    read_output: impl FnOnce(ChildStdout) -> T,
) -> (T, String) {
    let stdin = child.stdin.take();
    let stdout = child.stdout.take();
    let stderr = child.stderr.take();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if let Some(mut stdin) = stdin {
                // A command that ends early reads nothing more.
                drop(stdin.write_all(input));
            }
        });
        let errors = scope.spawn(move || stderr.map(|from| read_start(from, MAX_ERRORS)).unwrap_or_default());
        let output = stdout.map(read_output).unwrap_or_default();
        let errors = errors.join().unwrap_or_default();
        (output, clean_text(String::from_utf8_lossy(&errors.bytes).trim_end()))
    })
}

/// The start of a stream, and whether there was more.
#[derive(Default)]
pub struct StreamStart {
    pub bytes: Vec<u8>,
    pub is_cut: bool,
}

/// Reads all, so that the command can end, and keeps the start.
pub fn read_start(mut from: impl Read, most: u64) -> StreamStart {
    let mut bytes = Vec::new();
    drop((&mut from).take(most).read_to_end(&mut bytes));
    let rest = std::io::copy(&mut from, &mut std::io::sink());
    StreamStart { bytes, is_cut: rest.is_ok_and(|rest| rest > 0) }
}
