//! A commit of a git repository. `fetch` downloads its objects with git's own HTTP protocol, so the rules for addresses
//! apply. git only reads the pack, and verifies the id of the commit.

use std::io;

use super::error::RemoteError;
use super::tree::{FileTree, TreeFile};
use crate::git::GitError;
use crate::git::command;

/// The most that a pack may hold.
pub const MAX_PACK: usize = 64 << 20;
/// The most that the chosen files of a commit may hold.
const MAX_BYTES: u64 = 50 << 20;
const MAX_FILES: usize = 1_000;

pub const REQUEST_TYPE: &str = "application/x-git-upload-pack-request";

/// Asks for one commit without its history, by version 2 of the protocol.
pub fn request(commit: &str) -> Vec<u8> {
    let mut body = packet("command=fetch\n");
    body.extend(packet("object-format=sha1\n"));
    body.extend(b"0001");
    for line in ["ofs-delta\n", "no-progress\n", &format!("want {commit}\n"), "deepen 1\n", "done\n"] {
        body.extend(packet(line));
    }
    body.extend(b"0000");
    body
}

fn packet(line: &str) -> Vec<u8> {
    format!("{:04x}{line}", line.len() + 4).into_bytes()
}

/// The pack in the server's answer, which is a sequence of packets: sections, and the pack in the first of three bands.
pub fn pack_of(answer: &[u8]) -> Result<Vec<u8>, String> {
    let broken = || "is not served as git's protocol says".to_owned();
    let mut rest = answer;
    let mut pack = Vec::new();
    let mut in_pack = false;
    while let Some(head) = rest.get(..4) {
        let length = std::str::from_utf8(head).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let length = length.ok_or_else(broken)?;
        if length < 4 {
            // The end of a section or of the answer.
            rest = &rest[4..];
            continue;
        }
        let line = rest.get(4..length).ok_or_else(broken)?;
        rest = &rest[length..];
        match line.split_first() {
            _ if line.starts_with(b"ERR ") => return Err(server_error(&line[4..])),
            Some((1, data)) if in_pack => pack.extend_from_slice(data),
            Some((2, _)) if in_pack => {}
            Some((3, message)) if in_pack => return Err(server_error(message)),
            _ if in_pack => return Err(broken()),
            _ => in_pack = line.trim_ascii_end() == b"packfile",
        }
    }
    if pack.is_empty() { Err(broken()) } else { Ok(pack) }
}

fn server_error(message: &[u8]) -> String {
    let text = String::from_utf8_lossy(message);
    let text: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
    format!("is not served: the server says `{}`", text.trim())
}

/// The file or directory `path` of a commit, from a pack. A file is alone in its tree.
pub fn tree(url: &str, pack: &[u8], commit: &str, path: &str) -> Result<FileTree, RemoteError> {
    let wrong = |why: String| RemoteError::Files { url: url.to_owned(), why };
    let failed = |source: GitError| RemoteError::Git { url: url.to_owned(), source };
    let unmade = |source: io::Error| RemoteError::Store { path: "a temporary directory".into(), source };
    let place = tempfile::Builder::new().prefix("fullsend-commit-").tempdir().map_err(unmade)?;
    let git = |arguments: &[&str], input: &[u8]| {
        let output = command::in_own(place.path(), arguments, input)?;
        output.succeeded(arguments.first().unwrap_or(&"git"))
    };
    command::init(place.path()).map_err(failed)?;
    git(&["index-pack", "--stdin", "--fsck-objects"], pack).map_err(failed)?;
    let tree = format!("{commit}^{{tree}}");
    let mut arguments = vec!["ls-tree", "-r", "-z", "-l", "--full-tree", "--end-of-options", &tree];
    arguments.extend((!path.is_empty()).then_some(path));
    let listing = git(&arguments, &[]).map_err(failed)?;
    let entries = entries(&listing, path).map_err(wrong)?;
    let ids: String = entries.iter().map(|entry| format!("{}\n", entry.id)).collect();
    let contents = git(&["cat-file", "--batch"], ids.as_bytes()).map_err(failed)?;
    let mut rest = contents.as_slice();
    let mut found = FileTree::default();
    for entry in entries {
        let (bytes, after) =
            object(rest, &entry.id).ok_or_else(|| wrong(format!("has no object for `{}`", entry.path)))?;
        rest = after;
        let file = TreeFile { bytes: bytes.to_vec(), is_executable: entry.is_executable };
        found.add(&entry.path, file).map_err(wrong)?;
    }
    found.checked().map_err(wrong)
}

