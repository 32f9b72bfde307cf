//! Translates requests from the Responses format to Chat Completions.

mod responses_form;

use super::called_tools::{CalledTool, CalledTools};
use super::chat_form::{
    ChatCall, ChatContent, ChatFile, ChatFunction, ChatImage, ChatMessage, ChatPart, ChatRequest, ChatTool,
    JsonSchema, OutputLimit, ResponseFormat, StreamOptions,
};
use responses_form::{
    Content, Input, Item, Part, Reasoning, ResponsesRequest, ResponsesTool, TextFormat, TextOptions,
};
use serde_json::{Value, json};

/// The request, and the names of its tools in the answer. `Err` names what Chat Completions cannot express.
pub(super) fn request(body: &[u8], limit: OutputLimit) -> Result<(Vec<u8>, CalledTools), String> {
    let request: ResponsesRequest = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let (chat, tools) = translate(request, limit)?;
    let written = serde_json::to_vec(&chat).map_err(|error| error.to_string())?;
    Ok((written, tools))
}

fn translate(request: ResponsesRequest, limit: OutputLimit) -> Result<(ChatRequest, CalledTools), String> {
    let ResponsesRequest {
        model,
        input,
        instructions,
        tools,
        tool_choice,
        parallel_tool_calls,
        max_output_tokens,
        stream,
        reasoning,
        text,
        temperature,
        top_p,
        truncation,
        ..
    } = request;
    if truncation.is_some_and(|truncation| truncation != "disabled") {
        return Err("it has no `truncation`".to_owned());
    }
    let mut called = CalledTools::default();
    let mut functions = Vec::new();
    for tool in tools {
        add_tool(tool, None, &mut functions, &mut called)?;
    }
    let has_tools = !functions.is_empty();
    let (max_tokens, max_completion_tokens) = limit.fields(max_output_tokens);
    let (verbosity, format) = match text {
        Some(TextOptions { verbosity, format }) => (verbosity, format),
        None => (None, None),
    };
    let chat = ChatRequest {
        model,
        messages: messages(instructions, input)?,
        stream,
        stream_options: stream.then_some(StreamOptions { include_usage: true }),
        tools: functions,
        tool_choice: tool_choice.filter(|_| has_tools).map(choice).transpose()?,
        // Set only if it differs from the default: not every server supports the field.
        parallel_tool_calls: parallel_tool_calls.filter(|parallel| has_tools && !parallel),
        max_tokens,
        max_completion_tokens,
        temperature,
        top_p,
        stop: Vec::new(),
        reasoning_effort: reasoning.and_then(|Reasoning { effort, .. }| effort),
        verbosity,
        response_format: format.and_then(response_format),
    };
    Ok((chat, called))
}

fn response_format(format: TextFormat) -> Option<ResponseFormat> {
    match format {
        TextFormat::Text {} => None,
        TextFormat::JsonSchema { name, schema, strict } => Some(ResponseFormat::JsonSchema {
            json_schema: JsonSchema { name, schema, strict: strict.unwrap_or(false) },
        }),
    }
}

fn choice(choice: Value) -> Result<Value, String> {
    match (choice.as_str(), choice["type"].as_str(), choice["name"].as_str()) {
        (Some("auto" | "none" | "required"), _, _) => Ok(choice),
        (_, Some("function" | "custom"), Some(name)) => {
            Ok(json!({"type": "function", "function": {"name": name}}))
        }
        _ => Err(format!("it has no tool choice {choice}")),
    }
}

/// A tool in a namespace gets its full name. A tool that takes free text becomes a function with one argument.
fn add_tool(
    tool: ResponsesTool,
    namespace: Option<(&str, &str)>,
    functions: &mut Vec<ChatTool>,
    called: &mut CalledTools,
) -> Result<(), String> {
    let (name, description, parameters, strict, takes_text) = match tool {
        ResponsesTool::Namespace { name, description, tools } => {
            let about = description.unwrap_or_default();
            // The namespace's description is written once.
            for (index, tool) in tools.into_iter().enumerate() {
                let about = if index == 0 { about.as_str() } else { "" };
                add_tool(tool, Some((&name, about)), functions, called)?;
            }
            return Ok(());
        }
        ResponsesTool::Function { name, description, parameters, strict, .. } => {
            (name, description.unwrap_or_default(), parameters.unwrap_or_else(|| json!({})), strict, false)
        }
        ResponsesTool::Custom { name, description, format, .. } => {
            let mut description = description.unwrap_or_default();
            if let Some(definition) = format.as_ref().and_then(|format| format["definition"].as_str()) {
                description.push_str(&format!("\n\nThe grammar of `input`:\n{definition}"));
            }
            let text = json!({"type": "string"});
            let parameters = json!({"type": "object", "properties": {"input": text}, "required": ["input"]});
            (name, description, parameters, None, true)
        }
    };
    let (full_name, about) = match namespace {
        Some((namespace, about)) => (format!("{namespace}__{name}"), about),
        None => (name.clone(), ""),
    };
    let namespace = namespace.map(|(namespace, _)| namespace.to_owned());
    let description = if about.is_empty() { description } else { format!("{about}\n\n{description}") };
    called.add(full_name.clone(), CalledTool { namespace, name, takes_text });
    functions.push(ChatTool::Function {
        function: ChatFunction { name: full_name, description, parameters, strict },
    });
    Ok(())
}

