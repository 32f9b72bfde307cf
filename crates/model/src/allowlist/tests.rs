//! Each hosted tool, source and option that a vendor documents is refused by name, in every wire format; the runtimes'
//! own requests pass.

use super::*;
use hyper::HeaderMap;
use hyper::header::HeaderValue;
use serde_json::json;

fn refused(wire: Wire, body: &Value) -> String {
    match check_body(wire, body, &AllowedFeatures::default()) {
        Ok(()) => String::new(),
        Err(NotAllowed::Feature(feature)) => feature,
        Err(error) => error.to_string(),
    }
}

fn messages(more: Value) -> Value {
    let mut body = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]});
    let Value::Object(more) = more else { panic!("{more} is not an object") };
    body.as_object_mut().unwrap().extend(more);
    body
}

fn user_block(block: Value) -> Value {
    let content = Value::Array(vec![block]);
    messages(json!({"messages": [{"role": "user", "content": content}]}))
}

#[test]
fn what_a_vendor_does_by_itself_is_refused_in_messages() {
    let in_result =
        |block: Value| user_block(json!({"type": "tool_result", "tool_use_id": "t", "content": [block]}));
    let url = json!({"type": "url", "url": "https://evil.example/x.png"});
    let image = json!({"type": "image", "source": url});
    let within = json!({"type": "document", "source": {"type": "content", "content": [image]}});
    for (body, feature) in [
        (
            messages(json!({"mcp_servers": [{"type": "url", "url": "https://evil.example"}]})),
            "field:mcp_servers",
        ),
        (messages(json!({"container": "c"})), "field:container"),
        (
            messages(json!({"tools": [{"type": "web_search_20250305", "name": "w"}]})),
            "tool:web_search_20250305",
        ),
        (
            messages(json!({"tools": [{"type": "web_fetch_20250910", "name": "w"}]})),
            "tool:web_fetch_20250910",
        ),
        (
            messages(json!({"tools": [{"type": "code_execution_20250825", "name": "c"}]})),
            "tool:code_execution_20250825",
        ),
        (messages(json!({"tools": [{"type": "mcp_toolset", "mcp_server_name": "x"}]})), "tool:mcp_toolset"),
        (
            messages(
                json!({"tools": [{"name": "a", "input_schema": {}, "allowed_callers": ["code_execution_20250825"]}]}),
            ),
            "field:tools.allowed_callers=code_execution_20250825",
        ),
        (user_block(image.clone()), "source:url"),
        (in_result(image), "source:url"),
        (user_block(within), "source:url"),
        (user_block(json!({"type": "document", "source": {"type": "file", "file_id": "f"}})), "source:file"),
        (user_block(json!({"type": "container_upload", "file_id": "f"})), "block:container_upload"),
        (
            user_block(json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})),
            "block:server_tool_use",
        ),
        (
            user_block(
                json!({"type": "image", "source": {"type": "base64", "data": "", "url": "https://evil.example"}}),
            ),
            "field:messages.content.source.url",
        ),
        (messages(json!({"service_tier": "priority"})), "field:service_tier=priority"),
        (messages(json!({"speed": "fast"})), "field:speed=fast"),
        (messages(json!({"inference_geo": "us"})), "field:inference_geo"),
        (messages(json!({"anthropic_beta": ["mcp-client-2025-11-20"]})), "field:anthropic_beta"),
        (
            messages(json!({"context_management": {"edits": [{"type": "compact_20260112"}]}})),
            "edit:compact_20260112",
        ),
        (messages(json!({"Tools": []})), "field:Tools"),
        (
            messages(json!({"tools": [{"type": "bash_code_execution_20250825", "name": "b"}]})),
            "tool:bash_code_execution_20250825",
        ),
        (
            messages(
                json!({"tools": [{"type": "bash_20250124", "name": "b", "allowed_callers": ["code_execution_20250825"]}]}),
            ),
            "field:tools.allowed_callers=code_execution_20250825",
        ),
        (
            messages(
                json!({"tools": [{"type": "memory_20250818", "name": "m", "url": "https://evil.example"}]}),
            ),
            "field:tools.url",
        ),
        (
            user_block(
                json!({"type": "document", "source": {"type": "base64", "media_type": "text/plain", "data": ""}}),
            ),
            "source:data:text/plain",
        ),
        (messages(json!({"system": [{"type": "image", "source": {}}]})), "block:image"),
    ] {
        assert_eq!(refused(Wire::Messages, &body), feature, "{body}");
    }
    assert!(refused(Wire::Messages, &messages(json!({"tools": {"type": "x"}}))).contains("is not a list"));
    assert!(refused(Wire::Messages, &json!([])).contains("is not an object"));
}

