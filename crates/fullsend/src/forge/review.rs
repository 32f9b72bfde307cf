//! A review of a pull request: read from a result file, posted once for one commit.

use serde_json::Value as Json;

use super::ForgeError;
use super::comment::Mode;

/// The longest body and the most comments that are posted.
const MAX_CHARACTERS: usize = 60_000;
const MAX_COMMENTS: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewEvent {
    Approve,
    RequestChanges,
    Comment,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    pub event: ReviewEvent,
    pub body: String,
    pub comments: Vec<LineComment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineComment {
    pub path: String,
    pub line: u64,
    pub body: String,
}

/// A review that is there already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    pub id: String,
    pub body: String,
    pub commit: String,
    pub event: ReviewEvent,
}

/// A pull request.
pub trait ReviewTarget {
    /// The commit that a review is about.
    fn head(&self) -> Result<String, ForgeError>;
    fn posted(&self) -> Result<Vec<Posted>, ForgeError>;
    fn post(&self, review: &Review, body: &str, head: &str) -> Result<(), ForgeError>;
    fn edit(&self, id: &str, body: &str) -> Result<(), ForgeError>;
}

/// What was done, or would be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReviewStep {
    Post,
    Edit {
        id: String,
    },
    Unchanged {
        id: String,
    },
    /// The pull request has moved on since the review was written.
    Stale {
        head: String,
    },
}

impl std::fmt::Display for ReviewStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Post => f.write_str("post a review"),
            Self::Edit { id } => write!(f, "edit review {id}"),
            Self::Unchanged { id } => write!(f, "leave review {id} as it is"),
            Self::Stale { head } => write!(f, "post nothing: the pull request is at {head} now"),
        }
    }
}

impl Review {
    /// A JSON document with `summary` or `body`, `verdict`, `action` or `event`, and `comments` or `findings`; or any
    /// other text, which becomes a review with verdict `comment`.
    pub fn read(text: &str) -> Result<Self, ForgeError> {
        let Ok(Json::Object(fields)) = serde_json::from_str::<Json>(text) else {
            return Ok(Self { event: ReviewEvent::Comment, body: text.to_owned(), comments: Vec::new() });
        };
        let first = |keys: &[&str]| keys.iter().find_map(|key| fields.get(*key));
        let body = first(&["body", "summary", "review"]).and_then(Json::as_str);
        let body =
            body.ok_or_else(|| ForgeError::Result("the review has no `summary` or `body`".to_owned()))?;
        let event = match first(&["event", "action", "verdict"]) {
            None => ReviewEvent::Comment,
            Some(word) => event(word)?,
        };
        let listed = first(&["comments", "findings"]).and_then(Json::as_array);
        let comments = listed.into_iter().flatten().filter_map(line_comment).take(MAX_COMMENTS).collect();
        Ok(Self { event, body: body.to_owned(), comments })
    }
}

/// An unknown word is refused: it must not become an approval.
fn event(word: &Json) -> Result<ReviewEvent, ForgeError> {
    let text = word.as_str().unwrap_or_default().to_ascii_lowercase().replace('_', "-");
    match text.as_str() {
        "approve" | "approved" => Ok(ReviewEvent::Approve),
        "request-changes" | "changes-requested" | "reject" => Ok(ReviewEvent::RequestChanges),
        "comment" | "commented" => Ok(ReviewEvent::Comment),
        _ => Err(ForgeError::Result(format!(
            "`{word}` is not a verdict: write `approve`, `request-changes` or `comment`"
        ))),
    }
}

fn line_comment(value: &Json) -> Option<LineComment> {
    let text = |keys: [&str; 2]| keys.iter().find_map(|key| value[*key].as_str()).map(str::to_owned);
    Some(LineComment {
        path: text(["path", "file"])?,
        line: value["line"].as_u64().filter(|line| *line > 0)?,
        body: text(["body", "message"])?,
    })
}

/// Posts a review, or edits the one that is there for the same commit. `written_for` is the commit that it is about.
pub fn post(
    target: &dyn ReviewTarget,
    review: &Review,
    marker: &str,
    written_for: Option<&str>,
    mode: Mode,
) -> Result<ReviewStep, ForgeError> {
    let head = target.head()?;
    if written_for.is_some_and(|commit| commit != head) {
        return Ok(ReviewStep::Stale { head });
    }
    let text: String = review.body.replace(marker, "").trim().chars().take(MAX_CHARACTERS).collect();
    let body = format!("{marker}\n{text}");
    let posted = target.posted()?;
    let ours = |one: &&Posted| one.body.starts_with(marker) && one.commit == head;
    for one in posted.iter().rev().filter(ours) {
        let id = one.id.clone();
        let is_same = one.event == review.event;
        if is_same && one.body.trim_end() == body.trim_end() {
            return Ok(ReviewStep::Unchanged { id });
        }
        if is_same && mode == Mode::DryRun {
            return Ok(ReviewStep::Edit { id });
        }
        if is_same {
            match target.edit(&id, &body) {
                Ok(()) => return Ok(ReviewStep::Edit { id }),
                Err(error) if error.is_not_ours() => {}
                Err(error) => return Err(error),
            }
        }
    }
    if mode == Mode::Post {
        target.post(review, &body, &head)?;
    }
    Ok(ReviewStep::Post)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_review_is_read_strictly() {
        let read = |text: &str| Review::read(text).map_err(|error| error.to_string());
        let plain = Review { event: ReviewEvent::Comment, body: "fine".to_owned(), comments: Vec::new() };
        assert_eq!(read("fine"), Ok(plain));
        let full = read(
            r#"{"summary": "s", "verdict": "request_changes", "findings": [
                {"file": "a.rs", "line": 3, "message": "m"}, {"file": "b.rs", "message": "no line"}]}"#,
        )
        .unwrap();
        assert_eq!(full.event, ReviewEvent::RequestChanges);
        assert_eq!(full.comments, [LineComment { path: "a.rs".to_owned(), line: 3, body: "m".to_owned() }]);
        assert_eq!(read(r#"{"body": "b", "event": "APPROVE"}"#).unwrap().event, ReviewEvent::Approve);
        assert!(read(r#"{"body": "b", "event": "ship it"}"#).unwrap_err().contains("not a verdict"));
        assert!(read(r#"{"verdict": "approve"}"#).unwrap_err().contains("summary"));
    }
}
