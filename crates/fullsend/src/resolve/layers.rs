//! The layers, farthest first: built in, the organisation's, the repository's. A path is looked up from the nearest
//! layer outwards, and in each layer under `customized/` first. Opening never leaves a layer: the kernel is asked to
//! resolve every path beneath the layer's directory.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use sandbox::open_within;

use crate::harness::reference::LocalPath;
use crate::remote::ResourcePath;

/// Which layer a file belongs to. Ordered from far to near.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LayerKind {
    Builtin,
    Organisation,
    Repository,
    /// The resources that were fetched for this command. Files here are named by URL, so paths are not searched here.
    Remote,
}

impl LayerKind {
    pub fn words(self) -> &'static str {
        match self {
            Self::Builtin => "built in",
            Self::Organisation => "organisation",
            Self::Repository => "repository",
            Self::Remote => "remote",
        }
    }
}

/// One place where files are looked for.
#[derive(Debug)]
pub struct Layer {
    pub kind: LayerKind,
    root: Root,
}

#[derive(Debug)]
enum Root {
    Embedded(&'static [(&'static str, &'static str)]),
    Directory {
        path: PathBuf,
        shown: String,
        descriptor: OwnedFd,
        customized: bool,
    },
    /// The URL of each directory, and whether it holds one file.
    Remote {
        path: PathBuf,
        descriptor: OwnedFd,
        names: RefCell<BTreeMap<String, (String, bool)>>,
    },
}

/// A file or directory that a layer has.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LayerPath {
    pub layer: LayerKind,
    /// The path inside the layer, `customized/` included.
    pub path: String,
}

/// Why a file of a layer cannot be read.
#[derive(Debug)]
pub enum LayerReadError {
    Missing,
    Outside,
    Directory,
    NotAFile,
    Loop,
    TooLarge { bytes: u64, most: u64 },
    NotText { byte: usize },
    System(std::io::Error),
}

impl std::fmt::Display for LayerReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing => f.write_str("does not exist"),
            Self::Outside => f.write_str("leads out of its layer through a symbolic link"),
            Self::Directory => f.write_str("is a directory, and a file is needed"),
            Self::NotAFile => f.write_str("is neither a file nor a directory"),
            Self::Loop => f.write_str("is a loop of symbolic links"),
            Self::TooLarge { bytes, most } => write!(f, "has {bytes} bytes; at most {most} are read"),
            Self::NotText { byte } => write!(f, "is not UTF-8 text: byte {byte} is the first that is not"),
            Self::System(error) => write!(f, "cannot be read: {error}"),
        }
    }
}

impl std::error::Error for LayerReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System(error) => Some(error),
            Self::Missing
            | Self::Outside
            | Self::Directory
            | Self::NotAFile
            | Self::Loop
            | Self::TooLarge { .. }
            | Self::NotText { .. } => None,
        }
    }
}

impl From<std::io::Error> for LayerReadError {
    fn from(error: std::io::Error) -> Self {
        match rustix::io::Errno::from_io_error(&error) {
            Some(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Self::Missing,
            Some(rustix::io::Errno::XDEV) => Self::Outside,
            Some(rustix::io::Errno::LOOP) => Self::Loop,
            _ => Self::System(error),
        }
    }
}

/// The largest file of a layer that is read.
pub const MAX_BYTES: u64 = 1 << 20;

impl Layer {
    pub fn builtin() -> Self {
        Self { kind: LayerKind::Builtin, root: Root::Embedded(crate::defaults::FILES) }
    }

    /// A layer on disk. Messages show its files below `shown`.
    pub fn directory(kind: LayerKind, path: &Path, shown: String) -> std::io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(path, flags, Mode::empty())?;
        // A layer whose files cannot be listed would look empty.
        drop(std::fs::read_dir(path)?);
        let customized = path.join("customized").is_dir();
        let path = path.canonicalize()?;
        Ok(Self { kind, root: Root::Directory { path, shown, descriptor, customized } })
    }

