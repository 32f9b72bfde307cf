//! `fullsend post-review`: the review of a run on a pull request, once for each commit.

use std::io::Write;

use clap::Args;

use super::exit::{Exit, Failure};
use super::forge_options::{Place, TextOptions, TrackerName, failed, parse_number};
use crate::forge::comment::Mode;
use crate::forge::review::{self, Review, ReviewTarget};
use crate::forge::{ForgeError, Github, Gitlab, Target};

#[derive(Args, Debug)]
pub struct Arguments {
    /// The repository, as OWNER/NAME
    #[arg(long, value_name = "OWNER/NAME")]
    repo: String,
    /// The number of the pull request or merge request
    #[arg(long, value_name = "NUMBER")]
    pr: String,
    /// Post nothing unless the pull request is still at this commit
    #[arg(long, value_name = "SHA")]
    head_sha: Option<String>,
    /// A text that identifies this review
    #[arg(long, default_value = "<!-- fullsend:review -->")]
    marker: String,
    /// The forge: github or gitlab [default: detected from the CI, else github]
    #[arg(long, value_parser = TrackerName::parse)]
    forge: Option<TrackerName>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    result: TextOptions,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let review = Review::read(&arguments.result.text()?).map_err(|error| failed(&error))?;
    let target = target(arguments)?;
    let mode = arguments.result.mode();
    let head = arguments.head_sha.as_deref().filter(|head| !head.is_empty());
    let step = review::post(target.as_ref(), &review, arguments.marker.trim(), head, mode)
        .map_err(|error| failed(&error))?;
    if !arguments.result.silent {
        let would = if mode == Mode::DryRun { "would " } else { "" };
        writeln!(std::io::stdout().lock(), "{would}{step}")?;
    }
    Ok(Exit::Done)
}

fn target(arguments: &Arguments) -> Result<Box<dyn ReviewTarget>, Failure> {
    let Arguments { repo, pr, place, .. } = arguments;
    let number = parse_number(pr)?;
    let name = arguments.forge.unwrap_or_else(TrackerName::of_environment);
    let token = place.token(name)?;
    let made: Result<Box<dyn ReviewTarget>, ForgeError> = match name {
        TrackerName::Jira => {
            return Err(
                Failure::new(Exit::Usage, "Jira has no reviews").help("use `fullsend issues post-comment`")
            );
        }
        TrackerName::Gitlab => Gitlab::new(place.gitlab()?, repo, Target::MergeRequest, number, token)
            .map(|made| Box::new(made) as Box<dyn ReviewTarget>),
        TrackerName::Github => Github::new(place.github()?, repo, number, token)
            .map(|made| Box::new(made) as Box<dyn ReviewTarget>),
    };
    made.map_err(|error| failed(&error))
}
