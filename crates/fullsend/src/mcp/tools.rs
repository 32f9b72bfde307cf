//! The tools: what each takes, and the command of fullsend that does it. A tool does what the command does, with its checks, its
//! record and its messages.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value as Json, json};

use super::ToolEnd;

/// The command line of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCommand {
    pub arguments: Vec<String>,
    pub input: Vec<u8>,
    /// Options that name a path in the server's directory, and the path. The server adds them once it has resolved the path.
    pub paths: Vec<(&'static str, String)>,
    /// The format of its output.
    output: OutputKind,
    /// Whether the sandbox that it creates ends with the server.
    pub binds_to_server: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputKind {
    /// A JSON document.
    Document,
    /// JSON documents, one in a line.
    Lines,
    Text,
    /// A file, of text or not.
    File,
}

/// How an argument becomes a part of the command line.
#[derive(Clone, Copy)]
enum Place {
    /// `--NAME=VALUE`
    Option(&'static str),
    /// `--NAME=PATH`, for a path in the server's directory.
    Path(&'static str),
    /// `--NAME=IMAGE`, for an image of a registry.
    Image(&'static str),
    /// `--NAME=KEY=VALUE` for each entry of an object.
    Pairs(&'static str),
    /// A word after `--`.
    Word,
    /// Words after `--`.
    Words,
    /// Standard input.
    Input,
}

struct Argument {
    name: &'static str,
    place: Place,
    is_required: bool,
    description: &'static str,
}

struct Tool {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    command: &'static [&'static str],
    /// Words after `--`, after the other arguments.
    end: &'static [&'static str],
    arguments: &'static [Argument],
    output: OutputKind,
    is_read_only: bool,
}

const fn required(name: &'static str, place: Place, description: &'static str) -> Argument {
    Argument { name, place, is_required: true, description }
}

const fn optional(name: &'static str, place: Place, description: &'static str) -> Argument {
    Argument { name, place, is_required: false, description }
}

const SANDBOX: Argument =
    required("sandbox", Place::Word, "The sandbox: the id that `sandbox_create` returned, or its name");

const TOOLS: &[Tool] = &[
    Tool {
        name: "list_harnesses",
        title: "List harnesses",
        description: "Lists the harnesses of this repository and its organisation, one JSON object each.",
        command: &["list", "--json"],
        end: &[],
        arguments: &[],
        output: OutputKind::Lines,
        is_read_only: true,
    },
    Tool {
        name: "check",
        title: "Check harnesses",
        description: "Checks harnesses without running anything, and returns each problem with its file, line and advice.",
        command: &["check", "--json"],
        end: &[],
        arguments: &[optional("harness", Place::Word, "The harness to check; default: all")],
        output: OutputKind::Lines,
        is_read_only: true,
    },
    Tool {
        name: "run_harness",
        title: "Run a harness",
        description: "Runs a harness: one agent in one sandbox, with its policy and budget. Returns the validated result. It \
                      may take minutes and cost money.",
        command: &["run", "--output=json", "--quiet"],
        end: &[],
        arguments: &[
            required("harness", Place::Word, "The name of the harness, as `list_harnesses` shows it"),
            optional("prompt", Place::Option("prompt"), "What the agent is asked to do in this run"),
        ],
        output: OutputKind::Text,
        is_read_only: false,
    },
    Tool {
        name: "runs_show",
        title: "Show a run",
        description: "Returns the record of a run: outcome, cost, findings, refused requests, changed files.",
        command: &["runs", "show", "--json"],
        end: &[],
        arguments: &[optional(
            "run",
            Place::Word,
            "The run: its id, the first characters of its id, or `latest`, which is the default",
        )],
        output: OutputKind::Document,
        is_read_only: true,
    },
    Tool {
        name: "policy_test",
        title: "Test a policy",
        description: "Says whether a network policy allows a request, and which rule decides.",
        command: &["policy", "test", "--json"],
        end: &[],
        arguments: &[
            required("policy", Place::Path("policy"), "The policy file, in the repository"),
            required("method", Place::Word, "The method, such as GET"),
            required("url", Place::Word, "The URL"),
            optional("binary", Place::Option("binary"), "The program that makes the request; default: any"),
            optional("body", Place::Option("body"), "The body, for GraphQL, JSON-RPC and MCP"),
        ],
        output: OutputKind::Document,
        is_read_only: true,
    },
    Tool {
        name: "sandbox_create",
        title: "Create a sandbox",
        description: "Creates a sandbox with a copy-on-write view of a directory, and returns its id. It ends after its time to \
                      live, or with this server.",
        command: &["sandbox", "create"],
        end: &[],
        arguments: &[
            optional(
                "repo",
                Place::Path("repo"),
                "The directory of the repository that it shows; default: none",
            ),
            optional(
                "policy",
                Place::Path("policy"),
                "A policy file in the repository: what commands may reach",
            ),
            optional("image", Place::Image("image"), "An image in a registry; it becomes the sandbox's root"),
            optional("name", Place::Option("name"), "A name to use in place of the id"),
            optional("ttl", Place::Option("ttl"), "The time to live, such as 30m; default: 1h"),
        ],
        output: OutputKind::Text,
        is_read_only: false,
    },
    Tool {
        name: "sandbox_exec",
        title: "Run a command in a sandbox",
        description: "Runs a command in a sandbox, and returns its output and exit code.",
        command: &["sandbox", "exec"],
        end: &[],
        arguments: &[
            SANDBOX,
            required("command", Place::Words, "The command and its arguments, such as [\"make\", \"test\"]"),
            optional("cwd", Place::Option("cwd"), "The directory to start in; default: the workspace"),
            optional("env", Place::Pairs("env"), "Variables of the command, by name"),
            optional("timeout", Place::Option("timeout"), "The longest time that it may take, such as 30s"),
        ],
        output: OutputKind::Text,
        is_read_only: false,
    },
    Tool {
        name: "sandbox_put",
        title: "Write a file in a sandbox",
        description: "Writes a text file in a sandbox.",
        command: &["sandbox", "put"],
        end: &[],
        arguments: &[
            SANDBOX,
            required("content", Place::Input, "The text"),
            required("path", Place::Word, "The path in the sandbox; relative paths start at the workspace"),
        ],
        output: OutputKind::Text,
        is_read_only: false,
    },
    Tool {
        name: "sandbox_get",
        title: "Read a file of a sandbox",
        description: "Returns a file of a sandbox.",
        command: &["sandbox", "get"],
        end: &["-"],
        arguments: &[
            SANDBOX,
            required("path", Place::Word, "The path in the sandbox; relative paths start at the workspace"),
        ],
        output: OutputKind::File,
        is_read_only: true,
    },
    Tool {
        name: "sandbox_list",
        title: "List sandboxes",
        description: "Lists the sandboxes that run, one JSON object each.",
        command: &["sandbox", "list", "--json"],
        end: &[],
        arguments: &[],
        output: OutputKind::Lines,
        is_read_only: true,
    },
    Tool {
        name: "sandbox_rm",
        title: "Remove a sandbox",
        description: "Ends a sandbox and removes everything in it.",
        command: &["sandbox", "rm"],
        end: &[],
        arguments: &[SANDBOX],
        output: OutputKind::Text,
        is_read_only: false,
    },
];

/// The list that clients read.
pub fn list() -> Vec<Json> {
    TOOLS.iter().map(Tool::described).collect()
}

/// The command of a call, or what is wrong with its arguments.
pub fn command(name: &str, arguments: &Json) -> Result<ToolCommand, String> {
    let tool = TOOLS.iter().find(|tool| tool.name == name);
    let tool = tool.ok_or_else(|| format!("there is no tool `{name}`; `tools/list` names them"))?;
    let arguments = arguments.as_object().ok_or("`arguments` is not an object")?;
    let known = |name: &String| tool.arguments.iter().any(|argument| argument.name == name);
    if let Some(unknown) = arguments.keys().find(|name| !known(name)) {
        return Err(format!("`{name}` has no argument `{unknown}`"));
    }
    tool.command_line(arguments)
}

impl Tool {
    fn described(&self) -> Json {
        let properties: Map<String, Json> =
            self.arguments.iter().map(|argument| (argument.name.to_owned(), argument.schema())).collect();
        let required: Vec<&str> = self
            .arguments
            .iter()
            .filter(|argument| argument.is_required)
            .map(|argument| argument.name)
            .collect();
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            },
            "annotations": { "readOnlyHint": self.is_read_only },
        })
    }

    fn command_line(&self, given: &Map<String, Json>) -> Result<ToolCommand, String> {
        let mut options = Vec::new();
        let mut words = Vec::new();
        let mut input = Vec::new();
        let mut paths = Vec::new();
        for argument in self.arguments {
            let Some(value) = given.get(argument.name).filter(|value| !value.is_null()) else {
                if argument.is_required {
                    return Err(format!("`{}` needs the argument `{}`", self.name, argument.name));
                }
                continue;
            };
            match argument.place {
                Place::Option(option) => options.push(format!("--{option}={}", argument.text(value)?)),
                Place::Path(option) => paths.push((option, argument.text(value)?)),
                Place::Image(option) => options.push(format!("--{option}={}", argument.image(value)?)),
                Place::Pairs(option) => options.extend(argument.pairs(value, option)?),
                Place::Word => words.push(argument.text(value)?),
                Place::Words => words.extend(argument.texts(value)?),
                Place::Input => {
                    input = argument.text(value)?.into_bytes();
                    words.push("-".to_owned());
                }
            }
        }
        words.extend(self.end.iter().map(|word| (*word).to_owned()));
        let mut arguments: Vec<String> = self.command.iter().map(|word| (*word).to_owned()).collect();
        arguments.extend(options);
        if !words.is_empty() {
            // `sandbox exec` takes the sandbox before its own `--`.
            let at = if self.name == "sandbox_exec" { 1 } else { 0 };
            arguments.extend(words.drain(..at));
            arguments.push("--".to_owned());
            arguments.extend(words);
        }
        let binds_to_server = self.name == "sandbox_create";
        Ok(ToolCommand { arguments, input, paths, output: self.output, binds_to_server })
    }
}