    /// The command's private directory, with the resources that it fetched.
    fn remote(path: &Path) -> std::io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(path, flags, Mode::empty())?;
        let root = Root::Remote { path: path.to_owned(), descriptor, names: RefCell::default() };
        Ok(Self { kind: LayerKind::Remote, root })
    }

    /// The layer's directory; `None` for the built-in layer.
    pub fn path(&self) -> Option<&Path> {
        match &self.root {
            Root::Embedded(_) => None,
            Root::Directory { path, .. } | Root::Remote { path, .. } => Some(path),
        }
    }

    pub fn shown(&self, path: &str) -> String {
        match &self.root {
            Root::Embedded(_) => format!("<built in>/{path}"),
            Root::Directory { shown, .. } if shown.is_empty() => path.to_owned(),
            Root::Directory { shown, .. } => format!("{shown}/{path}"),
            Root::Remote { names, .. } => {
                let (key, below) = path.split_once('/').unwrap_or((path, ""));
                match names.borrow().get(key) {
                    Some((url, is_one_file)) if *is_one_file || below.is_empty() => url.clone(),
                    Some((url, _)) => format!("{url}//{below}"),
                    None => path.to_owned(),
                }
            }
        }
    }

    /// Finds a path in this layer, below `customized/` first.
    pub fn find(&self, path: &str) -> Option<LayerPath> {
        let found = |path: String| Some(LayerPath { layer: self.kind, path });
        match &self.root {
            Root::Embedded(files) => {
                let below = format!("{path}/");
                files
                    .iter()
                    .any(|(name, _)| *name == path || name.starts_with(&below))
                    .then(|| found(path.to_owned()))?
            }
            Root::Directory { descriptor, customized, .. } => {
                let leads_nowhere =
                    |path: &str| open_within(descriptor, path, OFlags::PATH | OFlags::NOFOLLOW).is_ok();
                let exists = |path: &str| match open_within(descriptor, path, OFlags::PATH) {
                    Ok(_) => true,
                    // A link whose target is gone is a file that cannot be read, not a file that is missing.
                    Err(error) => {
                        !matches!(LayerReadError::from(error), LayerReadError::Missing) || leads_nowhere(path)
                    }
                };
                let over = format!("customized/{path}");
                if *customized && exists(&over) {
                    return found(over);
                }
                exists(path).then(|| found(path.to_owned()))?
            }
            Root::Remote { descriptor, .. } => {
                open_within(descriptor, path, OFlags::PATH).is_ok().then(|| found(path.to_owned()))?
            }
        }
    }

    pub fn read(&self, path: &str) -> Result<Arc<str>, LayerReadError> {
        match &self.root {
            Root::Embedded(files) => match files.iter().find(|(name, _)| *name == path) {
                Some((_, text)) => Ok(Arc::from(*text)),
                None => Err(LayerReadError::Missing),
            },
            Root::Directory { descriptor, .. } | Root::Remote { descriptor, .. } => {
                let file = std::fs::File::from(open_within(descriptor, path, OFlags::RDONLY)?);
                let about = file.metadata()?;
                if about.is_dir() {
                    return Err(LayerReadError::Directory);
                }
                if !about.is_file() {
                    return Err(LayerReadError::NotAFile);
                }
                if about.len() > MAX_BYTES {
                    return Err(LayerReadError::TooLarge { bytes: about.len(), most: MAX_BYTES });
                }
                let mut bytes = Vec::with_capacity(usize::try_from(about.len()).unwrap_or(0) + 1);
                file.take(MAX_BYTES).read_to_end(&mut bytes)?;
                let text = String::from_utf8(bytes)
                    .map_err(|e| LayerReadError::NotText { byte: e.utf8_error().valid_up_to() })?;
                Ok(Arc::from(text))
            }
        }
    }

    /// What kind of file a path of this layer is.
    pub fn metadata(&self, path: &str) -> Result<PathFacts, LayerReadError> {
        match &self.root {
            Root::Embedded(files) => {
                let is_file = files.iter().any(|(name, _)| *name == path);
                Ok(PathFacts { is_file, is_directory: !is_file, is_executable: false })
            }
            Root::Directory { descriptor, .. } | Root::Remote { descriptor, .. } => {
                let stat = rustix::fs::fstat(open_within(descriptor, path, OFlags::PATH)?)
                    .map_err(std::io::Error::from)?;
                let kind = rustix::fs::FileType::from_raw_mode(stat.st_mode);
                Ok(PathFacts {
                    is_file: kind.is_file(),
                    is_directory: kind.is_dir(),
                    is_executable: stat.st_mode & 0o111 != 0,
                })
            }
        }
    }

    /// The names, without extension, of the `.yaml` files in one directory of this layer, and of `.yml` files, so that
    /// `misnamed` can report them.
    fn names(&self, directory: &str) -> Vec<String> {
        let stem =
            |name: &str| [".yaml", ".yml"].iter().find_map(|end| name.strip_suffix(end)).map(str::to_owned);
        match &self.root {
            // The built-in harness is for prompts; lists show the user's own.
            Root::Embedded(_) if directory == "harness" => Vec::new(),
            Root::Remote { .. } => Vec::new(),
            Root::Embedded(files) => {
                let below = format!("{directory}/");
                files.iter().filter_map(|(name, _)| stem(name.strip_prefix(&below)?)).collect()
            }
            Root::Directory { path, customized, .. } => {
                let mut places = vec![path.join(directory)];
                if *customized {
                    places.push(path.join("customized").join(directory));
                }
                let entries =
                    places.iter().filter_map(|place| std::fs::read_dir(place).ok()).flatten().flatten();
                entries.filter_map(|entry| stem(&entry.file_name().to_string_lossy())).collect()
            }
        }
    }
}

