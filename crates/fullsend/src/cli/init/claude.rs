//! `fullsend init --from-claude`: takes over the agents, skills and MCP servers that a repository has for Claude Code.
//! Every agent gets a harness of its own; its skills are those of the repository.

use std::path::Path;

use serde_json::Value as Json;

use super::project::Toolchain;
use super::{WrittenFile, failed, write_new};
use crate::cli::exit::Failure;

/// What was found, and what could not be taken over.
pub struct ClaudeImport {
    pub written: Vec<WrittenFile>,
    /// One sentence each.
    pub left: Vec<String>,
}

/// Copies what `.claude` and `.mcp.json` have into the layer.
pub fn take_over(repository: &Path, layer: &Path, toolchains: &[Toolchain]) -> Result<ClaudeImport, Failure> {
    let mut left = Vec::new();
    let servers = servers(repository, &mut left);
    let skills = skills(repository, layer)?;
    let mut written = skills.written;
    let agents =
        names(&repository.join(".claude/agents"), |path| path.extension().is_some_and(|ext| ext == "md"));
    if agents.is_empty() {
        left.push(".claude/agents has no agent: the harness `assess` was written as an example".to_owned());
    }
    for file in agents {
        let text = read(&repository.join(".claude/agents").join(&file))?;
        let name = file.trim_end_matches(".md");
        written.push(write_new(layer, &format!("agents/{file}"), &text)?);
        let harness = harness(name, &skills.names, &servers, toolchains);
        written.push(write_new(layer, &format!("harness/{name}.yaml"), &harness)?);
    }
    Ok(ClaudeImport { written, left })
}

struct Skills {
    names: Vec<String>,
    written: Vec<WrittenFile>,
}

/// Every directory with a SKILL.md; its plain files are copied, at any depth.
fn skills(repository: &Path, layer: &Path) -> Result<Skills, Failure> {
    let root = repository.join(".claude/skills");
    let mut skills =
        Skills { names: names(&root, |path| path.join("SKILL.md").is_file()), written: Vec::new() };
    for name in &skills.names {
        copy(&root, Path::new(name), layer, &mut skills.written)?;
    }
    Ok(skills)
}

fn copy(root: &Path, below: &Path, layer: &Path, written: &mut Vec<WrittenFile>) -> Result<(), Failure> {
    let here = root.join(below);
    for entry in names(&here, |path| path.is_dir() || path.is_file()) {
        let path = below.join(&entry);
        if root.join(&path).is_dir() {
            copy(root, &path, layer, written)?;
        } else {
            let bytes = std::fs::read(root.join(&path)).map_err(|error| failed(&root.join(&path), &error))?;
            written.push(super::write_bytes(layer, &format!("skills/{}", path.display()), &bytes)?);
        }
    }
    Ok(())
}

/// The servers of `.mcp.json` that are programs, as lines of a harness.
fn servers(repository: &Path, left: &mut Vec<String>) -> String {
    let Ok(text) = std::fs::read_to_string(repository.join(".mcp.json")) else { return String::new() };
    let Ok(file) = serde_json::from_str::<Json>(&text) else {
        left.push(".mcp.json is not valid JSON; its servers were left out".to_owned());
        return String::new();
    };
    let mut lines = String::new();
    for (name, server) in file["mcpServers"].as_object().into_iter().flatten() {
        let Some(command) = server["command"].as_str() else {
            left.push(format!(
                "the MCP server `{name}` of .mcp.json is reached by URL: add it to `mcp_servers` with its `url`, and its host to the policy"
            ));
            continue;
        };
        lines += &format!("  {}:\n    command: {}\n", quoted(name), quoted(command));
        if server["args"].is_array() {
            lines += &format!("    args: {}\n", server["args"]);
        }
        if server["env"].is_object() {
            lines += &format!("    env: {}\n", server["env"]);
        }
    }
    if lines.is_empty() { lines } else { format!("mcp_servers:\n{lines}") }
}

/// JSON is YAML, and quotes everything that needs it.
fn quoted(text: &str) -> String {
    Json::from(text).to_string()
}

fn harness(name: &str, skills: &[String], servers: &str, toolchains: &[Toolchain]) -> String {
    let mut text = format!(
        "# yaml-language-server: $schema=../.editor/harness.schema.json\nagent: {}\nruntime: claude\npolicy: policies/assess.yaml\nproviders: [model]\n",
        quoted(&format!("agents/{name}.md"))
    );
    let skills: Vec<String> = skills.iter().map(|skill| quoted(&format!("skills/{skill}"))).collect();
    if !skills.is_empty() {
        text += &format!("skills: [{}]\n", skills.join(", "));
    }
    text += &super::network_line(toolchains);
    text + "timeout_minutes: 30\n" + servers
}

/// The names in a directory that pass, sorted. Links are left out: they can point anywhere.
fn names(directory: &Path, keep: impl Fn(&Path) -> bool) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let plain =
        entries.filter_map(Result::ok).filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
    let mut names: Vec<String> = plain
        .filter(|entry| keep(&entry.path()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| failed(path, &error))
}
