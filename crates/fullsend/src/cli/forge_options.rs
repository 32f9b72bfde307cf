//! What the commands about issues share: which tracker, whose token, which text.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use egress::credentials::Secret;

use super::configuration::variable;
use super::exit::{Exit, Failure};
use crate::fetch::HostNetwork;
use crate::forge::comment::Mode;
use crate::forge::{BaseUrl, ForgeError, ForgeServer, Github, Gitlab, Jira, Target, Tracker};

/// The most that is read of a result.
const MAX_RESULT: u64 = 8 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackerName {
    Github,
    Gitlab,
    Jira,
}

impl TrackerName {
    pub fn parse(word: &str) -> Result<Self, String> {
        match word {
            "github" => Ok(Self::Github),
            "gitlab" => Ok(Self::Gitlab),
            "jira" => Ok(Self::Jira),
            _ => Err("one of github, gitlab, jira".to_owned()),
        }
    }

    /// GitLab where its CI runs, else GitHub.
    pub fn of_environment() -> Self {
        if variable("GITLAB_CI").is_some() { Self::Gitlab } else { Self::Github }
    }

    pub fn token_variables(self) -> &'static [&'static str] {
        match self {
            Self::Github => &["GH_TOKEN", "GITHUB_TOKEN"],
            Self::Gitlab => &["GITLAB_TOKEN"],
            Self::Jira => &["JIRA_API_TOKEN", "JIRA_TOKEN"],
        }
    }
}

#[derive(Args, Debug)]
pub struct Place {
    /// The token [default: GH_TOKEN, GITLAB_TOKEN or JIRA_API_TOKEN]
    #[arg(long)]
    token: Option<String>,
    /// The address of the service [default: GITHUB_API_URL, CI_SERVER_URL, or the public one]
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The address of Jira [default: JIRA_URL]
    #[arg(long, value_name = "URL")]
    jira_url: Option<String>,
    /// The email address of the token's owner [default: JIRA_EMAIL]
    #[arg(long, value_name = "EMAIL")]
    jira_email: Option<String>,
}

#[derive(Args, Debug)]
pub struct TextOptions {
    /// The file with the text; `-` is standard input
    #[arg(long, value_name = "FILE", required_unless_present = "reason")]
    result: Option<PathBuf>,
    /// Use this text instead of a file
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Print what would be done, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print nothing
    #[arg(long)]
    pub silent: bool,
}

impl TextOptions {
    pub fn mode(&self) -> Mode {
        if self.dry_run { Mode::DryRun } else { Mode::Post }
    }

    /// The text, without anything that looks like a credential.
    pub fn text(&self) -> Result<String, Failure> {
        let text = match &self.result {
            Some(path) => read(path)?,
            None => self.reason.clone().unwrap_or_default(),
        };
        if text.trim().is_empty() {
            return Err(Failure::new(Exit::Invalid, "there is no text to post: the result is empty"));
        }
        Ok(redact::Redactor::new().redact(&text).into_owned())
    }
}

impl Place {
    /// The issue. A pull request has the comments of an issue, except on GitLab.
    pub fn tracker(
        &self,
        name: Option<TrackerName>,
        project: &str,
        number: &str,
    ) -> Result<Box<dyn Tracker>, Failure> {
        let name = name.unwrap_or_else(TrackerName::of_environment);
        if name == TrackerName::Jira {
            return Ok(Box::new(self.jira(project, number)?));
        }
        let number = parse_number(number)?;
        let token = self.token(name)?;
        let made: Result<Box<dyn Tracker>, ForgeError> = match name {
            TrackerName::Gitlab => Gitlab::new(self.gitlab()?, project, Target::Issue, number, token)
                .map(|made| Box::new(made) as Box<dyn Tracker>),
            _ => Github::new(self.github()?, project, number, token)
                .map(|made| Box::new(made) as Box<dyn Tracker>),
        };
        made.map_err(|error| failed(&error))
    }

    fn jira(&self, project: &str, number: &str) -> Result<Jira, Failure> {
        let url = self.jira_url.clone().or_else(|| self.base_url.clone()).or_else(|| variable("JIRA_URL"));
        let url = url.ok_or_else(|| {
            Failure::new(Exit::Missing, "the address of Jira is not known")
                .help("give --jira-url, or set JIRA_URL")
        })?;
        let key = if number.contains('-') { number.to_owned() } else { format!("{project}-{number}") };
        let email = self.jira_email.clone().or_else(|| variable("JIRA_EMAIL"));
        let token = self.token(TrackerName::Jira)?;
        Jira::new(server(&url)?, &url, &key, email.as_deref(), token).map_err(|error| failed(&error))
    }

    pub fn token(&self, name: TrackerName) -> Result<Secret, Failure> {
        let variables = name.token_variables();
        let token = self.token.clone().or_else(|| variables.iter().find_map(|name| variable(name)));
        token.filter(|token| !token.is_empty()).map(Secret::new).ok_or_else(|| {
            Failure::new(Exit::Missing, "there is no token").help(format!("set {}", variables.join(" or ")))
        })
    }

    pub fn github(&self) -> Result<ForgeServer, Failure> {
        let url = self.base_url.clone().or_else(|| variable("GITHUB_API_URL"));
        server(url.as_deref().unwrap_or("https://api.github.com"))
    }

    pub fn gitlab(&self) -> Result<ForgeServer, Failure> {
        let url =
            self.base_url.clone().or_else(|| variable("GITLAB_URL")).or_else(|| variable("CI_SERVER_URL"));
        server(url.as_deref().unwrap_or("https://gitlab.com"))
    }
}

/// The service at this address, reached as this host reaches others: with its proxy and its certificate authorities.
fn server(url: &str) -> Result<ForgeServer, Failure> {
    let base = BaseUrl::parse(url).map_err(|error| failed(&error))?;
    let network = HostNetwork::of_host(&variable, Vec::new());
    let network = network.map_err(|error| Failure::new(Exit::Missing, error.to_string()))?;
    Ok(ForgeServer { base, network })
}

pub fn parse_number(text: &str) -> Result<u64, Failure> {
    text.trim_start_matches(['#', '!']).parse().map_err(|_| {
        Failure::new(Exit::Usage, format!("`{text}` is not the number of an issue or a pull request"))
    })
}

/// The error as a failure: a wrong address or result is a mistake of the caller, everything else a fault of the
/// service.
pub fn failed(error: &ForgeError) -> Failure {
    let exit = match error {
        ForgeError::Address { .. } | ForgeError::Result(_) => Exit::Invalid,
        ForgeError::Executor(_) => Exit::Missing,
        _ => Exit::Failed,
    };
    Failure::new(exit, error.to_string())
}

fn read(path: &Path) -> Result<String, Failure> {
    let wrong = |why: String| Failure::new(Exit::Missing, format!("cannot read {}: {why}", path.display()));
    let stream: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(std::fs::File::open(path).map_err(|error| wrong(error.to_string()))?)
    };
    let mut text = String::new();
    stream.take(MAX_RESULT + 1).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
    if text.len() as u64 > MAX_RESULT {
        return Err(wrong(format!("it has more than {MAX_RESULT} bytes")));
    }
    Ok(text)
}
