//! Issues, pull requests and reviews of GitHub.

use egress::credentials::Secret;
use hyper::Method;
use serde_json::{Value as Json, json};

use super::review::{Posted, Review, ReviewEvent, ReviewTarget};
use super::{Client, Comment, ForgeError, ForgeServer, Issue, Login, Tracker, encoded, names, text};

/// GitHub's own limit.
const MAX_CHARACTERS: usize = 65_536;
const PAGE: usize = 100;
const MAX_PAGES: usize = 50;

/// One issue or pull request.
pub struct Github {
    client: Client,
    /// `/repos/OWNER/NAME`.
    repository: String,
    number: u64,
}

impl Github {
    pub fn new(
        server: ForgeServer,
        repository: &str,
        number: u64,
        token: Secret,
    ) -> Result<Self, ForgeError> {
        let wrong = || ForgeError::Result(format!("`{repository}` is not a repository: write OWNER/NAME"));
        let (owner, name) = repository.split_once('/').ok_or_else(wrong)?;
        if owner.is_empty() || name.is_empty() || name.contains('/') {
            return Err(wrong());
        }
        let client = Client::new(server, Login::Bearer(token), "application/vnd.github+json")?;
        let repository = format!("/repos/{}/{}", encoded(owner), encoded(name));
        Ok(Self { client, repository, number })
    }

    fn issue_path(&self) -> String {
        format!("{}/issues/{}", self.repository, self.number)
    }

    fn pull_path(&self) -> String {
        format!("{}/pulls/{}", self.repository, self.number)
    }

    /// Every item of a list, page by page.
    fn all(&self, path: &str) -> Result<Vec<Json>, ForgeError> {
        let mut all = Vec::new();
        for page in 1..=MAX_PAGES {
            let Json::Array(items) = self.client.get(&format!("{path}?per_page={PAGE}&page={page}"))? else {
                break;
            };
            let count = items.len();
            all.extend(items);
            if count < PAGE {
                break;
            }
        }
        Ok(all)
    }
}

fn comment(value: &Json) -> Comment {
    Comment { id: text(&value["id"]), author: text(&value["user"]["login"]), body: text(&value["body"]) }
}

impl Tracker for Github {
    fn max_characters(&self) -> usize {
        MAX_CHARACTERS
    }

    fn issue(&self) -> Result<Issue, ForgeError> {
        let value = self.client.get(&self.issue_path())?;
        Ok(Issue {
            number: text(&value["number"]),
            title: text(&value["title"]),
            body: text(&value["body"]),
            state: text(&value["state"]),
            labels: names(&value["labels"]),
            author: text(&value["user"]["login"]),
            url: text(&value["html_url"]),
            comments: self.comments()?,
        })
    }

    fn comments(&self) -> Result<Vec<Comment>, ForgeError> {
        Ok(self.all(&format!("{}/comments", self.issue_path()))?.iter().map(comment).collect())
    }

    fn create(&self, body: &str) -> Result<String, ForgeError> {
        let path = format!("{}/comments", self.issue_path());
        let made = self.client.send(&Method::POST, &path, &json!({ "body": body }))?;
        Ok(text(&made["id"]))
    }

    fn update(&self, id: &str, body: &str) -> Result<(), ForgeError> {
        let path = format!("{}/issues/comments/{}", self.repository, encoded(id));
        self.client.send(&Method::PATCH, &path, &json!({ "body": body })).map(drop)
    }

    fn delete(&self, id: &str) -> Result<(), ForgeError> {
        self.client.delete(&format!("{}/issues/comments/{}", self.repository, encoded(id)))
    }
}

impl ReviewTarget for Github {
    fn head(&self) -> Result<String, ForgeError> {
        Ok(text(&self.client.get(&self.pull_path())?["head"]["sha"]))
    }

    fn posted(&self) -> Result<Vec<Posted>, ForgeError> {
        let reviews = self.all(&format!("{}/reviews", self.pull_path()))?;
        let posted = |value: &Json| Posted {
            id: text(&value["id"]),
            body: text(&value["body"]),
            commit: text(&value["commit_id"]),
            event: match value["state"].as_str() {
                Some("APPROVED") => ReviewEvent::Approve,
                Some("CHANGES_REQUESTED") => ReviewEvent::RequestChanges,
                _ => ReviewEvent::Comment,
            },
        };
        Ok(reviews.iter().map(posted).collect())
    }

    fn post(&self, review: &Review, body: &str, head: &str) -> Result<(), ForgeError> {
        let event = match review.event {
            ReviewEvent::Approve => "APPROVE",
            ReviewEvent::RequestChanges => "REQUEST_CHANGES",
            ReviewEvent::Comment => "COMMENT",
        };
        let comments: Vec<Json> = review
            .comments
            .iter()
            .map(|one| json!({ "path": one.path, "line": one.line, "side": "RIGHT", "body": one.body }))
            .collect();
        let all = json!({ "commit_id": head, "event": event, "body": body, "comments": comments });
        self.client.send(&Method::POST, &format!("{}/reviews", self.pull_path()), &all).map(drop)
    }

    fn edit(&self, id: &str, body: &str) -> Result<(), ForgeError> {
        let path = format!("{}/reviews/{}", self.pull_path(), encoded(id));
        self.client.send(&Method::PUT, &path, &json!({ "body": body })).map(drop)
    }
}