struct Entry {
    id: String,
    is_executable: bool,
    path: String,
}

/// The files below `path`, by their paths from there. Lines are `mode type id size<TAB>path`.
fn entries(listing: &[u8], path: &str) -> Result<Vec<Entry>, String> {
    let text = std::str::from_utf8(listing).map_err(|_| "has a name that is not UTF-8".to_owned())?;
    let below = if path.is_empty() { String::new() } else { format!("{path}/") };
    let name = path.rsplit('/').next().unwrap_or(path);
    let mut entries = Vec::new();
    let mut bytes = 0_u64;
    for line in text.split('\0').filter(|line| !line.is_empty()) {
        let (about, full) = line.split_once('\t').ok_or("cannot be listed")?;
        let words: Vec<&str> = about.split_whitespace().collect();
        let [mode, _, id, size] = words[..] else { return Err("cannot be listed".to_owned()) };
        if !matches!(mode, "100644" | "100755" | "100664") {
            return Err(format!("has `{full}`, which is a link or a submodule"));
        }
        bytes = bytes.saturating_add(size.parse().unwrap_or(u64::MAX));
        if entries.len() >= MAX_FILES || bytes > MAX_BYTES {
            return Err(format!("has more than {MAX_FILES} files or {} MiB", MAX_BYTES >> 20));
        }
        let path = if full == path { name } else { full.strip_prefix(&below).unwrap_or(full) };
        let is_executable = mode == "100755";
        entries.push(Entry { id: id.to_owned(), is_executable, path: path.to_owned() });
    }
    if entries.is_empty() {
        return Err("is not in that commit".to_owned());
    }
    Ok(entries)
}

/// `id blob size`, a newline, that many bytes, a newline.
fn object<'a>(text: &'a [u8], id: &str) -> Option<(&'a [u8], &'a [u8])> {
    let end = text.iter().position(|byte| *byte == b'\n')?;
    let header = std::str::from_utf8(&text[..end]).ok()?;
    let size = header.strip_prefix(id)?.strip_prefix(" blob ")?.parse::<usize>().ok()?;
    let body = &text[end + 1..];
    Some((body.get(..size)?, body.get(size + 1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pack_is_taken_out_of_the_packets() {
        let band = |number: u8, data: &[u8]| {
            let mut packet = format!("{:04x}", data.len() + 5).into_bytes();
            packet.push(number);
            packet.extend(data);
            packet
        };
        let mut answer = packet("shallow-info\n");
        answer.extend(packet(&format!("shallow {}\n", "a".repeat(40))));
        answer.extend(b"0001");
        answer.extend(packet("packfile\n"));
        answer.extend([band(2, b"counting"), band(1, b"PACK"), band(1, b"more")].concat());
        let mut whole = answer.clone();
        whole.extend(b"0000");
        assert_eq!(pack_of(&whole), Ok(b"PACKmore".to_vec()));
        answer.extend(band(3, b"no such commit\n"));
        assert!(pack_of(&answer).unwrap_err().contains("no such commit"));
        assert!(pack_of(&packet("ERR upload-pack: not our ref\n")).unwrap_err().contains("not our ref"));
        for broken in [&b""[..], b"xyz", b"fffflong", b"<html>", b"0000"] {
            assert!(pack_of(broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn links_and_submodules_are_refused() {
        let check = |listing: &str, path: &str, expected: Result<&[&str], &str>| {
            let found = entries(listing.as_bytes(), path);
            let found = found.map(|all| all.into_iter().map(|one| one.path).collect::<Vec<_>>());
            match expected {
                Ok(paths) => assert_eq!(found.unwrap(), paths),
                Err(why) => assert!(found.unwrap_err().contains(why), "{listing}"),
            }
        };
        let id = "a".repeat(40);
        let line = |mode: &str, path: &str| format!("{mode} blob {id}       3\t{path}\0");
        check(&line("100644", "skills/a/SKILL.md"), "skills/a", Ok(&["SKILL.md"]));
        check(&line("100755", "skills/a.md"), "skills/a.md", Ok(&["a.md"]));
        check(&line("100644", "a/b"), "", Ok(&["a/b"]));
        check(&line("120000", "skills/a/x"), "skills/a", Err("link or a submodule"));
        check(&format!("160000 commit {id}       -\tsub\0"), "", Err("link or a submodule"));
        check("", "nowhere", Err("not in that commit"));
        check(&format!("100644 blob {id} 99999999\tlarge\0"), "", Err("50 MiB"));
    }
}
