//! The tools that an agent may use, by name. An allowlist that is on but empty is a setup error.

use std::collections::BTreeSet;
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowlist {
    names: BTreeSet<String>,
}

/// The allowlist is on and names no tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmptyAllowlist;

impl fmt::Display for EmptyAllowlist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the tool allowlist is on but FULLSEND_TOOL_ALLOWLIST names no tool; list them, separated by commas")
    }
}

impl std::error::Error for EmptyAllowlist {}

impl Allowlist {
    /// Reads `Bash, Read,Write`.
    pub fn parse(list: &str) -> Result<Self, EmptyAllowlist> {
        let names: BTreeSet<String> =
            list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        if names.is_empty() { Err(EmptyAllowlist) } else { Ok(Allowlist { names }) }
    }

    /// Names are compared as they are written: a tool with another case is another tool.
    pub fn allows(&self, tool: &str) -> bool {
        self.names.contains(tool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_exact_and_an_empty_list_is_an_error() {
        let list = Allowlist::parse(" Bash, Read ,,").unwrap();
        assert!(list.allows("Bash") && list.allows("Read"));
        assert!(!list.allows("bash") && !list.allows("Write") && !list.allows(""));
        assert_eq!(Allowlist::parse(" , "), Err(EmptyAllowlist));
    }
}
