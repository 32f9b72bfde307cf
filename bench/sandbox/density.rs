//! Many sandboxes at once: what each takes in memory, beside the command that runs in it.

use crate::{peers, spec};
use sandbox::{Command, Sandbox};
use std::path::Path;
use std::time::{Duration, Instant};

const COUNT: usize = 200;
const COMMAND: [&str; 2] = ["sleep", "86400"];

pub(crate) fn compare(place: &Path) {
    let before = own_pss(std::process::id());
    let begun = Instant::now();
    let mut sandboxes = Vec::new();
    for number in 0..COUNT {
        let sandbox = Sandbox::start(spec::full(place, &format!("dense-{number}"))).unwrap();
        sandbox.exec(Command::new(COMMAND)).unwrap();
        sandboxes.push(sandbox);
    }
    let up = begun.elapsed();
    let beside: u64 = sandboxes.iter().map(|sandbox| own_pss(sandbox.host_pid())).sum();
    let ours = (beside + own_pss(std::process::id()).saturating_sub(before)) / COUNT as u64;
    let begun = Instant::now();
    drop(sandboxes);
    println!("# {COUNT} sandboxes up in {:.0} ms, gone in {:.0} ms", ms(up), ms(begun.elapsed()));
    println!("density/aim {ours} 3072 {:.3}", ours as f64 / 3072.0);
    let Some(bubblewrap) = peers::bubblewrap().filter(|peer| peer.run(&["true"])) else { return };
    let mut children: Vec<_> = (0..COUNT).map(|_| bubblewrap.command(&COMMAND).spawn().unwrap()).collect();
    std::thread::sleep(Duration::from_secs(3));
    let theirs: u64 = children.iter().map(|child| tree_pss(child.id())).sum::<u64>() / COUNT as u64;
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    println!("density-kb/bwrap {ours} {theirs} {:.3}", ours as f64 / theirs as f64);
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Of one process, in KiB.
fn own_pss(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// Of a process and all below it, but for the command itself.
fn tree_pss(pid: u32) -> u64 {
    let command = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let own = if command.trim() == COMMAND[0] { 0 } else { own_pss(pid) };
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    own + children.split_whitespace().filter_map(|child| child.parse().ok()).map(tree_pss).sum::<u64>()
}
