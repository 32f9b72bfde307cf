//! `fullsend-check-output`, inside the sandbox: the agent tests its own result against the schema, before it returns it.
//! The check that counts is the host's.

use std::io::Write;
use std::process::ExitCode;

use super::configuration::variable;
use super::exit::Exit;
use crate::validate;

/// Whether the program was started under this name.
pub fn is_name(program: &std::ffi::OsStr) -> bool {
    std::path::Path::new(program).file_name().is_some_and(|name| name == "fullsend-check-output")
}

/// `fullsend-check-output [FILE]`: `Done` if it passes, `Failed` if it does not, `Usage` if it cannot be checked here.
pub fn main(words: &[std::ffi::OsString]) -> ExitCode {
    let file = words.first().map(|word| word.to_string_lossy().into_owned()).or_else(|| {
        Some(format!("{}/{}", variable("FULLSEND_OUTPUT_DIR")?, variable("FULLSEND_OUTPUT_FILE")?))
    });
    let (Some(file), Some(schema)) = (file, variable("FULLSEND_OUTPUT_SCHEMA")) else {
        super::write_stderr("fullsend: there is no schema to check the output against\n");
        return Exit::Usage.into();
    };
    match validate::against(&file, &schema) {
        Ok(violations) if violations.is_empty() => {
            drop(writeln!(std::io::stdout(), "{file} passes"));
            Exit::Done.into()
        }
        Ok(violations) => {
            drop(write!(std::io::stdout(), "{}", validate::listed(&violations)));
            Exit::Failed.into()
        }
        Err(why) => {
            super::write_stderr(&format!("fullsend: {why}\n"));
            Exit::Usage.into()
        }
    }
}
