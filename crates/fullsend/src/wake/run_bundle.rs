//! The bundle of a run: its record, events, findings, transcripts and accepted output in one compressed archive, stored as an
//! object of the session, so that no run is only on the machine of its worker. Rejected output is not in it.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use session::{MAX_OBJECT_BYTES, SessionError, SessionId, Sessions};

use crate::git::recognised::RepositoryFinder;

const PREFIX: &str = "run/";

/// How many bundles of a session are kept, newest first. The ids of runs are ordered by time.
const KEPT: usize = 50;

/// The most that a bundle may unpack to.
const MAX_FILES: usize = 20_000;
const MAX_UNPACKED_BYTES: u64 = 1 << 30;

/// The bits of a mode that a bundle keeps.
const PERMISSIONS: u32 = 0o777;

/// The files of a run's directory that are packed first, whatever the size of the rest.
const FIRST: [&str; 4] = ["run.json", "events.jsonl", "findings.jsonl", "egress.jsonl"];

/// Stores the bundle of a run. `runs` is the directory of all runs, `directory` that of this one.
pub fn store(
    sessions: &mut Sessions,
    session: SessionId,
    runs: &Path,
    directory: &Path,
) -> Result<(), SessionError> {
    let runs = runs.canonicalize().unwrap_or_else(|_| runs.to_owned());
    let id = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Some(bytes) = directory.strip_prefix(&runs).ok().and_then(|path| pack(directory, path)) else {
        return Ok(());
    };
    sessions.put_object(session, &format!("{PREFIX}{id}"), &bytes)?;
    let mut stored = stored_runs(sessions, session)?;
    stored.sort();
    for old in stored.iter().rev().skip(KEPT) {
        sessions.remove_object(session, &format!("{PREFIX}{old}"))?;
    }
    Ok(())
}

/// The ids of the runs whose bundles the session has.
pub fn stored_runs(sessions: &mut Sessions, session: SessionId) -> Result<Vec<String>, SessionError> {
    let names = sessions.object_names(session)?;
    Ok(names.iter().filter_map(|name| name.strip_prefix(PREFIX)).map(str::to_owned).collect())
}

/// Unpacks the bundle of a run below the directory of all runs, and returns the directory of the run. `None` if there is no
/// bundle.
pub fn fetch(
    sessions: &mut Sessions,
    session: SessionId,
    run: &str,
    runs: &Path,
) -> Result<Option<PathBuf>, SessionError> {
    let Some(bytes) = sessions.object(session, &format!("{PREFIX}{run}"))? else { return Ok(None) };
    let unpacked = unpack(&bytes, run, runs).map_err(|error| session::StoreError::Unavailable {
        step: "unpack the bundle of a run",
        source: Box::new(error),
    })?;
    Ok(Some(unpacked))
}

/// The archive of a run, or `None` if not even its record fits.
fn pack(directory: &Path, name: &Path) -> Option<Vec<u8>> {
    let all = files(directory);
    // Try everything, then only what a record needs.
    let is_first = |path: &PathBuf| path.to_str().is_some_and(|path| FIRST.contains(&path));
    let first: Vec<PathBuf> = all.iter().filter(|path| is_first(path)).cloned().collect();
    [all, first].iter().find_map(|files| archive(directory, name, files).ok())
}

fn archive(directory: &Path, name: &Path, files: &[PathBuf]) -> std::io::Result<Vec<u8>> {
    let out = Bounded(Vec::new());
    let mut archive = tar::Builder::new(GzEncoder::new(out, Compression::fast()));
    for path in files {
        let mut file = std::fs::File::open(directory.join(path))?;
        let about = file.metadata()?;
        let mut header = tar::Header::new_gnu();
        // A signed record also says which permissions its files have.
        header.set_mode(about.permissions().mode() & PERMISSIONS);
        if about.is_dir() {
            header.set_size(0);
            header.set_entry_type(tar::EntryType::Directory);
            archive.append_data(&mut header, name.join(path), std::io::empty())?;
        } else {
            header.set_size(about.len());
            header.set_entry_type(tar::EntryType::Regular);
            archive.append_data(&mut header, name.join(path), &mut file)?;
        }
    }
    Ok(archive.into_inner()?.finish()?.0)
}

