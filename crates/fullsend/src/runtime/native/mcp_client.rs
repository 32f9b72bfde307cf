//! The MCP servers of the harness: programs inside, with JSON lines over their standard streams, or addresses. Only their
//! tools are used, and every call is judged before it comes here. A server that does not start fails the run.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use model::wire::Tool;
use serde_json::{Value as Json, json};

use super::mcp_http::HttpConnection;
use super::tool_outcome::{MAX_OUTPUT, ToolOutcome};
use crate::runtime::mcp::{McpEndpoint, McpServerSpec};

const START: Duration = Duration::from_secs(30);
const CALL: Duration = Duration::from_secs(120);
const MAX_LINE: u64 = 16 << 20;
const MAX_TOOLS: usize = 200;
const VERSION: &str = "2025-06-18";

/// Servers that have started. They end with the agent.
#[derive(Default)]
pub struct Servers(Vec<Server>);

struct Server {
    name: String,
    tools: Vec<Tool>,
    connection: Mutex<McpConnection>,
}

/// One request at a time.
enum McpConnection {
    Program(ProgramConnection),
    Address(Box<HttpConnection>),
}

/// The answer to a request has the same id.
struct ProgramConnection {
    child: Child,
    stdin: ChildStdin,
    answers: Receiver<Json>,
    number: u64,
}

impl Drop for ProgramConnection {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Servers {
    /// Starts the servers in the file.
    pub fn load(path: &str) -> Result<Self, String> {
        let text = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
        let tasks: Vec<McpServerSpec> =
            serde_json::from_slice(&text).map_err(|error| format!("{path}: {error}"))?;
        Self::start(&tasks)
    }

    fn start(tasks: &[McpServerSpec]) -> Result<Self, String> {
        let started = tasks.iter().map(|task| {
            Server::start(task).map_err(|why| format!("the MCP server `{}` did not start: {why}", task.name))
        });
        started.collect::<Result<_, _>>().map(Self)
    }

    pub fn tools(&self) -> Vec<Tool> {
        self.0.iter().flat_map(|server| server.tools.clone()).collect()
    }

    /// `None`: no server has this tool.
    pub fn call(&self, name: &str, input: &Json) -> Option<ToolOutcome> {
        let (server, tool) = name.strip_prefix("mcp__")?.split_once("__")?;
        let server = self.0.iter().find(|known| known.name == server)?;
        server.tools.iter().any(|known| known.name == name).then(|| server.call(tool, input))
    }
}

impl Server {
    fn start(task: &McpServerSpec) -> Result<Self, String> {
        let mut connection = McpConnection::open(&task.endpoint)?;
        let hello = json!({ "protocolVersion": VERSION, "capabilities": {},
            "clientInfo": { "name": "fullsend", "version": env!("CARGO_PKG_VERSION") } });
        let welcome = connection.ask("initialize", &hello, START)?;
        if let (McpConnection::Address(http), Some(version)) =
            (&mut connection, welcome["protocolVersion"].as_str())
        {
            http.set_version(version);
        }
        connection.notify("notifications/initialized")?;
        let listed = connection.ask("tools/list", &json!({}), START)?;
        let listed = listed["tools"].as_array().into_iter().flatten().take(MAX_TOOLS);
        let tools = listed.filter_map(|tool| offered(&task.name, tool)).collect();
        Ok(Self { name: task.name.clone(), tools, connection: Mutex::new(connection) })
    }

    fn call(&self, tool: &str, input: &Json) -> ToolOutcome {
        let mut connection = self.connection.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let answer = connection.ask("tools/call", &json!({ "name": tool, "arguments": input }), CALL);
        let answer = match answer {
            Ok(answer) => answer,
            Err(why) => return ToolOutcome::error(format!("the MCP server `{}`: {why}", self.name)),
        };
        let parts =
            answer["content"].as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
        let mut text = parts.collect::<Vec<_>>().join("\n");
        text.truncate(text.floor_char_boundary(MAX_OUTPUT));
        ToolOutcome { text, is_error: answer["isError"] == true }
    }
}

fn offered(server: &str, tool: &Json) -> Option<Tool> {
    Some(Tool {
        name: format!("mcp__{server}__{}", tool["name"].as_str()?),
        description: tool["description"].as_str().unwrap_or_default().to_owned(),
        schema: tool.get("inputSchema").cloned().unwrap_or(json!({ "type": "object" })),
    })
}

impl McpConnection {
    fn open(endpoint: &McpEndpoint) -> Result<Self, String> {
        match endpoint {
            McpEndpoint::Program { command, arguments, environment } => {
                ProgramConnection::start(command, arguments, environment).map(Self::Program)
            }
            McpEndpoint::Address { url, headers, .. } => {
                HttpConnection::new(url, headers.clone()).map(Box::new).map(Self::Address)
            }
        }
    }

