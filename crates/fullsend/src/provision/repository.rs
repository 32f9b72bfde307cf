//! The agent's view of the repository: a copy-on-write view of the working tree as it is. The host's files are never
//! written to, hooks are gone, git's configuration is our own, and files that look like secrets are not there.

use std::path::{Path, PathBuf};

use sandbox::repository::{Repository, RepositoryError};
use sandbox::{Edit, Mount, MountKind};

use crate::harness::Harness;
use crate::inputs::injected::Injected;

/// The name of the repository's directory inside.
pub fn name(repository: &Path) -> String {
    let name = repository.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let keep = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let clean: String = name.chars().map(keep).collect();
    let taken = ["", ".", "..", "output", "agent-input", ".env", ".env.d", ".claude", "bin"];
    if taken.contains(&clean.as_str()) { "repository".to_owned() } else { clean }
}

/// The mounts that show it, with the instructions that it lacks. Files that `host_files` names by their place in the
/// repository stay.
pub fn view(
    harness: &Harness,
    repository: &Path,
    name: &str,
    injected: &[Injected],
) -> Result<Vec<Mount>, RepositoryError> {
    let target = PathBuf::from("/sandbox/workspace").join(name);
    let keep: Vec<PathBuf> = harness.host_files.0.iter().map(|file| PathBuf::from(file.src.raw())).collect();
    let memory_bytes = harness.sandbox.limits.disk_mb.get() << 20;
    let mut mounts = Repository::read(repository)?.view(&target, &keep, memory_bytes).mounts;
    if let Some(Mount { kind: MountKind::CopyOnWrite(view), .. }) = mounts.first_mut() {
        view.edits.extend(additions(repository, injected));
    }
    if harness.readonly_repo.value {
        mounts = mounts.into_iter().flat_map(read_only).collect();
    }
    Ok(mounts)
}

/// The injected files, and git told to ignore them.
fn additions(repository: &Path, injected: &[Injected]) -> Vec<Edit> {
    let write = |path: &str, contents: &str| Edit::Write {
        path: path.into(),
        contents: contents.as_bytes().to_vec(),
        mode: 0o644,
    };
    let mut edits: Vec<Edit> = injected.iter().map(|one| write(one.name, &one.contents)).collect();
    if !injected.is_empty() && repository.join(".git/info").is_dir() {
        let mut exclude = std::fs::read_to_string(repository.join(".git/info/exclude")).unwrap_or_default();
        exclude.push_str("\n# put there by fullsend\n");
        injected.iter().for_each(|one| exclude.push_str(&format!("/{}\n", one.name)));
        edits.push(write(".git/info/exclude", &exclude));
    }
    edits
}

/// Files of the repository that these mounts hide or put there: they are not the agent's changes.
pub fn not_theirs(mounts: &[Mount], name: &str) -> Vec<PathBuf> {
    let target = Path::new("/sandbox/workspace").join(name);
    let edits = mounts.iter().filter(|mount| mount.target == target).flat_map(|mount| match &mount.kind {
        MountKind::CopyOnWrite(view) => &view.edits[..],
        _ => &[],
    });
    edits
        .filter_map(|edit| match edit {
            Edit::Remove { path } | Edit::Write { path, .. } => Some(path.clone()),
            Edit::EmptyDirectory { .. } => None,
        })
        .collect()
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
