//! Runs every case once as root and once as an ordinary user. As root it starts a copy of this very binary under another
//! uid for the second half; as an ordinary user it can only do that half, and says so.

use crate::world::{Who, World};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// An uid that owns nothing on any usual machine.
const ORDINARY_UID: u32 = 4242;

#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&World),
}

/// Tells the copy that it is the second half of a run.
const USER_HALF: &str = "--user-half";

pub(crate) fn run(cases: &[Case]) -> ExitCode {
    let filters: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let wanted = |case: &&Case| filters.is_empty() || filters.iter().any(|filter| case.name.contains(filter));
    let who = if rustix::process::geteuid().is_root() { Who::Root } else { Who::User };
    let failed = cases.iter().filter(wanted).filter(|case| !run_one(case, who)).count();
    let started_by_root = std::env::args().any(|argument| argument == USER_HALF);
    let user_half_passed = match (who, started_by_root) {
        (Who::Root, _) => run_as_user(&filters),
        (Who::User, true) => true,
        (Who::User, false) => skip("the root half: not started as root"),
    };
    println!("{who}: {failed} failed");
    if failed == 0 && user_half_passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_one(case: &Case, who: Who) -> bool {
    let world = World::new(who, case.name);
    let passed = catch_unwind(AssertUnwindSafe(|| (case.run)(&world))).is_ok();
    println!("{:<6} {:<4} {}", if passed { "ok" } else { "FAILED" }, who, case.name);
    passed
}

fn run_as_user(filters: &[String]) -> bool {
    let directory = PathBuf::from(format!("/tmp/sandbox-tests-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let copy = directory.join("sandbox-tests");
    std::fs::copy("/proc/self/exe", &copy).unwrap();
    for path in [&directory, &copy] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let status = Command::new(&copy)
        .arg(USER_HALF)
        .args(filters)
        .uid(ORDINARY_UID)
        .gid(ORDINARY_UID)
        .current_dir("/")
        .status();
    std::fs::remove_dir_all(&directory).unwrap();
    status.unwrap().success()
}

/// What this machine cannot do is written down where the gate looks for it.
pub(crate) fn skip(reason: &str) -> bool {
    println!("SKIP sandbox: {reason}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/skips.txt");
    if let Ok(mut file) = std::fs::OpenOptions::new().create(true).append(true).open(path) {
        writeln!(file, "SKIP sandbox: {reason}").unwrap();
    }
    true
}
