//! What the facts mean for a sandbox, and the command that fixes a problem. Pure.

use super::facts::Facts;
use crate::describe::Limit;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckState {
    Good,
    /// A sandbox can start, but this part is weaker.
    Weak,
    /// No sandbox starts.
    Bad,
}

/// One question, its answer, and what would fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    pub state: CheckState,
    pub found: String,
    pub fix: Option<String>,
}

/// The first level with truncation, device commands and scopes.
const FULL_LANDLOCK: i32 = 6;

/// The checks, most fundamental first.
pub fn diagnose(facts: &Facts) -> Vec<Check> {
    vec![
        kernel(facts),
        user_namespaces(facts),
        fresh_proc(facts),
        landlock(facts),
        overlay(facts),
        cgroups(facts),
        identity(facts),
    ]
}

fn good(name: &'static str, found: impl Into<String>) -> Check {
    Check { name, state: CheckState::Good, found: found.into(), fix: None }
}

fn not_good(name: &'static str, state: CheckState, found: impl Into<String>, fix: &str) -> Check {
    Check { name, state, found: found.into(), fix: Some(fix.to_owned()) }
}

/// Since 5.12 the kernel has all mount calls that take descriptors; since 5.11 overlays for ordinary users.
fn kernel(facts: &Facts) -> Check {
    let mut numbers = facts.kernel.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= (5, 12) {
        return good("kernel", facts.kernel.clone());
    }
    not_good(
        "kernel",
        CheckState::Bad,
        facts.kernel.clone(),
        "use a kernel of 5.12 or newer (6.12 has every layer)",
    )
}

fn user_namespaces(facts: &Facts) -> Check {
    let name = "user-namespaces";
    let bad = |found: &str, fix| not_good(name, CheckState::Bad, found, fix);
    let ordinary = facts.uid != 0;
    if facts.max_user_namespaces == Some(0) {
        return bad("user.max_user_namespaces is 0", "sudo sysctl -w user.max_user_namespaces=10000");
    }
    if ordinary && facts.unprivileged_userns_clone == Some(0) {
        return bad(
            "kernel.unprivileged_userns_clone is 0",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        );
    }
    if ordinary && facts.apparmor_restrict_userns == Some(1) {
        return bad(
            "AppArmor forbids user namespaces for ordinary users",
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or give the program an AppArmor profile \
             with `userns,`",
        );
    }
    if facts.filtered {
        return not_good(
            name,
            CheckState::Weak,
            "a seccomp filter is on this process already; a container's default one refuses namespaces",
            "docker run --security-opt seccomp=unconfined, or a profile that allows unshare and mount",
        );
    }
    let most =
        facts.max_user_namespaces.map_or_else(|| "no limit".to_owned(), |most| format!("at most {most}"));
    good(name, format!("allowed, {most}"))
}

fn fresh_proc(facts: &Facts) -> Check {
    if !facts.proc_is_covered {
        return good("fresh-proc", "nothing covers /proc");
    }
    not_good(
        "fresh-proc",
        CheckState::Bad,
        "parts of /proc are covered, as in a container; the kernel refuses a fresh one",
        "docker run --security-opt systempaths=unconfined, or podman run --security-opt unmask=ALL",
    )
}

fn landlock(facts: &Facts) -> Check {
    let level = facts.landlock_level;
    match level {
        0 => not_good(
            "landlock",
            CheckState::Weak,
            "this kernel has none",
            "boot with lsm=landlock,… (CONFIG_SECURITY_LANDLOCK), or choose landlock.compatibility: best_effort",
        ),
        level if level < FULL_LANDLOCK => not_good(
            "landlock",
            CheckState::Weak,
            format!("level {level}, {FULL_LANDLOCK} is needed for truncation, device commands and scopes"),
            "use a kernel of 6.12 or newer, or choose landlock.compatibility: best_effort",
        ),
        level => good("landlock", format!("level {level}")),
    }
}

fn overlay(facts: &Facts) -> Check {
    if facts.has_overlay {
        return good("overlay", "views share the host's files");
    }
    let found = "overlayfs is not loaded; views are copied";
    not_good("overlay", CheckState::Weak, found, "sudo modprobe overlay")
}

fn cgroups(facts: &Facts) -> Check {
    let kept: Vec<String> =
        facts.cgroup.kept.iter().map(|(limit, how)| format!("{limit} by {how}")).collect();
    let has_memory = facts.cgroup.kept.iter().any(|(limit, _)| *limit == Limit::Memory);
    if has_memory {
        return good("cgroups", kept.join(", "));
    }
    not_good(
        "cgroups",
        CheckState::Weak,
        format!("memory is watched, not enforced: {}", facts.cgroup.why_not),
        "start it with systemd-run --user --scope -p Delegate=yes, or as root",
    )
}

fn identity(facts: &Facts) -> Check {
    match facts.uid {
        0 => good("identity", "root; the sandbox gets a fresh uid that no one has"),
        uid => good("identity", format!("uid {uid}; the sandbox's uid is mapped to it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy() -> Facts {
        Facts {
            kernel: "6.12.1-generic".to_owned(),
            uid: 1000,
            landlock_level: 6,
            max_user_namespaces: Some(1000),
            has_overlay: true,
            ..Facts::default()
        }
    }

    fn check(facts: &Facts, name: &str, state: CheckState, fix: &str) {
        let checks = diagnose(facts);
        let found = checks.iter().find(|check| check.name == name).unwrap();
        assert_eq!(found.state, state, "{found:?}");
        assert!(found.fix.clone().unwrap_or_default().contains(fix), "{found:?}");
    }

    #[test]
    fn a_healthy_machine_is_good_but_for_delegation() {
        let bad: Vec<_> =
            diagnose(&healthy()).into_iter().filter(|check| check.state != CheckState::Good).collect();
        assert_eq!(bad.iter().map(|check| check.name).collect::<Vec<_>>(), ["cgroups"]);
        check(&healthy(), "cgroups", CheckState::Weak, "Delegate=yes");
    }

    #[test]
    fn every_missing_feature_has_a_fix() {
        let ubuntu = Facts { apparmor_restrict_userns: Some(1), ..healthy() };
        check(&ubuntu, "user-namespaces", CheckState::Bad, "apparmor_restrict_unprivileged_userns=0");
        check(&Facts { uid: 0, ..ubuntu }, "user-namespaces", CheckState::Good, "");
        let debian = Facts { unprivileged_userns_clone: Some(0), ..healthy() };
        check(&debian, "user-namespaces", CheckState::Bad, "unprivileged_userns_clone=1");
        let none = Facts { max_user_namespaces: Some(0), uid: 0, ..healthy() };
        check(&none, "user-namespaces", CheckState::Bad, "max_user_namespaces");
        let docker = Facts { proc_is_covered: true, filtered: true, ..healthy() };
        check(&docker, "fresh-proc", CheckState::Bad, "unmask=ALL");
        check(&docker, "user-namespaces", CheckState::Weak, "seccomp=unconfined");
        check(&Facts { landlock_level: 4, ..healthy() }, "landlock", CheckState::Weak, "6.12");
        check(&Facts { landlock_level: 0, ..healthy() }, "landlock", CheckState::Weak, "lsm=landlock");
        check(&Facts { kernel: "5.4.0".to_owned(), ..healthy() }, "kernel", CheckState::Bad, "5.12");
        check(&Facts { has_overlay: false, ..healthy() }, "overlay", CheckState::Weak, "modprobe");
    }
}
