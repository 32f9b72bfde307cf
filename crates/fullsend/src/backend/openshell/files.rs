//! The mounts of a run as files to upload: a gateway cannot mount files of this machine, so their contents are copied.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use sandbox::{
    CopyOnWrite, Descend, Edit, Mount, MountKind, TransferCaps, TreeEntry, Unreadable, WalkError, WalkLimits,
    walk_directory,
};

use crate::archive::{self, Packer};

/// The most that one run may upload.
pub(super) const CAPS: TransferCaps = TransferCaps { bytes: 4 << 30, files: 500_000 };

const MAX_DEPTH: usize = 64;

/// The mounts below `root`, of any kind.
pub(super) fn below<'a>(mounts: &'a [Mount], root: &str) -> Vec<&'a Mount> {
    mounts
        .iter()
        .filter(|mount| mount.target.strip_prefix(root).is_ok_and(|below| below != Path::new("")))
        .collect()
}

/// Writes the mounts below `root` as one archive of it.
pub(super) fn pack(mounts: &[&Mount], root: &str, to: impl Write) -> io::Result<()> {
    let mut packer = Packer::new(to, CAPS);
    for mount in mounts {
        let Ok(at) = mount.target.strip_prefix(root) else { continue };
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", mount.target.display()));
        pack_mount(&mut packer, at, mount).map_err(named)?;
    }
    packer.finish().map(drop)
}

fn pack_mount(packer: &mut Packer<impl Write>, at: &Path, mount: &Mount) -> io::Result<()> {
    match &mount.kind {
        MountKind::ReadOnly { source } | MountKind::ReadWrite { source } => {
            pack_source(packer, at, source, &[])
        }
        MountKind::CopyOnWrite(CopyOnWrite { source, edits, .. })
        | MountKind::ReadOnlyView(CopyOnWrite { source, edits, .. }) => {
            pack_source(packer, at, source, edits)
        }
        MountKind::File { contents, mode } => packer.file(at, contents, *mode | 0o200),
        MountKind::Directory { mode } | MountKind::Temporary { mode, .. } => packer.directory(at, *mode),
        MountKind::Symlink { to } => packer.link(at, &relative(&mount.target, to)),
        // The image is the gateway's, and sockets are in the tunnel.
        MountKind::Image | MountKind::ImageView { .. } | MountKind::Socket { .. } => Ok(()),
    }
}

fn pack_source(packer: &mut Packer<impl Write>, at: &Path, source: &Path, edits: &[Edit]) -> io::Result<()> {
    if !source.is_dir() {
        return packer.file(at, &std::fs::read(source)?, 0o644);
    }
    let is_edited = |path: &Path| edits.iter().any(|edit| edited(edit) == path);
    packer.directory(at, 0o755)?;
    packer.tree(&open_directory(source)?, at, &is_edited)?;
    for edit in edits {
        match edit {
            Edit::Remove { .. } => {}
            Edit::Write { path, contents, mode } => packer.file(&at.join(path), contents, *mode)?,
            Edit::EmptyDirectory { path } => packer.directory(&at.join(path), 0o755)?,
        }
    }
    Ok(())
}

/// The links of a directory that do not come back from a download, because they lead out of it. `name` is the directory's
/// own name in the download.
pub fn lost_links(directory: &Path, name: &str) -> io::Result<Vec<PathBuf>> {
    let mut lost = Vec::new();
    let entries = usize::try_from(CAPS.files).unwrap_or(usize::MAX);
    let limits = WalkLimits { entries, depth: MAX_DEPTH, unreadable: Unreadable::Skip };
    let walked = walk_directory(directory, limits, &mut |entry: &TreeEntry<'_>| {
        if entry.kind == FileType::Symlink {
            let to = std::fs::read_link(directory.join(entry.path))?;
            if !archive::stays_inside(&Path::new(name).join(entry.path), &to) {
                lost.push(entry.path.to_owned());
            }
        }
        Ok(Descend::Yes)
    });
    walked.map_err(WalkError::into_io).map(|()| lost)
}

