//! What the kernel says about itself and about this user, read without changing anything.

use crate::describe::Limit;
use crate::sys;
use std::fs;

/// What was found. `None` means that the kernel has no such switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub kernel: String,
    pub uid: u32,
    /// The highest Landlock level; 0 if there is none.
    pub landlock_level: i32,
    /// `user.max_user_namespaces`.
    pub max_user_namespaces: Option<u64>,
    /// Debian's `kernel.unprivileged_userns_clone`.
    pub unprivileged_userns_clone: Option<u64>,
    /// Ubuntu's `kernel.apparmor_restrict_unprivileged_userns`.
    pub apparmor_restrict_userns: Option<u64>,
    /// Whether a seccomp filter is on us already, as in a container.
    pub filtered: bool,
    /// Whether something covers parts of /proc, which makes the kernel refuse a fresh one.
    pub proc_is_covered: bool,
    /// The file systems that the kernel knows by now.
    pub has_overlay: bool,
    pub legacy_tiocsti: Option<u64>,
    pub cgroup: CgroupFact,
}

/// Which limits a cgroup could keep for us, and why not the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupFact {
    pub kept: Vec<(Limit, String)>,
    pub why_not: String,
}

impl Facts {
    pub(super) fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse().ok();
        Self {
            kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
            uid: rustix::process::geteuid().as_raw(),
            landlock_level: sys::landlock_level(),
            max_user_namespaces: number("/proc/sys/user/max_user_namespaces"),
            unprivileged_userns_clone: number("/proc/sys/kernel/unprivileged_userns_clone"),
            apparmor_restrict_userns: number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
            filtered: text("/proc/self/status").lines().any(|line| line == "Seccomp:\t2"),
            proc_is_covered: covers_proc(&text("/proc/self/mountinfo")),
            has_overlay: text("/proc/filesystems").lines().any(|line| line.ends_with("\toverlay")),
            legacy_tiocsti: number("/proc/sys/dev/tty/legacy_tiocsti"),
            cgroup: CgroupFact::default(),
        }
    }
}

/// Mounts below `/proc` other than the one that registers binary formats.
fn covers_proc(mountinfo: &str) -> bool {
    let target = |line: &str| line.split(' ').nth(4).map(str::to_owned);
    mountinfo
        .lines()
        .filter_map(target)
        .any(|target| target.starts_with("/proc/") && target != "/proc/sys/fs/binfmt_misc")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_covered_proc_is_seen() {
        let plain = "22 27 0:21 / /proc rw,relatime - proc proc rw\n";
        let docker =
            "22 27 0:21 / /proc rw - proc proc rw\n23 22 0:6 /null /proc/kcore rw - devtmpfs devtmpfs rw\n";
        let registered =
            "22 27 0:21 / /proc rw - proc proc rw\n23 22 0:40 / /proc/sys/fs/binfmt_misc rw - x x rw\n";
        assert!(!covers_proc(plain));
        assert!(covers_proc(docker));
        assert!(!covers_proc(registered));
    }
}
