//! Requests of the Messages format as requests of Chat Completions.

mod messages_form;

use super::chat_form::{
    self, ChatCall, ChatContent, ChatFile, ChatFunction, ChatImage, ChatMessage, ChatPart, ChatRequest,
    ChatTool, JsonSchema, OutputLimit, ResponseFormat, StreamOptions,
};
use messages_form::{
    Block, Content, Edit, MessagesMessage, MessagesRequest, MessagesTool, OutputConfig, OutputFormat, Source,
    ToolChoice,
};
use serde_json::{Value, json};

/// `Err`: what the format cannot carry.
pub(super) fn request(body: &[u8], limit: OutputLimit) -> Result<Vec<u8>, String> {
    let request: MessagesRequest = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let chat = translate(request, limit)?;
    serde_json::to_vec(&chat).map_err(|error| error.to_string())
}

fn translate(request: MessagesRequest, limit: OutputLimit) -> Result<ChatRequest, String> {
    let MessagesRequest {
        model,
        messages,
        system,
        tools,
        tool_choice,
        max_tokens,
        stream,
        temperature,
        top_p,
        top_k,
        stop_sequences,
        output_config,
        output_format,
        context_management,
        // Fields that do not concern the model: user, cache, service tier.
        metadata: _,
        cache_control: _,
        service_tier: _,
        speed: _,
        // Chat Completions has no field for it; its models think by their own defaults.
        thinking: _,
    } = request;
    if top_k.is_some() {
        return Err("it has no `top_k`".to_owned());
    }
    for edit in context_management.into_iter().flat_map(|management| management.edits) {
        check_edit(&edit)?;
    }
    let mut list = Vec::new();
    if let Some(system) = system {
        list.extend(system_message(system)?);
    }
    for message in messages {
        list.extend(translate_message(message)?);
    }
    let OutputConfig { effort, format } = output_config.unwrap_or_default();
    let (max_tokens, max_completion_tokens) = limit.fields(max_tokens);
    let has_tools = !tools.is_empty();
    let (tool_choice, parallel_tool_calls) = choice(tool_choice.filter(|_| has_tools));
    Ok(ChatRequest {
        model,
        messages: list,
        stream,
        stream_options: stream.then_some(StreamOptions { include_usage: true }),
        tools: tools.into_iter().map(translate_tool).collect::<Result<_, _>>()?,
        tool_choice,
        parallel_tool_calls,
        max_tokens,
        max_completion_tokens,
        temperature,
        top_p,
        stop: stop_sequences,
        reasoning_effort: effort.map(check_effort).transpose()?,
        verbosity: None,
        response_format: format.or(output_format).map(response_format),
    })
}

/// Thinking is not sent back, so clearing it changes nothing.
fn check_edit(edit: &Edit) -> Result<(), String> {
    let kind = &edit.kind;
    if kind.starts_with("clear_thinking_") { Ok(()) } else { Err(format!("it has no context edit `{kind}`")) }
}

fn check_effort(effort: String) -> Result<String, String> {
    match effort.as_str() {
        "minimal" | "low" | "medium" | "high" | "xhigh" => Ok(effort),
        other => Err(format!("it has no effort `{other}`")),
    }
}

fn response_format(format: OutputFormat) -> ResponseFormat {
    let OutputFormat::JsonSchema { schema } = format;
    ResponseFormat::JsonSchema { json_schema: JsonSchema { name: "answer".to_owned(), schema, strict: true } }
}

fn choice(choice: Option<ToolChoice>) -> (Option<Value>, Option<bool>) {
    let Some(choice) = choice else { return (None, None) };
    let one_by_one = choice.disables_parallel().then_some(false);
    let chosen = match choice {
        ToolChoice::Auto { .. } => json!("auto"),
        ToolChoice::Any { .. } => json!("required"),
        ToolChoice::None {} => json!("none"),
        ToolChoice::Tool { name, .. } => json!({"type": "function", "function": {"name": name}}),
    };
    (Some(chosen), one_by_one)
}

fn translate_tool(tool: MessagesTool) -> Result<ChatTool, String> {
    let MessagesTool { kind, name, description, input_schema, input_examples, strict, .. } = tool;
    if let Some(kind) = kind.filter(|kind| kind != "custom") {
        return Err(format!("it has no tool of the type `{kind}`"));
    }
    let mut description = description.unwrap_or_default();
    if let Some(examples) = input_examples {
        description.push_str(&format!("\n\nExamples of arguments: {examples}"));
    }
    let function =
        ChatFunction { name, description, parameters: input_schema.unwrap_or_else(|| json!({})), strict };
    Ok(ChatTool::Function { function })
}

