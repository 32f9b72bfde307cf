//! The agent's view of the repository: a copy-on-write view of the working tree as it is. The host's files are never
//! written to, hooks are gone, git's configuration is our own, and files that look like secrets are not there.

use std::path::{Path, PathBuf};

use sandbox::repository::{Repository, RepositoryError};
use sandbox::{Edit, Mount, MountKind};

use crate::harness::Harness;

/// The name of the repository's directory inside.
pub fn name(repository: &Path) -> String {
    let name = repository.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let keep = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let clean: String = name.chars().map(keep).collect();
    let taken = ["", ".", "..", "output", "agent-input", ".env", ".env.d", ".claude", "bin"];
    if taken.contains(&clean.as_str()) { "repository".to_owned() } else { clean }
}

/// The mounts that show it. Files that `host_files` names by their place in the repository stay.
pub fn view(harness: &Harness, repository: &Path, name: &str) -> Result<Vec<Mount>, RepositoryError> {
    let target = PathBuf::from("/sandbox/workspace").join(name);
    let keep: Vec<PathBuf> = harness.host_files.0.iter().map(|file| PathBuf::from(file.src.raw())).collect();
    let memory_bytes = harness.sandbox.limits.disk_mb.get() << 20;
    let mut mounts = Repository::read(repository)?.view(&target, &keep, memory_bytes).mounts;
    if harness.readonly_repo.value {
        mounts = mounts.into_iter().flat_map(read_only).collect();
    }
    Ok(mounts)
}

/// The same view, in which nothing can be changed: what the copy would have edited is covered instead.
fn read_only(mount: Mount) -> Vec<Mount> {
    let MountKind::CopyOnWrite(view) = mount.kind else { return vec![mount] };
    let cover = |edit: &Edit| {
        let (path, kind) = match edit {
            Edit::Remove { path } => (path, MountKind::File { contents: Vec::new(), mode: 0o444 }),
            Edit::Write { path, contents, .. } => {
                (path, MountKind::File { contents: contents.clone(), mode: 0o444 })
            }
            Edit::EmptyDirectory { path } => {
                (path, MountKind::Temporary { size_bytes: 4096, inodes: 2, mode: 0o555 })
            }
        };
        view.source.join(path).exists().then(|| Mount { target: mount.target.join(path), kind })
    };
    let covers: Vec<Mount> = view.edits.iter().filter_map(cover).collect();
    let whole =
        Mount { target: mount.target.clone(), kind: MountKind::ReadOnly { source: view.source.clone() } };
    std::iter::once(whole).chain(covers).collect()
}
