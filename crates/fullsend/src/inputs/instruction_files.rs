//! Finds and reads the files that an agent would read as instructions: files with names that any known agent reads, and
//! whole directories of settings, rules and skills. Everything is bounded, no link is followed out of its tree, no
//! directory is read twice, and what cannot be read is reported.

use std::collections::{HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use scan::Origin;

use super::imports;
use super::instruction_names::{MAX_DEPTH, MAX_ENTRIES, SKIPPED, is_context, lower, whole_directory};
use super::repository_listing::list_repository;

/// Larger files are not instruction files.
pub const MAX_CONTEXT: u64 = 1 << 20;
/// The limit for files that the agent gets as a whole.
pub const MAX_WHOLE: u64 = 64 << 20;

/// Claude Code follows at most this many levels of imports.
const MAX_HOPS: usize = 5;
/// The maximum number of queued imports.
const MAX_IMPORTS: usize = 20_000;

/// Which files below a directory are scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// Files that some agent would read by itself.
    Instructions,
    Everything,
}

/// One scanned file, or why it could not be read.
pub struct ScannedFile<'a> {
    /// From the directory that is walked.
    pub path: &'a str,
    pub origin: Origin,
    pub contents: io::Result<Vec<u8>>,
}

/// Calls `visit` for every scanned file, in the order of their names. The first error of `visit` ends the walk.
pub fn walk<E>(
    root: &Path,
    which: Coverage,
    origin: Origin,
    visit: &mut dyn FnMut(ScannedFile<'_>) -> Result<(), E>,
) -> Result<(), E> {
    if which == Coverage::Instructions {
        let listing = list_repository(root);
        if listing.too_many {
            visit(ScannedFile { path: "", origin, contents: Err(io::Error::other("has too many entries")) })?;
        }
        return walk_paths(root, &listing.instruction_paths, origin, visit);
    }
    let mut walk = InstructionWalk::new(root, visit);
    walk.directory(root, &DirectoryContext { whole: Some(origin), ..DirectoryContext::top(origin) })?;
    walk.follow()
}

/// The same for the paths of a listing and everything below them.
pub fn walk_paths<E>(
    root: &Path,
    points: &[PathBuf],
    origin: Origin,
    visit: &mut dyn FnMut(ScannedFile<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut walk = InstructionWalk::new(root, visit);
    for point in points {
        let Some(name) = point.file_name() else {
            walk.directory(root, &DirectoryContext::top(origin))?;
            continue;
        };
        let depth = point.components().count() - 1;
        let shown = point.to_string_lossy().into_owned();
        walk.entry(
            &root.join(point),
            name,
            shown,
            &DirectoryContext { depth, ..DirectoryContext::top(origin) },
        )?;
    }
    walk.follow()
}

/// The same for a whole tree except one directory.
pub fn walk_without<E>(
    root: &Path,
    without: &Path,
    origin: Origin,
    visit: &mut dyn FnMut(ScannedFile<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut walk = InstructionWalk { without: Some(without.to_owned()), ..InstructionWalk::new(root, visit) };
    walk.directory(root, &DirectoryContext::top(origin))?;
    walk.follow()
}

struct InstructionWalk<'v, E> {
    root: PathBuf,
    entries: usize,
    without: Option<PathBuf>,
    /// Directories that were read completely, and their origin.
    read: HashSet<(u64, u64, Origin)>,
    /// Links to directories, and where they are. They are followed last, because their targets may be read under their
    /// own names.
    links: VecDeque<(PathBuf, DirectoryContext)>,
    /// Files that were visited, by their real paths.
    shown: HashSet<PathBuf>,
    /// Files that other files import.
    imports: VecDeque<ImportedFile>,
    visit: &'v mut dyn FnMut(ScannedFile<'_>) -> Result<(), E>,
}

/// A file that another file imports.
struct ImportedFile {
    at: PathBuf,
    origin: Origin,
    /// How many files led here.
    hops: usize,
}

/// A directory to walk: its path, and whether everything in it is scanned.
struct DirectoryContext {
    path: String,
    depth: usize,
    whole: Option<Origin>,
    origin: Origin,
    /// Whether a link led here.
    linked: bool,
}

impl DirectoryContext {
    fn top(origin: Origin) -> Self {
        Self { path: String::new(), depth: 0, whole: None, origin, linked: false }
    }
}

impl<'v, E> InstructionWalk<'v, E> {
    fn new(root: &Path, visit: &'v mut dyn FnMut(ScannedFile<'_>) -> Result<(), E>) -> Self {
        Self {
            root: root.to_owned(),
            entries: 0,
            without: None,
            read: HashSet::new(),
            links: VecDeque::new(),
            shown: HashSet::new(),
            imports: VecDeque::new(),
            visit,
        }
    }

    /// Scans the targets of the collected links, unless they were scanned under their own names.
    fn follow(&mut self) -> Result<(), E> {
        while let Some((at, place)) = self.links.pop_front() {
            self.directory(&at, &place)?;
        }
        while let Some(import) = self.imports.pop_front() {
            self.import(import)?;
        }
        Ok(())
    }

    /// Visits a file that another one imports, unless it was visited already. Files outside the root are not in the
    /// sandbox.
    fn import(&mut self, ImportedFile { at, origin, hops }: ImportedFile) -> Result<(), E> {
        let (Ok(root), Ok(to)) = (self.root.canonicalize(), at.canonicalize()) else { return Ok(()) };
        let Ok(path) = to.strip_prefix(&root) else { return Ok(()) };
        let is_left_out = path.components().any(|part| part.as_os_str() == ".git")
            || self.without.as_ref().is_some_and(|without| at.starts_with(without));
        if is_left_out || !to.is_file() || self.shown.contains(&to) {
            return Ok(());
        }
        let origin = origin_of(&lower(to.file_name().unwrap_or_default()), origin);
        self.file(&to, &path.to_string_lossy(), origin, (MAX_WHOLE, hops))
    }

    /// Visits a file, and queues its imports.
    fn file(&mut self, at: &Path, path: &str, origin: Origin, (most, hops): (u64, usize)) -> Result<(), E> {
        let contents = read(at, most);
        self.shown.extend(at.canonicalize());
        if let Ok(contents) = &contents
            && hops < MAX_HOPS
            && matches!(origin, Origin::Harness | Origin::Instruction)
        {
            let above = at.parent().unwrap_or(at);
            let named = imports::names(contents).into_iter().map(|name| above.join(name));
            let room = MAX_IMPORTS.saturating_sub(self.imports.len());
            self.imports.extend(named.take(room).map(|at| ImportedFile { at, origin, hops: hops + 1 }));
        }
        self.report(path, origin, contents)
    }

    fn directory(&mut self, directory: &Path, place: &DirectoryContext) -> Result<(), E> {
        let mut names = match names(directory) {
            Ok(names) => names,
            Err(error) => return self.report(&place.path, place.origin, Err(error)),
        };
        self.entries += names.len();
        if place.depth > MAX_DEPTH || self.entries > MAX_ENTRIES {
            let why = if place.depth > MAX_DEPTH { "is nested too deep" } else { "has too many entries" };
            return self.report(&place.path, place.origin, Err(io::Error::other(why)));
        }
        names.sort_unstable();
        // A skill is all of its directory.
        let is_skill = place.depth > 0 && names.iter().any(|name| lower(name) == "skill.md");
        let whole = place.whole.or(is_skill.then_some(place.origin));
        if let (Some(origin), Ok(about)) = (whole, fs::metadata(directory)) {
            let is_new = self.read.insert((about.dev(), about.ino(), origin));
            if place.linked && !is_new {
                return Ok(());
            }
        }
        for name in names {
            let shown = name.to_string_lossy();
            let path =
                if place.path.is_empty() { shown.into_owned() } else { format!("{}/{shown}", place.path) };
            self.entry(
                &directory.join(&name),
                &name,
                path,
                &DirectoryContext { path: String::new(), whole, ..*place },
            )?;
        }
        Ok(())
    }

    fn entry(&mut self, at: &Path, name: &OsStr, path: String, parent: &DirectoryContext) -> Result<(), E> {
        let lower = lower(name);
        let Ok(about) = fs::symlink_metadata(at) else { return Ok(()) };
        let is_link = about.is_symlink();
        let Some(about) = (if is_link { self.linked(at) } else { Some(about) }) else { return Ok(()) };
        if about.is_dir() {
            // Git's own data is not read, whichever path leads to it.
            let skipped = SKIPPED.contains(&lower.as_str()) && parent.whole.is_none()
                || lower == ".git" && parent.linked;
            if skipped || self.without.as_deref() == Some(at) {
                return Ok(());
            }
            let named = whole_directory(Path::new(&path), &lower).map(|given| given.unwrap_or(parent.origin));
            let place = DirectoryContext {
                path,
                depth: parent.depth + 1,
                whole: parent.whole.or(named),
                origin: parent.origin,
                linked: parent.linked || is_link,
            };
            if !is_link {
                return self.directory(at, &place);
            }
            // Other link targets are scanned under their own names.
            if place.whole.is_some() {
                self.links.push_back((at.to_owned(), place));
            }
            return Ok(());
        }
        let counts = parent.whole.is_some() || is_context(&lower);
        if !about.is_file() || !counts {
            return Ok(());
        }
        let most = if parent.whole.is_some() { MAX_WHOLE } else { MAX_CONTEXT };
        let origin = origin_of(&lower, parent.whole.unwrap_or(parent.origin));
        self.file(at, &path, origin, (most, 0))
    }

    /// The target of a link. `None` for links out of the tree: they are broken inside the sandbox.
    fn linked(&self, at: &Path) -> Option<fs::Metadata> {
        let root = self.root.canonicalize().ok()?;
        let to = at.canonicalize().ok()?;
        to.starts_with(root).then(|| fs::metadata(to).ok()).flatten()
    }

    fn report(&mut self, path: &str, origin: Origin, contents: io::Result<Vec<u8>>) -> Result<(), E> {
        (self.visit)(ScannedFile { path, origin, contents })
    }
}

fn names(directory: &Path) -> io::Result<Vec<OsString>> {
    fs::read_dir(directory)?.take(MAX_ENTRIES).map(|entry| entry.map(|entry| entry.file_name())).collect()
}

/// Settings are not prose: no one types hidden characters into them by accident.
fn origin_of(lower: &str, origin: Origin) -> Origin {
    let is_settings =
        [".json", ".jsonc", ".toml", ".yaml", ".yml"].iter().any(|ending| lower.ends_with(ending));
    if is_settings && matches!(origin, Origin::Harness | Origin::Instruction) {
        Origin::Configuration
    } else {
        origin
    }
}

/// The whole file, if it is within the bounds.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it is larger than {most} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
