//! Rewrites git's configuration, so that the host's next `git status` runs a program. [qwen-code#11614]

use super::{Attack, Cell, Workspace};
use crate::world::{World, shell};
use std::process::Command;

pub(crate) const ATTACK: Attack = Attack { number: 6, name: "git configuration", held, works_without_layer };

fn git(world: &World, arguments: &[&str]) -> Option<()> {
    let mut command = Command::new("git");
    command.args(arguments).current_dir(world.directory.join("work")).env("HOME", &world.directory);
    command.output().ok().map(drop)
}

fn program_ran(world: &World, workspace: Workspace) -> Option<bool> {
    let directory = workspace.directory(world);
    git(world, &["init", "-q"])?;
    std::fs::write(directory.join("file"), "x").unwrap();
    git(world, &["add", "file"])?;
    let ran = world.directory.join("ran");
    let program = world.directory.join("program");
    std::fs::write(&program, format!("#!/bin/sh\ntouch {}\n", ran.display())).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (_, sandbox) = workspace.start(world)?;
    let script = format!("printf '[core]\n\tfsmonitor = {}\n' >>/work/.git/config", program.display());
    assert!(shell(&sandbox, &script).exit.success());
    sandbox.close().unwrap();
    git(world, &["status"])?;
    Some(ran.exists())
}

fn held(world: &World) -> Cell {
    match program_ran(world, Workspace::View) {
        Some(ran) => assert!(!ran),
        None => return Cell::Reason("no git on this machine"),
    }
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    Cell::bit(program_ran(world, Workspace::ReadWrite))
}