fn edited(edit: &Edit) -> &Path {
    match edit {
        Edit::Remove { path } | Edit::Write { path, .. } | Edit::EmptyDirectory { path } => path,
    }
}

pub(super) fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// An archive may not have a link to an absolute path: it says how to get there from the link.
fn relative(link: &Path, to: &Path) -> PathBuf {
    if to.is_relative() {
        return to.to_owned();
    }
    let from: Vec<_> = link.parent().unwrap_or(Path::new("/")).components().collect();
    let to: Vec<_> = to.components().collect();
    let shared = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
    let up = std::iter::repeat_n(Path::new(".."), from.len() - shared);
    up.chain(to[shared..].iter().map(AsRef::as_ref)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn mounts_become_files() {
        let place = tempfile::tempdir().unwrap();
        let source = place.path().join("source");
        fs::create_dir_all(source.join("src")).unwrap();
        fs::create_dir_all(source.join(".git/hooks")).unwrap();
        for file in ["src/main.rs", ".env", ".git/hooks/pre-commit", "AGENTS.md"] {
            fs::write(source.join(file), file).unwrap();
        }
        let edits = vec![
            Edit::Remove { path: ".env".into() },
            Edit::EmptyDirectory { path: ".git/hooks".into() },
            Edit::Write { path: "AGENTS.md".into(), contents: b"ours".to_vec(), mode: 0o644 },
        ];
        let view = MountKind::CopyOnWrite(CopyOnWrite { source: source.clone(), edits, memory_bytes: 0 });
        let mount = |target: &str, kind: MountKind| Mount { target: target.into(), kind };
        let mounts = [
            mount("/usr", MountKind::Image),
            mount("/sandbox", MountKind::Temporary { size_bytes: 1, inodes: 1, mode: 0o755 }),
            mount("/sandbox/workspace/repo", view),
            mount("/sandbox/workspace/.env", MountKind::File { contents: b"A=1".to_vec(), mode: 0o444 }),
            mount("/sandbox/bin/tool", MountKind::Symlink { to: "/sandbox/workspace/.env".into() }),
            mount("/opt/other", MountKind::Directory { mode: 0o755 }),
        ];
        let mut bytes = Vec::new();
        pack(&below(&mounts, "/sandbox"), "/sandbox", &mut bytes).unwrap();
        let to = place.path().join("to");
        fs::create_dir(&to).unwrap();
        archive::unpack(&bytes[..], &open_directory(&to).unwrap(), CAPS).unwrap();
        let read = |path: &str| fs::read_to_string(to.join(path)).ok();
        assert_eq!(read("workspace/repo/src/main.rs").as_deref(), Some("src/main.rs"));
        assert_eq!(read("workspace/repo/AGENTS.md").as_deref(), Some("ours"));
        assert_eq!(read("workspace/repo/.env"), None, "it is hidden");
        assert_eq!(fs::read_dir(to.join("workspace/repo/.git/hooks")).unwrap().count(), 0);
        assert_eq!(read("bin/tool").as_deref(), Some("A=1"), "the link leads there");
        assert!(!to.join("other").exists());
    }

    #[test]
    fn a_link_that_leads_out_is_named() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("a")).unwrap();
        for (to, at) in [("/etc/passwd", "out"), ("../../x", "a/up"), ("b", "a/in"), ("../c", "a/beside")] {
            std::os::unix::fs::symlink(to, place.path().join(at)).unwrap();
        }
        let mut lost = lost_links(place.path(), "repo").unwrap();
        lost.sort();
        assert_eq!(lost, [Path::new("out")]);
        assert_eq!(lost_links(&place.path().join("a"), "").unwrap().len(), 2);
    }

    #[test]
    fn a_link_says_how_to_get_there() {
        let check = |link: &str, to: &str, expected: &str| {
            assert_eq!(relative(Path::new(link), Path::new(to)), Path::new(expected));
        };
        check("/opt/fullsend/bin/fullsend", "/opt/fullsend/fullsend", "../fullsend");
        check("/tmp/workspace", "/sandbox/workspace", "../sandbox/workspace");
        check("/a/b", "c", "c");
    }
}
