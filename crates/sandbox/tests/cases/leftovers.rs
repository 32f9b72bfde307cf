//! Leftovers: a sweep removes those of a dead owner, and touches nothing of a living one.

use crate::runner::Case;
use crate::world::{World, shell};
use sandbox::sweep;

pub(crate) const CASES: &[Case] = &[Case { name: "only_the_dead_are_swept", run: only_the_dead }];

fn only_the_dead(world: &World) {
    let states = world.make_directory("states");
    let mut spec = world.spec();
    spec.state_directory = states.join("living");
    let sandbox = world.start(spec);
    // What a killed owner leaves: a lock that nobody holds, layers, and a note of a cgroup that is gone already.
    let dead = states.join("dead");
    std::fs::create_dir_all(dead.join("layers/view-0/work/work")).unwrap();
    std::fs::write(dead.join("lock"), "").unwrap();
    std::fs::write(dead.join("cgroups"), "/sys/fs/cgroup/fullsend-0-0\n").unwrap();
    // Without a lock it is being made right now.
    let young = states.join("young");
    std::fs::create_dir(&young).unwrap();
    let swept = sweep(&states).unwrap();
    assert_eq!(swept.removed, [dead]);
    assert_eq!(swept.alive.len(), 2);
    assert!(swept.failed.is_empty(), "{swept:?}");
    assert!(shell(&sandbox, "true").exit.success());
    sandbox.close().unwrap();
    assert!(sweep(&world.directory.join("nothing")).unwrap().removed.is_empty());
}
