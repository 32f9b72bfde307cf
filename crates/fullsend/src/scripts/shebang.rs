//! The first line of a script: which interpreter runs it. A script without the run bit is started by that interpreter, as
//! the kernel would start it.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// The kernel reads no more of a first line.
const FIRST_LINE: u64 = 256;

/// An interpreter, and the rest of the line, which is one argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shebang {
    pub interpreter: String,
    pub argument: Option<String>,
}

/// Of a file on the host; `None` if it has no such line.
pub fn of(path: &Path) -> Option<Shebang> {
    let mut start = Vec::new();
    File::open(path).ok()?.take(FIRST_LINE).read_to_end(&mut start).ok()?;
    parse(&start)
}

fn parse(start: &[u8]) -> Option<Shebang> {
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?.trim();
    let (interpreter, argument) = match line.split_once([' ', '\t']) {
        Some((interpreter, rest)) => (interpreter, Some(rest.trim().to_owned())),
        None => (line, None),
    };
    (!interpreter.is_empty()).then(|| Shebang { interpreter: interpreter.to_owned(), argument })
}

/// Starts a program: itself, or its interpreter if no one may execute it.
pub fn command(program: &Path) -> Command {
    let runs = std::fs::metadata(program).is_ok_and(|about| about.permissions().mode() & 0o111 != 0);
    match of(program).filter(|_| !runs) {
        None => Command::new(program),
        Some(Shebang { interpreter, argument }) => {
            let mut command = Command::new(interpreter);
            command.args(argument).arg(program);
            command
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_the_line_is_one_argument() {
        let check = |text: &str, expected: Option<(&str, Option<&str>)>| {
            let found = parse(text.as_bytes());
            let found = found.as_ref().map(|line| (line.interpreter.as_str(), line.argument.as_deref()));
            assert_eq!(found, expected, "{text:?}");
        };
        check("#!/bin/sh\necho\n", Some(("/bin/sh", None)));
        check("#! /usr/bin/env -S bash -e\n", Some(("/usr/bin/env", Some("-S bash -e"))));
        check("#!\n", None);
        check("echo\n", None);
        check("\x7fELF", None);
    }
}
