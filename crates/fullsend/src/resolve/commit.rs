//! Which commit a reference names. git resolves a short name to a tag, a branch or a remote's branch, whichever it
//! finds first, and an attacker may have chosen one of these names. Here a name must be unambiguous.

use crate::git::{GitError, RepositoryReader};

/// Where git looks for a short name.
const PLACES: &[&str] = &["refs/", "refs/tags/", "refs/heads/", "refs/remotes/"];

#[derive(Debug)]
pub enum CommitError {
    Unknown { reference: String },
    Ambiguous { reference: String, names: Vec<String> },
    Git(GitError),
}

impl std::fmt::Display for CommitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown { reference } => write!(f, "the repository has no commit `{reference}`"),
            Self::Ambiguous { reference, names } => {
                write!(f, "`{reference}` is ambiguous: it may be {}; use the whole name", names.join(" or "))
            }
            Self::Git(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CommitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Git(error) => Some(error),
            Self::Unknown { .. } | Self::Ambiguous { .. } => None,
        }
    }
}

/// The id of the commit.
pub fn resolve(reader: &RepositoryReader, reference: &str) -> Result<String, CommitError> {
    let unknown = || CommitError::Unknown { reference: reference.to_owned() };
    // `main~1`, `v1^{commit}`: the name, then how to go on from there.
    let end = reference.find(['~', '^', ':', '@']).unwrap_or(reference.len());
    let (name, rest) = reference.split_at(end);
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !"?*[\\".contains(c);
    if name.is_empty() || name.starts_with('-') || !reference.chars().all(is_plain) {
        return Err(unknown());
    }
    let start = match name {
        "HEAD" => name.to_owned(),
        _ if name.starts_with("refs/") => at(reader, name)?.ok_or_else(unknown)?,
        _ if is_id(name, 40) => name.to_owned(),
        _ => by_short_name(reader, name)?.ok_or_else(unknown)?,
    };
    let wanted = format!("{start}{rest}^{{commit}}");
    let arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted];
    let answer = reader.run(&arguments, &[]).map_err(CommitError::Git)?;
    let text = String::from_utf8_lossy(&answer.output).trim().to_owned();
    if answer.code == 0 && is_id(&text, 40) { Ok(text) } else { Err(unknown()) }
}

fn by_short_name(reader: &RepositoryReader, name: &str) -> Result<Option<String>, CommitError> {
    let mut found: Vec<(String, String)> = Vec::new();
    for place in PLACES {
        let full = format!("{place}{name}");
        if let Some(id) = at(reader, &full)? {
            found.push((full, id));
        }
    }
    // A short id may also be the name of a branch.
    let is_abbreviation = is_id(name, 4);
    match &found[..] {
        [] if is_abbreviation => Ok(Some(name.to_owned())),
        [] => Ok(None),
        [(_, first), rest @ ..] if !is_abbreviation && rest.iter().all(|(_, id)| id == first) => {
            Ok(Some(first.clone()))
        }
        _ => {
            let id = is_abbreviation.then(|| format!("the commit {name}…"));
            let names = found.into_iter().map(|(name, _)| name).chain(id).collect();
            Err(CommitError::Ambiguous { reference: name.to_owned(), names })
        }
    }
}

/// The object at exactly this name.
fn at(reader: &RepositoryReader, full: &str) -> Result<Option<String>, CommitError> {
    let answer =
        reader.run(&["show-ref", "--verify", "--hash", "--", full], &[]).map_err(CommitError::Git)?;
    let text = String::from_utf8_lossy(&answer.output).trim().to_owned();
    Ok((answer.code == 0 && is_id(&text, 40)).then_some(text))
}

fn is_id(text: &str, least: usize) -> bool {
    (least..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
