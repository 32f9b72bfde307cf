//! Which commit decides in CI. A pull request must not be judged by the files that it brings, so the repository's layer is
//! read from its base; where no base is known, the caller names one.

use super::exit::{Exit, Failure};
use crate::harness::names::ForgeName;

/// GitHub's events for which `GITHUB_SHA` is a commit of the repository's own branches. The workflow itself comes from
/// the same commit. For other events, and for all events of pull requests, it may contain changes of a pull request.
const OWN_EVENTS: &[&str] = &[
    "branch_protection_rule",
    "create",
    "discussion",
    "discussion_comment",
    "issue_comment",
    "issues",
    "label",
    "milestone",
    "push",
    "registry_package",
    "release",
    "repository_dispatch",
    "schedule",
    "workflow_dispatch",
    "workflow_run",
];

/// The same for the sources of GitLab's pipelines and `CI_COMMIT_SHA`.
const OWN_SOURCES: &[&str] = &["api", "push", "schedule", "trigger", "web"];

/// What other CIs set for a pull request: Jenkins, Azure Pipelines, Bitbucket, Buildkite, CircleCI, Drone, Travis CI, AppVeyor.
const PULL_REQUEST_VARIABLES: &[&str] = &[
    "CHANGE_TARGET",
    "SYSTEM_PULLREQUEST_PULLREQUESTID",
    "BITBUCKET_PR_ID",
    "BUILDKITE_PULL_REQUEST",
    "CIRCLE_PULL_REQUEST",
    "DRONE_PULL_REQUEST",
    "TRAVIS_PULL_REQUEST",
    "APPVEYOR_PULL_REQUEST_NUMBER",
];

/// What these CIs set in every build. Without a variable of a pull request, it is none.
const OTHER_CIS: &[&str] = &[
    "JENKINS_URL",
    "TF_BUILD",
    "BITBUCKET_BUILD_NUMBER",
    "BUILDKITE",
    "CIRCLECI",
    "DRONE",
    "TRAVIS",
    "APPVEYOR",
];

/// The variables of the CI.
type Variables<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// The commit that decides, as the variables of this CI name it.
pub fn reference(
    forge: ForgeName,
    variable: &Variables<'_>,
    in_git: bool,
) -> Result<Option<String>, Failure> {
    let event = match forge {
        ForgeName::Github => variable("GITHUB_EVENT_NAME"),
        ForgeName::Gitlab => variable("CI_PIPELINE_SOURCE"),
        ForgeName::Jira => None,
    };
    let found = match forge {
        ForgeName::Github => on_github(event.as_deref(), variable)?,
        ForgeName::Gitlab => on_gitlab(event.as_deref(), variable),
        ForgeName::Jira => None,
    };
    match found {
        Some(reference) => Ok(Some(reference)),
        // Without an event and without commits there is no pull request.
        None if event.is_none() && !in_git => Ok(None),
        None => Err(no_base(forge, event.as_deref())),
    }
}

/// Stops in a pull request of a CI that does not name its base in a way that can be trusted. In a CI that is not known,
/// everything outside the default branch may be one; `may_be_pull_request` looks at the repository.
pub fn refuse_other_ci(
    variable: &Variables<'_>,
    may_be_pull_request: impl FnOnce() -> bool,
) -> Result<(), Failure> {
    let is_set =
        |name: &&str| variable(name).is_some_and(|value| !matches!(value.as_str(), "" | "false" | "0"));
    if let Some(name) = PULL_REQUEST_VARIABLES.iter().find(|name| is_set(name)) {
        let message =
            format!("{name} says that this is a pull request, and this CI names no base that can be trusted");
        return Err(Failure::new(Exit::Missing, message).help(HELP));
    }
    let says_none = |name: &&str| variable(name).is_some();
    let is_known = PULL_REQUEST_VARIABLES.iter().any(says_none) || OTHER_CIS.iter().any(is_set);
    if is_set(&"CI") && !is_known && may_be_pull_request() {
        let message = "CI is set, this CI is not known, and the checked-out commit is not on the default branch of \
                       `origin`: it can be a pull request";
        return Err(Failure::new(Exit::Missing, message).help(HELP));
    }
    Ok(())
}

fn on_github(event: Option<&str>, variable: &Variables<'_>) -> Result<Option<String>, Failure> {
    if let Some(base) = variable("GITHUB_BASE_REF") {
        // `refs/remotes/origin/HEAD` is another name for the default branch, whatever the branch `HEAD` holds.
        if base == "HEAD" || !is_branch_name(&base) {
            let message =
                format!("`{base}` in GITHUB_BASE_REF is not the name of a branch that can be trusted");
            return Err(Failure::new(Exit::Missing, message).help(HELP));
        }
        return Ok(Some(format!("refs/remotes/origin/{base}")));
    }
    let is_own = event.is_some_and(|event| OWN_EVENTS.contains(&event));
    Ok(variable("GITHUB_SHA").filter(|commit| is_own && is_commit_id(commit)))
}

fn on_gitlab(source: Option<&str>, variable: &Variables<'_>) -> Option<String> {
    if let Some(base) = variable("CI_MERGE_REQUEST_DIFF_BASE_SHA") {
        return Some(base).filter(|base| is_commit_id(base));
    }
    let is_own = source.is_some_and(|source| OWN_SOURCES.contains(&source))
        && variable("CI_OPEN_MERGE_REQUESTS").is_none()
        && variable("CI_MERGE_REQUEST_IID").is_none();
    variable("CI_COMMIT_SHA").filter(|commit| is_own && is_commit_id(commit))
}

const HELP: &str = "name the commit whose .fullsend decides: --config-ref refs/remotes/origin/main; `--config-ref worktree` \
     trusts the files as they are, also those of a pull request";

fn no_base(forge: ForgeName, event: Option<&str>) -> Failure {
    let name = match forge {
        ForgeName::Github => "GitHub",
        ForgeName::Gitlab => "GitLab",
        ForgeName::Jira => "Jira",
    };
    let event = event.map_or_else(String::new, |event| format!(" for the event `{event}`"));
    let message = format!("{name} names no base that can be trusted{event}");
    Failure::new(Exit::Missing, message).help(HELP)
}

fn is_commit_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What git allows as the name of a branch.
fn is_branch_name(name: &str) -> bool {
    let forbidden = |c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c);
    let part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    !name.contains(forbidden)
        && !name.contains("..")
        && !name.contains("@{")
        && !name.starts_with('-')
        && !name.ends_with('.')
        && name.split('/').all(part)
}
