//! The tools of the native runtime: how the model sees them, and which code runs each. They bound time and size; the
//! sandbox bounds the rest.

use model::wire::Tool;
use serde_json::{Value as Json, json};

use super::tool_outcome::ToolOutcome;
use super::{files, shell};

/// The tool that ends the run with its output.
pub const FINISH: &str = "finish";

/// The built-in tools.
pub const NAMES: &[&str] = &["Bash", "Read", "Write", "Edit", "Glob", "Grep"];

/// The tool that reads a skill, for agents that name it in their list.
pub const SKILL: &str = "Skill";

/// `Bash` of `Bash(gh,jq)`.
pub fn without_pattern(name: &str) -> &str {
    name.split_once('(').filter(|(_, rest)| rest.ends_with(')')).map_or(name, |(tool, _)| tool)
}

/// The tools that the model is offered: the wanted built-in ones, the wanted ones of MCP servers, and always `finish`.
pub fn offered(
    wanted: impl Fn(&str) -> bool,
    names_skill: bool,
    of_servers: Vec<Tool>,
    output_schema: Option<&Json>,
) -> Vec<Tool> {
    let own = NAMES.iter().chain(names_skill.then_some(&SKILL)).map(|name| Tool {
        name: (*name).to_owned(),
        description: described(name).0.to_owned(),
        schema: described(name).1,
    });
    let mut tools: Vec<Tool> = own.chain(of_servers).filter(|tool| wanted(&tool.name)).collect();
    let output = output_schema.cloned().unwrap_or(json!({ "type": "object" }));
    tools.push(Tool {
        name: FINISH.to_owned(),
        description: "Return the result as `output` and stop. Call it once, alone, when your work is done."
            .to_owned(),
        schema: json!({ "type": "object", "properties": { "output": output }, "required": ["output"] }),
    });
    tools
}

fn described(name: &str) -> (&'static str, Json) {
    let text = json!({ "type": "string" });
    let object = |properties: Json, required: &[&str]| json!({ "type": "object", "properties": properties, "required": required });
    match name {
        "Bash" => (
            "Run a command with /bin/sh in the repository. It is killed after 120 seconds. Background processes are killed \
             when the command ends. Returns standard output, then standard error, each cut after 64 KiB.",
            object(json!({ "command": text }), &["command"]),
        ),
        "Read" => (
            "Read a file. Returns at most 64 KiB; use `offset` for the rest. `offset` is the first line, counted from 1; `limit` \
             is the number of lines.",
            object(
                json!({ "path": text, "offset": { "type": "integer" }, "limit": { "type": "integer" } }),
                &["path"],
            ),
        ),
        "Write" => (
            "Write a file. Replaces an existing file. Creates missing directories.",
            object(json!({ "path": text, "content": text }), &["path", "content"]),
        ),
        "Edit" => (
            "Replace `old` with `new` in a file. `old` must occur exactly once, unless `all` is true.",
            object(
                json!({ "path": text, "old": text, "new": text, "all": { "type": "boolean" } }),
                &["path", "old", "new"],
            ),
        ),
        SKILL => (
            "Read the SKILL.md of a skill in your list, by its name.",
            object(json!({ "skill": text }), &["skill"]),
        ),
        "Glob" => (
            "List the files below `path` (default: the current directory) that match a pattern, such as `src/**/*.rs`. The \
             pattern and the listed names are relative to `path`.",
            object(json!({ "pattern": text, "path": text }), &["pattern"]),
        ),
        _ => (
            "Search the files below `path` (default: the current directory) for an extended regular expression. Returns \
             each match as path:line:text. Skips `.git` and binary files.",
            object(json!({ "pattern": text, "path": text }), &["pattern"]),
        ),
    }
}

/// A short description of a call, for people who watch.
pub fn summary(input: &Json) -> String {
    let shown = ["command", "path", "pattern"].iter().find_map(|key| input[*key].as_str());
    let line = shown.unwrap_or("").split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(120).collect()
}

pub fn run(tool: &str, input: &Json) -> ToolOutcome {
    let text = |key: &'static str| input[key].as_str().ok_or(key);
    let number = |key: &str| input[key].as_u64().and_then(|number| usize::try_from(number).ok());
    let place = input["path"].as_str().unwrap_or(".");
    let done = match tool {
        "Bash" => text("command").map(shell::bash),
        "Read" => text("path").map(|path| files::read(path, number("offset"), number("limit"))),
        "Write" => text("path").and_then(|path| Ok(files::write(path, text("content")?))),
        "Edit" => text("path").and_then(|path| {
            Ok(files::edit(path, text("old")?, text("new")?, input["all"].as_bool().unwrap_or(false)))
        }),
        SKILL => text("skill").map(files::skill),
        "Glob" => text("pattern").map(|pattern| files::glob(pattern, place)),
        "Grep" => text("pattern").map(|pattern| shell::grep(pattern, place)),
        other => Ok(ToolOutcome::error(format!("there is no tool `{other}`"))),
    };
    done.unwrap_or_else(|missing| ToolOutcome::error(format!("`{missing}` is missing")))
}