/// What kind of file a path is.
#[derive(Clone, Copy, Debug)]
pub struct PathFacts {
    pub is_file: bool,
    pub is_directory: bool,
    pub is_executable: bool,
}

/// All layers of one command.
#[derive(Debug)]
pub struct Layers {
    /// Far to near.
    local: Vec<Layer>,
    remote: OnceCell<Layer>,
}

impl Layers {
    /// Sorts the given layers and the built-in one from far to near.
    pub fn new(mut others: Vec<Layer>) -> Self {
        others.push(Layer::builtin());
        others.sort_by_key(|layer| layer.kind);
        Self { local: others, remote: OnceCell::new() }
    }

    pub fn get(&self, kind: LayerKind) -> Option<&Layer> {
        match kind {
            LayerKind::Remote => self.remote.get(),
            _ => self.local.iter().find(|layer| layer.kind == kind),
        }
    }

    /// Adds a fetched resource, which is in `directory`.
    pub fn add_remote(&self, directory: &Path, placed: &ResourcePath) -> std::io::Result<LayerPath> {
        let layer = match self.remote.get() {
            Some(layer) => layer,
            None => {
                let layer = Layer::remote(directory)?;
                self.remote.get_or_init(|| layer)
            }
        };
        if let Root::Remote { names, .. } = &layer.root {
            names.borrow_mut().insert(placed.key.clone(), (placed.shown.clone(), placed.is_one_file));
        }
        Ok(LayerPath { layer: LayerKind::Remote, path: placed.path() })
    }

    /// Far to near.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Layer> {
        self.local.iter()
    }

    /// The nearest layer that has the path.
    pub fn find(&self, path: &LocalPath) -> Option<LayerPath> {
        self.local.iter().rev().find_map(|layer| layer.find(path.as_str()))
    }

    /// The first layer that has the path, from `nearest` to the farthest.
    pub fn find_from(&self, nearest: LayerKind, path: &LocalPath) -> Option<LayerPath> {
        self.local
            .iter()
            .rev()
            .filter(|layer| layer.kind <= nearest)
            .find_map(|layer| layer.find(path.as_str()))
    }

    /// The nearest layer beyond `near` that has the path.
    pub fn find_beyond(&self, near: LayerKind, path: &LocalPath) -> Option<LayerPath> {
        self.local.iter().rev().filter(|layer| layer.kind < near).find_map(|layer| layer.find(path.as_str()))
    }

    pub fn layer(&self, found: &LayerPath) -> &Layer {
        self.get(found.layer).unwrap_or(&self.local[0])
    }

    /// Where a file is on the host; `None` for built-in files.
    pub fn host_path(&self, found: &LayerPath) -> Option<PathBuf> {
        self.layer(found).path().map(|root| root.join(&found.path))
    }

    /// The names that one directory of the layers defines, sorted, each once.
    pub fn names(&self, directory: &str) -> Vec<String> {
        let mut names: Vec<String> = self.local.iter().flat_map(|layer| layer.names(directory)).collect();
        names.sort();
        names.dedup();
        names
    }

    /// The file `STEM.yml`, if it exists. Only `STEM.yaml` is read, so the caller reports it.
    pub fn misnamed(&self, stem: &str) -> Option<String> {
        let path = LocalPath::parse(&format!("{stem}.yml")).ok()?;
        self.find(&path).map(|found| self.layer(&found).shown(&found.path))
    }
}
