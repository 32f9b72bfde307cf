//! Our side of the protocol: `initialize`, `session/new`, `session/prompt`, then updates and requests until the prompt is
//! answered. It offers the agent no files and no terminals of the client: the agent has its own, inside. Lines in, effects
//! out; it reads and sends nothing itself. Lines, their number and their bytes are bounded.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use super::messages::{AgentUpdate, CallProgress, CallUpdate, PermissionRequest, TurnEnd};
use crate::json_rpc::{self, RpcFailure, RpcMessage, UNKNOWN_METHOD};

/// The version of the protocol.
const VERSION: u64 = 1;

/// The most messages of one attempt. Agents send one for each piece of an answer.
const MAX_MESSAGES: u64 = 2_000_000;
const MAX_BYTES: u64 = 4 << 30;

/// The most requests of the agent. Each is answered, whether the agent reads the answers or not.
const MAX_REQUESTS: u64 = 20_000;

/// Some agents print a few lines of their own.
const MAX_INVALID: u32 = 100;

/// The longest message of the agent to the user.
const MAX_WORDS: usize = 4 << 20;

const MAX_CALLS: usize = 100_000;

/// What the session is about.
#[derive(Clone, Debug)]
pub struct SessionSetup {
    /// The agent's working directory.
    pub directory: String,
    /// The MCP servers in the protocol's format.
    pub servers: Vec<Json>,
    pub prompt: String,
}

/// What follows from a line of the agent.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Send(Json),
    /// A complete message of the agent.
    Words(String),
    CallStarted(CallUpdate),
    CallFinished(CallUpdate),
    Plan(Json),
    /// The agent waits for the answer to this request.
    Ask {
        id: Json,
        request: PermissionRequest,
    },
    TurnEnded(TurnEnd),
    /// The conversation cannot go on.
    Failed(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Initialize,
    Session,
    Prompt,
    Idle,
}

#[derive(Debug)]
pub struct AgentClient {
    setup: SessionSetup,
    stage: Stage,
    /// The id of the request that the agent has not answered yet.
    pending: u64,
    session: String,
    words: String,
    /// The agent's last complete message of this turn.
    last_words: String,
    started: BTreeSet<String>,
    finished: BTreeSet<String>,
    messages: u64,
    bytes: u64,
    requests: u64,
    invalid: u32,
}