#[test]
fn a_choice_of_a_hosted_tool_and_a_drawing_are_refused_in_messages() {
    for (body, feature) in [
        (messages(json!({"tool_choice": {"type": "web_search_20250305"}})), "choice:web_search_20250305"),
        (
            messages(json!({"tool_choice": {"type": "tool", "name": "w", "server_label": "x"}})),
            "field:tool_choice.server_label",
        ),
        (
            user_block(
                json!({"type": "image", "source": {"type": "base64", "media_type": "image/svg+xml", "data": ""}}),
            ),
            "source:data:image/svg+xml",
        ),
        (
            user_block(
                json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdfx", "data": ""}}),
            ),
            "source:data:application/pdfx",
        ),
    ] {
        assert_eq!(refused(Wire::Messages, &body), feature, "{body}");
    }
}

#[test]
fn what_a_vendor_does_by_itself_is_refused_in_responses() {
    let with = |more: Value| {
        let mut body = json!({"model": "m", "input": "hi"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let part = |part: Value| with(json!({"input": [{"role": "user", "content": [part]}]}));
    let output = |part: Value| {
        with(json!({"input": [{"type": "function_call_output", "call_id": "c", "output": [part]}]}))
    };
    for tool in [
        "web_search",
        "web_search_preview",
        "file_search",
        "code_interpreter",
        "mcp",
        "image_generation",
        "shell",
    ] {
        let body = with(json!({"tools": [{"type": tool}]}));
        assert_eq!(refused(Wire::Responses, &body), format!("tool:{tool}"));
        let nested = with(json!({"tools": [{"type": "namespace", "name": "n", "tools": [{"type": tool}]}]}));
        assert_eq!(refused(Wire::Responses, &nested), format!("tool:{tool}"));
    }
    for (body, feature) in [
        (part(json!({"type": "input_image", "image_url": "https://evil.example/x.png"})), "source:url"),
        (output(json!({"type": "input_image", "image_url": "http://evil.example/x.png"})), "source:url"),
        (part(json!({"type": "input_image", "file_id": "f"})), "field:input.content.file_id"),
        (
            part(json!({"type": "input_file", "file_url": "https://evil.example"})),
            "field:input.content.file_url",
        ),
        (part(json!({"type": "input_file", "file_data": "https://evil.example/x.pdf"})), "source:url"),
        (
            part(json!({"type": "input_file", "file_data": "data:text/markdown;base64,aGk="})),
            "source:data:text/markdown",
        ),
        (with(json!({"input": [{"type": "item_reference", "id": "i"}]})), "item:item_reference"),
        (with(json!({"input": [{"type": "web_search_call", "id": "i"}]})), "item:web_search_call"),
        (with(json!({"background": true})), "field:background=true"),
        (with(json!({"service_tier": "priority"})), "field:service_tier=priority"),
        (with(json!({"conversation": "c"})), "field:conversation"),
        (with(json!({"prompt": {"id": "p"}})), "field:prompt"),
        (with(json!({"previous_response_id": "r"})), "field:previous_response_id=r"),
        (with(json!({"include": ["file_search_call.results"]})), "field:include=file_search_call.results"),
        (
            with(json!({"tools": [{"type": "tool_search", "execution": "server"}]})),
            "field:tools.execution=server",
        ),
        (with(json!({"tool_choice": {"type": "web_search_preview"}})), "choice:web_search_preview"),
        (with(json!({"tool_choice": {"type": "mcp", "server_label": "x"}})), "choice:mcp"),
        (
            with(
                json!({"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp"}]}}),
            ),
            "tool:mcp",
        ),
        (
            with(json!({"input": [{"type": "tool_search_call", "call_id": "c", "execution": "server"}]})),
            "field:input.execution=server",
        ),
        (
            with(
                json!({"input": [{"type": "local_shell_call", "call_id": "c", "url": "https://evil.example"}]}),
            ),
            "field:input.url",
        ),
        (
            part(json!({"type": "input_image", "image_url": "data:image/svg+xml,<svg/>"})),
            "source:data:image/svg+xml",
        ),
    ] {
        assert_eq!(refused(Wire::Responses, &body), feature, "{body}");
    }
}

