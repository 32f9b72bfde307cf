//! What a session was given at its creation, as mounts of its wakes. A resource lies below the workspace and nowhere else, so
//! that none can stand in the place of something that fullsend itself put there.

use std::path::{Component, Path, PathBuf};

use sandbox::{Mount, MountKind};
use session::{ResourceAccess, SessionResource};

/// Where resources may be mounted.
pub const MOUNTS_BELOW: &str = "/sandbox/workspace/resources";

/// Whether it may be mounted so.
pub fn check(resource: &SessionResource) -> Result<(), &'static str> {
    let mount = Path::new(&resource.mount);
    let plain = mount.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !plain || !mount.starts_with(MOUNTS_BELOW) || mount == Path::new(MOUNTS_BELOW) {
        return Err("its mount must lie below /sandbox/workspace/resources");
    }
    if !Path::new(&resource.source).is_absolute() {
        return Err("its source must be an absolute path");
    }
    Ok(())
}

/// The mounts, or which resource is not there any more.
pub fn mounts(resources: &[SessionResource]) -> Result<Vec<Mount>, String> {
    let mut mounts = Vec::new();
    for resource in resources {
        let wrong = |why: &str| format!("the resource `{}` ({}): {why}", resource.id, resource.source);
        check(resource).map_err(wrong)?;
        let source = PathBuf::from(&resource.source);
        // Resolved when the session was created; a link in its place since then is somebody's doing.
        if source.canonicalize().ok().as_deref() != Some(&*source) {
            return Err(wrong("it is not there any more, or a link stands in its place"));
        }
        let kind = match resource.access {
            ResourceAccess::ReadOnly => MountKind::ReadOnly { source },
            ResourceAccess::ReadWrite => MountKind::ReadWrite { source },
        };
        mounts.push(Mount { target: PathBuf::from(&resource.mount), kind });
    }
    Ok(mounts)
}
