//! The file tools: read, write, edit, glob.

use std::io::{Read, Write};
use std::path::Path;

use rustix::fs::FileType;
use sandbox::{Descend, TreeEntry, Unreadable, WalkLimits, walk_directory};

use policy::glob::{Pattern, Separator};

use super::protocol::CONFIG_DIRECTORY;
use super::tool_outcome::{MAX_OUTPUT, ToolOutcome};
use crate::harness::names::is_identifier;

/// Limits of one search.
const MAX_ENTRIES: usize = 200_000;
const MAX_LISTED: usize = 1000;
const MAX_DEPTH: usize = 64;

/// A file is edited in memory.
const MAX_EDITED: u64 = 16 << 20;

fn failed(path: &str, error: &std::io::Error) -> ToolOutcome {
    ToolOutcome::error(format!("{path}: {error}"))
}

/// The whole file, or lines of it, counted from 1.
pub fn read(path: &str, offset: Option<usize>, limit: Option<usize>) -> ToolOutcome {
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) => return failed(path, &error),
    };
    let mut bytes = Vec::new();
    let most = if offset.is_some() || limit.is_some() { MAX_EDITED } else { MAX_OUTPUT as u64 + 1 };
    if let Err(error) = file.take(most).read_to_end(&mut bytes) {
        return failed(path, &error);
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.split_inclusive('\n').skip(offset.unwrap_or(1).saturating_sub(1));
    ToolOutcome::start_of(lines.take(limit.unwrap_or(usize::MAX)).collect())
}

/// The file of a skill that the harness gave.
pub fn skill(name: &str) -> ToolOutcome {
    if !is_identifier(name) {
        return ToolOutcome::error(format!("`{name}` is not the name of a skill"));
    }
    read(&format!("{CONFIG_DIRECTORY}/skills/{name}/SKILL.md"), None, None)
}

pub fn write(path: &str, content: &str) -> ToolOutcome {
    let made = Path::new(path).parent().map_or(Ok(()), std::fs::create_dir_all);
    let written = made.and_then(|()| std::fs::File::create(path)?.write_all(content.as_bytes()));
    match written {
        Ok(()) => ToolOutcome::ok(format!("wrote {} bytes", content.len())),
        Err(error) => failed(path, &error),
    }
}

pub fn edit(path: &str, old: &str, new: &str, all: bool) -> ToolOutcome {
    let mut text = String::new();
    let opened = std::fs::File::open(path).and_then(|file| file.take(MAX_EDITED).read_to_string(&mut text));
    if let Err(error) = opened {
        return failed(path, &error);
    }
    match text.matches(old).count() {
        _ if old.is_empty() => {
            ToolOutcome::error("`old` is empty: give the text to replace, or use Write for a new file")
        }
        _ if text.len() as u64 == MAX_EDITED => ToolOutcome::error(format!("{path} is too large to edit")),
        0 => ToolOutcome::error(format!("`old` is not in {path}")),
        many @ 2.. if !all => ToolOutcome::error(format!(
            "`old` occurs {many} times in {path}: add more of the text around it, or set `all`"
        )),
        count => match std::fs::write(path, text.replace(old, new)) {
            Ok(()) => ToolOutcome::ok(format!("occurrences replaced: {count}")),
            Err(error) => failed(path, &error),
        },
    }
}

pub fn glob(pattern: &str, place: &str) -> ToolOutcome {
    let compiled = match Pattern::glob(pattern, Separator::Slash) {
        Ok(compiled) => compiled,
        Err(error) => return ToolOutcome::error(error.to_string()),
    };
    let mut found = Vec::new();
    let limits = WalkLimits { entries: MAX_ENTRIES, depth: MAX_DEPTH + 1, unreadable: Unreadable::Skip };
    let walked = walk_directory(Path::new(place), limits, &mut |entry: &TreeEntry<'_>| {
        let name = entry.path.to_str();
        if entry.kind == FileType::Directory {
            let enters = entry.depth() < MAX_DEPTH && name.is_some_and(|name| !name.ends_with(".git"));
            return Ok(if enters { Descend::Yes } else { Descend::No });
        }
        found.extend(name.filter(|name| compiled.matches(name.as_bytes())).map(str::to_owned));
        Ok::<_, std::convert::Infallible>(Descend::No)
    });
    found.sort();
    let more = found.len().saturating_sub(MAX_LISTED);
    found.truncate(MAX_LISTED);
    if more > 0 || walked.is_err() {
        found.push("(more files match: use a narrower pattern)".to_owned());
    }
    ToolOutcome::ok(found.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_changed_and_found() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        assert!(!write(&at("a/b.txt"), "one\ntwo\ntwo\n").is_error);
        assert_eq!(read(&at("a/b.txt"), Some(2), Some(1)).text, "two\n");
        assert_eq!(read(&at("a/b.txt"), None, None).text, "one\ntwo\ntwo\n");
        assert!(edit(&at("a/b.txt"), "two", "three", false).text.contains("2 times"));
        assert!(edit(&at("a/b.txt"), "four", "five", false).is_error);
        assert!(!edit(&at("a/b.txt"), "one", "zero", false).is_error);
        assert!(!edit(&at("a/b.txt"), "two", "three", true).is_error);
        assert_eq!(read(&at("a/b.txt"), None, None).text, "zero\nthree\nthree\n");
        write(&at("a/c/d.rs"), "");
        write(&at(".git/e.rs"), "");
        assert_eq!(glob("**/*.rs", directory.path().to_str().unwrap()).text, "a/c/d.rs");
        assert_eq!(glob("a/*", directory.path().to_str().unwrap()).text, "a/b.txt");
        assert!(read(&at("none"), None, None).is_error);
    }
}
