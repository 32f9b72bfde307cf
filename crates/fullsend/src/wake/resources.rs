//! A session's resources as mounts of its wakes. A resource is mounted below one directory of the workspace, so that it
//! cannot cover a file of fullsend's own. Its source is a path of the host, or a pinned URL that every worker can fetch.

use std::path::{Component, Path, PathBuf};

use sandbox::{Mount, MountKind};
use session::{ResourceAccess, SessionResource};

use super::prepare::PrepareError;
use crate::harness::reference::{PinnedUrl, UrlPin, UrlPrefix};
use crate::remote::{RemoteError, RemoteResources, RemoteUse};

/// The directory that resources are mounted below.
pub const MOUNTS_BELOW: &str = "/sandbox/workspace/resources";

/// The kind of a resource whose source is a pinned URL.
pub const REMOTE_KIND: &str = "remote";

/// Checks where a resource is mounted from and to.
pub fn check(resource: &SessionResource) -> Result<(), String> {
    let mount = Path::new(&resource.mount);
    let plain = mount.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !plain || !mount.starts_with(MOUNTS_BELOW) || mount == Path::new(MOUNTS_BELOW) {
        return Err("the mount must be below /sandbox/workspace/resources".to_owned());
    }
    if resource.kind == REMOTE_KIND {
        PinnedUrl::parse(&resource.source).map_err(|why| format!("the source {why}"))?;
        return match resource.access {
            ResourceAccess::ReadOnly => Ok(()),
            ResourceAccess::ReadWrite => Err("a resource from a URL cannot be written".to_owned()),
        };
    }
    if !Path::new(&resource.source).is_absolute() {
        return Err("the source must be an absolute path".to_owned());
    }
    Ok(())
}

/// Which remote resources of a session may be fetched, and how.
pub struct RemoteAccess<'a> {
    pub resources: &'a RemoteResources,
    /// The harness's prefixes.
    pub allowed: Vec<UrlPrefix>,
}

/// The mounts, or the resource that cannot be mounted.
pub fn mounts(resources: &[SessionResource], remote: &RemoteAccess<'_>) -> Result<Vec<Mount>, PrepareError> {
    let mut mounts = Vec::new();
    for resource in resources {
        let name = || format!("resource `{}` ({})", resource.id, resource.source);
        let wrong = |why: String| PrepareError::missing(format!("{}: {why}", name()));
        check(resource).map_err(wrong)?;
        let source = if resource.kind == REMOTE_KIND {
            let url = PinnedUrl::parse(&resource.source).map_err(wrong)?;
            if !remote.allowed.iter().any(|prefix| url.is_under(prefix)) {
                let why = "no prefix in the harness's `allowed_remote_resources` covers it";
                return Err(wrong(why.to_owned()));
            }
            fetch(&url, remote.resources).map_err(|error| match error {
                RemoteError::Digest { .. } | RemoteError::Files { .. } => wrong(error.to_string()),
                // A server that does not answer now may answer later.
                error => PrepareError::transient(format!("{}: {error}", name())),
            })?
        } else {
            path_of_host(&resource.source)
                .ok_or_else(|| wrong("the source is missing, or a symlink replaced it".to_owned()))?
        };
        let kind = match resource.access {
            ResourceAccess::ReadOnly => MountKind::ReadOnly { source },
            ResourceAccess::ReadWrite => MountKind::ReadWrite { source },
        };
        mounts.push(Mount { target: PathBuf::from(&resource.mount), kind });
    }
    Ok(mounts)
}

/// The path was resolved when the session was created. A symlink in it today was put there later.
fn path_of_host(source: &str) -> Option<PathBuf> {
    let source = PathBuf::from(source);
    (source.canonicalize().ok().as_deref() == Some(&*source)).then_some(source)
}

/// The file or directory in the private directory of this wake.
fn fetch(url: &PinnedUrl, remote: &RemoteResources) -> Result<PathBuf, RemoteError> {
    let is_file = matches!(url.pin, UrlPin::Sha256(_)) && !url.is_archive();
    let needed = if is_file { RemoteUse::File } else { RemoteUse::Directory };
    let placed = remote.place_unlocked(url, needed)?;
    let directory = remote.directory().ok_or(RemoteError::NoCache)?;
    let path = directory.join(placed.path());
    path.canonicalize().map_err(|source| RemoteError::Store { path, source })
}