/// Refuses to grow beyond the size of an object.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OBJECT_BYTES {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The files and directories of a run that a bundle holds, as paths below its directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(below) = open.pop() {
        for entry in std::fs::read_dir(directory.join(&below)).into_iter().flatten().flatten() {
            let path = below.join(entry.file_name());
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && is_kept(&path) {
                found.push(path.clone());
                open.push(path);
            } else if kind.is_file() && found.len() < MAX_FILES {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Whether a directory belongs to a bundle: an attempt, its transcripts, its accepted output.
fn is_kept(path: &Path) -> bool {
    let mut parts = path.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
    let is_attempt = parts.next().is_some_and(|first| first.starts_with("iteration-"));
    is_attempt && parts.next().is_none_or(|second| second == "transcripts" || second == "output")
}

/// Unpacks the archive of a run. The store may be untrusted: only plain files and directories below the directory of
/// this run are written, and nothing that git recognises as a repository.
fn unpack(bytes: &[u8], run: &str, runs: &Path) -> std::io::Result<PathBuf> {
    let invalid = || std::io::Error::from(std::io::ErrorKind::InvalidData);
    let mut archive = tar::Archive::new(GzDecoder::new(bytes).take(MAX_UNPACKED_BYTES));
    let mut repositories = RepositoryFinder::default();
    let mut place: Option<PathBuf> = None;
    let mut has_record = false;
    for entry in archive.entries()?.take(MAX_FILES) {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let inside = run_directory(&path, run).ok_or_else(invalid)?;
        if place.get_or_insert_with(|| inside.clone()) != &inside || is_repository(&path, &mut repositories) {
            return Err(invalid());
        }
        let to = runs.join(&path);
        let permissions = std::fs::Permissions::from_mode(entry.header().mode()? & PERMISSIONS);
        match entry.header().entry_type() {
            tar::EntryType::Directory => {
                std::fs::create_dir_all(&to)?;
                std::fs::set_permissions(&to, permissions)?;
            }
            tar::EntryType::Regular => {
                let parent = to.parent().ok_or_else(invalid)?;
                std::fs::create_dir_all(parent)?;
                let mut file = tempfile::NamedTempFile::new_in(parent)?;
                std::io::copy(&mut entry, &mut file)?;
                file.as_file().set_permissions(permissions)?;
                file.persist(&to).map_err(|error| error.error)?;
            }
            _ => return Err(invalid()),
        }
        has_record |= path == inside.join("run.json");
    }
    place.filter(|_| has_record).map(|place| runs.join(place)).ok_or_else(invalid)
}

/// The directory of the run that a plain path is in: a run is at `OWNER[/NAME]/RUN`.
fn run_directory(path: &Path, run: &str) -> Option<PathBuf> {
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    let at = path.components().position(|part| part.as_os_str() == run)?;
    (is_plain && (1..=2).contains(&at)).then(|| path.components().take(at + 1).collect())
}

/// Whether git recognises this path, with those before it, as a repository.
fn is_repository(path: &Path, repositories: &mut RepositoryFinder) -> bool {
    path.ancestors().any(|above| repositories.add(above))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_has_the_record_and_not_what_was_rejected() {
        let here = tempfile::tempdir().unwrap();
        let run = here.path().join("acme/widgets/018f");
        for (path, text) in [
            ("run.json", "{}"),
            ("iteration-1/output/a.txt", "accepted"),
            ("iteration-1/transcripts/t.jsonl", "said"),
            ("iteration-1/rejected/b.txt", "secret"),
            ("staging/c.txt", "half"),
        ] {
            std::fs::create_dir_all(run.join(path).parent().unwrap()).unwrap();
            std::fs::write(run.join(path), text).unwrap();
        }
        std::fs::create_dir(run.join("iteration-1/output/empty")).unwrap();
        let permit = |path: &str, mode: u32| {
            std::fs::set_permissions(run.join(path), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        permit("run.json", 0o640);
        permit("iteration-1/output/empty", 0o750);
        let bytes = pack(&run, Path::new("acme/widgets/018f")).unwrap();
        let there = tempfile::tempdir().unwrap();
        let unpacked = unpack(&bytes, "018f", there.path()).unwrap();
        assert_eq!(unpacked, there.path().join("acme/widgets/018f"));
        let read = |path: &str| std::fs::read_to_string(unpacked.join(path)).ok();
        assert_eq!(read("iteration-1/output/a.txt").as_deref(), Some("accepted"));
        assert_eq!(read("iteration-1/transcripts/t.jsonl").as_deref(), Some("said"));
        assert_eq!(read("iteration-1/rejected/b.txt"), None);
        assert_eq!(read("staging/c.txt"), None);
        let mode = |path: &str| std::fs::metadata(unpacked.join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("run.json"), mode("iteration-1/output/empty")), (0o640, 0o750));
        unpack(&bytes, "018e", there.path()).unwrap_err();
    }

    /// What an untrusted bundle with these files leaves, if it is accepted.
    fn unpacked(names: &[&str]) -> Option<Vec<PathBuf>> {
        let here = tempfile::tempdir().unwrap();
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for name in names {
            let mut header = tar::Header::new_gnu();
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_size(2);
            header.set_mode(0o644);
            header.set_entry_type(tar::EntryType::Regular);
            header.set_cksum();
            archive.append(&header, &b"{}"[..]).unwrap();
        }
        let bytes = archive.into_inner().unwrap().finish().unwrap();
        let runs = here.path().join("runs");
        let run = unpack(&bytes, "018f", &runs).ok();
        assert!(!here.path().join("escaped").exists());
        run.map(|run| files(&run))
    }

    #[test]
    fn a_bundle_writes_nothing_outside_its_run() {
        assert!(unpacked(&["a/018f/run.json", "a/018f/iteration-1/output/x"]).is_some());
        for names in [
            &["../escaped/018f/run.json"][..],
            &["/escaped/018f/run.json"],
            &["a/018f/../../../escaped/018f/run.json"],
            &["018f/run.json"],
            &["a/b/c/018f/run.json"],
            &["a/018e/run.json"],
            &["a/018f/run.json", "a/018e/run.json"],
            &["a/018f/run.json", "b/018f/run.json"],
            &["a/018f/events.jsonl"],
        ] {
            assert_eq!(unpacked(names), None, "{names:?}");
        }
    }

    #[test]
    fn a_bundle_brings_no_repository() {
        for name in [".git/config", "iteration-1/output/.GIT/config", "iteration-1/.git"] {
            assert_eq!(unpacked(&["a/018f/run.json", &format!("a/018f/{name}")]), None, "{name}");
        }
        assert_eq!(unpacked(&["a/018f/run.json", "a/018f/x/HEAD", "a/018f/x/objects/y"]), None);
        assert_eq!(unpacked(&["a/018f/run.json", "a/018f/x/refs/y", "a/018f/x/HEAD"]), None);
    }
}
