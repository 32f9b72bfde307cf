//! Where the program of a runtime comes from, and which versions of it are accepted.

/// Where the program comes from.
#[derive(Clone, Copy, Debug)]
pub struct Package {
    /// The npm package for this platform alone; `{arch}` and `{version}` are filled in.
    pub spec: &'static str,
    /// The directory below `node_modules` that is mounted; `{arch}` and `{triple}` are filled in.
    pub directory: &'static str,
    /// The same directory in a global installation, where the program is in a package of its own.
    pub global_directory: &'static str,
    /// The program in it.
    pub executable: &'static str,
    /// The program's name on a PATH.
    pub command: &'static str,
    /// The version that we test with and install.
    pub tested: Version,
    /// The integrity digest that npm must compute, by `{arch}`.
    pub integrity: &'static [(&'static str, &'static str)],
    /// The first one that is not accepted.
    pub below: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// The first three numbers in a text such as `2.1.325 (Claude Code)` or `codex-cli 0.166.0`.
    pub fn find(text: &str) -> Option<Self> {
        text.split(|c: char| !(c.is_ascii_digit() || c == '.')).find_map(|word| {
            let mut numbers = word.split('.').map(str::parse::<u32>);
            let version = Self(numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
            numbers.next().is_none().then_some(version)
        })
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        assert_eq!(Version::find("2.1.325 (Claude Code)"), Some(Version(2, 1, 325)));
        assert_eq!(Version::find("codex-cli 0.166.0\n"), Some(Version(0, 166, 0)));
        assert_eq!(Version::find("0.166.0-linux-x64"), Some(Version(0, 166, 0)));
        assert_eq!(Version::find("node v20 1.2"), None);
        assert!(Version(2, 1, 325) < Version(2, 2, 0) && Version(2, 10, 0) > Version(2, 9, 9));
    }
}
