//! The paths that every sandbox needs to run anything at all. OpenShell adds them to each policy silently; here they
//! are marked, so that the effective policy can be shown. OpenShell also adds `/var/log`: here it would be the host's,
//! so a policy that wants it names it.

use crate::model::Policy;
use crate::read::beneath;

pub const READ_ONLY: &[&str] = &["/usr", "/lib", "/etc", "/app", "/proc", "/dev/urandom"];
pub const READ_WRITE: &[&str] = &["/tmp"];

/// The paths of a sandbox, policy and baseline together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectivePaths {
    pub include_workdir: bool,
    pub paths: Vec<EffectivePath>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectivePath {
    pub path: String,
    pub access: PathAccess,
    pub origin: PathOrigin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathAccess {
    ReadOnly,
    ReadWrite,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathOrigin {
    Policy(yaml::Span),
    /// Added for every sandbox; skipped where it does not exist.
    Baseline,
}

/// Adds what the policy does not already cover.
pub fn baseline(policy: &Policy) -> EffectivePaths {
    let filesystem = &policy.filesystem;
    let listed = |paths: &[yaml::Spanned<String>], access| {
        let own = |path: &yaml::Spanned<String>| EffectivePath {
            path: path.value.clone(),
            access,
            origin: PathOrigin::Policy(path.at),
        };
        paths.iter().map(own).collect::<Vec<_>>()
    };
    let mut paths = listed(&filesystem.read_only, PathAccess::ReadOnly);
    paths.extend(listed(&filesystem.read_write, PathAccess::ReadWrite));
    for (added, access) in [(READ_ONLY, PathAccess::ReadOnly), (READ_WRITE, PathAccess::ReadWrite)] {
        for path in added {
            let covered = paths.iter().any(|known| {
                beneath(path, &known.path)
                    && (known.access == access || known.access == PathAccess::ReadWrite)
            });
            if !covered {
                paths.push(EffectivePath { path: (*path).to_owned(), access, origin: PathOrigin::Baseline });
            }
        }
    }
    EffectivePaths { include_workdir: filesystem.includes_workdir(), paths }
}

impl EffectivePaths {
    /// The access to a path, which must not contain `.` or `..`. The sandbox resolves symbolic links.
    pub fn access(&self, path: &str) -> Option<PathAccess> {
        let mut found = None;
        for entry in self.paths.iter().filter(|entry| beneath(path, &entry.path)) {
            if entry.access == PathAccess::ReadWrite {
                return Some(PathAccess::ReadWrite);
            }
            found = Some(PathAccess::ReadOnly);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use yaml::Sources;

    use super::{PathAccess, PathOrigin, baseline};
    use crate::Policy;

    /// Every path with its access; those that were added have a plus.
    fn effective(text: &str) -> String {
        let mut sources = Sources::default();
        let id = sources.add("p", text);
        let policy = Policy::parse(&sources, id).unwrap().policy;
        let all = baseline(&policy);
        let show = |access| if access == PathAccess::ReadWrite { "rw" } else { "ro" };
        let paths = all.paths.iter().map(|path| {
            let plus = if path.origin == PathOrigin::Baseline { "+" } else { "" };
            format!("{plus}{}:{}", path.path, show(path.access))
        });
        paths.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_added_is_marked_and_nothing_is_added_twice() {
        for (text, expected) in [
            ("version: 1", "+/usr:ro +/lib:ro +/etc:ro +/app:ro +/proc:ro +/dev/urandom:ro +/tmp:rw"),
            (
                "version: 1\nfilesystem_policy: {read_only: [/usr, /var], read_write: [/tmp, /work]}",
                "/usr:ro /var:ro /tmp:rw /work:rw +/lib:ro +/etc:ro +/app:ro +/proc:ro +/dev/urandom:ro",
            ),
            ("version: 1\nfilesystem_policy: {read_only: [/, /tmp]}", "/:ro /tmp:ro +/tmp:rw"),
            (
                "version: 1\nfilesystem_policy: {read_write: [/etc]}",
                "/etc:rw +/usr:ro +/lib:ro +/app:ro +/proc:ro +/dev/urandom:ro +/tmp:rw",
            ),
        ] {
            assert_eq!(effective(text), expected, "{text}");
        }
    }
}
