//! Messages of JSON-RPC 2.0, as MCP and ACP use them: one object each, no batches. It reads and prints nothing.

use serde_json::{Value as Json, json};

pub const PARSE_ERROR: i32 = -32_700;
pub const INVALID_REQUEST: i32 = -32_600;
pub const UNKNOWN_METHOD: i32 = -32_601;
pub const INVALID_PARAMETERS: i32 = -32_602;

/// One message of the other side.
#[derive(Debug, PartialEq)]
pub enum RpcMessage {
    Request {
        id: Json,
        method: String,
        parameters: Json,
    },
    Notification {
        method: String,
        parameters: Json,
    },
    /// The answer to a request of ours.
    Response {
        id: Json,
        result: Result<Json, RpcFailure>,
    },
}

/// The error of a request.
#[derive(Debug, PartialEq)]
pub struct RpcFailure {
    pub code: i32,
    pub message: String,
    pub data: Option<Json>,
}

impl RpcFailure {
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub fn answer(self, id: &Json) -> Json {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(data) = self.data {
            error["data"] = data;
        }
        json!({ "jsonrpc": "2.0", "id": id, "error": error })
    }
}

/// Reads one message. The error is the answer to an invalid message.
pub fn parse(message: &[u8]) -> Result<RpcMessage, Json> {
    let Ok(message) = serde_json::from_slice::<Json>(message) else {
        return Err(RpcFailure::new(PARSE_ERROR, "the message is not JSON").answer(&Json::Null));
    };
    let id = message.get("id").cloned();
    let has_valid_id = id.as_ref().is_none_or(|id| id.is_string() || id.is_number());
    let method = message.get("method").and_then(Json::as_str);
    let Some(method) = method.filter(|_| message["jsonrpc"] == "2.0" && has_valid_id) else {
        let failure = message.get("error").map(read_failure);
        let answer = message.get("result").cloned().map(Ok).or(failure.map(Err));
        if let Some(result) = answer {
            return Ok(RpcMessage::Response { id: id.unwrap_or(Json::Null), result });
        }
        let failure = RpcFailure::new(INVALID_REQUEST, "the message is not a request of JSON-RPC 2.0");
        return Err(failure.answer(&Json::Null));
    };
    let method = method.to_owned();
    let parameters = message.get("params").cloned().unwrap_or(Json::Null);
    Ok(match id {
        Some(id) => RpcMessage::Request { id, method, parameters },
        None => RpcMessage::Notification { method, parameters },
    })
}

fn read_failure(error: &Json) -> RpcFailure {
    let code = error.get("code").and_then(Json::as_i64).and_then(|code| i32::try_from(code).ok());
    let message = error.get("message").and_then(Json::as_str).unwrap_or("it gave no reason");
    RpcFailure::new(code.unwrap_or(INVALID_REQUEST), message)
}

pub fn result(id: &Json, result: &Json) -> Json {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

pub fn request(id: &Json, method: &str, parameters: &Json) -> Json {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters })
}

pub fn notification(method: &str, parameters: &Json) -> Json {
    json!({ "jsonrpc": "2.0", "method": method, "params": parameters })
}
