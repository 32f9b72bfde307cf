//! What a git working tree needs to be shown in a sandbox: read once on the host into plain data, then turned into
//! mounts. The host's tree is only ever read. No git program is run, because the repository's own configuration could
//! make one execute things.

use super::small_file::{RepositoryError, read_bounded};
use super::{config, index, indirection, secret_files};
use sandbox::{CopyOnWrite, Edit, Mount, MountKind};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const MAX_ALTERNATES: usize = 32;
const MAX_MODULE_DEPTH: usize = 8;

/// A working tree as it is on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// Its root, a real path.
    pub root: PathBuf,
    pub git: GitDirectory,
    /// Untracked files with names that secrets have, relative to the root.
    pub secrets: Vec<PathBuf>,
}

/// Where a working tree keeps its git data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitDirectory {
    /// Not a repository.
    None,
    /// In `.git`, as usual.
    Inside(GitData),
    /// Elsewhere: a linked worktree or a submodule. `common` holds what worktrees share.
    Elsewhere { directory: PathBuf, common: PathBuf, data: GitData },
}

/// The changes to make in a git directory; paths are relative to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitData {
    /// Configuration files and what they become.
    pub configs: Vec<(PathBuf, Vec<u8>)>,
    /// Hook directories, to be emptied.
    pub hooks: Vec<PathBuf>,
    /// Object stores elsewhere that this one may borrow from.
    pub alternates: Vec<Alternate>,
    /// Whether the repository names any, accepted or not.
    pub has_alternates: bool,
}

/// An object store of another repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternate {
    pub path: PathBuf,
    /// Paths in it that are not objects, relative to it.
    pub hidden: Vec<PathBuf>,
}

/// The mounts that show a repository, and what they hide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryView {
    pub mounts: Vec<Mount>,
    pub masked: Vec<PathBuf>,
}

impl Repository {
    /// Reads the working tree at `root`.
    pub fn read(root: &Path) -> Result<Self, RepositoryError> {
        let named = secret_files::named(root)
            .map_err(|source| RepositoryError { path: root.to_path_buf(), source })?;
        Self::read_listed(root, &named)
    }

    /// The same with a listing: `named` are all paths below `root` whose names are those of secrets.
    pub fn read_listed(root: &Path, named: &[PathBuf]) -> Result<Self, RepositoryError> {
        let at = |path: &Path| {
            let path = path.to_path_buf();
            move |source| RepositoryError { path, source }
        };
        let root = fs::canonicalize(root).map_err(at(root))?;
        let git = read_git(&root)?;
        // The index grows with the repository; mostly it need not be read.
        let index = match &git {
            _ if named.is_empty() => None,
            GitDirectory::None => None,
            GitDirectory::Inside(_) => Some(root.join(".git/index")),
            GitDirectory::Elsewhere { directory, .. } => Some(directory.join("index")),
        };
        let tracked = index.map(|index| index::tracked_secrets(&index)).unwrap_or_default();
        let secrets = secret_files::untracked(&root, named, &tracked).map_err(at(&root))?;
        Ok(Self { root, git, secrets })
    }

    /// The mounts that show it at `target`, without the secrets that are not in `keep`.
    pub fn view(&self, target: &Path, keep: &[PathBuf], memory_bytes: u64) -> RepositoryView {
        let masked: Vec<PathBuf> = self.secrets.iter().filter(|path| !keep.contains(path)).cloned().collect();
        let mut edits: Vec<Edit> = masked.iter().cloned().map(|path| Edit::Remove { path }).collect();
        let mut mounts = Vec::new();
        let view = |source: &Path, edits| {
            MountKind::CopyOnWrite(CopyOnWrite { source: source.to_path_buf(), edits, memory_bytes })
        };
        match &self.git {
            GitDirectory::None => {}
            GitDirectory::Inside(data) => {
                edits.extend(data.edits(Path::new(".git")));
                mounts.extend(data.alternate_mounts(memory_bytes));
            }
            GitDirectory::Elsewhere { directory, common, data } => {
                let pointer = format!("gitdir: {}\n", directory.display()).into_bytes();
                edits.push(Edit::Write { path: ".git".into(), contents: pointer, mode: 0o644 });
                let kind = view(common, data.edits(Path::new("")));
                mounts.push(Mount { target: common.clone(), kind });
                mounts.extend(data.alternate_mounts(memory_bytes));
            }
        }
        mounts.insert(0, Mount { target: target.to_path_buf(), kind: view(&self.root, edits) });
        RepositoryView { mounts, masked }
    }
}

impl GitData {
    fn edits(&self, directory: &Path) -> Vec<Edit> {
        let hooks = self.hooks.iter().map(|path| Edit::EmptyDirectory { path: directory.join(path) });
        let configs = self.configs.iter().map(|(path, contents)| Edit::Write {
            path: directory.join(path),
            contents: contents.clone(),
            mode: 0o644,
        });
        // Also if none was accepted: otherwise git would look for the refused ones.
        let alternates = self.has_alternates.then(|| Edit::Write {
            path: directory.join("objects/info/alternates"),
            contents: self
                .alternates
                .iter()
                .map(|store| format!("{}\n", store.path.display()))
                .collect::<String>()
                .into(),
            mode: 0o644,
        });
        hooks.chain(configs).chain(alternates).collect()
    }

