//! The statement about a run: the head of its chain of events, the digest of every file in its directory, and the kind and
//! permissions of everything there. Signed, it proves who wrote the record and that nothing was changed, removed or added
//! since.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use rustix::fs::FileType;
use sandbox::{Descend, TreeEntry, Unreadable, WalkLimits, walk_directory};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Record;
use super::dsse::{self, PublicKey, RecordSigner, SignError};
use super::store::{SIZE, STATEMENT, StoredRun};
use crate::event::Envelope;
use crate::event::log::hex;

/// in-toto's statements of the first version.
pub const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";

/// The predicate type of a statement about a run.
pub const PREDICATE_TYPE: &str = "urn:fullsend:run:2";

/// The first version says nothing about directories and permissions. It is verified, and no longer written.
const FIRST_PREDICATE_TYPE: &str = "urn:fullsend:run:1";

/// The most entries: far more than a run writes.
const MAX_ENTRIES: usize = 200_000;
const MAX_DEPTH: usize = 200;
const MAX_STATEMENT_BYTES: u64 = 256 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    pub name: String,
    pub digest: BTreeMap<String, String>,
}

impl Subject {
    pub fn new(name: &str, sha256: &str) -> Self {
        Self { name: name.to_owned(), digest: BTreeMap::from([("sha256".to_owned(), sha256.to_owned())]) }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct RunStatement {
    #[serde(rename = "_type")]
    kind: String,
    subject: Vec<Subject>,
    #[serde(rename = "predicateType")]
    predicate_type: String,
    predicate: RunPredicate,
}

/// The predicate: what the statement says beside the digests of the files.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RunPredicate {
    run_id: String,
    harness: String,
    outcome: String,
    /// The digest of the last event, and how many there are: a log that was cut has neither.
    chain_head: String,
    events: u64,
    /// Symbolic links, with what they point at.
    links: BTreeMap<String, String>,
    /// Entries that are neither files, links nor directories.
    others: Vec<String>,
    /// The kind and permissions of each entry but links, in octal as `stat` gives them. Directories are only here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    modes: Option<BTreeMap<String, String>>,
}

/// What is in a run's directory now.
#[derive(Debug, Default)]
struct Contents {
    files: BTreeMap<String, String>,
    links: BTreeMap<String, String>,
    others: Vec<String>,
    modes: BTreeMap<String, String>,
}

/// Signs the directory of a run that has ended.
pub fn write(
    directory: &Path,
    events: &[Envelope],
    record: &Record,
    signer: &RecordSigner,
) -> Result<(), SignError> {
    let path = directory.join(STATEMENT);
    let failed = |source| SignError::Write { path: path.display().to_string(), source };
    let contents = read_contents(directory).map_err(failed)?;
    let subject = contents.files.iter().map(|(name, digest)| Subject::new(name, digest)).collect();
    let statement = RunStatement {
        kind: STATEMENT_TYPE.to_owned(),
        subject,
        predicate_type: PREDICATE_TYPE.to_owned(),
        predicate: RunPredicate {
            run_id: record.run_id.clone(),
            harness: record.harness.clone(),
            outcome: outcome(record),
            chain_head: record.chain_head.clone(),
            events: events.len() as u64,
            links: contents.links,
            others: contents.others,
            modes: Some(contents.modes),
        },
    };
    let envelope = signer.sign(&serde_json::to_vec(&statement).unwrap_or_default())?;
    let temporary = directory.join(".run.intoto.json.new");
    std::fs::write(&temporary, envelope).and_then(|()| std::fs::rename(&temporary, &path)).map_err(failed)
}

fn outcome(record: &Record) -> String {
    record.outcome.map_or_else(String::new, |outcome| outcome.as_str().to_owned())
}

/// All differences between the run and its signed statement. Without a key, the signer is not checked.
pub fn differences(
    run: &StoredRun,
    events: &[Envelope],
    record: &Record,
    key: Option<&PublicKey>,
) -> Vec<String> {
    let statement = match load(run, key) {
        Ok(Some(statement)) => statement,
        Ok(None) if key.is_none() => return Vec::new(),
        Ok(None) => return vec![format!("it is not signed: there is no {STATEMENT}")],
        Err(why) => return vec![format!("{STATEMENT} {why}")],
    };
    let RunStatement { kind, subject, predicate_type, predicate } = statement;
    let mut problems = Vec::new();
    let has_modes = match predicate_type.as_str() {
        PREDICATE_TYPE => true,
        FIRST_PREDICATE_TYPE => false,
        _ => return vec![about_something_else(&predicate_type)],
    };
    if kind != STATEMENT_TYPE || predicate.modes.is_some() != has_modes {
        return vec![about_something_else(&predicate_type)];
    }
    let contents = match read_contents(&run.path) {
        Ok(contents) => contents,
        Err(error) => return vec![format!("the directory cannot be read: {error}")],
    };
    let actual = RunPredicate {
        run_id: run.id.clone(),
        harness: record.harness.clone(),
        outcome: outcome(record),
        chain_head: record.chain_head.clone(),
        events: events.len() as u64,
        links: contents.links,
        others: contents.others,
        modes: has_modes.then_some(contents.modes),
    };
    if predicate.run_id != actual.run_id {
        problems.push(format!("the statement is about the run {}", predicate.run_id));
    }
    if (&predicate.chain_head, predicate.events) != (&actual.chain_head, actual.events) {
        problems.push(format!(
            "the event log has {} events, and {} were signed: lines were removed, added or changed",
            actual.events, predicate.events
        ));
    }
    if (&predicate.harness, &predicate.outcome) != (&actual.harness, &actual.outcome) {
        problems.push("the harness or the outcome is not what was signed".to_owned());
    }
    let signed: BTreeMap<String, String> = subject
        .into_iter()
        .map(|one| (one.name, one.digest.get("sha256").cloned().unwrap_or_default()))
        .collect();
    compare("", &signed, &contents.files, &mut problems);
    compare("the link ", &predicate.links, &actual.links, &mut problems);
    let others = |all: &[String]| all.iter().map(|name| (name.clone(), String::new())).collect();
    compare("", &others(&predicate.others), &others(&actual.others), &mut problems);
    compare_modes(&predicate.modes.unwrap_or_default(), &actual.modes.unwrap_or_default(), &mut problems);
    problems
}

fn about_something_else(predicate_type: &str) -> String {
    format!("{STATEMENT} is a statement about something else: {predicate_type}")
}

/// Directories that were added or removed, and changed permissions. Added and removed files are already known.
fn compare_modes(
    signed: &BTreeMap<String, String>,
    found: &BTreeMap<String, String>,
    problems: &mut Vec<String>,
) {
    let directories = |all: &BTreeMap<String, String>| {
        let directories = all.iter().filter(|(_, mode)| mode.starts_with(DIRECTORY));
        directories.map(|(name, _)| (name.clone(), String::new())).collect()
    };
    compare("the directory ", &directories(signed), &directories(found), problems);
    for (name, mode) in signed {
        if let Some(other) = found.get(name).filter(|other| *other != mode) {
            problems.push(format!("the mode of {name} was changed from {mode} to {other}"));
        }
    }
}

fn compare(
    kind: &str,
    signed: &BTreeMap<String, String>,
    found: &BTreeMap<String, String>,
    problems: &mut Vec<String>,
) {
    for (name, value) in signed {
        match found.get(name) {
            None => problems.push(format!("{kind}{name} was removed")),
            Some(other) if other != value => problems.push(format!("{kind}{name} was changed")),
            Some(_) => {}
        }
    }
    let added = found.keys().filter(|name| !signed.contains_key(*name));
    problems.extend(added.map(|name| format!("{kind}{name} was added")));
}

/// `None` if the run is not signed.
fn load(run: &StoredRun, key: Option<&PublicKey>) -> Result<Option<RunStatement>, String> {
    let path = run.path.join(STATEMENT);
    match std::fs::symlink_metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot be read: {error}")),
        Ok(about) if !about.is_file() || about.len() > MAX_STATEMENT_BYTES => {
            return Err("is not the file of a statement".to_owned());
        }
        Ok(_) => {}
    }
    let bytes = std::fs::read(&path).map_err(|error| format!("cannot be read: {error}"))?;
    let statement = dsse::open(&bytes, key)?;
    serde_json::from_slice(&statement)
        .map(Some)
        .map_err(|error| format!("is not a statement about a run: {error}"))
}

