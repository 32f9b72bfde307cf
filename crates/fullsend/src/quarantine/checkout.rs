//! A checkout with the agent's changes that is safe to run git in: a new repository with a configuration of ours, which
//! borrows the host's objects, takes the agent's new ones by their names, and stands where the agent's branch stands.
//! Hooks, filters, monitors, aliases and includes are not there, because nothing of the agent's git directory is but
//! objects and one branch; links are plain files, and nothing that looks like a git directory is laid out.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{Dir, FileType, OFlags};

use super::changes::{Changes, Worked};
use super::head::{Head, head, of_host};
use super::walk::{ChangeKind, open};
use super::{QuarantineError, git};

const MAX_OBJECTS: usize = 50_000;
const MAX_BYTES: u64 = 1 << 30;

/// Lays the checkout out in `into`, which must not exist. `false` where the host's tree is no repository with a commit.
pub fn checkout(worked: &Worked<'_>, changes: &Changes, into: &Path) -> Result<bool, QuarantineError> {
    let Some(directory) = git::directory(worked.repository) else { return Ok(false) };
    let common = git::common(&directory);
    let failed = |source: std::io::Error| QuarantineError::Write { path: into.to_owned(), source };
    let Some(base) = of_host(worked.repository) else { return Ok(false) };
    if base.commit.is_none() {
        return Ok(false);
    }
    git::init(into)?;
    let config = std::fs::read(common.join("config")).unwrap_or_default();
    let mut config = sandbox::repository::rewrite_config(&config);
    config.extend_from_slice(OURS.as_bytes());
    std::fs::write(into.join(".git/config"), config).map_err(failed)?;
    let objects = common.join("objects");
    std::fs::create_dir_all(into.join(".git/objects/info")).map_err(failed)?;
    let alternates = format!("{}\n", objects.canonicalize().map_err(failed)?.display());
    std::fs::write(into.join(".git/objects/info/alternates"), alternates).map_err(failed)?;
    let head = commits(worked, &base, &objects, into)?;
    stand(into, &head)?;
    lay(changes, into)?;
    Ok(true)
}

/// Said last, so that it stands above whatever the host's configuration says.
const OURS: &str = "[core]\n\tsymlinks = false\n\thooksPath = /dev/null\n\tfsmonitor = false\n\tprotectHFS = true\n\
                    \tprotectNTFS = true\n[submodule]\n\trecurse = false\n";

/// The agent's branch with its new objects, if it made commits and they are whole; else the host's.
fn commits(worked: &Worked<'_>, base: &Head, objects: &Path, into: &Path) -> Result<Head, QuarantineError> {
    let inside = format!("{}/.git", worked.inside.trim_start_matches('/'));
    let Ok(git) = open(worked.root, &inside, OFlags::RDONLY | OFlags::DIRECTORY) else {
        return Ok(base.clone());
    };
    let theirs = head(git.as_fd(), git.as_fd()).filter(|head| head.commit.is_some());
    let Some(theirs) = theirs.filter(|head| head != base) else { return Ok(base.clone()) };
    copy_objects(git.as_fd(), objects, &into.join(".git/objects"))?;
    let (new, old) =
        (theirs.commit.as_deref().unwrap_or_default(), base.commit.as_deref().unwrap_or_default());
    // Everything that the new commit needs must be there: an object that is missing would surface in a post-script.
    match git::run(into, &["rev-list", "--objects", "--quiet", new, "--not", old])? {
        0 => Ok(theirs),
        _ => Err(QuarantineError::Refused {
            path: format!("{}/.git", worked.inside),
            why: "has a commit whose objects are not all there",
        }),
    }
}

