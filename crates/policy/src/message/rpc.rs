//! JSON-RPC 2.0 over HTTP, and MCP, which uses it: one call or a batch in the body of a POST. MCP also opens a stream
//! with GET, ends a session with DELETE, and answers what the server asks.

use super::content_type;
use super::json::{self, Json};
use super::operation::{Operation, RpcCall};
use super::{BodyRequest, MessageError, ProtocolSettings};
use crate::file::Protocol;

const MAX_BATCH: usize = 100;
/// Methods and tools are shown in messages and in the record.
const MAX_NAME_BYTES: usize = 256;
/// The longest tool name that MCP has.
const MAX_TOOL_BYTES: usize = 128;

pub(super) fn read(
    protocol: Protocol,
    settings: &ProtocolSettings,
    request: &BodyRequest<'_>,
) -> Result<Vec<Operation>, MessageError> {
    let is_mcp = protocol == Protocol::Mcp;
    match request.method {
        "POST" => {}
        "GET" | "DELETE" if is_mcp && request.body.is_empty() => return Ok(vec![Operation::Session]),
        "GET" | "DELETE" if is_mcp => return Err(MessageError::new("a GET or DELETE request has a body")),
        _ if is_mcp => return Err(MessageError::new("MCP uses POST, GET and DELETE")),
        _ => return Err(MessageError::new("JSON-RPC uses POST")),
    }
    content_type::check(request.content_type, &["application/json"])?;
    let one = |message: &Json| operation(message, is_mcp, settings.strict_tool_names);
    match json::parse(request.body)? {
        Json::List(batch) if batch.is_empty() => Err(MessageError::new("the batch is empty")),
        Json::List(batch) if batch.len() > MAX_BATCH => {
            Err(MessageError::new(format!("the batch has more than {MAX_BATCH} members")))
        }
        Json::List(batch) => {
            let member = |(index, message): (usize, &Json)| {
                one(message).map_err(|error| error.within(&format!("member {} of the batch", index + 1)))
            };
            batch.iter().enumerate().map(member).collect()
        }
        message => Ok(vec![one(&message)?]),
    }
}

fn operation(message: &Json, is_mcp: bool, strict: bool) -> Result<Operation, MessageError> {
    let Json::Object(entries) = message else {
        return Err(MessageError::new("the message is not an object"));
    };
    if message.get("jsonrpc").and_then(Json::as_text) != Some("2.0") {
        return Err(MessageError::new("`jsonrpc` is not \"2.0\""));
    }
    match message.get("id") {
        None | Some(Json::Text(_) | Json::Null) => {}
        Some(Json::Plain(plain)) if plain != "true" && plain != "false" => {}
        Some(_) => return Err(MessageError::new("`id` is neither a string nor a number")),
    }
    let is_answer = message.get("method").is_none() && is_mcp;
    let known: &[&str] = if is_answer {
        &["jsonrpc", "id", "result", "error"]
    } else {
        &["jsonrpc", "id", "method", "params"]
    };
    if entries.iter().any(|(key, _)| !known.contains(&key.as_str())) {
        return Err(MessageError::new(format!("the message has keys other than {}", known.join(", "))));
    }
    if is_answer {
        let has_one = message.get("result").is_some() != message.get("error").is_some();
        if message.get("id").is_none() || !has_one {
            return Err(MessageError::new("the message is neither a call nor an answer"));
        }
        return Ok(Operation::Session);
    }
    call(message, is_mcp, strict).map(Operation::Rpc)
}

fn call(message: &Json, is_mcp: bool, strict: bool) -> Result<RpcCall, MessageError> {
    let method = message.get("method").and_then(Json::as_text);
    let method = method.filter(|method| is_name(method)).ok_or_else(|| {
        MessageError::new(format!("`method` is not a string of 1 to {MAX_NAME_BYTES} printable characters"))
    })?;
    let params = match message.get("params") {
        None => &Json::Null,
        Some(params @ (Json::Object(_) | Json::List(_) | Json::Null)) => params,
        Some(_) => return Err(MessageError::new("`params` is neither an object nor an array")),
    };
    let tool = if is_mcp && method == "tools/call" { Some(tool(params, strict)?) } else { None };
    let mut call = RpcCall::new(method, tool);
    call.set_params(params);
    Ok(call)
}

fn tool(params: &Json, strict: bool) -> Result<&str, MessageError> {
    let name = params.get("name").and_then(Json::as_text);
    let name = name.filter(|name| is_name(name)).ok_or_else(|| {
        MessageError::new(format!(
            "`params.name` is not a string of 1 to {MAX_NAME_BYTES} printable characters"
        ))
    })?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if strict && !(name.len() <= MAX_TOOL_BYTES && name.bytes().all(plain)) {
        return Err(MessageError::new(format!(
            "the name of the tool has other characters than letters, digits, `_`, `-` and `.`, or more than \
             {MAX_TOOL_BYTES}; `mcp.strict_tool_names: false` allows it"
        )));
    }
    Ok(name)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_NAME_BYTES && !text.chars().any(char::is_control)
}

/// The ids of the calls in a body, as JSON writes them: what an answer has to repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RpcIds {
    /// No call has an id, or the body cannot be read.
    Unknown,
    One(String),
    Batch(Vec<String>),
}

pub fn rpc_ids(body: &[u8]) -> RpcIds {
    let id = |message: &Json| match message.get("id")? {
        Json::Text(text) => Some(serde_json::Value::from(text.as_str()).to_string()),
        Json::Plain(text) => Some(text.clone()),
        _ => None,
    };
    match json::parse(body) {
        Ok(Json::List(batch)) => {
            let ids: Vec<String> = batch.iter().filter_map(id).collect();
            if ids.is_empty() { RpcIds::Unknown } else { RpcIds::Batch(ids) }
        }
        Ok(message) => id(&message).map_or(RpcIds::Unknown, RpcIds::One),
        Err(_) => RpcIds::Unknown,
    }
}