/// Whether a run has a signed statement, by any signer.
pub fn is_signed(run: &StoredRun) -> bool {
    run.path.join(STATEMENT).symlink_metadata().is_ok()
}

/// How the mode of a directory starts.
const DIRECTORY: &str = "04";

/// Everything but the statement itself and the size, which is counted later.
fn read_contents(directory: &Path) -> std::io::Result<Contents> {
    let mut contents = Contents::default();
    let limits = WalkLimits { entries: MAX_ENTRIES, depth: MAX_DEPTH, unreadable: Unreadable::Fail };
    let walked = walk_directory(directory, limits, &mut |entry: &TreeEntry<'_>| {
        let name = unique_name(entry.path);
        let is_file = entry.kind == FileType::RegularFile;
        if is_file && (name == STATEMENT || is_size(directory, &name)) {
            return Ok(Descend::Yes);
        }
        if entry.kind != FileType::Symlink {
            contents.modes.insert(name.clone(), format!("{:06o}", entry.status()?.st_mode));
        }
        match entry.kind {
            FileType::Directory => {}
            FileType::RegularFile => {
                contents.files.insert(name, digest(std::fs::File::from(entry.open()?))?);
            }
            FileType::Symlink => {
                let target = std::fs::read_link(directory.join(entry.path))?;
                contents.links.insert(name, unique_name(&target));
            }
            _ => contents.others.push(name),
        }
        Ok::<_, std::io::Error>(Descend::Yes)
    });
    walked.map_err(sandbox::WalkError::into_io)?;
    contents.others.sort();
    Ok(contents)
}

/// The path; one that is not UTF-8 is escaped, so that no two paths have the same name.
fn unique_name(path: &Path) -> String {
    path.to_str().filter(|text| !text.starts_with('"')).map_or_else(|| format!("{path:?}"), str::to_owned)
}

/// The file in which a later command keeps the size of the directory: a number and nothing else.
fn is_size(directory: &Path, name: &str) -> bool {
    let text = || std::fs::read_to_string(directory.join(name)).unwrap_or_default();
    name == SIZE && text().strip_suffix('\n').is_some_and(|number| number.parse::<u64>().is_ok())
}

fn digest(mut file: std::fs::File) -> std::io::Result<String> {
    let mut hash = Sha256::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hex(&hash.finalize())),
            length => hash.update(&piece[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn names_that_look_alike_are_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let names: [&[u8]; 4] = [b"a\xff", b"a\xfe", "a\u{fffd}".as_bytes(), b"\"a\\xff\""];
        for name in names {
            std::fs::write(directory.path().join(OsStr::from_bytes(name)), name).unwrap();
        }
        let before = read_contents(directory.path()).unwrap().files;
        assert_eq!(before.len(), names.len(), "{before:?}");
        for name in names {
            let path = directory.path().join(OsStr::from_bytes(name));
            std::fs::write(&path, "changed").unwrap();
            let after = read_contents(directory.path()).unwrap().files;
            assert_ne!(before, after, "{path:?}");
            std::fs::write(&path, name).unwrap();
        }
    }
}
