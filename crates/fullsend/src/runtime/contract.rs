//! What a runtime is, as data: its name, the versions it was tested with, where its configuration lives inside, which
//! hooks we give it and what those can do. Whatever is said elsewhere about a runtime (the matrix, the check of options,
//! the launch) is computed from here.

use crate::guard::dialect;
use crate::harness::names::RuntimeName;

/// One runtime.
#[derive(Clone, Copy, Debug)]
pub struct Contract {
    pub name: RuntimeName,
    /// Its program, if it is not our own.
    pub program: Option<Package>,
    /// Its configuration and state, inside.
    pub config_directory: &'static str,
    /// The hooks that a launch installs, all of them one command, under the runtime's own names for them.
    pub hooks: &'static [(Hook, &'static str)],
    /// Whether a hook's process that dies or hangs stops the call by itself. Where it does not, the gateway stops the run.
    pub dead_hook_blocks: bool,
    /// Whether a hook can change what the model sees of a result. Where it cannot, the gateway does.
    pub hook_rewrites: bool,
    /// What it leaves to read beside its transcript.
    pub debug_log: Option<&'static str>,
}

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    Start,
    Before,
    After,
    AfterFailure,
}

/// Where the program comes from.
#[derive(Clone, Copy, Debug)]
pub struct Package {
    /// The npm package for this platform alone; `{arch}` and `{version}` are filled in.
    pub spec: &'static str,
    /// The directory below `node_modules` that is mounted; `{arch}` and `{triple}` are filled in.
    pub directory: &'static str,
    /// The program in it.
    pub executable: &'static str,
    /// What it is called on a PATH.
    pub command: &'static str,
    /// The version that we test with and install.
    pub tested: Version,
    /// What npm must find it to be, by `{arch}`.
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

const CLAUDE: Contract = Contract {
    name: RuntimeName::Claude,
    program: Some(Package {
        spec: "@anthropic-ai/claude-code-linux-{arch}@{version}",
        directory: "@anthropic-ai/claude-code-linux-{arch}",
        executable: "claude",
        command: "claude",
        tested: Version(2, 1, 325),
        integrity: &[
            (
                "x64",
                "sha512-BqZzMvP/zgLLL34S+7OzbG+cyoFp7gwWHU5koVwsyMlTAz+0zZAmbY+UkzvtN2RXxp6AcMenbYIjQJxoXfUY3w==",
            ),
            (
                "arm64",
                "sha512-NCvQcOxr685Y4mkYUjQT8l/Ouzw0k2xWloWeyzfsUtWiOedHosPkaW6XCSpzAl1dMuvDNBF97qpWgVDrSdK2Vw==",
            ),
        ],
        below: Version(2, 2, 0),
    }),
    config_directory: "/sandbox/claude-config",
    hooks: &[
        (Hook::Start, "SessionStart"),
        (Hook::Before, "PreToolUse"),
        (Hook::After, "PostToolUse"),
        (Hook::AfterFailure, "PostToolUseFailure"),
    ],
    dead_hook_blocks: true,
    hook_rewrites: true,
    debug_log: Some("claude-debug.log"),
};

const CODEX: Contract = Contract {
    name: RuntimeName::Codex,
    program: Some(Package {
        spec: "@openai/codex@{version}-linux-{arch}",
        directory: "@openai/codex/vendor/{triple}-unknown-linux-musl",
        executable: "bin/codex",
        command: "codex",
        tested: Version(0, 166, 0),
        integrity: &[
            (
                "x64",
                "sha512-CxDm3+D1cpbGJeHrdzINoG+3wn9BVncP4qpZaaNYkxe8iPtRJOYyCJnnPoVjWRIBvI9vPKbRoifsMSA5xDaUpw==",
            ),
            (
                "arm64",
                "sha512-w0ScAsBr9aZKtIFrh6HN6KU2yjKKeSCzYfbb7DB0Ccj4BYPzeZtUeQprbycLCwuX3AFQdbdjapmLho2iot74jQ==",
            ),
        ],
        below: Version(0, 167, 0),
    }),
    config_directory: "/sandbox/codex-config",
    hooks: &[
        (Hook::Start, "SessionStart"),
        (Hook::Before, "PreToolUse"),
        (Hook::After, "PostToolUse"),
        // Failed commands come as `PostToolUse` too.
        (Hook::AfterFailure, "PostToolUse"),
    ],
    dead_hook_blocks: false,
    hook_rewrites: true,
    debug_log: None,
};

const NATIVE: Contract = Contract {
    name: RuntimeName::Native,
    program: None,
    config_directory: "/sandbox/native-config",
    hooks: &[
        (Hook::Start, "start"),
        (Hook::Before, "before"),
        (Hook::After, "after"),
        (Hook::AfterFailure, "after"),
    ],
    dead_hook_blocks: true,
    hook_rewrites: true,
    debug_log: None,
};

pub const ALL: [&Contract; 3] = [&CLAUDE, &CODEX, &NATIVE];

pub fn of(name: RuntimeName) -> &'static Contract {
    match name {
        RuntimeName::Claude => &CLAUDE,
        RuntimeName::Codex => &CODEX,
        RuntimeName::Native => &NATIVE,
    }
}

impl Contract {
    /// The names of the hooks to install, each once.
    pub fn hook_names(&self) -> Vec<&'static str> {
        let mut names: Vec<&str> = self.hooks.iter().map(|(_, name)| *name).collect();
        names.dedup();
        names
    }

    /// Whether something of ours runs at that moment.
    pub fn hooked(&self, moment: Hook) -> bool {
        self.hooks.iter().any(|(hook, _)| *hook == moment)
    }

    /// Tools that it runs without asking its hooks; the gateway judges them.
    pub fn tools_without_hooks(&self) -> &'static [&'static str] {
        dialect::habits(self.name).tools_without_hooks
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