impl AgentClient {
    /// The client, and its first message.
    pub fn start(setup: SessionSetup) -> (Self, Json) {
        let mut client = Self {
            setup,
            stage: Stage::Initialize,
            pending: 0,
            session: String::new(),
            words: String::new(),
            last_words: String::new(),
            started: BTreeSet::new(),
            finished: BTreeSet::new(),
            messages: 0,
            bytes: 0,
            requests: 0,
            invalid: 0,
        };
        let capabilities =
            json!({ "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false });
        let about = json!({ "name": "fullsend", "title": "fullsend", "version": env!("CARGO_PKG_VERSION") });
        let parameters =
            json!({ "protocolVersion": VERSION, "clientCapabilities": capabilities, "clientInfo": about });
        let first = client.request("initialize", &parameters);
        (client, first)
    }

    /// The words with which the agent ended its turn.
    pub fn last_words(&self) -> &str {
        &self.last_words
    }

    /// Asks the agent to go on, with these words.
    pub fn prompt(&mut self, text: &str) -> Json {
        self.stage = Stage::Prompt;
        self.last_words.clear();
        let blocks = json!([{ "type": "text", "text": text }]);
        let session = self.session.clone();
        self.request("session/prompt", &json!({ "sessionId": session, "prompt": blocks }))
    }

    /// Asks the agent to stop its turn; nothing if it has none.
    pub fn cancel(&self) -> Option<Json> {
        let is_working = self.stage == Stage::Prompt;
        is_working.then(|| json_rpc::notification("session/cancel", &json!({ "sessionId": self.session })))
    }

    /// Takes one line of the agent.
    pub fn line(&mut self, line: &[u8]) -> Vec<Effect> {
        self.messages += 1;
        self.bytes += line.len() as u64;
        if self.messages > MAX_MESSAGES || self.bytes > MAX_BYTES {
            return vec![Effect::Failed("the agent sent more messages than one attempt may have".to_owned())];
        }
        match json_rpc::parse(line) {
            Err(_) => self.reject_line(),
            Ok(RpcMessage::Response { id, result }) if id == json!(self.pending) => self.answered(result),
            Ok(RpcMessage::Response { .. }) => self.reject_line(),
            Ok(RpcMessage::Request { id, method, parameters }) => self.asked(id, &method, &parameters),
            Ok(RpcMessage::Notification { method, parameters }) if method == "session/update" => {
                parameters.get("update").map(|update| self.updated(update)).unwrap_or_default()
            }
            Ok(RpcMessage::Notification { .. }) => Vec::new(),
        }
    }

    fn request(&mut self, method: &str, parameters: &Json) -> Json {
        self.pending += 1;
        json_rpc::request(&json!(self.pending), method, parameters)
    }

    fn reject_line(&mut self) -> Vec<Effect> {
        self.invalid += 1;
        if self.invalid < MAX_INVALID {
            return Vec::new();
        }
        let why = format!(
            "the agent printed {MAX_INVALID} lines that are not messages of the Agent Client Protocol"
        );
        vec![Effect::Failed(why)]
    }

    fn answered(&mut self, result: Result<Json, RpcFailure>) -> Vec<Effect> {
        let (done, next) = match self.stage {
            Stage::Initialize => ("initialize", Stage::Session),
            Stage::Session => ("session/new", Stage::Prompt),
            Stage::Prompt => ("session/prompt", Stage::Idle),
            Stage::Idle => return self.reject_line(),
        };
        let result = match result {
            Ok(result) => result,
            Err(failure) => {
                let why = format!("the agent answered {done} with an error: {}", failure.message);
                return self.end_words().into_iter().chain([Effect::Failed(why)]).collect();
            }
        };
        self.stage = next;
        match next {
            Stage::Session => vec![self.new_session(&result)],
            Stage::Prompt => vec![self.first_prompt(&result)],
            Stage::Initialize | Stage::Idle => {
                // One number for each request: a second answer to the same one counts as invalid.
                self.pending += 1;
                let words = self.end_words();
                words.into_iter().chain([Effect::TurnEnded(TurnEnd::read(&result))]).collect()
            }
        }
    }

    fn new_session(&mut self, about: &Json) -> Effect {
        let version = about.get("protocolVersion").and_then(Json::as_u64);
        if version != Some(VERSION) {
            let version =
                version.map_or_else(|| "no version".to_owned(), |version| format!("version {version}"));
            return Effect::Failed(format!(
                "the agent speaks {version} of the Agent Client Protocol, not version {VERSION}"
            ));
        }
        let takes = |kind: &str| about["agentCapabilities"]["mcpCapabilities"][kind] == true;
        let refused = self.setup.servers.iter().find_map(|server| {
            let kind = server.get("type").and_then(Json::as_str).filter(|kind| !takes(kind))?;
            Some(format!("the agent does not support MCP servers by {kind}, as {} is", server["name"]))
        });
        if let Some(why) = refused {
            return Effect::Failed(why);
        }
        let parameters = json!({ "cwd": self.setup.directory, "mcpServers": self.setup.servers });
        Effect::Send(self.request("session/new", &parameters))
    }

    fn first_prompt(&mut self, about: &Json) -> Effect {
        let Some(session) = about.get("sessionId").and_then(Json::as_str) else {
            return Effect::Failed("the agent answered session/new without a session".to_owned());
        };
        session.clone_into(&mut self.session);
        let prompt = std::mem::take(&mut self.setup.prompt);
        Effect::Send(self.prompt(&prompt))
    }

    fn asked(&mut self, id: Json, method: &str, parameters: &Json) -> Vec<Effect> {
        self.requests += 1;
        if self.requests > MAX_REQUESTS {
            return vec![Effect::Failed(format!("the agent made more than {MAX_REQUESTS} requests"))];
        }
        if method == "session/request_permission" {
            return vec![Effect::Ask { id, request: PermissionRequest::read(parameters) }];
        }
        let failure = RpcFailure::new(UNKNOWN_METHOD, format!("this client does not offer {method}"));
        vec![Effect::Send(failure.answer(&id))]
    }

    fn updated(&mut self, update: &Json) -> Vec<Effect> {
        match AgentUpdate::read(update) {
            AgentUpdate::Words(words) => {
                let room = MAX_WORDS.saturating_sub(self.words.len());
                self.words.push_str(&words[..words.floor_char_boundary(room)]);
                Vec::new()
            }
            AgentUpdate::Call(call) => self.called(call),
            AgentUpdate::Plan(plan) => vec![Effect::Plan(plan)],
            AgentUpdate::Other => Vec::new(),
        }
    }

    /// A call starts once and ends once, whatever the agent repeats.
    fn called(&mut self, call: CallUpdate) -> Vec<Effect> {
        let mut effects = self.end_words();
        // A call follows, so these were not the last words.
        self.last_words.clear();
        if self.started.len() < MAX_CALLS && self.started.insert(call.id.clone()) {
            effects.push(Effect::CallStarted(call.clone()));
        }
        let is_known = self.started.contains(&call.id);
        if call.status != CallProgress::Open && is_known && self.finished.insert(call.id.clone()) {
            effects.push(Effect::CallFinished(call));
        }
        effects
    }

    fn end_words(&mut self) -> Vec<Effect> {
        if self.words.is_empty() {
            return Vec::new();
        }
        self.last_words = std::mem::take(&mut self.words);
        vec![Effect::Words(self.last_words.clone())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started() -> AgentClient {
        let setup = SessionSetup { directory: "/r".to_owned(), servers: Vec::new(), prompt: "go".to_owned() };
        AgentClient::start(setup).0
    }

    fn say(client: &mut AgentClient, message: &Json) -> Vec<Effect> {
        client.line(message.to_string().as_bytes())
    }

    fn answer(client: &mut AgentClient, result: &Json) -> Vec<Effect> {
        let id = client.pending;
        say(client, &json_rpc::result(&json!(id), result))
    }

    fn prompted() -> AgentClient {
        let mut client = started();
        answer(&mut client, &json!({ "protocolVersion": 1 }));
        let effects = answer(&mut client, &json!({ "sessionId": "s" }));
        let [Effect::Send(prompt)] = &effects[..] else { panic!("{effects:?}") };
        assert_eq!(
            (&prompt["method"], &prompt["params"]["sessionId"]),
            (&json!("session/prompt"), &json!("s"))
        );
        client
    }

    fn update(update: &Json) -> Json {
        json_rpc::notification("session/update", &json!({ "sessionId": "s", "update": update }))
    }

    fn chunk(text: &str) -> Json {
        update(
            &json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } }),
        )
    }

    #[test]
    fn pieces_are_one_message_and_the_last_message_is_the_result() {
        let mut client = prompted();
        assert!(say(&mut client, &chunk("one ")).is_empty() && say(&mut client, &chunk("two")).is_empty());
        let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "a", "kind": "execute", "status": "pending" });
        let effects = say(&mut client, &update(&call));
        assert!(matches!(&effects[..], [Effect::Words(words), Effect::CallStarted(_)] if words == "one two"));
        let done = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "a", "status": "completed" });
        assert!(matches!(&say(&mut client, &update(&done))[..], [Effect::CallFinished(_)]));
        assert!(say(&mut client, &update(&done)).is_empty(), "a call ends once");
        assert_eq!(client.last_words(), "");
        say(&mut client, &chunk("three"));
        let effects = answer(&mut client, &json!({ "stopReason": "end_turn" }));
        assert_eq!(effects, [Effect::Words("three".to_owned()), Effect::TurnEnded(TurnEnd::Done)]);
        assert_eq!(client.last_words(), "three");
        assert_eq!(client.cancel(), None, "there is no turn to stop");
    }

    #[test]
    fn only_the_expected_answer_counts() {
        let mut client = started();
        let other = json_rpc::result(&json!(77), &json!({ "protocolVersion": 1 }));
        assert!(say(&mut client, &other).is_empty());
        let mut client = prompted();
        let id = json!(client.pending);
        assert_eq!(answer(&mut client, &json!({ "stopReason": "end_turn" })).len(), 1);
        assert!(say(&mut client, &json_rpc::result(&id, &json!({ "stopReason": "end_turn" }))).is_empty());
    }

    #[test]
    fn an_agent_that_does_not_speak_the_protocol_fails() {
        let fails = |client: &mut AgentClient, line: &[u8]| {
            (0..MAX_INVALID).any(|_| matches!(client.line(line)[..], [Effect::Failed(_)]))
        };
        assert!(fails(&mut started(), b"Welcome!"));
        assert!(fails(&mut started(), br#"{"jsonrpc":"2.0","id":9,"result":{}}"#));
        assert!(!fails(&mut started(), br#"{"jsonrpc":"2.0","method":"other/update"}"#));
        for wrong in [json!({}), json!({ "protocolVersion": 2 })] {
            assert!(matches!(answer(&mut started(), &wrong)[..], [Effect::Failed(_)]));
        }
        let mut client = started();
        answer(&mut client, &json!({ "protocolVersion": 1 }));
        assert!(matches!(answer(&mut client, &json!({}))[..], [Effect::Failed(_)]));
    }

    #[test]
    fn files_and_terminals_of_the_client_are_not_offered_and_requests_are_counted() {
        let mut client = prompted();
        for method in ["fs/read_text_file", "fs/write_text_file", "terminal/create"] {
            let effects = say(&mut client, &json_rpc::request(&json!(0), method, &json!({})));
            let [Effect::Send(refused)] = &effects[..] else { panic!("{effects:?}") };
            assert_eq!(refused["error"]["code"], UNKNOWN_METHOD);
        }
        client.requests = MAX_REQUESTS;
        let effects = say(&mut client, &json_rpc::request(&json!(0), "fs/read_text_file", &json!({})));
        assert!(matches!(effects[..], [Effect::Failed(_)]));
        let mut client = prompted();
        client.messages = MAX_MESSAGES;
        assert!(matches!(say(&mut client, &chunk("x"))[..], [Effect::Failed(_)]));
    }

    #[test]
    fn servers_that_the_agent_cannot_reach_stop_the_attempt() {
        let server =
            json!({ "type": "http", "name": "docs", "url": "https://docs.example/mcp", "headers": [] });
        let setup = SessionSetup { directory: "/r".to_owned(), servers: vec![server], prompt: String::new() };
        let mut client = AgentClient::start(setup.clone()).0;
        assert!(matches!(answer(&mut client, &json!({ "protocolVersion": 1 }))[..], [Effect::Failed(_)]));
        let mut client = AgentClient::start(setup).0;
        let able =
            json!({ "protocolVersion": 1, "agentCapabilities": { "mcpCapabilities": { "http": true } } });
        assert!(matches!(answer(&mut client, &able)[..], [Effect::Send(_)]));
    }
}
