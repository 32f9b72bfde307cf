//! Runs every case and every attack once as root and once as an ordinary user. As root it starts a copy of this very
//! binary under another uid for the second half; as an ordinary user it can only do that half, and says so.

use crate::attacks::{self, Attack, Cell};
use crate::table::{Question, Table};
use crate::world::{Who, World};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

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
    let wanted = |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter));
    let who = if rustix::process::geteuid().is_root() { Who::Root } else { Who::User };
    let mut table = Table::default();
    let mut failed =
        cases.iter().filter(|case| wanted(case.name)).filter(|case| !run_case(case, who)).count();
    for attack in attacks::ALL.iter().filter(|attack| wanted(&attack_name(attack))) {
        failed += usize::from(!run_attack(attack, who, &mut table));
    }
    let started_by_root = std::env::args().any(|argument| argument == USER_HALF);
    let user_half_passed = match (who, started_by_root) {
        (Who::Root, _) => run_as_user(&filters, &mut table),
        (Who::User, true) => true,
        (Who::User, false) => skip("the root half: not started as root"),
    };
    if started_by_root {
        table.tell();
    } else {
        table.print();
        table.keep();
    }
    println!("{who}: {failed} failed");
    if failed == 0 && user_half_passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn attack_name(attack: &Attack) -> String {
    format!("attack_{:02}_{}", attack.number, attack.name.replace(' ', "_"))
}

fn run_case(case: &Case, who: Who) -> bool {
    let world = World::new(who, case.name);
    let passed = catch_unwind(AssertUnwindSafe(|| (case.run)(&world))).is_ok();
    println!("{:<6} {:<4} {}", if passed { "ok" } else { "FAILED" }, who, case.name);
    passed
}

fn run_attack(attack: &Attack, who: Who, table: &mut Table) -> bool {
    let mut passed = true;
    for (question, ask) in [(Question::Held, attack.held), (Question::Bit, attack.works_without_layer)] {
        let world = World::new(who, &format!("attack-{}-{question}", attack.number));
        let answer = catch_unwind(AssertUnwindSafe(|| ask(&world)));
        let text = match &answer {
            Ok(Cell::Yes) => "yes",
            Ok(Cell::Reason(reason)) => reason,
            Err(_) => "NO",
        };
        passed &= answer.is_ok();
        table.put(attack.number, who, question, text);
    }
    println!("{:<6} {:<4} {}", if passed { "ok" } else { "FAILED" }, who, attack_name(attack));
    passed
}

fn run_as_user(filters: &[String], table: &mut Table) -> bool {
    let directory = PathBuf::from(format!("/tmp/sandbox-tests-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let copy = directory.join("sandbox-tests");
    std::fs::copy("/proc/self/exe", &copy).unwrap();
    for path in [&directory, &copy] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new(&copy);
    let options = std::env::args().skip(1).filter(|argument| argument.starts_with("--"));
    command.arg(USER_HALF).args(options).args(filters).uid(ORDINARY_UID).gid(ORDINARY_UID).current_dir("/");
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
        if !table.hear(&line) {
            println!("{line}");
        }
    }
    let status = child.wait().unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    status.success()
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