fn system_message(content: Content) -> Result<Option<ChatMessage>, String> {
    let text = only_text(content, "a system prompt")?;
    Ok((!text.is_empty()).then_some(ChatMessage::System { content: text }))
}

fn only_text(content: Content, place: &str) -> Result<String, String> {
    let texts: Result<Vec<String>, String> = content
        .into_blocks()
        .into_iter()
        .map(|block| match block {
            Block::Text { text, .. } => Ok(text),
            _ => Err(format!("it has only text in {place}")),
        })
        .collect();
    Ok(texts?.join("\n\n"))
}

fn translate_message(message: MessagesMessage) -> Result<Vec<ChatMessage>, String> {
    let MessagesMessage { role, content } = message;
    match role.as_str() {
        "assistant" => Ok(vec![assistant(content)?]),
        "system" => Ok(system_message(content)?.into_iter().collect()),
        "user" => user(content),
        other => Err(format!("it has no role `{other}`")),
    }
}

/// Thinking is left out: the format has no field for earlier thinking.
fn assistant(content: Content) -> Result<ChatMessage, String> {
    let mut said = Vec::new();
    let mut tool_calls = Vec::new();
    for block in content.into_blocks() {
        match block {
            Block::Text { text, .. } => said.push(text),
            Block::ToolUse { id, name, input, .. } => tool_calls.push(ChatCall::new(id, name, &input)),
            Block::Thinking { .. } | Block::RedactedThinking { .. } => {}
            other => return Err(format!("an answer in it has no {}", other.name())),
        }
    }
    let content = (!said.is_empty() || tool_calls.is_empty()).then(|| said.concat());
    Ok(ChatMessage::Assistant { content, tool_calls })
}

/// Results follow the calls at once; pictures in them and everything else that the user says come after all of them.
fn user(content: Content) -> Result<Vec<ChatMessage>, String> {
    let mut results = Vec::new();
    let mut shown = Vec::new();
    let mut said = Vec::new();
    for block in content.into_blocks() {
        match block {
            Block::ToolResult { tool_use_id, content, is_error, .. } => {
                let (result, pictures) = tool_result(tool_use_id, content, is_error.unwrap_or(false))?;
                results.push(result);
                shown.extend(pictures);
            }
            block => said.extend(parts(block)?),
        }
    }
    shown.extend(said);
    if !shown.is_empty() {
        results.push(ChatMessage::User { content: ChatContent::of(shown) });
    }
    Ok(results)
}

fn tool_result(
    id: String,
    content: Option<Content>,
    is_error: bool,
) -> Result<(ChatMessage, Vec<ChatPart>), String> {
    let mut all = Vec::new();
    for block in content.map(Content::into_blocks).unwrap_or_default() {
        all.extend(parts(block)?);
    }
    Ok(chat_form::tool_result(id, all, is_error))
}

fn parts(block: Block) -> Result<Vec<ChatPart>, String> {
    match block {
        Block::Text { text, .. } => Ok(vec![ChatPart::text(text)]),
        Block::Image { source: Source::Base64 { media_type, data }, .. } => {
            let url = format!("data:{media_type};base64,{data}");
            Ok(vec![ChatPart::ImageUrl { image_url: ChatImage { url } }])
        }
        Block::Document { source, title, context, .. } => document(source, title, context),
        Block::SearchResult { source, title, content, .. } => {
            let mut all = vec![ChatPart::text(format!("{title}\n{source}"))];
            for block in content {
                all.extend(parts(block)?);
            }
            Ok(all)
        }
        other => Err(format!("it has no {}", other.name())),
    }
}

fn document(source: Source, title: Option<String>, context: Option<String>) -> Result<Vec<ChatPart>, String> {
    let about: Vec<String> = [title.clone(), context].into_iter().flatten().collect();
    let mut all: Vec<ChatPart> = about.into_iter().map(ChatPart::text).collect();
    match source {
        Source::Text { data, .. } => all.push(ChatPart::text(data)),
        Source::Content { content } => {
            for block in content.into_blocks() {
                all.extend(parts(block)?);
            }
        }
        Source::Base64 { media_type, data } => {
            let filename = title.unwrap_or_else(|| "document".to_owned());
            let file_data = format!("data:{media_type};base64,{data}");
            all.push(ChatPart::File { file: ChatFile { filename, file_data } });
        }
    }
    Ok(all)
}
