//! Issues of Jira, through the second version of its interface: comments are texts there.

use egress::credentials::Secret;
use hyper::Method;
use serde_json::{Value as Json, json};

use super::{Client, Comment, ForgeError, ForgeServer, Issue, Login, Tracker, encoded, names, text};

/// Jira's own limit.
const MAX_CHARACTERS: usize = 32_767;
const PAGE: usize = 100;
const MAX_PAGES: usize = 50;

/// One issue.
pub struct Jira {
    client: Client,
    key: String,
    site: String,
}

impl Jira {
    /// With an email address the token is sent as that person's password; without one, as a bearer token.
    pub fn new(
        server: ForgeServer,
        site: &str,
        key: &str,
        email: Option<&str>,
        token: Secret,
    ) -> Result<Self, ForgeError> {
        let login = match email {
            Some(email) => Login::Basic { user: email.to_owned(), password: token },
            None => Login::Bearer(token),
        };
        let client = Client::new(server.below("/rest/api/2"), login, "application/json")?;
        Ok(Self { client, key: key.to_owned(), site: site.trim_end_matches('/').to_owned() })
    }

    fn path(&self) -> String {
        format!("/issue/{}", encoded(&self.key))
    }

    fn comment_path(&self, id: &str) -> String {
        format!("{}/comment/{}", self.path(), encoded(id))
    }
}

impl Tracker for Jira {
    fn max_characters(&self) -> usize {
        MAX_CHARACTERS
    }

    fn issue(&self) -> Result<Issue, ForgeError> {
        let value = self.client.get(&self.path())?;
        let fields = &value["fields"];
        Ok(Issue {
            number: text(&value["key"]),
            title: text(&fields["summary"]),
            body: text(&fields["description"]),
            state: text(&fields["status"]["name"]),
            labels: names(&fields["labels"]),
            author: text(&fields["reporter"]["displayName"]),
            url: format!("{}/browse/{}", self.site, self.key),
            comments: self.comments()?,
        })
    }

    fn comments(&self) -> Result<Vec<Comment>, ForgeError> {
        let mut all = Vec::new();
        for _ in 0..MAX_PAGES {
            let path = format!("{}/comment?startAt={}&maxResults={PAGE}", self.path(), all.len());
            let page = self.client.get(&path)?;
            let items = page["comments"].as_array().map(Vec::as_slice).unwrap_or_default();
            all.extend(items.iter().map(|comment: &Json| Comment {
                id: text(&comment["id"]),
                author: text(&comment["author"]["displayName"]),
                body: text(&comment["body"]),
            }));
            let total = page["total"].as_u64().and_then(|total| usize::try_from(total).ok()).unwrap_or(0);
            if items.is_empty() || all.len() >= total {
                break;
            }
        }
        Ok(all)
    }

    fn create(&self, body: &str) -> Result<String, ForgeError> {
        let path = format!("{}/comment", self.path());
        let made = self.client.send(&Method::POST, &path, &json!({ "body": body }))?;
        Ok(text(&made["id"]))
    }

    fn update(&self, id: &str, body: &str) -> Result<(), ForgeError> {
        self.client.send(&Method::PUT, &self.comment_path(id), &json!({ "body": body })).map(drop)
    }

    fn delete(&self, id: &str) -> Result<(), ForgeError> {
        self.client.delete(&self.comment_path(id))
    }
}
