//! Issues and merge requests of GitLab. A review is one comment, plus an approval if the verdict is `approve`.

use egress::credentials::Secret;
use hyper::Method;
use serde_json::{Value as Json, json};

use super::review::{Posted, Review, ReviewEvent, ReviewTarget};
use super::{Client, Comment, ForgeError, ForgeServer, Issue, Login, Tracker, encoded, names, text};

/// GitLab's own limit.
const MAX_CHARACTERS: usize = 1_000_000;
const PAGE: usize = 100;
const MAX_PAGES: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Issue,
    MergeRequest,
}

/// One issue or merge request.
pub struct Gitlab {
    client: Client,
    /// `/projects/PROJECT/issues/NUMBER`.
    path: String,
}

impl Gitlab {
    pub fn new(
        server: ForgeServer,
        project: &str,
        target: Target,
        number: u64,
        token: Secret,
    ) -> Result<Self, ForgeError> {
        let client = Client::new(server.below("/api/v4"), Login::PrivateToken(token), "application/json")?;
        let kind = match target {
            Target::Issue => "issues",
            Target::MergeRequest => "merge_requests",
        };
        Ok(Self { client, path: format!("/projects/{}/{kind}/{number}", encoded(project)) })
    }

    fn notes(&self) -> String {
        format!("{}/notes", self.path)
    }
}

impl Tracker for Gitlab {
    fn max_characters(&self) -> usize {
        MAX_CHARACTERS
    }

    fn issue(&self) -> Result<Issue, ForgeError> {
        let value = self.client.get(&self.path)?;
        Ok(Issue {
            number: text(&value["iid"]),
            title: text(&value["title"]),
            body: text(&value["description"]),
            state: text(&value["state"]),
            labels: names(&value["labels"]),
            author: text(&value["author"]["username"]),
            url: text(&value["web_url"]),
            comments: self.comments()?,
        })
    }

    fn comments(&self) -> Result<Vec<Comment>, ForgeError> {
        let mut all = Vec::new();
        for page in 1..=MAX_PAGES {
            let path = format!("{}?per_page={PAGE}&page={page}&sort=asc", self.notes());
            let Json::Array(items) = self.client.get(&path)? else { break };
            let count = items.len();
            let written = items.iter().filter(|note| note["system"] != true);
            all.extend(written.map(|note| Comment {
                id: text(&note["id"]),
                author: text(&note["author"]["username"]),
                body: text(&note["body"]),
            }));
            if count < PAGE {
                break;
            }
        }
        Ok(all)
    }

    fn create(&self, body: &str) -> Result<String, ForgeError> {
        let made = self.client.send(&Method::POST, &self.notes(), &json!({ "body": body }))?;
        Ok(text(&made["id"]))
    }

    fn update(&self, id: &str, body: &str) -> Result<(), ForgeError> {
        let path = format!("{}/{}", self.notes(), encoded(id));
        self.client.send(&Method::PUT, &path, &json!({ "body": body })).map(drop)
    }

    fn delete(&self, id: &str) -> Result<(), ForgeError> {
        self.client.delete(&format!("{}/{}", self.notes(), encoded(id)))
    }
}

impl ReviewTarget for Gitlab {
    fn head(&self) -> Result<String, ForgeError> {
        Ok(text(&self.client.get(&self.path)?["sha"]))
    }

    /// A comment does not belong to a commit, so the newest text replaces the old one.
    fn posted(&self) -> Result<Vec<Posted>, ForgeError> {
        let head = self.head()?;
        let posted = |comment: Comment| Posted {
            id: comment.id,
            body: comment.body,
            commit: head.clone(),
            event: ReviewEvent::Comment,
        };
        Ok(self.comments()?.into_iter().map(posted).collect())
    }

    fn post(&self, review: &Review, body: &str, head: &str) -> Result<(), ForgeError> {
        let lines = review.comments.iter().map(|one| format!("\n- `{}:{}` {}", one.path, one.line, one.body));
        self.create(&format!("{body}{}", lines.collect::<String>()))?;
        if review.event == ReviewEvent::Approve {
            let path = format!("{}/approve", self.path);
            self.client.send(&Method::POST, &path, &json!({ "sha": head }))?;
        }
        Ok(())
    }

    fn edit(&self, id: &str, body: &str) -> Result<(), ForgeError> {
        self.update(id, body)
    }
}
