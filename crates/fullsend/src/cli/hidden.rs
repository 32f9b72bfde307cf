//! The program's other selves: commands that only fullsend itself starts, dispatched before anything else is built.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use crate::provision::proof;
use crate::runtime::native::agent;

/// Runs the hidden command that the first argument names, if it names one.
pub fn dispatch(arguments: &[OsString]) -> Option<ExitCode> {
    match arguments.get(1)?.to_str()? {
        "__init" => sandbox::init::main(),
        "__agent" => Some(agent::main()),
        "__probe" => {
            let words: Vec<String> =
                arguments[2..].iter().map(|word| word.to_string_lossy().into_owned()).collect();
            let report = proof::probe(words.first()?, words.get(1..).unwrap_or_default());
            drop(std::io::stdout().write_all(report.as_bytes()));
            Some(ExitCode::SUCCESS)
        }
        _ => None,
    }
}
