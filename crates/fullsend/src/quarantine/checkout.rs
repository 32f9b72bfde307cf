//! A checkout with the agent's changes that is safe to run git in: a new repository with a configuration of ours, which
//! borrows the host's objects, copies the agent's new objects by name, and has the agent's branch checked out. It has
//! no hooks, filters, monitors, aliases or includes: it takes only objects and one branch from the agent's git
//! directory. Links become plain files, and nothing that looks like a git directory is written.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{Dir, FileType, OFlags};

use super::changes::{AgentRepository, Changes};
use super::error::QuarantineError;
use super::repository_diff::ChangeKind;
use crate::git::head::{Head, head, of_host};
use crate::git::{self, command};
use sandbox::open_beneath;

/// In a repository with more files, only those beside a change are checked out; git still knows the others.
const MOST_LAID_OUT: u32 = 5_000;
const MAX_OBJECTS: usize = 50_000;
const MAX_BYTES: u64 = 1 << 30;

/// Makes the checkout in `into`, which must not exist. `false` if the host's tree is not a repository with a commit.
pub fn checkout(
    worked: &AgentRepository<'_>,
    changes: &Changes,
    into: &Path,
) -> Result<bool, QuarantineError> {
    let Some(directory) = git::directory::directory(worked.repository) else { return Ok(false) };
    let common = git::directory::common(&directory);
    let failed = |source: std::io::Error| QuarantineError::Write { path: into.to_owned(), source };
    let Some(base) = of_host(worked.repository) else { return Ok(false) };
    if base.commit.is_none() {
        return Ok(false);
    }
    command::init(into)?;
    let config = std::fs::read(common.join("config")).unwrap_or_default();
    let mut config = git::rewrite_config(&config);
    config.extend_from_slice(OURS.as_bytes());
    std::fs::write(into.join(".git/config"), config).map_err(failed)?;
    let objects = common.join("objects");
    let alternates = format!("{}\n", objects.canonicalize().map_err(failed)?.display());
    std::fs::write(into.join(".git/objects/info/alternates"), alternates).map_err(failed)?;
    let head = commits(worked, &base, &objects, into)?;
    if git::tracked_count(&directory) > MOST_LAID_OUT {
        write_sparse_rules(changes, into)?;
    }
    check_out(into, &head)?;
    apply_changes(changes, into)?;
    Ok(true)
}

/// Written last: the last value of a key wins over the host's configuration.
const OURS: &str = "[core]\n\tsymlinks = false\n\thooksPath = /dev/null\n\tfsmonitor = false\n\tprotectHFS = true\n\
                    \tprotectNTFS = true\n[submodule]\n\trecurse = false\n";

/// The agent's branch with its new objects, if it made commits and they are complete; else the host's branch.
fn commits(
    worked: &AgentRepository<'_>,
    base: &Head,
    objects: &Path,
    into: &Path,
) -> Result<Head, QuarantineError> {
    let inside = format!("{}/.git", worked.inside.trim_start_matches('/'));
    let Ok(git) = open_beneath(worked.root, &inside, OFlags::RDONLY | OFlags::DIRECTORY) else {
        return Ok(base.clone());
    };
    let theirs = head(git.as_fd(), git.as_fd()).filter(|head| head.commit.is_some());
    let Some(theirs) = theirs.filter(|head| head != base) else { return Ok(base.clone()) };
    copy_objects(git.as_fd(), objects, &into.join(".git/objects"))?;
    let new = theirs.commit.as_deref().unwrap_or_default();
    let old = base.commit.as_deref().unwrap_or_default();
    // All objects of the new commit must exist: a missing one would fail later, in a post-script.
    match command::in_own(into, &["rev-list", "--objects", "--quiet", new, "--not", old], &[])?.code {
        0 => Ok(theirs),
        _ => Err(QuarantineError::Refused {
            path: format!("{}/.git", worked.inside),
            why: "has a commit whose objects are not all there",
        }),
    }
}

