//! A sticky comment: found by its marker and changed in place. A text that is too long for one comment becomes several, each
//! with the marker and its number.

use super::{Comment, ForgeError, Tracker};

/// What was done, or would be done, with one part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommentStep {
    Create,
    Update {
        id: String,
    },
    Unchanged {
        id: String,
    },
    /// A part of an earlier, longer text.
    Delete {
        id: String,
    },
}

impl std::fmt::Display for CommentStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Create => f.write_str("create a comment"),
            Self::Update { id } => write!(f, "update comment {id}"),
            Self::Unchanged { id } => write!(f, "leave comment {id} as it is"),
            Self::Delete { id } => write!(f, "delete comment {id}"),
        }
    }
}

/// Whether anything is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Post,
    DryRun,
}

/// Posts the text under its marker, and says what it did.
pub fn post(
    tracker: &dyn Tracker,
    marker: &str,
    text: &str,
    mode: Mode,
) -> Result<Vec<CommentStep>, ForgeError> {
    let comments = tracker.comments()?;
    let parts = parts(marker, text, tracker.max_characters());
    let mut done = Vec::new();
    for (index, body) in parts.iter().enumerate() {
        done.push(post_part(tracker, &comments_of_part(&comments, marker, index), body, mode)?);
    }
    for index in parts.len().. {
        let old = comments_of_part(&comments, marker, index);
        if old.is_empty() {
            break;
        }
        for comment in old {
            let step = CommentStep::Delete { id: comment.id.clone() };
            let deleted = if mode == Mode::Post { tracker.delete(&comment.id) } else { Ok(()) };
            match deleted {
                Ok(()) => done.push(step),
                Err(error) if error.is_not_ours() => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(done)
}

/// Anybody can write the marker into a comment. A comment that we cannot edit is not ours, and is skipped.
fn post_part(
    tracker: &dyn Tracker,
    old: &[&Comment],
    body: &str,
    mode: Mode,
) -> Result<CommentStep, ForgeError> {
    for comment in old {
        let id = comment.id.clone();
        if comment.body.trim_end() == body.trim_end() {
            return Ok(CommentStep::Unchanged { id });
        }
        if mode == Mode::DryRun {
            return Ok(CommentStep::Update { id });
        }
        match tracker.update(&id, body) {
            Ok(()) => return Ok(CommentStep::Update { id }),
            Err(error) if error.is_not_ours() => {}
            Err(error) => return Err(error),
        }
    }
    if mode == Mode::Post {
        tracker.create(body)?;
    }
    Ok(CommentStep::Create)
}

/// The line that marks a part after the first one.
fn part_line(index: usize) -> String {
    format!("<!-- fullsend:part {} -->", index + 1)
}

/// The comments that hold a part of this marker's text.
fn comments_of_part<'a>(comments: &'a [Comment], marker: &str, index: usize) -> Vec<&'a Comment> {
    let number = |comment: &Comment| {
        let line = comment.body.lines().find(|line| line.starts_with("<!-- fullsend:part "));
        line.map_or(0, |line| (1..1000).find(|index| part_line(*index) == line.trim_end()).unwrap_or(0))
    };
    comments.iter().filter(|comment| comment.body.contains(marker) && number(comment) == index).collect()
}

/// The text in comments of at most `max_characters` characters, cut between lines where there are lines.
fn parts(marker: &str, text: &str, max_characters: usize) -> Vec<String> {
    let text = text.replace(marker, "");
    let text = text.trim();
    let head = format!("{marker}\n").chars().count() + part_line(999).chars().count() + 1;
    let room = max_characters.saturating_sub(head).max(1);
    let mut all: Vec<String> = vec![String::new()];
    let mut used = 0;
    for line in text.split_inclusive('\n') {
        let mut rest = line;
        while !rest.is_empty() {
            let length = rest.chars().count();
            if used + length > room && used > 0 {
                all.push(String::new());
                used = 0;
                continue;
            }
            let end = rest.char_indices().nth(room - used).map_or(rest.len(), |(end, _)| end);
            if let Some(last) = all.last_mut() {
                last.push_str(&rest[..end]);
            }
            used += rest[..end].chars().count();
            rest = &rest[end..];
        }
    }
    let numbered = |(index, part): (usize, String)| {
        let line = if index == 0 { String::new() } else { format!("{}\n", part_line(index)) };
        format!("{marker}\n{line}{part}")
    };
    all.into_iter().enumerate().map(numbered).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forge::Issue;
    use std::cell::RefCell;

    /// Comments in memory; those of `theirs` belong to another user.
    #[derive(Default)]
    struct Memory {
        all: RefCell<Vec<Comment>>,
        writes: RefCell<usize>,
        theirs: Vec<String>,
        max_characters: usize,
    }

    impl Memory {
        fn wrote(&self, id: &str) -> Result<(), ForgeError> {
            if self.theirs.iter().any(|theirs| theirs == id) {
                let request = String::new();
                return Err(ForgeError::Refused { request, status: 403, message: String::new() });
            }
            *self.writes.borrow_mut() += 1;
            Ok(())
        }
    }

    impl Tracker for Memory {
        fn max_characters(&self) -> usize {
            self.max_characters
        }

        fn issue(&self) -> Result<Issue, ForgeError> {
            Err(ForgeError::Result("there is none".to_owned()))
        }

        fn comments(&self) -> Result<Vec<Comment>, ForgeError> {
            Ok(self.all.borrow().clone())
        }

        fn create(&self, body: &str) -> Result<String, ForgeError> {
            let id = format!("c{}", self.all.borrow().len());
            self.wrote(&id)?;
            let comment = Comment { id: id.clone(), author: String::new(), body: body.to_owned() };
            self.all.borrow_mut().push(comment);
            Ok(id)
        }

        fn update(&self, id: &str, body: &str) -> Result<(), ForgeError> {
            self.wrote(id)?;
            let mut all = self.all.borrow_mut();
            all.iter_mut().filter(|one| one.id == id).for_each(|one| body.clone_into(&mut one.body));
            Ok(())
        }

        fn delete(&self, id: &str) -> Result<(), ForgeError> {
            self.wrote(id)?;
            self.all.borrow_mut().retain(|one| one.id != id);
            Ok(())
        }
    }

    const MARKER: &str = "<!-- acme:triage -->";

    #[test]
    fn posting_twice_changes_one_comment() {
        let memory = Memory { max_characters: 1000, ..Memory::default() };
        let post = |text: &str, mode| post(&memory, MARKER, text, mode).unwrap();
        assert_eq!(post("one", Mode::DryRun), [CommentStep::Create]);
        assert_eq!(*memory.writes.borrow(), 0);
        assert_eq!(post("one", Mode::Post), [CommentStep::Create]);
        assert_eq!(post("one\n", Mode::Post), [CommentStep::Unchanged { id: "c0".to_owned() }]);
        assert_eq!(post("two", Mode::DryRun), [CommentStep::Update { id: "c0".to_owned() }]);
        assert_eq!(post("two", Mode::Post), [CommentStep::Update { id: "c0".to_owned() }]);
        assert_eq!(*memory.writes.borrow(), 2);
        assert_eq!(memory.all.borrow()[0].body, format!("{MARKER}\ntwo"));
    }

    #[test]
    fn a_long_text_becomes_parts_and_a_short_one_removes_them() {
        let memory = Memory { max_characters: 100, ..Memory::default() };
        let lines: String = (0..30).map(|number| format!("line {number}\n")).collect();
        let steps = post(&memory, MARKER, &lines, Mode::Post).unwrap();
        assert!(steps.len() > 3, "{steps:?}");
        let all = memory.all.borrow().clone();
        assert!(all.iter().all(|one| one.body.chars().count() <= 100 && one.body.contains(MARKER)));
        let rest: String = all
            .iter()
            .map(|one| one.body.lines().filter(|l| l.starts_with("line")).count().to_string() + " ")
            .collect();
        assert_eq!(rest.split_whitespace().map(|n| n.parse::<usize>().unwrap()).sum::<usize>(), 30);
        let again = post(&memory, MARKER, &lines, Mode::Post).unwrap();
        assert!(again.iter().all(|step| matches!(step, CommentStep::Unchanged { .. })), "{again:?}");
        post(&memory, MARKER, "short", Mode::Post).unwrap();
        assert_eq!(memory.all.borrow().len(), 1);
    }

    #[test]
    fn a_marker_in_the_comment_of_another_user_is_ignored() {
        let theirs = Comment { id: "t".to_owned(), author: String::new(), body: MARKER.to_owned() };
        let memory = Memory { max_characters: 1000, theirs: vec!["t".to_owned()], ..Memory::default() };
        memory.all.borrow_mut().push(theirs);
        assert_eq!(post(&memory, MARKER, "one", Mode::Post).unwrap(), [CommentStep::Create]);
        assert_eq!(memory.all.borrow().len(), 2);
    }

    #[test]
    fn a_text_cannot_bring_its_own_marker() {
        let made = parts(MARKER, &format!("a {MARKER} b"), 1000);
        assert_eq!(made, [format!("{MARKER}\na  b")]);
    }
}
