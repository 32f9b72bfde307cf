//! A directory as a tar archive, and back. Unpacking trusts nothing: no entry leaves the target, none goes through a
//! link, and bytes and files are bounded. It skips everything except files, directories and links that stay inside.

pub(crate) mod inside_files;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use sandbox::{Descend, TransferCaps, TreeEntry, Unreadable, WalkLimits, open_beneath, walk_tree};
use tar::{Archive, Builder, EntryType, Header};

use crate::image::entries::{TarEntry, walk};

const MAX_DEPTH: usize = 64;

/// What was packed or unpacked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveCounts {
    pub files: u64,
    pub bytes: u64,
    /// Devices, pipes, sockets, and links that lead outside.
    pub left_out: u64,
}

impl ArchiveCounts {
    fn count(&mut self, bytes: u64, caps: TransferCaps) -> io::Result<()> {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.files > caps.files {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("more than {} files", caps.files),
            ));
        }
        if self.bytes > caps.bytes {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("more than {} bytes", caps.bytes),
            ));
        }
        Ok(())
    }
}

/// Writes everything below `directory`.
pub fn pack(directory: &OwnedFd, to: impl Write, caps: TransferCaps) -> io::Result<ArchiveCounts> {
    let mut packer = Packer::new(to, caps);
    packer.tree(directory, Path::new(""), &|_| false)?;
    packer.finish()
}

/// An archive with files from several places. When it is unpacked, a later entry replaces an earlier one with the same
/// path.
pub struct Packer<W: Write> {
    builder: Builder<W>,
    counts: ArchiveCounts,
    caps: TransferCaps,
}

impl<W: Write> Packer<W> {
    pub fn new(to: W, caps: TransferCaps) -> Self {
        Self { builder: Builder::new(to), counts: ArchiveCounts::default(), caps }
    }

    /// Adds everything below `directory` at the path `at`, except the paths, relative to it, for which `is_left_out` is
    /// true.
    pub fn tree(
        &mut self,
        directory: &OwnedFd,
        at: &Path,
        is_left_out: &dyn Fn(&Path) -> bool,
    ) -> io::Result<()> {
        let entries = usize::try_from(self.caps.files).unwrap_or(usize::MAX);
        let limits = WalkLimits { entries, depth: MAX_DEPTH, unreadable: Unreadable::Fail };
        walk_tree(directory, limits, &mut |entry: &TreeEntry<'_>| {
            if is_left_out(entry.path) {
                return Ok(Descend::No);
            }
            self.entry(entry, &at.join(entry.path)).map(|()| Descend::Yes)
        })
        .map_err(sandbox::WalkError::into_io)
    }

    pub fn file(&mut self, at: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
        self.counts.count(contents.len() as u64, self.caps)?;
        let mut header = header(mode);
        header.set_size(contents.len() as u64);
        self.builder.append_data(&mut header, at, contents)
    }

    pub fn directory(&mut self, at: &Path, mode: u32) -> io::Result<()> {
        self.counts.count(0, self.caps)?;
        let mut header = header(mode);
        header.set_entry_type(EntryType::Directory);
        self.builder.append_data(&mut header, at, io::empty())
    }

    pub fn link(&mut self, at: &Path, to: &Path) -> io::Result<()> {
        self.counts.count(0, self.caps)?;
        let mut header = header(0o777);
        header.set_entry_type(EntryType::Symlink);
        self.builder.append_link(&mut header, at, to)
    }

    pub fn finish(mut self) -> io::Result<ArchiveCounts> {
        self.builder.finish()?;
        Ok(self.counts)
    }

    fn entry(&mut self, entry: &TreeEntry<'_>, at: &Path) -> io::Result<()> {
        match entry.kind {
            FileType::Directory => self.directory(at, entry.status()?.st_mode & 0o777),
            FileType::RegularFile => {
                // The file may have been replaced by something else since it was listed.
                let opened = entry.open()?;
                let status = rustix::fs::fstat(&opened)?;
                if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
                    self.counts.left_out += 1;
                    return Ok(());
                }
                let size = u64::try_from(status.st_size).unwrap_or(0);
                self.counts.count(size, self.caps)?;
                let mut header = header(status.st_mode & 0o777);
                header.set_size(size);
                // A file that shrinks meanwhile is padded, one that grows is cut: the archive stays valid.
                let exact = File::from(opened).chain(io::repeat(0)).take(size);
                self.builder.append_data(&mut header, at, exact)
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(entry.parent, entry.name, Vec::new())?;
                let target = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(target.as_bytes());
                self.link(at, Path::new(target))
            }
            _ => {
                self.counts.left_out += 1;
                Ok(())
            }
        }
    }
}