    fn ask(&mut self, method: &str, parameters: &Json, timeout: Duration) -> Result<Json, String> {
        let answer = match self {
            Self::Program(program) => program.ask(method, parameters, timeout)?,
            Self::Address(http) => http.ask(method, parameters, timeout)?,
        };
        match answer.get("error") {
            Some(error) => Err(error["message"].as_str().unwrap_or("it failed").to_owned()),
            None => Ok(answer["result"].clone()),
        }
    }

    fn notify(&mut self, method: &str) -> Result<(), String> {
        let message = json!({ "jsonrpc": "2.0", "method": method });
        match self {
            Self::Program(program) => program.send(&message),
            Self::Address(http) => http.notify(&message, START),
        }
    }
}

impl ProgramConnection {
    fn start(command: &str, arguments: &[String], environment: &[(String, String)]) -> Result<Self, String> {
        let mut child = Command::new(command)
            .args(arguments)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{command}: {error}"))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("it has no streams".to_owned());
        };
        Ok(Self { child, stdin, answers: listen(stdout), number: 0 })
    }

    fn send(&mut self, message: &Json) -> Result<(), String> {
        let sent = writeln!(self.stdin, "{message}").and_then(|()| self.stdin.flush());
        sent.map_err(|error| format!("cannot write to the server: {error}"))
    }

    fn ask(&mut self, method: &str, parameters: &Json, timeout: Duration) -> Result<Json, String> {
        self.number += 1;
        let id = self.number;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters }))?;
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let answer =
                self.answers.recv_timeout(left).map_err(|error| format!("no answer to {method}: {error}"))?;
            // Notifications, and answers that came too late, are not ours.
            if answer["id"] == id {
                return Ok(answer);
            }
        }
    }
}

/// Lines of JSON on a thread of its own, which ends with the stream.
fn listen(stdout: impl Read + Send + 'static) -> Receiver<Json> {
    let (sender, receiver) = sync_channel(64);
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stdout);
        loop {
            let mut line = Vec::new();
            match (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            if let Ok(message) = serde_json::from_slice(&line)
                && sender.send(message).is_err()
            {
                return;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(script: &str) -> McpServerSpec {
        let arguments = vec!["-c".to_owned(), script.to_owned()];
        let endpoint = McpEndpoint::Program { command: "sh".to_owned(), arguments, environment: Vec::new() };
        McpServerSpec { name: "s".to_owned(), endpoint }
    }

    #[test]
    fn a_server_is_asked_for_its_tools_and_called() {
        // Answers in order, with noise between them.
        let script = r#"
            read l; echo noise; echo '{"jsonrpc":"2.0","id":1,"result":{}}'
            read l; read l; echo '{"jsonrpc":"2.0","method":"notifications/x"}'
            echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"add","description":"Adds.","inputSchema":{"type":"object"}}]}}'
            read l; case "$l" in *'"a":1'*) echo '{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"two"}]}}';; esac
            read l; echo '{"jsonrpc":"2.0","id":4,"error":{"message":"no more"}}'"#;
        let servers = Servers::start(&[task(script)]).unwrap();
        assert_eq!(servers.tools()[0].name, "mcp__s__add");
        assert_eq!(servers.call("mcp__s__add", &json!({ "a": 1 })).unwrap().text, "two");
        assert!(servers.call("mcp__s__add", &json!({})).unwrap().text.contains("no more"));
        assert!(servers.call("mcp__s__add", &json!({})).unwrap().is_error, "it has ended");
        assert!(
            servers.call("mcp__s__other", &json!({})).is_none() && servers.call("Bash", &json!({})).is_none()
        );
    }

    #[test]
    fn a_server_that_does_not_start_is_an_error() {
        for script in
            ["exit 0", "echo '{}'", "read l; echo '{\"id\":1,\"error\":{\"message\":\"not today\"}}'"]
        {
            let why = Servers::start(&[task(script)]).err().unwrap();
            assert!(why.contains("the MCP server `s` did not start"), "{why}");
        }
    }
}
