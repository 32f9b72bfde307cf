//! The bound on the memory of the programs that runs start on the host: scripts, git, API servers, scanners, commands for
//! credentials and signatures. While a run goes on they share one cgroup, if this machine has one for us; otherwise each has
//! a limit of its own.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sandbox::HostPrograms;

/// The variable that sets the bound, in mebibytes.
pub const VARIABLE: &str = "FULLSEND_HOST_MEMORY_MB";

/// The lowest bound: git needs this much.
const LEAST: u64 = 1 << 30;

/// The group of the runs of this process, as long as one holds it.
static GROUP: Mutex<Weak<HostPrograms>> = Mutex::new(Weak::new());

/// Why the bound cannot be used.
#[derive(Debug)]
pub struct InvalidMemory(String);

impl std::fmt::Display for InvalidMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "`{}` is not a valid {VARIABLE}: it must be a whole number of mebibytes greater than 0",
            self.0
        )
    }
}

impl std::error::Error for InvalidMemory {}

/// The bound in bytes: that of the environment, or half of the machine's memory.
pub fn bytes(environment: &BTreeMap<String, String>) -> Result<u64, InvalidMemory> {
    match environment.get(VARIABLE) {
        None => Ok(default_bytes()),
        Some(text) => match text.parse::<u64>() {
            Ok(mebibytes) if mebibytes > 0 => Ok(mebibytes.saturating_mul(1 << 20)),
            _ => Err(InvalidMemory(text.clone())),
        },
    }
}

fn default_bytes() -> u64 {
    let about = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = about.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = total.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    (kibibytes.unwrap_or_default() << 10 >> 1).max(LEAST)
}

/// The group of this process, for as long as the value lives. Runs at the same time share the group and the bound of the
/// first.
pub fn hold(bytes: u64) -> Arc<HostPrograms> {
    let mut group = GROUP.lock().unwrap_or_else(PoisonError::into_inner);
    group.upgrade().unwrap_or_else(|| {
        let made = Arc::new(HostPrograms::with_cgroup(bytes));
        *group = Arc::downgrade(&made);
        made
    })
}

/// Bounds a program that is about to be started. Outside a run it has a limit of its own.
pub fn admit(command: &mut Command) -> std::io::Result<Arc<HostPrograms>> {
    let group = GROUP.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
    let group = group.unwrap_or_else(|| Arc::new(HostPrograms::each(default_bytes())));
    group.admit(command)?;
    Ok(group)
}

/// What happened to a program that the kernel killed for the memory of its group.
pub fn exceeded(bytes: u64) -> String {
    let mebibytes = bytes >> 20;
    format!(
        "the programs that a run starts on the host took more than {mebibytes} MiB; set {VARIABLE} to allow more"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_a_number_of_mebibytes() {
        let of = |text: &str| bytes(&BTreeMap::from([(VARIABLE.to_owned(), text.to_owned())]));
        assert_eq!(of("64").unwrap(), 64 << 20);
        for text in ["", "0", "-1", "1.5", "4G"] {
            let error = of(text).unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}` is not a valid {VARIABLE}")), "{error}");
        }
        assert!(bytes(&BTreeMap::new()).unwrap() >= LEAST);
    }
}