fn messages(instructions: Option<String>, input: Input) -> Result<Vec<ChatMessage>, String> {
    let mut list = Vec::new();
    list.extend(instructions.filter(|text| !text.is_empty()).map(|content| ChatMessage::System { content }));
    let items = match input {
        Input::Text(text) => {
            list.push(ChatMessage::User { content: ChatContent::Text(text) });
            return Ok(list);
        }
        Input::Items(items) => items,
    };
    let mut shown = Vec::new();
    for item in items {
        let is_result = matches!(item, Item::FunctionCallOutput { .. } | Item::CustomToolCallOutput { .. });
        if !is_result && !shown.is_empty() {
            // Results stay together; their images follow all of them.
            list.push(ChatMessage::User { content: ChatContent::of(std::mem::take(&mut shown)) });
        }
        add_item(item, &mut list, &mut shown)?;
    }
    if !shown.is_empty() {
        list.push(ChatMessage::User { content: ChatContent::of(shown) });
    }
    Ok(list)
}

fn add_item(item: Item, list: &mut Vec<ChatMessage>, shown: &mut Vec<ChatPart>) -> Result<(), String> {
    match item {
        // The format has no field for earlier thinking.
        Item::Reasoning { .. } => {}
        Item::Message { role, content, .. } => match role.as_str() {
            "assistant" => assistant_of(list).0.push_str(&only_text(content)?),
            "user" => list.push(ChatMessage::User { content: ChatContent::of(parts(content)) }),
            "system" | "developer" => add_system(list, only_text(content)?),
            other => return Err(format!("it has no role `{other}`")),
        },
        Item::FunctionCall { call_id, name, namespace, arguments, .. } => {
            let name = namespace.map_or(name.clone(), |namespace| format!("{namespace}__{name}"));
            assistant_of(list).1.push(ChatCall::of_text(call_id, name, arguments));
        }
        Item::CustomToolCall { call_id, name, input, .. } => {
            assistant_of(list).1.push(ChatCall::new(call_id, name, &json!({ "input": input })));
        }
        Item::FunctionCallOutput { call_id, output, success, .. }
        | Item::CustomToolCallOutput { call_id, output, success, .. } => {
            let (result, pictures) = result(call_id, output, success == Some(false));
            list.push(result);
            shown.extend(pictures);
        }
    }
    Ok(())
}

/// Joins the instructions at the start into one message, because not every server accepts several.
fn add_system(list: &mut Vec<ChatMessage>, text: String) {
    match list.last_mut() {
        Some(ChatMessage::System { content }) => {
            content.push_str("\n\n");
            content.push_str(&text);
        }
        _ => list.push(ChatMessage::System { content: text }),
    }
}

/// The message of the model's turn at the end of the list: its words and its calls.
fn assistant_of(list: &mut Vec<ChatMessage>) -> (&mut String, &mut Vec<ChatCall>) {
    if !matches!(list.last(), Some(ChatMessage::Assistant { .. })) {
        list.push(ChatMessage::Assistant { content: Some(String::new()), tool_calls: Vec::new() });
    }
    match list.last_mut() {
        Some(ChatMessage::Assistant { content, tool_calls }) => (content.get_or_insert_default(), tool_calls),
        _ => unreachable!("it was added above"),
    }
}

fn only_text(content: Content) -> Result<String, String> {
    let texts: Result<Vec<String>, String> = content
        .into_parts()
        .into_iter()
        .map(|part| match part {
            Part::InputText { text } | Part::Refusal { refusal: text } => Ok(text),
            _ => Err("it has only text in instructions and answers".to_owned()),
        })
        .collect();
    Ok(texts?.join("\n\n"))
}

fn parts(content: Content) -> Vec<ChatPart> {
    let part = |part: Part| match part {
        Part::InputText { text } | Part::Refusal { refusal: text } => ChatPart::text(text),
        Part::InputImage { image_url } => ChatPart::ImageUrl { image_url: ChatImage { url: image_url } },
        Part::InputFile { filename, file_data } => {
            let filename = filename.unwrap_or_else(|| "document".to_owned());
            ChatPart::File { file: ChatFile { filename, file_data } }
        }
    };
    content.into_parts().into_iter().map(part).collect()
}

fn result(id: String, content: Content, is_error: bool) -> (ChatMessage, Vec<ChatPart>) {
    super::chat_form::tool_result(id, parts(content), is_error)
}