impl Argument {
    fn schema(&self) -> Json {
        match self.place {
            Place::Words => json!({
                "type": "array", "items": { "type": "string" }, "minItems": 1, "description": self.description,
            }),
            Place::Pairs(_) => json!({
                "type": "object", "additionalProperties": { "type": "string" }, "description": self.description,
            }),
            Place::Option(_) | Place::Path(_) | Place::Image(_) | Place::Word | Place::Input => {
                json!({ "type": "string", "description": self.description })
            }
        }
    }

    fn wrong(&self, needed: &str) -> String {
        format!("`{}` must be {needed}", self.name)
    }

    fn text(&self, value: &Json) -> Result<String, String> {
        let text = match value {
            Json::String(text) => text.clone(),
            Json::Number(number) => number.to_string(),
            _ => return Err(self.wrong("a string")),
        };
        // A word that starts with a dash could be read as an option.
        let is_option = matches!(self.place, Place::Word) && text.starts_with('-');
        if text.contains('\0') || is_option || (text.is_empty() && matches!(self.place, Place::Word)) {
            return Err(self.wrong("a string that is not empty, does not start with `-`, and has no NUL"));
        }
        Ok(text)
    }

    /// A name in a registry: paths of the host are not served.
    fn image(&self, value: &Json) -> Result<String, String> {
        let name = self.text(value)?;
        let host = name.split('/').next().unwrap_or_default();
        let has_host =
            name.contains('/') && (host.contains('.') || host.contains(':') || host == "localhost");
        if !has_host || host.starts_with('.') {
            return Err(self.wrong("a name in a registry, such as quay.io/acme/tools:1"));
        }
        Ok(name)
    }

