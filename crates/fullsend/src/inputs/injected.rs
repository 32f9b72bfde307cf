//! Instruction files that a repository lacks and its agent should find: the organisation's AGENTS.md where there is none,
//! and for Claude Code, which does not read that name, a CLAUDE.md that points to it. A name in another case is the name.

use crate::harness::names::RuntimeName;

/// A file that is put into the agent's view of the repository, and that git is told to ignore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injected {
    pub name: &'static str,
    pub contents: String,
}

/// `present` are the names at the root of the repository.
pub fn injected(present: &[String], default: Option<&str>, runtime: RuntimeName) -> Vec<Injected> {
    let find = |wanted: &str| present.iter().find(|name| name.eq_ignore_ascii_case(wanted));
    let mut all = Vec::new();
    let agents = match (find("AGENTS.md"), default) {
        (Some(name), _) => Some(name.as_str()),
        (None, Some(contents)) => {
            all.push(Injected { name: "AGENTS.md", contents: contents.to_owned() });
            Some("AGENTS.md")
        }
        (None, None) => None,
    };
    if let (Some(agents), None, RuntimeName::Claude) = (agents, find("CLAUDE.md"), runtime) {
        all.push(Injected { name: "CLAUDE.md", contents: format!("@{agents}\n") });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_rules() {
        let check = |present: &[&str], default: Option<&str>, runtime, expected: &[(&str, &str)]| {
            let present: Vec<String> = present.iter().map(|name| (*name).to_owned()).collect();
            let made = injected(&present, default, runtime);
            let made: Vec<(&str, &str)> = made.iter().map(|one| (one.name, one.contents.as_str())).collect();
            assert_eq!(made, expected, "{present:?}");
        };
        let (claude, native) = (RuntimeName::Claude, RuntimeName::Native);
        let ours = ("AGENTS.md", "ours");
        check(&[], None, claude, &[]);
        check(&[], Some("ours"), native, &[ours]);
        check(&[], Some("ours"), claude, &[ours, ("CLAUDE.md", "@AGENTS.md\n")]);
        check(&["CLAUDE.md"], Some("ours"), claude, &[ours]);
        check(&["AGENTS.md"], Some("ours"), native, &[]);
        check(&["agents.md"], Some("ours"), claude, &[("CLAUDE.md", "@agents.md\n")]);
        check(&["Agents.md", "claude.MD"], Some("ours"), claude, &[]);
    }
}
