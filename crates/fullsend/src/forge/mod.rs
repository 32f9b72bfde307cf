//! Comments and reviews on GitHub, GitLab and Jira, for the post-scripts of a run. A marker identifies a comment:
//! posting twice edits the same comment. It reads no environment and prints nothing.

mod client;
pub(crate) mod comment;
mod github;
mod gitlab;
mod jira;
pub(crate) mod review;

use serde::Serialize;
use serde_json::Value as Json;

pub use client::{BaseUrl, ForgeError, ForgeServer};
use client::{Client, Login};
pub use github::Github;
pub use gitlab::{Gitlab, Target};
pub use jira::Jira;

/// An issue or a pull request, in one form for all trackers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Issue {
    pub number: String,
    pub title: String,
    pub body: String,
    pub state: String,
    pub labels: Vec<String>,
    pub author: String,
    pub url: String,
    pub comments: Vec<Comment>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Comment {
    pub id: String,
    pub author: String,
    pub body: String,
}

/// A place with comments.
pub trait Tracker {
    /// The longest comment, in characters.
    fn max_characters(&self) -> usize;
    fn issue(&self) -> Result<Issue, ForgeError>;
    fn comments(&self) -> Result<Vec<Comment>, ForgeError>;
    fn create(&self, body: &str) -> Result<String, ForgeError>;
    fn update(&self, id: &str, body: &str) -> Result<(), ForgeError>;
    fn delete(&self, id: &str) -> Result<(), ForgeError>;
}

/// A text of a JSON document; empty if the value is not a text.
fn text(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

/// The texts of a list, each of which may be an object with a name.
fn names(value: &Json) -> Vec<String> {
    let name = |item: &Json| if item.is_object() { text(&item["name"]) } else { text(item) };
    value.as_array().into_iter().flatten().map(name).collect()
}

/// One part of a URL's path.
fn encoded(part: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    part.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parts_of_a_path_stay_one_part() {
        assert_eq!(encoded("acme/widgets"), "acme%2Fwidgets");
        assert_eq!(encoded("../x?y#z"), "..%2Fx%3Fy%23z");
    }

    #[test]
    fn labels_are_names_or_texts() {
        assert_eq!(names(&json!([{ "name": "a" }, "b", 3])), ["a", "b", "3"]);
        assert_eq!(names(&json!(null)), Vec::<String>::new());
    }
}
