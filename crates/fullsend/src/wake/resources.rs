//! A session's resources as mounts of its wakes. A resource is mounted below one directory of the workspace, so that it
//! cannot cover a file of fullsend's own.

use std::path::{Component, Path, PathBuf};

use sandbox::{Mount, MountKind};
use session::{ResourceAccess, SessionResource};

/// The directory that resources are mounted below.
pub const MOUNTS_BELOW: &str = "/sandbox/workspace/resources";

/// Checks where a resource is mounted from and to.
pub fn check(resource: &SessionResource) -> Result<(), &'static str> {
    let mount = Path::new(&resource.mount);
    let plain = mount.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !plain || !mount.starts_with(MOUNTS_BELOW) || mount == Path::new(MOUNTS_BELOW) {
        return Err("the mount must be below /sandbox/workspace/resources");
    }
    if !Path::new(&resource.source).is_absolute() {
        return Err("the source must be an absolute path");
    }
    Ok(())
}

/// The mounts, or the resource that cannot be mounted.
pub fn mounts(resources: &[SessionResource]) -> Result<Vec<Mount>, String> {
    let mut mounts = Vec::new();
    for resource in resources {
        let wrong = |why: &str| format!("resource `{}` ({}): {why}", resource.id, resource.source);
        check(resource).map_err(wrong)?;
        let source = PathBuf::from(&resource.source);
        // The path was resolved when the session was created. A symlink in it today was put there later.
        if source.canonicalize().ok().as_deref() != Some(&*source) {
            return Err(wrong("the source is missing, or a symlink replaced it"));
        }
        let kind = match resource.access {
            ResourceAccess::ReadOnly => MountKind::ReadOnly { source },
            ResourceAccess::ReadWrite => MountKind::ReadWrite { source },
        };
        mounts.push(Mount { target: PathBuf::from(&resource.mount), kind });
    }
    Ok(mounts)
}