/// Only files with names of objects or packs that the host does not have.
fn copy_objects(git: BorrowedFd<'_>, host: &Path, into: &Path) -> Result<(), QuarantineError> {
    let hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_object = |name: &str| (name.len() == 38 || name.len() == 62) && hex(name);
    let is_pack = |name: &str| {
        let stem = name.strip_prefix("pack-").and_then(|name| name.split_once('.'));
        stem.is_some_and(|(stem, end)| hex(stem) && ["pack", "idx", "rev"].contains(&end))
    };
    let unreadable =
        |source: std::io::Error| QuarantineError::Read { path: ".git/objects".to_owned(), source };
    let objects = open_beneath(git, "objects", OFlags::RDONLY | OFlags::DIRECTORY).map_err(unreadable)?;
    let mut count = 0;
    let mut bytes = 0;
    for directory in names(objects.as_fd()).map_err(unreadable)? {
        let wanted: &dyn Fn(&str) -> bool = match directory.as_str() {
            "pack" => &is_pack,
            name if name.len() == 2 && hex(name) => &is_object,
            _ => continue,
        };
        let Ok(below) = open_beneath(objects.as_fd(), &directory, OFlags::RDONLY | OFlags::DIRECTORY) else {
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
                let why = "has too many new objects";
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
    let file = open_beneath(from, name, OFlags::RDONLY).map_err(unreadable)?;
    let about = rustix::fs::fstat(&file).map_err(|error| unreadable(error.into()))?;
    if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
        return Ok(0);
    }
    std::fs::create_dir_all(to.parent().unwrap_or(to)).map_err(unwritable)?;
    let mut target = std::fs::File::options().write(true).create_new(true).open(to).map_err(unwritable)?;
    std::io::copy(&mut std::fs::File::from(file).take(most + 1), &mut target).map_err(unwritable)
}

/// Limits the checkout to the files at the top and those in the directories of the changes. `git sparse-checkout disable`
/// brings the others.
fn write_sparse_rules(changes: &Changes, into: &Path) -> Result<(), QuarantineError> {
    let above = changes.files.iter().flat_map(|file| Path::new(&file.path).ancestors().skip(1));
    let directories: BTreeSet<&Path> = above.filter(|path| !path.as_os_str().is_empty()).collect();
    let mut rules = "/*\n!/*/\n".to_owned();
    for directory in directories {
        let plain = directory.to_string_lossy();
        let escaped: String = plain
            .chars()
            .flat_map(|c| ['\\'].into_iter().filter(move |_| "*?[\\".contains(c)).chain([c]))
            .collect();
        rules.push_str(&format!("/{escaped}/\n!/{escaped}/*/\n"));
    }
    let place = into.join(".git/info/sparse-checkout");
    let config = into.join(".git/config");
    let written = std::fs::write(&place, rules).and_then(|()| {
        std::fs::File::options()
            .append(true)
            .open(config)
            .and_then(|mut file| file.write_all(SPARSE.as_bytes()))
    });
    written.map_err(|source| QuarantineError::Write { path: place, source })
}

const SPARSE: &str =
    "[core]\n\tsparseCheckout = true\n\tsparseCheckoutCone = true\n[index]\n\tsparse = true\n";

fn check_out(into: &Path, head: &Head) -> Result<(), QuarantineError> {
    let commit = head.commit.as_deref().unwrap_or_default();
    match &head.branch {
        Some(branch) => {
            // Names of branches were checked when they were read.
            let place = into.join(".git/refs/heads").join(branch);
            write(&place, &format!("{commit}\n"))?;
            write(&into.join(".git/HEAD"), &format!("ref: refs/heads/{branch}\n"))?;
        }
        None => write(&into.join(".git/HEAD"), &format!("{commit}\n"))?,
    }
    command::in_own(into, &["reset", "--quiet", "--hard"], &[])?.succeeded("reset")?;
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), QuarantineError> {
    let failed = |source| QuarantineError::Write { path: path.to_owned(), source };
    std::fs::create_dir_all(path.parent().unwrap_or(path)).map_err(failed)?;
    std::fs::write(path, text).map_err(failed)
}

/// The changed files over the commit's. A link becomes a file with its target in it, as git does on file systems
/// without links.
fn apply_changes(changes: &Changes, into: &Path) -> Result<(), QuarantineError> {
    for file in &changes.files {
        let from = changes.directory.join("b").join(&file.path);
        let to = into.join(&file.path);
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
