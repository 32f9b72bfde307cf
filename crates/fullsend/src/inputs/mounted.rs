//! Scans what the caller of a run mounts: a session's resources and the inputs that were sent to it. Other people wrote them, so
//! they are scanned as untrusted text. In a large directory only the files that agents read as instructions are scanned, and
//! the record says so.

use std::fs;
use std::path::Path;

use rustix::fs::FileType;
use sandbox::{Descend, Mount, MountKind, TreeEntry, Unreadable, WalkLimits, walk_directory};
use scan::Origin;

use super::InputScanner;
use super::instruction_files::{Coverage, ScannedFile, read, walk};
use crate::event::log::Emitter;
use crate::event::{InputKind, RunEvent};
use crate::guard::{Blocked, Guard};

/// The limits for reading one mount completely.
const MAX_FILES: usize = 2_000;
const MAX_BYTES: u64 = 16 << 20;
const MAX_DEPTH: usize = 200;

/// Scans all mounted files before the sandbox exists, and rewrites nothing.
pub fn scan_mounts(mounts: &[Mount], guard: &Guard, emit: &Emitter) -> Result<(), Blocked> {
    let scanner = InputScanner { guard, emit };
    for Mount { target, kind } in mounts {
        let name = target.to_string_lossy();
        match kind {
            MountKind::File { contents, .. } => {
                scanner.file(InputKind::Input, &name, contents, Origin::Issue)?;
            }
            MountKind::ReadOnly { source } | MountKind::ReadWrite { source } => {
                scanner.resource(&name, source)?;
            }
            _ => {}
        }
    }
    Ok(())
}

impl InputScanner<'_> {
    fn resource(&self, name: &str, source: &Path) -> Result<(), Blocked> {
        let is_small = is_within(source, MAX_FILES, MAX_BYTES);
        if !is_small {
            self.emit.emit(RunEvent::Exception {
                field: "resource".to_owned(),
                what: format!("{name} is large: only files that instruct agents were scanned in it"),
                reason: format!("more than {MAX_FILES} files or {} MiB", MAX_BYTES >> 20),
                until: String::new(),
            });
        }
        match (source.is_dir(), is_small) {
            (true, true) => self.directory(InputKind::Resource, name, source, Origin::Issue, &[]),
            (true, false) => {
                walk(source, Coverage::Instructions, Origin::Instruction, &mut |seen: ScannedFile<'_>| {
                    self.seen(InputKind::Resource, &format!("{name}/{}", seen.path), &seen)
                })
            }
            (false, true) => match read(source, MAX_BYTES) {
                Ok(bytes) => self.file(InputKind::Resource, name, &bytes, Origin::Issue),
                Err(error) => self.guard.report_unreadable(name, &error.to_string()),
            },
            (false, false) => Ok(()),
        }
    }
}

/// Whether a mount's source is small enough to be read whole. Links are not followed; the scan reports what it cannot list.
fn is_within(source: &Path, most_files: usize, most_bytes: u64) -> bool {
    let Ok(about) = fs::symlink_metadata(source) else { return true };
    if !about.is_dir() {
        return about.len() <= most_bytes;
    }
    let mut left = most_bytes;
    // The directory itself counts as an entry.
    let entries = most_files.saturating_sub(1);
    let limits = WalkLimits { entries, depth: MAX_DEPTH, unreadable: Unreadable::Skip };
    let walked = walk_directory(source, limits, &mut |entry: &TreeEntry<'_>| {
        let size = match entry.kind {
            FileType::RegularFile => entry.status().map_or(0, |status| status.st_size),
            _ => 0,
        };
        left = left.checked_sub(u64::try_from(size).unwrap_or(0)).ok_or(())?;
        Ok::<_, ()>(Descend::Yes)
    });
    walked.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_counted_and_no_further() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("d")).unwrap();
        fs::write(root.path().join("d/a"), [0; 10]).unwrap();
        fs::write(root.path().join("b"), [0; 10]).unwrap();
        for (files, bytes, fits) in [(4, 20, true), (3, 20, false), (4, 19, false)] {
            assert_eq!(is_within(root.path(), files, bytes), fits, "{files} files, {bytes} bytes");
        }
        std::os::unix::fs::symlink("/", root.path().join("b2")).unwrap();
        assert!(is_within(root.path(), 5, 20), "a link is an entry and no more");
    }
}
