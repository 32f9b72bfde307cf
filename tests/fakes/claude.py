"""Answers of Claude as the Messages API documents them, for services that serve it under addresses of their own."""
import json


def answer(request, result):
    """Hands the result in by the tool that the request offers for it."""
    names = {tool.get("name") for tool in request.get("tools", [])}
    last = request["messages"][-1]["content"]
    handed_in = isinstance(last, list) and any(block["type"] == "tool_result" for block in last)
    block = {"type": "text", "text": "There is nothing more to say."}
    if "finish" in names:
        block = {"type": "tool_use", "id": "toolu_1", "name": "finish", "input": {"output": result}}
    elif "StructuredOutput" in names and not handed_in:
        block = {"type": "tool_use", "id": "toolu_1", "name": "StructuredOutput", "input": result}
    stop = "tool_use" if block["type"] == "tool_use" else "end_turn"
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5-20250929",
            "content": [block], "stop_reason": stop, "stop_sequence": None,
            "usage": {"input_tokens": 7, "output_tokens": 3}}


def events(whole):
    """The same, as a stream."""
    block = whole["content"][0]
    yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None,
                                                "usage": {"input_tokens": 7, "output_tokens": 1}}}
    if block["type"] == "text":
        start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        start = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    yield {"type": "content_block_start", "index": 0, "content_block": start}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None},
           "usage": {"output_tokens": 3}}
    yield {"type": "message_stop"}
