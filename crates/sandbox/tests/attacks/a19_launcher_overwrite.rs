//! Overwrites the program that started the sandbox. [CVE-2019-5736]

use super::{Attack, Cell, PROGRAM};
use crate::world::{World, shell};

pub(crate) const ATTACK: Attack =
    Attack { number: 19, name: "overwritten launcher", held, works_without_layer };

fn held(world: &World) -> Cell {
    let before = std::fs::read("/proc/self/exe").unwrap();
    let mut spec = world.spec();
    spec.program = Some(PROGRAM.into());
    let sandbox = world.start(spec);
    let script = format!(
        "for f in {PROGRAM} /proc/1/exe /proc/self/exe; do echo x >$f && echo wrote; truncate -s 0 $f && echo wrote; \
         chmod 777 $f && echo wrote; rm -f $f && echo wrote; done 2>/dev/null; true"
    );
    assert_eq!(shell(&sandbox, &script).stdout, "");
    sandbox.close().unwrap();
    assert!(std::fs::read("/proc/self/exe").unwrap() == before);
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    let shared = world.make_directory("shared");
    std::fs::write(shared.join("program"), "launcher").unwrap();
    let mut spec = world.spec();
    let kind = sandbox::MountKind::ReadWrite { source: shared.clone() };
    spec.mounts.push(sandbox::Mount { target: "/opt".into(), kind });
    let Some(sandbox) = world.start_or_skip(spec) else { return Cell::NO_MAPS };
    assert!(shell(&sandbox, "echo evil >/opt/program").exit.success());
    sandbox.close().unwrap();
    Cell::bit(Some(std::fs::read_to_string(shared.join("program")).unwrap() == "evil\n"))
}