    fn texts(&self, value: &Json) -> Result<Vec<String>, String> {
        let needed = "a list of strings with at least one entry";
        let list = value.as_array().filter(|list| !list.is_empty()).ok_or_else(|| self.wrong(needed))?;
        list.iter().map(|entry| entry.as_str().map(str::to_owned).ok_or_else(|| self.wrong(needed))).collect()
    }

    fn pairs(&self, value: &Json, option: &str) -> Result<Vec<String>, String> {
        let needed = "an object whose values are strings";
        let pairs = value.as_object().ok_or_else(|| self.wrong(needed))?;
        let pair = |(name, value): (&String, &Json)| {
            let value = value.as_str().ok_or_else(|| self.wrong(needed))?;
            Ok(format!("--{option}={name}={value}"))
        };
        pairs.iter().map(pair).collect()
    }
}

impl ToolCommand {
    /// Adds an option before the words.
    pub fn add_option(&mut self, option: String) {
        let end = self.arguments.iter().position(|word| word == "--").unwrap_or(self.arguments.len());
        self.arguments.insert(end, option);
    }
}

/// The result of a call: its output for the agent, and the same as data.
pub fn result(command: &ToolCommand, end: &ToolEnd) -> Json {
    // A file or document that was cut is an error.
    let is_whole = !end.is_cut || matches!(command.output, OutputKind::Text | OutputKind::Lines);
    let succeeded = end.exit_code == Some(0) && is_whole;
    let text = match std::str::from_utf8(&end.output) {
        Ok(text) => Some(text),
        // The cut went through a character.
        Err(error) if end.is_cut && error.error_len().is_none() => {
            std::str::from_utf8(&end.output[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    };
    let mut content = Vec::new();
    match text {
        Some("") => {}
        Some(text) => content.push(json!({ "type": "text", "text": text })),
        None => content.push(json!({
            "type": "resource",
            "resource": {
                "uri": "file:///output", "mimeType": "application/octet-stream",
                "blob": STANDARD.encode(&end.output),
            },
        })),
    }
    if end.is_cut {
        content.push(json!({ "type": "text", "text": "the output is longer; the rest is left out" }));
    }
    if !end.errors.is_empty() {
        content.push(json!({ "type": "text", "text": end.errors }));
    }
    if content.is_empty() || !succeeded {
        let ended = end.exit_code.map_or_else(|| "cancelled".to_owned(), |code| format!("exit code {code}"));
        content.push(json!({ "type": "text", "text": ended }));
    }
    let mut data = json!({ "exit_code": end.exit_code });
    let text = text.unwrap_or_default();
    match command.output {
        OutputKind::Document => data["document"] = serde_json::from_str(text).unwrap_or(Json::Null),
        OutputKind::Lines => {
            data["documents"] =
                text.lines().filter_map(|line| serde_json::from_str::<Json>(line).ok()).collect();
        }
        OutputKind::Text => data["output"] = text.trim_end().into(),
        OutputKind::File => {}
    }
    json!({ "content": content, "structuredContent": data, "isError": !succeeded })
}
