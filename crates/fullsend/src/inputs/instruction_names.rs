//! Which names of files and directories agents read as instructions, in lower case. Pure: nothing is read here.

use std::ffi::OsStr;
use std::path::Path;

use scan::Origin;

/// How deep to search for instructions, and how many entries to read.
pub(super) const MAX_DEPTH: usize = 24;
pub(super) const MAX_ENTRIES: usize = 500_000;

/// Names of single files, in lower case, in any directory.
pub(super) const FILES: &[&str] = &[
    "agents.md",
    "agents.override.md",
    "agent.md",
    "claude.md",
    "claude.local.md",
    ".claude.md",
    "codex.md",
    "gemini.md",
    ".gemini.md",
    "qwen.md",
    "crush.md",
    "warp.md",
    "soul.md",
    "hermes.md",
    ".hermes.md",
    "copilot-instructions.md",
    "airules.md",
    "conventions.md",
    "replit.md",
    "skill.md",
    "plugin.json",
    "marketplace.json",
    ".lsp.json",
    ".mcp.json",
    "mcp.json",
    "opencode.json",
    "opencode.jsonc",
    ".aider.conf.yml",
    ".cursorrules",
    ".windsurfrules",
    ".clinerules",
    ".roorules",
    ".roomodes",
    ".goosehints",
    ".rules",
];

/// Endings of files that are rules or prompts by their name.
pub(super) const ENDINGS: &[&str] =
    &[".mdc", ".instructions.md", ".prompt.md", ".chatmode.md", ".agent.md", ".rules.md"];

/// Directories in which every file counts. The last ones are our own names inside the sandbox.
pub(super) const DIRECTORIES: &[&str] = &[
    ".claude",
    ".codex",
    ".agents",
    ".agent",
    ".cursor",
    ".gemini",
    ".qwen",
    ".windsurf",
    ".clinerules",
    ".roo",
    ".kiro",
    ".continue",
    ".opencode",
    ".amazonq",
    ".augment",
    ".junie",
    ".trae",
    ".goose",
    ".hermes",
    ".crush",
    ".factory",
    ".kilocode",
    ".openhands",
    "claude-config",
    "codex-config",
    "native-config",
    AGENT_INPUT,
];

/// Directories with texts of other people for the agent.
pub(super) const AGENT_INPUT: &str = "agent-input";

/// Directories of `.github` with instructions for its agents.
pub(super) const IN_GITHUB: &[&str] = &["instructions", "prompts", "agents", "chatmodes", "skills"];

/// Directories that hold no instructions of the repository.
pub(super) const SKIPPED: &[&str] = &[".git", "node_modules", "__pycache__", ".venv"];

/// As names are compared.
pub(super) fn lower(name: &OsStr) -> String {
    name.to_string_lossy().to_ascii_lowercase()
}

/// Whether every file in this directory counts, and its origin if it differs from that of the tree.
pub(super) fn whole_directory(path: &Path, lower: &str) -> Option<Option<Origin>> {
    let above = path.parent().and_then(Path::file_name).map(self::lower);
    let in_github = above.is_some_and(|name| name.ends_with(".github"));
    match lower {
        AGENT_INPUT => Some(Some(Origin::Issue)),
        _ if DIRECTORIES.contains(&lower) || (in_github && IN_GITHUB.contains(&lower)) => Some(None),
        _ => None,
    }
}

pub(super) fn is_context(lower: &str) -> bool {
    FILES.contains(&lower) || ENDINGS.iter().any(|ending| lower.ends_with(ending))
}
