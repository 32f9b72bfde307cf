//! `fullsend fetch-skill`: asks the host for a skill, from inside a run.

use std::io::Write;
use std::path::Path;

use clap::Args;

use super::exit::{Exit, Failure};
use crate::remote::skill_request::{self, SkillReply};

#[derive(Args, Debug)]
pub struct Arguments {
    /// The URL of a SKILL.md or an archive, with or without `#sha256=DIGEST`, or git+https://HOST/REPOSITORY@COMMIT//PATH
    #[arg(value_name = "URL")]
    url: String,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let socket = Path::new(skill_request::SOCKET);
    if !socket.exists() {
        return Err(Failure::new(Exit::Missing, "skills are fetched inside a run whose harness allows it")
            .help("set `allow_runtime_fetch: true` and `allowed_remote_resources` in the harness"));
    }
    let reply = skill_request::ask(socket, &arguments.url)
        .map_err(|error| Failure::new(Exit::Failed, format!("the host does not answer: {error}")))?;
    match reply {
        SkillReply::Fetched { name, path } => {
            super::write_stderr(&format!("the skill `{name}` is there: read its file\n"));
            writeln!(std::io::stdout(), "{path}")?;
            Ok(Exit::Done)
        }
        SkillReply::Refused { why, instead } => {
            Err(Failure::new(Exit::Failed, format!("the skill is not fetched: {why}")).help(instead))
        }
    }
}