    fn alternate_mounts(&self, memory_bytes: u64) -> Vec<Mount> {
        let mount = |Alternate { path, hidden }: &Alternate| {
            let source = path.clone();
            let edits: Vec<Edit> = hidden.iter().cloned().map(|path| Edit::Remove { path }).collect();
            let kind = match edits.is_empty() {
                true => MountKind::ReadOnly { source },
                false => MountKind::ReadOnlyView(CopyOnWrite { source, edits, memory_bytes }),
            };
            Mount { target: path.clone(), kind }
        };
        self.alternates.iter().map(mount).collect()
    }
}

fn read_git(root: &Path) -> Result<GitDirectory, RepositoryError> {
    let path = root.join(".git");
    let fail = |source| RepositoryError { path: path.clone(), source };
    let kind = match fs::symlink_metadata(&path) {
        Ok(metadata) => metadata.file_type(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(GitDirectory::None),
        Err(e) => return Err(fail(e)),
    };
    if kind.is_symlink() {
        return Err(fail(io::Error::other("`.git` is a symlink; use a linked worktree instead")));
    }
    if kind.is_dir() {
        return Ok(GitDirectory::Inside(read_data(&path)?));
    }
    let text = read_bounded(&path).map_err(fail)?;
    let text = String::from_utf8_lossy(&text);
    let Some(pointer) = text.trim_end().strip_prefix("gitdir: ") else {
        return Err(fail(io::Error::other("it is neither a directory nor a pointer to one")));
    };
    let directory = fs::canonicalize(root.join(pointer)).map_err(fail)?;
    let common = indirection::points_back(root, &directory).map_err(fail)?;
    let data = read_data(&common)?;
    Ok(GitDirectory::Elsewhere { directory, common, data })
}

/// Reads what must differ in the git directory `directory`, its submodules' and its worktrees' included.
fn read_data(directory: &Path) -> Result<GitData, RepositoryError> {
    let mut data = GitData::default();
    add_one(directory, Path::new(""), &mut data)?;
    add_worktrees(directory, &mut data)?;
    add_modules(directory, Path::new("modules"), 0, &mut data)?;
    add_alternates(&directory.join("objects"), &mut data)?;
    Ok(data)
}

fn add_one(directory: &Path, inner: &Path, data: &mut GitData) -> Result<(), RepositoryError> {
    let path = inner.join("config");
    match read_bounded(&directory.join(&path)) {
        Ok(text) => data.configs.push((path, config::rewrite(&text))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(RepositoryError { path: directory.join(path), source }),
    }
    data.hooks.push(inner.join("hooks"));
    Ok(())
}

fn add_worktrees(directory: &Path, data: &mut GitData) -> Result<(), RepositoryError> {
    let names = list(&directory.join("worktrees"))?;
    let inner = names.into_iter().map(|name| Path::new("worktrees").join(name));
    for path in [PathBuf::new()].into_iter().chain(inner).map(|inner| inner.join("config.worktree")) {
        match read_bounded(&directory.join(&path)) {
            Ok(text) => data.configs.push((path, config::rewrite(&text))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(RepositoryError { path: directory.join(path), source }),
        }
    }
    Ok(())
}

/// A submodule's name may contain slashes, so directories between are searched too.
fn add_modules(
    directory: &Path,
    inner: &Path,
    depth: usize,
    data: &mut GitData,
) -> Result<(), RepositoryError> {
    if depth > MAX_MODULE_DEPTH {
        return Ok(());
    }
    for name in list(&directory.join(inner))? {
        let module = inner.join(name);
        let is_git = directory.join(&module).join("HEAD").is_file();
        if is_git {
            add_one(directory, &module, data)?;
            add_modules(directory, &module.join("modules"), depth + 1, data)?;
        } else {
            add_modules(directory, &module, depth + 1, data)?;
        }
    }
    Ok(())
}

fn add_alternates(objects: &Path, data: &mut GitData) -> Result<(), RepositoryError> {
    let path = objects.join("info/alternates");
    let text = match read_bounded(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(RepositoryError { path, source }),
    };
    data.has_alternates = true;
    let lines = String::from_utf8_lossy(&text).into_owned();
    for line in lines.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        // A missing one is skipped by git too.
        let Ok(store) = fs::canonicalize(objects.join(line)) else { continue };
        if data.alternates.iter().any(|known| known.path == store) || data.alternates.len() >= MAX_ALTERNATES
        {
            continue;
        }
        let Some(hidden) = indirection::borrowable(objects, &store)? else { continue };
        data.alternates.push(Alternate { path: store.clone(), hidden });
        add_alternates(&store, data)?;
    }
    Ok(())
}

fn list(directory: &Path) -> Result<Vec<std::ffi::OsString>, RepositoryError> {
    let fail = |source| RepositoryError { path: directory.to_path_buf(), source };
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(e) => return Err(fail(e)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(fail)?;
        if entry.file_type().map_err(fail)?.is_dir() {
            names.push(entry.file_name());
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untracked_secrets_are_masked_by_all_their_names_unless_they_are_kept() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("services/api/config")).unwrap();
        for path in [".env", ".netrc", "services/api/config/.env.production", "services/api/config/id_rsa"] {
            fs::write(root.join(path), "secret").unwrap();
        }
        fs::hard_link(root.join(".netrc"), root.join("services/notes.txt")).unwrap();
        let repository = Repository::read(&root).unwrap();
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let deep =
            ["services/api/config/.env.production", "services/api/config/id_rsa", "services/notes.txt"];
        assert_eq!(repository.secrets, paths(&[&[".env", ".netrc"], &deep[..]].concat()));
        let view = repository.view(Path::new("/work"), &paths(&[".env"]), 1 << 20);
        assert_eq!(view.masked, paths(&[&[".netrc"], &deep[..]].concat()));
    }
}
