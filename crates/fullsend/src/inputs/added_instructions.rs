//! Instruction files that a repository lacks and its agent should find: the organisation's AGENTS.md where there is none,
//! and for Claude Code, which does not read that name, a CLAUDE.md that points to it. Names are compared without case.

/// A file that is put into the agent's view of the repository, and that git ignores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedFile {
    pub name: &'static str,
    pub contents: String,
}

/// `present` are the names at the root of the repository; `own` is the one that the runtime reads.
pub fn added(present: &[String], default: Option<&str>, own: &'static str) -> Vec<AddedFile> {
    let find = |wanted: &str| present.iter().find(|name| name.eq_ignore_ascii_case(wanted));
    let mut all = Vec::new();
    let agents = match (find("AGENTS.md"), default) {
        (Some(name), _) => Some(name.as_str()),
        (None, Some(contents)) => {
            all.push(AddedFile { name: "AGENTS.md", contents: contents.to_owned() });
            Some("AGENTS.md")
        }
        (None, None) => None,
    };
    if let Some(agents) = agents.filter(|_| own != "AGENTS.md" && find(own).is_none()) {
        all.push(AddedFile { name: own, contents: format!("@{agents}\n") });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_instruction_files_are_added() {
        let check = |present: &[&str], default: Option<&str>, own, expected: &[(&str, &str)]| {
            let present: Vec<String> = present.iter().map(|name| (*name).to_owned()).collect();
            let made = added(&present, default, own);
            let made: Vec<(&str, &str)> = made.iter().map(|one| (one.name, one.contents.as_str())).collect();
            assert_eq!(made, expected, "{present:?}");
        };
        let claude = "CLAUDE.md";
        let native = "AGENTS.md";
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