fn header(mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_mode(mode);
    header.set_size(0);
    header
}

/// Unpacks into `directory`. Files that are there are replaced.
pub fn unpack(from: impl Read, directory: &OwnedFd, caps: TransferCaps) -> io::Result<ArchiveCounts> {
    let mut counts = ArchiveCounts::default();
    let mut archive = Archive::new(from);
    walk(archive.entries()?, |entry, contents| unpack_entry(directory, &entry, contents, &mut counts, caps))?;
    Ok(counts)
}

fn unpack_entry(
    directory: &OwnedFd,
    entry: &TarEntry,
    contents: &mut dyn Read,
    counts: &mut ArchiveCounts,
    caps: TransferCaps,
) -> io::Result<()> {
    let Some(name) = entry.path.file_name() else { return Ok(()) };
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", entry.path.display()));
    if entry.path.components().count() > MAX_DEPTH {
        return Err(named(io::Error::other("it lies too deep")));
    }
    let parent = directories(directory, entry.path.parent().unwrap_or(Path::new(""))).map_err(named)?;
    let mode = entry.header.mode().unwrap_or(0o644) & 0o777;
    match entry.kind {
        EntryType::Directory => {
            counts.count(0, caps)?;
            let made = directories(&parent, Path::new(name)).map_err(named)?;
            set_mode(&made, mode | 0o700).map_err(named)
        }
        EntryType::Regular | EntryType::Continuous => {
            counts.count(entry.header.size()?, caps)?;
            remove_file(&parent, name).map_err(named)?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let made = rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(0o600));
            let mut made = File::from(made.map_err(|error| named(error.into()))?);
            io::copy(contents, &mut made).map_err(named)?;
            rustix::fs::fchmod(&made, Mode::from_raw_mode(mode)).map_err(|error| named(error.into()))
        }
        EntryType::Symlink => {
            counts.count(0, caps)?;
            let link = entry.link.clone().unwrap_or_default();
            let link = PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(link));
            if !stays_inside(&entry.path, &link) {
                counts.left_out += 1;
                return Ok(());
            }
            remove_file(&parent, name).map_err(named)?;
            rustix::fs::symlinkat(&link, &parent, name).map_err(|error| named(error.into()))
        }
        _ => {
            counts.left_out += 1;
            Ok(())
        }
    }
}

