//! Reads the secrets in the environment of what started it.

use super::{Attack, Cell};
use crate::world::{World, shell};

pub(crate) const ATTACK: Attack =
    Attack { number: 32, name: "inherited environment", held, works_without_layer };

const TRY: &str = "cat /proc/1/environ /proc/self/environ /proc/$PPID/environ 2>/dev/null | tr '\\0' '\\n'";

/// Names that this very process has in its environment.
fn own_names() -> Vec<String> {
    let own = std::fs::read("/proc/self/environ").unwrap();
    let text = String::from_utf8_lossy(&own).into_owned();
    let names = text.split('\0').filter_map(|line| line.split_once('=')).map(|(name, _)| name.to_owned());
    names.filter(|name| name != "PATH" && name != "PWD" && name != "_" && name != "SHLVL").collect()
}

fn leaked(text: &str) -> bool {
    own_names().iter().any(|name| text.lines().any(|line| line.starts_with(&format!("{name}="))))
}

fn held(world: &World) -> Cell {
    let sandbox = world.start(world.spec());
    let output = shell(&sandbox, TRY);
    sandbox.close().unwrap();
    assert!(!leaked(&output.stdout), "{}", output.stdout);
    assert!(output.stdout.contains("PATH=/usr/bin:/bin"));
    Cell::Yes
}

fn works_without_layer(_: &World) -> Cell {
    if own_names().is_empty() {
        return Cell::Reason("this process itself has no environment");
    }
    let output = std::process::Command::new("sh").arg("-c").arg(TRY).output().unwrap();
    Cell::bit(Some(leaked(&String::from_utf8_lossy(&output.stdout))))
}
