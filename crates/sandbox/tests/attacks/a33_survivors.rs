//! Multiplies and hides, so that something of it survives.

use super::{Attack, Cell};
use crate::world::{World, shell};
use std::time::{Duration, Instant};

pub(crate) const ATTACK: Attack =
    Attack { number: 33, name: "bombs and survivors", held, works_without_layer };

const BOMB: &str = "f() { f | f & }; f";
const HIDE: &str =
    "setsid sh -c 'trap \"\" TERM HUP; setsid sleep 7777 & sleep 7777' </dev/null >/dev/null 2>&1 & echo";

fn held(world: &World) -> Cell {
    let mut spec = world.spec();
    spec.limits.processes = Some(100);
    let sandbox = world.start(spec);
    assert!(shell(&sandbox, HIDE).exit.success());
    let bomb = sandbox.exec(sandbox::Command::new(["bash", "-c", BOMB])).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    drop(bomb);
    let begun = Instant::now();
    sandbox.close().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    Cell::Yes
}

fn works_without_layer(_: &World) -> Cell {
    let mut parent =
        std::process::Command::new("sh").arg("-c").arg(format!("{HIDE}; sleep 60")).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let family = descendants(parent.id());
    parent.kill().unwrap();
    parent.wait().unwrap();
    let survivors: Vec<u32> = family.into_iter().filter(|pid| sleeps(*pid)).collect();
    for pid in &survivors {
        let pid = rustix::process::Pid::from_raw(i32::try_from(*pid).unwrap()).unwrap();
        drop(rustix::process::kill_process(pid, rustix::process::Signal::KILL).map_err(std::io::Error::from));
    }
    Cell::bit(Some(!survivors.is_empty()))
}

fn descendants(pid: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children: Vec<u32> = children.split_whitespace().map(|child| child.parse().unwrap()).collect();
    children.iter().flat_map(|child| [vec![*child], descendants(*child)].concat()).collect()
}

fn sleeps(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"sleep\x007777"))
}
