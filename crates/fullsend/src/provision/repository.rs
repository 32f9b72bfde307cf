//! The agent's view of the repository: a copy-on-write view of the working tree as it is. The host's files are never
//! written to, hooks are gone, git's configuration is our own, and files with names of secrets are hidden.

use std::path::{Path, PathBuf};

use sandbox::{Edit, Mount, MountKind};

use crate::git::{Repository, RepositoryError};
use crate::harness::Harness;
use crate::inputs::ScannedInputs;
use crate::inputs::added_instructions::AddedFile;
use crate::runtime::paths::WORKSPACE;

/// The name of the repository's directory inside.
pub fn name(repository: &Path) -> String {
    let name = repository.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let keep = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let clean: String = name.chars().map(keep).collect();
    let taken =
        ["", ".", "..", "output", "agent-input", "session", "resources", ".env", ".env.d", ".claude", "bin"];
    if taken.contains(&clean.as_str()) { "repository".to_owned() } else { clean }
}

/// Where it is inside.
pub fn inside(name: &str) -> PathBuf {
    Path::new(WORKSPACE).join(name)
}

/// The mounts that show it, with the instructions that it lacks. Files that `host_files` names by their place in the
/// repository stay.
pub fn view(
    harness: &Harness,
    repository: &Path,
    name: &str,
    inputs: &ScannedInputs,
) -> Result<Vec<Mount>, RepositoryError> {
    let target = inside(name);
    let keep: Vec<PathBuf> = harness.host_files.0.iter().map(|file| PathBuf::from(file.src.raw())).collect();
    let memory_bytes = harness.sandbox.limits.disk_mb.get() << 20;
    if let Some((path, error)) = &inputs.repository_listing().failed {
        let source = std::io::Error::other(error.to_string());
        return Err(RepositoryError { path: path.clone(), source });
    }
    let read = Repository::read_listed(repository, &inputs.repository_listing().secrets)?;
    let mut mounts = read.view(&target, &keep, memory_bytes).mounts;
    for Mount { target: place, kind } in &mut mounts {
        let MountKind::CopyOnWrite(view) = kind else { continue };
        let is_tree = *place == target;
        view.edits.extend(
            inputs.added_instructions().iter().filter(|_| is_tree).map(|one| write(one.name, &one.contents)),
        );
        // A linked worktree has its git data in a mount of its own.
        let git = if is_tree { ".git/info" } else { "info" };
        view.edits.extend(ignored(&view.source.join(git), git, inputs.added_instructions()));
        if harness.readonly_repo.value {
            *kind = MountKind::ReadOnlyView(view.clone());
        }
    }
    Ok(mounts)
}

fn write(path: &str, contents: &str) -> Edit {
    Edit::Write { path: path.into(), contents: contents.as_bytes().to_vec(), mode: 0o644 }
}

/// Makes git ignore the added files; `place` is its `info` directory.
fn ignored(place: &Path, shown: &str, added_instructions: &[AddedFile]) -> Option<Edit> {
    if added_instructions.is_empty() || !place.is_dir() {
        return None;
    }
    let mut exclude = std::fs::read_to_string(place.join("exclude")).unwrap_or_default();
    exclude.push_str("\n# put there by fullsend\n");
    added_instructions.iter().for_each(|one| exclude.push_str(&format!("/{}\n", one.name)));
    Some(write(&format!("{shown}/exclude"), &exclude))
}

/// Paths in the view that Path B scans: found on the host, added by fullsend, or mounted over it.
pub fn paths_to_scan(inputs: &ScannedInputs, mounts: &[Mount], name: &str) -> Vec<PathBuf> {
    let target = inside(name);
    let mounted = mounts.iter().filter_map(|mount| mount.target.strip_prefix(&target).ok());
    let mut paths: Vec<PathBuf> =
        mounted.filter(|below| !below.as_os_str().is_empty()).map(Path::to_owned).collect();
    paths.extend(inputs.added_instructions().iter().map(|one| PathBuf::from(one.name)));
    paths.extend(inputs.repository_listing().instruction_paths.iter().cloned());
    paths.sort();
    paths.dedup();
    paths
}

/// Files of the repository that these mounts hide or add: they are not the agent's changes.
pub fn fullsend_files(mounts: &[Mount], name: &str) -> Vec<PathBuf> {
    let target = inside(name);
    let edits = mounts.iter().filter(|mount| mount.target == target).flat_map(|mount| match &mount.kind {
        MountKind::CopyOnWrite(view) | MountKind::ReadOnlyView(view) => &view.edits[..],
        _ => &[],
    });
    edits
        .filter_map(|edit| match edit {
            Edit::Remove { path } | Edit::Write { path, .. } => Some(path.clone()),
            Edit::EmptyDirectory { .. } => None,
        })
        .collect()
}