/// Whether a link at `path` leads to a place in the same tree: relative, with `..` only at its start and no more of them than
/// there are directories above it. Every directory above it is a real one, because nothing is unpacked through a link.
pub fn stays_inside(path: &Path, link: &Path) -> bool {
    let above = path.components().count().saturating_sub(1);
    let mut climbs = 0;
    let mut has_names = false;
    for part in link.components() {
        match part {
            Component::ParentDir if !has_names => climbs += 1,
            Component::Normal(_) => has_names = true,
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    !link.as_os_str().is_empty() && climbs <= above
}

/// Opens the directory at `path`, and creates missing parts of the path.
fn directories(from: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let mut here = open_beneath(&from, "", OFlags::RDONLY | OFlags::DIRECTORY)?;
    for part in path.components() {
        match rustix::fs::mkdirat(&here, part.as_os_str(), Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        here = open_beneath(&here, part, OFlags::RDONLY | OFlags::DIRECTORY)?;
    }
    Ok(here)
}

fn set_mode(directory: &OwnedFd, mode: u32) -> io::Result<()> {
    Ok(rustix::fs::fchmod(directory, Mode::from_raw_mode(mode))?)
}

fn remove_file(parent: &OwnedFd, name: &std::ffi::OsStr) -> io::Result<()> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn open(path: &Path) -> OwnedFd {
        rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
    }

    /// One entry of a hostile archive, which a builder would not write.
    fn entry(path: &str, kind: EntryType, link: &str, contents: &[u8]) -> Vec<u8> {
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o4777);
        header.set_size(contents.len() as u64);
        header.set_cksum();
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend_from_slice(contents);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        bytes
    }

    #[test]
    fn a_tree_comes_out_as_it_went_in() {
        let place = tempfile::tempdir().unwrap();
        let from = place.path().join("from");
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::write(from.join("a/b/tool"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(from.join("a/b/tool"), fs::Permissions::from_mode(0o751)).unwrap();
        symlink("../a/b/tool", from.join("a/link")).unwrap();
        symlink("/etc/passwd", from.join("a/out")).unwrap();
        let long = "n".repeat(120);
        fs::write(from.join("a").join(&long), "long").unwrap();
        let mut bytes = Vec::new();
        let packed = pack(&open(&from), &mut bytes, TransferCaps::default()).unwrap();
        assert_eq!(packed.files, 6);
        let to = place.path().join("to");
        fs::create_dir(&to).unwrap();
        let counts = unpack(&bytes[..], &open(&to), TransferCaps::default()).unwrap();
        assert_eq!(counts.left_out, 1, "the link that leads outside");
        assert_eq!(fs::read_to_string(to.join("a/link")).unwrap(), "#!/bin/sh\n");
        assert_eq!(fs::metadata(to.join("a/b/tool")).unwrap().permissions().mode() & 0o7777, 0o751);
        assert_eq!(fs::read_to_string(to.join("a").join(long)).unwrap(), "long");
        assert!(!to.join("a/out").is_symlink());
        let small = TransferCaps { bytes: 12, ..TransferCaps::default() };
        assert!(pack(&open(&from), io::sink(), small).is_err());
        assert!(unpack(&bytes[..], &open(&to), small).is_err());
        let few = TransferCaps { files: 3, ..TransferCaps::default() };
        assert!(unpack(&bytes[..], &open(&to), few).is_err());
    }

    #[test]
    fn nothing_of_a_hostile_archive_gets_out() {
        let place = tempfile::tempdir().unwrap();
        let outside = place.path().join("outside");
        fs::create_dir(&outside).unwrap();
        let to = place.path().join("to");
        fs::create_dir(&to).unwrap();
        let unpacked = |parts: &[Vec<u8>]| {
            let mut bytes = parts.concat();
            bytes.resize(bytes.len() + 1024, 0);
            unpack(&bytes[..], &open(&to), TransferCaps::default())
        };
        let file = |path: &str| entry(path, EntryType::Regular, "", b"bad");
        assert!(unpacked(&[file("../outside/a")]).is_err());
        assert!(unpacked(&[entry("l", EntryType::Symlink, "../outside", b""), file("l/a")]).is_ok());
        assert!(!to.join("l").is_symlink(), "it leads outside, so it became a directory");
        // A link that is there already, as a process inside could have left it.
        symlink(&outside, to.join("planted")).unwrap();
        assert!(unpacked(&[file("planted/a")]).is_err());
        assert!(unpacked(&[entry("planted", EntryType::Directory, "", b"")]).is_err());
        assert!(unpacked(&[entry("here", EntryType::Symlink, "sub", b""), file("here/a")]).is_err());
        unpacked(&[file("planted")]).unwrap();
        assert!(!to.join("planted").is_symlink(), "the link itself is replaced");
        let counts = unpacked(&[
            entry("d", EntryType::Char, "", b""),
            entry("h", EntryType::Link, "/etc/passwd", b""),
        ]);
        assert_eq!(counts.unwrap().left_out, 2);
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        assert_eq!(
            fs::metadata(to.join("planted")).unwrap().permissions().mode() & 0o7777,
            0o777,
            "no set-user bit"
        );
    }

    #[test]
    fn a_link_may_climb_only_at_its_start_and_not_out() {
        for (path, link, inside) in [
            ("a", "b", true),
            ("a/b", "../c", true),
            ("a/b/c", "../../d/e", true),
            ("a", "../b", false),
            ("a/b", "../../c", false),
            ("a/b", "c/../d", false),
            ("a", "/b", false),
            ("a", "", false),
        ] {
            assert_eq!(stays_inside(Path::new(path), Path::new(link)), inside, "{path} -> {link}");
        }
    }
}