#[test]
fn what_a_vendor_does_by_itself_is_refused_in_chat() {
    let with = |more: Value| {
        let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let part = |part: Value| with(json!({"messages": [{"role": "user", "content": [part]}]}));
    for (body, feature) in [
        (part(json!({"type": "image_url", "image_url": {"url": "https://evil.example"}})), "source:url"),
        (part(json!({"type": "file", "file": {"file_id": "f"}})), "field:messages.content.file.file_id"),
        (part(json!({"type": "file", "file": {"file_data": "http://evil.example/x.pdf"}})), "source:url"),
        (
            part(json!({"type": "image_url", "image_url": {"url": "data:text/html,hi"}})),
            "source:data:text/html",
        ),
        (with(json!({"stream": "true"})), "`stream` is not true or false"),
        (with(json!({"web_search_options": {}})), "field:web_search_options"),
        (with(json!({"plugins": [{"id": "web"}]})), "field:plugins"),
        (with(json!({"models": ["a"]})), "field:models"),
        (with(json!({"n": 2})), "field:n=2"),
        (with(json!({"modalities": ["text", "audio"]})), "field:modalities=audio"),
        (with(json!({"service_tier": "priority"})), "field:service_tier=priority"),
        (with(json!({"prediction": {}})), "field:prediction"),
        (with(json!({"tools": [{"type": "web_search"}]})), "tool:web_search"),
        (with(json!({"tool_choice": {"type": "web_search"}})), "choice:web_search"),
    ] {
        assert_eq!(refused(Wire::Chat, &body), feature, "{body}");
    }
}

#[test]
fn what_the_runtimes_send_passes() {
    let claude = json!({
        "model": "claude-sonnet-4-5", "max_tokens": 32000, "stream": true, "temperature": 1,
        "metadata": {"user_id": "u"}, "thinking": {"type": "enabled", "budget_tokens": 1024},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "high"}, "tool_choice": {"type": "tool", "name": "Bash"},
        "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "Bash", "description": "d", "input_schema": {"type": "object"}, "eager_input_streaming": true}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "t", "signature": "s"},
                {"type": "tool_use", "id": "t", "name": "Read", "input": {"type": "web_search"}, "caller": {"type": "direct"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [
                {"type": "text", "text": "x"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}]}]},
        ],
    });
    assert_eq!(refused(Wire::Messages, &claude), "");
    let codex = json!({
        "model": "gpt-5-codex", "instructions": "i", "tool_choice": {"type": "function", "name": "exec_command"}, "parallel_tool_calls": false,
        "reasoning": {"effort": "medium", "summary": "auto"}, "store": false, "stream": true,
        "include": ["reasoning.encrypted_content"], "prompt_cache_key": "k", "text": {"verbosity": "low"},
        "client_metadata": {"x": "y"},
        "tools": [
            {"type": "function", "name": "exec_command", "description": "d", "strict": false, "parameters": {}},
            {"type": "custom", "name": "apply_patch", "description": "d", "format": {"type": "grammar"}}],
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "d"}]},
            {"type": "reasoning", "summary": [], "encrypted_content": "e", "content": null},
            {"type": "function_call", "name": "exec_command", "arguments": "{}", "call_id": "c"},
            {"type": "function_call_output", "call_id": "c", "output": "o"},
            {"type": "custom_tool_call", "status": "completed", "call_id": "d", "name": "apply_patch", "input": "p"},
            {"type": "custom_tool_call_output", "call_id": "d", "output": "o"},
            {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,"}]}],
    });
    assert_eq!(refused(Wire::Responses, &codex), "");
    let chat = json!({
        "model": "llama", "stream": true, "tool_choice": {"type": "function", "function": {"name": "f"}}, "stream_options": {"include_usage": true}, "n": 1,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "r"}],
    });
    assert_eq!(refused(Wire::Chat, &chat), "");
}

#[test]
fn the_harness_can_allow_a_feature_by_its_name() {
    let body = messages(json!({"tools": [{"type": "web_search_20250305", "name": "w", "max_uses": 1}]}));
    for (name, passes) in [
        ("tool:web_search_20250305", true),
        ("tool:web_search_*", true),
        ("tool:web_fetch_*", false),
        ("web_search_20250305", false),
    ] {
        let allowed = AllowedFeatures::new(vec![name.to_owned()]);
        assert_eq!(check_body(Wire::Messages, &body, &allowed).is_ok(), passes, "{name}");
    }
}

#[test]
fn only_known_betas_and_parameters_pass() {
    let check = |name: &'static str, value: &'static str| {
        let headers = HeaderMap::from_iter([(name.parse().unwrap(), HeaderValue::from_static(value))]);
        check_headers(&headers, &AllowedFeatures::new(vec!["beta:files-api-*".to_owned()])).err()
    };
    let passing =
        "claude-code-20250219,interleaved-thinking-2025-05-14, context-1m-2025-08-07,files-api-2025-04-14";
    assert_eq!(check("anthropic-beta", passing), None);
    assert_eq!(check("openai-beta", "responses=experimental"), None);
    for beta in [
        "mcp-client-2025-11-20",
        "web-fetch-2025-09-10",
        "code-execution-2025-08-25",
        "claude-code",
        "fast-mode-2026-02-01",
    ] {
        let both: &'static str = Box::leak(format!("claude-code-20250219,{beta}").into_boxed_str());
        assert_eq!(
            check("anthropic-beta", both),
            Some(NotAllowed::Feature(format!("beta:{beta}"))).filter(|_| beta != "claude-code")
        );
    }
    assert!(check("openai-beta", "assistants=v2").is_some());
    let query = |query| check_query(query, &AllowedFeatures::default()).err();
    assert_eq!(query(Some("beta=true")), None);
    assert_eq!(query(None), None);
    assert_eq!(query(Some("beta=true&x=1")), Some(NotAllowed::Feature("query:x=1".to_owned())));
}
