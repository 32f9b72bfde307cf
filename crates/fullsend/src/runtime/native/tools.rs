//! What the agent can do inside: run a command, read and write files, and finish with its output. The sandbox is the
//! boundary; these bound only time and size.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use egress::wire::Tool;
use serde_json::{Value as Json, json};

const MAX_OUTPUT: usize = 64 << 10;
const MAX_COMMAND_TIME: Duration = Duration::from_secs(120);

/// What a tool gave back.
pub struct Outcome {
    pub text: String,
    pub is_error: bool,
}

impl Outcome {
    fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: false }
    }

    pub fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true }
    }
}

/// The tool that ends the run with its output.
pub const FINISH: &str = "finish";

/// The tools offered to the model: the named ones, and always the one to finish with.
pub fn offered(names: &[String], output_schema: Option<&Json>) -> Vec<Tool> {
    let all = [
        (
            "Bash",
            "Run a command with /bin/sh in the repository.",
            json!({ "type": "object", "properties": { "command": { "type": "string" } }, "required": ["command"] }),
        ),
        (
            "Read",
            "Read a file.",
            json!({ "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"] }),
        ),
        (
            "Write",
            "Write a file, replacing what was there.",
            json!({ "type": "object", "properties": { "path": { "type": "string" }, "content": { "type": "string" } }, "required": ["path", "content"] }),
        ),
    ];
    let wanted =
        |name: &str| names.is_empty() || names.iter().any(|known| known.split('(').next() == Some(name));
    let mut tools: Vec<Tool> = all
        .into_iter()
        .filter(|(name, _, _)| wanted(name))
        .map(|(name, description, schema)| Tool {
            name: name.to_owned(),
            description: description.to_owned(),
            schema,
        })
        .collect();
    let output = output_schema.cloned().unwrap_or(json!({ "type": "object" }));
    tools.push(Tool {
        name: FINISH.to_owned(),
        description: "Hand in the result and end. Call it once, when the work is done.".to_owned(),
        schema: json!({ "type": "object", "properties": { "output": output }, "required": ["output"] }),
    });
    tools
}

/// A few words about a call, for people who watch.
pub fn summary(tool: &str, input: &Json) -> String {
    let text = match tool {
        "Bash" => input["command"].as_str(),
        "Read" | "Write" => input["path"].as_str(),
        _ => None,
    };
    let line = text.unwrap_or("").split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(120).collect()
}

pub fn run(tool: &str, input: &Json) -> Outcome {
    let text = |key: &str| input[key].as_str().map(str::to_owned);
    match tool {
        "Bash" => text("command").map_or_else(|| missing("command"), |command| bash(&command)),
        "Read" => text("path").map_or_else(|| missing("path"), |path| read(&path)),
        "Write" => match (text("path"), text("content")) {
            (Some(path), Some(content)) => write(&path, &content),
            _ => missing("path and content"),
        },
        other => Outcome::error(format!("there is no tool `{other}`")),
    }
}

fn missing(what: &str) -> Outcome {
    Outcome::error(format!("the call needs {what}"))
}

fn read(path: &str) -> Outcome {
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) => return Outcome::error(format!("{path}: {error}")),
    };
    let mut bytes = Vec::new();
    match file.take(MAX_OUTPUT as u64).read_to_end(&mut bytes) {
        Ok(_) => Outcome::ok(String::from_utf8_lossy(&bytes)),
        Err(error) => Outcome::error(format!("{path}: {error}")),
    }
}

fn write(path: &str, content: &str) -> Outcome {
    let result = std::fs::File::create(path).and_then(|mut file| file.write_all(content.as_bytes()));
    match result {
        Ok(()) => Outcome::ok(format!("wrote {} bytes", content.len())),
        Err(error) => Outcome::error(format!("{path}: {error}")),
    }
}

fn bash(command: &str) -> Outcome {
    let child = Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return Outcome::error(format!("/bin/sh cannot be started: {error}")),
    };
    let out = child.stdout.take().map(collect);
    let errors = child.stderr.take().map(collect);
    let deadline = Instant::now() + MAX_COMMAND_TIME;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(2)),
            _ => break None,
        }
    };
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    drop(child.wait());
    let text: String = [out, errors].into_iter().flatten().filter_map(|reader| reader.join().ok()).collect();
    match status {
        Some(status) if status.success() => Outcome::ok(text),
        Some(status) => Outcome::error(format!("{text}\n({status})")),
        None => Outcome::error(format!("{text}\n(stopped after {} seconds)", MAX_COMMAND_TIME.as_secs())),
    }
}

fn collect(mut stream: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        drop((&mut stream).take(MAX_OUTPUT as u64).read_to_end(&mut kept));
        drop(std::io::copy(&mut stream, &mut std::io::sink()));
        String::from_utf8_lossy(&kept).into_owned()
    })
}
