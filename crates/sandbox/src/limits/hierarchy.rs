//! Where this process is in the machine's cgroup hierarchies, read from /proc.

use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

/// One mounted hierarchy and our own directory in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hierarchy {
    pub(super) version: Version,
    /// Names of the controllers; empty for version two, where each directory lists its own.
    pub(super) controllers: Vec<String>,
    pub(super) mount: PathBuf,
    pub(super) own: PathBuf,
}

/// The hierarchies, from the texts of `/proc/self/mountinfo` and `/proc/self/cgroup`.
pub(super) fn parse(mountinfo: &str, own: &str) -> Vec<Hierarchy> {
    mountinfo.lines().filter_map(|line| parse_mount(line, own)).collect()
}

fn parse_mount(line: &str, own: &str) -> Option<Hierarchy> {
    let (place, kind) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let root = Path::new(place.next()?);
    let mount = Path::new(place.next()?);
    let mut kind = kind.split(' ');
    let (version, controllers) = match kind.next()? {
        "cgroup2" => (Version::Two, Vec::new()),
        "cgroup" => {
            let options = kind.nth(1)?.split(',').filter(|option| *option != "rw");
            (Version::One, options.map(str::to_owned).collect())
        }
        _ => return None,
    };
    let path = own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let number = parts.next()?;
        let names = parts.next()?;
        let path = parts.next()?;
        let ours = match version {
            Version::Two => number == "0" && names.is_empty(),
            Version::One => controllers.iter().any(|c: &String| names.split(',').any(|name| name == c)),
        };
        ours.then_some(path)
    })?;
    // Below a bind mount of a part of the hierarchy, only that part can be reached.
    let inner = Path::new(path).strip_prefix(root).ok()?;
    Some(Hierarchy { version, controllers, mount: mount.to_path_buf(), own: mount.join(inner) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_found() {
        let mounts = "25 1 0:22 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                      26 1 0:23 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw\n\
                      27 1 0:24 / /proc rw - proc proc rw\n";
        let own = "4:memory:/job/a\n0::/user.slice/x.scope\n";
        let found = parse(mounts, own);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].controllers, ["memory"]);
        assert_eq!(found[0].own, Path::new("/sys/fs/cgroup/memory/job/a"));
        assert_eq!(found[1].version, Version::Two);
        assert_eq!(found[1].own, Path::new("/sys/fs/cgroup/unified/user.slice/x.scope"));
    }

    #[test]
    fn a_container_sees_only_its_part() {
        let mounts = "30 1 0:22 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        assert_eq!(parse(mounts, "0::/docker/abc/inner\n")[0].own, Path::new("/sys/fs/cgroup/inner"));
        assert!(parse(mounts, "0::/other\n").is_empty());
        assert!(parse("garbage\n", "0::/\n").is_empty());
    }
}
