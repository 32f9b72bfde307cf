//! The entries of a tar archive in order, with long names assembled from extension headers. Every name is bounded here:
//! headers of hostile archives may announce names of any length.

use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use tar::{Entries, EntryType, Header, PaxExtensions};

/// The kernel's own limit for a path.
const MAX_NAME_BYTES: u64 = 4096;
/// The largest extended header; it may contain attributes that are not used here.
const MAX_EXTENDED_BYTES: u64 = 1 << 20;

/// One thing in an archive.
pub struct TarEntry {
    /// Relative, without `.` and `..`; empty for the root itself.
    pub path: PathBuf,
    /// As written; only links have one.
    pub link: Option<Vec<u8>>,
    pub kind: EntryType,
    pub header: Header,
    /// Where its contents start in the archive.
    pub position: u64,
}

/// What extension headers before an entry set for it.
#[derive(Default)]
struct ExtensionHeaders {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
}

/// Calls `each` for every entry with its contents. An error names what is wrong with the archive.
pub fn walk<R: Read>(
    entries: Entries<'_, R>,
    mut each: impl FnMut(TarEntry, &mut dyn Read) -> io::Result<()>,
) -> io::Result<()> {
    let mut announced = ExtensionHeaders::default();
    for entry in entries.raw(true) {
        let mut entry = entry?;
        let header = entry.header().clone();
        match header.entry_type() {
            EntryType::GNULongName => announced.path = Some(name(&mut entry)?),
            EntryType::GNULongLink => announced.link = Some(name(&mut entry)?),
            EntryType::XHeader => {
                extended(&read_at_most(&mut entry, MAX_EXTENDED_BYTES)?, &header, &mut announced)?;
            }
            EntryType::XGlobalHeader => {}
            kind => {
                let ExtensionHeaders { path, link } = std::mem::take(&mut announced);
                let path = relative(&path.unwrap_or_else(|| header.path_bytes().into_owned()))?;
                let link = link.or_else(|| header.link_name_bytes().map(|link| link.into_owned()));
                let position = entry.raw_file_position();
                each(TarEntry { path, link, kind, header, position }, &mut entry)?;
            }
        }
    }
    Ok(())
}

fn name(entry: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = read_at_most(entry, MAX_NAME_BYTES + 1)?;
    if bytes.last() == Some(&0) {
        bytes.pop();
    }
    Ok(bytes)
}

fn read_at_most(entry: &mut impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    entry.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other("it has a name that is longer than any path may be"));
    }
    Ok(bytes)
}

fn extended(bytes: &[u8], header: &Header, announced: &mut ExtensionHeaders) -> io::Result<()> {
    for extension in PaxExtensions::new(bytes) {
        let extension = extension?;
        match extension.key_bytes() {
            b"path" => announced.path = Some(extension.value_bytes().to_vec()),
            b"linkpath" => announced.link = Some(extension.value_bytes().to_vec()),
            // Refuse an extended size: this reader uses the size in the entry's own header.
            b"size" if header.entry_type() == EntryType::XHeader => {
                return Err(io::Error::other("it has a file of 8 GiB or more, which is not supported"));
            }
            key if key.starts_with(b"GNU.sparse") => {
                return Err(io::Error::other("it has a sparse file, which is not supported"));
            }
            // Owners, times and attributes are dropped: an attribute could redirect overlayfs.
            _ => {}
        }
    }
    Ok(())
}

/// A path below the root of the archive. A leading slash means that root, as it does to everyone who unpacks images.
pub fn relative(bytes: &[u8]) -> io::Result<PathBuf> {
    let path = Path::new(std::ffi::OsStr::from_bytes(bytes));
    let wrong = |why: &str| Err(io::Error::other(format!("its entry `{}` {why}", path.display())));
    if bytes.contains(&0) || bytes.len() as u64 > MAX_NAME_BYTES {
        return wrong("has a name that no file can have");
    }
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(part) => clean.push(part),
            Component::ParentDir | Component::Prefix(_) => return wrong("leaves the image with `..`"),
        }
    }
    Ok(clean)
}
