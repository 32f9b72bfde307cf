//! Where the accepted result of a run goes: standard output, in the form that the caller wants, or a file.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::Value as Json;

use super::configuration::variable;
use super::exit::{Exit, Failure};
use crate::render::{actions, result};

#[derive(Args, Debug)]
pub struct ResultOptions {
    /// Print the accepted result in this form [default: json; text for a prompt without a harness]
    #[arg(long, value_enum, value_name = "FORM")]
    output: Option<ResultForm>,
    /// Write the accepted result to this file instead, byte for byte
    #[arg(long, short = 'o', value_name = "FILE")]
    output_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ResultForm {
    /// The JSON document
    Json,
    /// Plain text: the fields of the document
    Text,
    /// Nothing
    None,
}

impl ResultOptions {
    /// Prints the file, or copies it. A run that changes only the repository has no such file.
    pub fn print(&self, file: &Path, usual: ResultForm, stdout_has_events: bool) -> Result<(), Failure> {
        let bytes = match std::fs::read(file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                return Err(Failure::new(Exit::Failed, format!("cannot read {}: {error}", file.display())));
            }
        };
        if let Some(target) = &self.output_file {
            return std::fs::write(target, &bytes).map_err(|error| {
                Failure::new(
                    Exit::Failed,
                    format!("cannot write the result to {}: {error}", target.display()),
                )
                .help(format!("it is in {}", file.display()))
            });
        }
        let form = self.output.unwrap_or(usual);
        if form == ResultForm::None || stdout_has_events {
            return Ok(());
        }
        let text = render(&bytes, form);
        let in_actions = variable("GITHUB_ACTIONS").as_deref() == Some("true");
        let text = if in_actions && form == ResultForm::Text { actions::harmless(&text) } else { text };
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).or_else(|error| match error.kind() {
            // The reader has closed the pipe; the run still succeeded.
            std::io::ErrorKind::BrokenPipe => Ok(()),
            _ => Err(error.into()),
        })
    }
}

fn render(bytes: &[u8], form: ResultForm) -> String {
    let document = serde_json::from_slice::<Json>(bytes).ok();
    match (form, document) {
        (ResultForm::Text, Some(document)) => result::text(&document),
        (ResultForm::Text, None) => result::other(bytes),
        (_, Some(document)) => result::json(&document),
        (_, None) => result::json(&Json::String(String::from_utf8_lossy(bytes).into_owned())),
    }
}