/// Only what is called like an object or a pack, and what the host does not have.
fn copy_objects(git: BorrowedFd<'_>, host: &Path, into: &Path) -> Result<(), QuarantineError> {
    let hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_object = |name: &str| (name.len() == 38 || name.len() == 62) && hex(name);
    let is_pack = |name: &str| {
        let stem = name.strip_prefix("pack-").and_then(|name| name.split_once('.'));
        stem.is_some_and(|(stem, end)| hex(stem) && ["pack", "idx", "rev"].contains(&end))
    };
    let unreadable =
        |source: std::io::Error| QuarantineError::Read { path: ".git/objects".to_owned(), source };
    let objects = open(git, "objects", OFlags::RDONLY | OFlags::DIRECTORY).map_err(unreadable)?;
    let (mut count, mut bytes) = (0, 0);
    for directory in names(objects.as_fd()).map_err(unreadable)? {
        let wanted: &dyn Fn(&str) -> bool = match directory.as_str() {
            "pack" => &is_pack,
            name if name.len() == 2 && hex(name) => &is_object,
            _ => continue,
        };
        let Ok(below) = open(objects.as_fd(), &directory, OFlags::RDONLY | OFlags::DIRECTORY) else {
            continue;
        };
        for name in names(below.as_fd()).map_err(unreadable)? {
            let place = format!("{directory}/{name}");
            if !wanted(&name) || host.join(&place).exists() {
                continue;
            }
            count += 1;
            bytes += copy_object(below.as_fd(), &name, &into.join(&place), MAX_BYTES - bytes)?;
            if count > MAX_OBJECTS || bytes > MAX_BYTES {
                let why = "has more new objects than anybody could look at";
                return Err(QuarantineError::Refused { path: ".git/objects".to_owned(), why });
            }
        }
    }
    Ok(())
}

fn names(directory: BorrowedFd<'_>) -> std::io::Result<Vec<String>> {
    let mut all = Vec::new();
    for entry in Dir::read_from(directory)? {
        all.extend(entry?.file_name().to_str().ok().map(str::to_owned));
    }
    Ok(all)
}

fn copy_object(from: BorrowedFd<'_>, name: &str, to: &Path, most: u64) -> Result<u64, QuarantineError> {
    let unreadable = |source: std::io::Error| QuarantineError::Read { path: name.to_owned(), source };
    let unwritable = |source: std::io::Error| QuarantineError::Write { path: to.to_owned(), source };
    let file = open(from, name, OFlags::RDONLY).map_err(unreadable)?;
    let about = rustix::fs::fstat(&file).map_err(|error| unreadable(error.into()))?;
    if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
        return Ok(0);
    }
    std::fs::create_dir_all(to.parent().unwrap_or(to)).map_err(unwritable)?;
    let mut target = std::fs::File::options().write(true).create_new(true).open(to).map_err(unwritable)?;
    std::io::copy(&mut std::fs::File::from(file).take(most + 1), &mut target).map_err(unwritable)
}

fn stand(into: &Path, head: &Head) -> Result<(), QuarantineError> {
    let commit = head.commit.as_deref().unwrap_or_default();
    match &head.branch {
        Some(branch) => {
            git::must(into, &["update-ref", &format!("refs/heads/{branch}"), commit])?;
            git::must(into, &["symbolic-ref", "HEAD", &format!("refs/heads/{branch}")])?;
        }
        None => git::must(into, &["update-ref", "--no-deref", "HEAD", commit])?,
    }
    git::must(into, &["reset", "--quiet", "--hard"])
}

/// The changed files over the commit's. A link becomes a file with its target in it, as git writes links where there are
/// none.
fn lay(changes: &Changes, into: &Path) -> Result<(), QuarantineError> {
    for file in &changes.files {
        let (from, to) = (changes.directory.join("b").join(&file.path), into.join(&file.path));
        let failed = |source| QuarantineError::Write { path: to.clone(), source };
        match std::fs::symlink_metadata(&to) {
            Ok(about) if about.is_dir() => std::fs::remove_dir_all(&to).map_err(failed)?,
            Ok(_) => std::fs::remove_file(&to).map_err(failed)?,
            Err(_) => {}
        }
        if file.kind == ChangeKind::Deleted {
            continue;
        }
        std::fs::create_dir_all(to.parent().unwrap_or(into)).map_err(failed)?;
        match std::fs::read_link(&from) {
            Ok(link) => std::fs::write(&to, link.as_os_str().as_encoded_bytes()).map_err(failed)?,
            Err(_) => drop(std::fs::copy(&from, &to).map_err(failed)?),
        }
    }
    Ok(())
}
