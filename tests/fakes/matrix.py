"""One model behind the addresses and framings of every service, which does in one conversation what can happen to a request.

Arguments: `good`, `short`, `denied` or `long`, the result that it hands in, and models that are always overloaded. `good`: it is rate limited once, thinks, speaks and calls
one tool; is overloaded once, and calls two tools at once; breaks off once, and asks for a picture; then hands the result in.
Every answer says that some of the request came from the cache. `short` hands the result in at once. `denied` refuses the key, `long` the length of the conversation.
Prints its port. Every request that it takes is one JSON line on standard output: what it saw, and what it did.
"""
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from amazon_frames import framed

MODE, RESULT = sys.argv[1], json.loads(sys.argv[2])
BUSY = sys.argv[3:]
USAGE = {"input": 100, "cached": 5, "output": 10}
PICTURE = "/sandbox/workspace/repo/picture.png"
lock = threading.Lock()
done_once = set()


def wire_of(path):
    path = path.split("?")[0]
    if path.endswith("/responses"):
        return "responses"
    if path.endswith("/chat/completions"):
        return "chat"
    return "messages"


def results(body):
    """How many results of tools the conversation has, how many pictures, and how many thoughts of the model."""
    text = json.dumps(body)
    thoughts = text.count('"c2lnbg=="') + text.count('"c2VhbGVk"')
    pictures = text.count('"type": "image"') + text.count('"input_image"') + text.count('"type": "image_url"')
    count = 0
    for item in body.get("messages", []) + (body["input"] if isinstance(body.get("input"), list) else []):
        if item.get("role") == "tool" or item.get("type") in ("function_call_output", "custom_tool_call_output"):
            count += 1
        elif isinstance(item.get("content"), list):
            count += sum(block.get("type") == "tool_result" for block in item["content"])
    return count, pictures, thoughts


def tools(body):
    later = body["input"] if isinstance(body.get("input"), list) else []
    offered = body.get("tools", []) + [tool for item in later for tool in item.get("tools", [])]
    return {tool.get("function", tool).get("name") for tool in offered}


def shell(names, command):
    if "Bash" in names:
        return "Bash", {"command": command, "description": "scripted"}
    return "exec_command", {"cmd": command}


def finish(names):
    if "StructuredOutput" in names:
        return [("StructuredOutput", RESULT)]
    if "finish" in names:
        return [("finish", {"output": RESULT})]
    return [(None, json.dumps(RESULT))]


def plan(count, names):
    """What happens first, and the blocks of the answer; a block without a tool is a text."""
    if MODE == "short":
        return None, finish(names)
    if count == 0:
        return "429", [("thinking", "hm"), (None, "I look."), shell(names, "echo first")]
    if count == 1:
        return "529", [shell(names, "echo second"), shell(names, "echo third")]
    if count == 3 and "Read" in names:
        return "cut", [("Read", {"file_path": PICTURE})]
    if count == 3 and "view_image" in names:
        return "cut", [("view_image", {"path": PICTURE})]
    if count == 3:
        return "cut", finish(names)
    return None, finish(names)


def messages(blocks):
    usage = {"input_tokens": USAGE["input"], "cache_read_input_tokens": USAGE["cached"], "output_tokens": USAGE["output"]}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [],
               "stop_reason": None, "stop_sequence": None, "usage": {**usage, "output_tokens": 1}}
    yield {"type": "message_start", "message": message}
    stop = "end_turn"
    for index, (name, value) in enumerate(blocks):
        if name == "thinking":
            start = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": value}, {"type": "signature_delta", "signature": "c2lnbg=="}]
        elif name is None:
            start, deltas = {"type": "text", "text": ""}, [{"type": "text_delta", "text": value}]
        else:
            stop = "tool_use"
            start = {"type": "tool_use", "id": f"toolu_{id(value)}", "name": name, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(value)}]
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}


def responses(blocks):
    whole = {"id": "resp_1", "object": "response", "model": "gpt-5.1", "output": []}
    yield {"type": "response.created", "response": {**whole, "status": "in_progress"}}
    for index, (name, value) in enumerate(blocks):
        if name == "thinking":
            item = {"type": "reasoning", "id": f"rs_{index}", "summary": [{"type": "summary_text", "text": value}],
                    "encrypted_content": "c2VhbGVk"}
            empty = {"summary": []}
        elif name is None:
            item = {"type": "message", "id": f"msg_{index}", "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": value, "annotations": []}]}
            empty = {"content": []}
        else:
            item = {"type": "function_call", "id": f"fc_{id(value)}", "call_id": f"call_{id(value)}", "name": name,
                    "arguments": json.dumps(value), "status": "completed"}
            empty = {"arguments": ""}
        yield {"type": "response.output_item.added", "output_index": index, "item": {**item, **empty}}
        if name is None:
            yield {"type": "response.output_text.delta", "output_index": index, "content_index": 0,
                   "item_id": item["id"], "delta": value}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
        whole["output"].append(item)
    total = USAGE["input"] + USAGE["cached"]
    usage = {"input_tokens": total, "input_tokens_details": {"cached_tokens": USAGE["cached"]},
             "output_tokens": USAGE["output"], "output_tokens_details": {"reasoning_tokens": 1},
             "total_tokens": total + USAGE["output"]}
    yield {"type": "response.completed", "response": {**whole, "status": "completed", "usage": usage}}


def chat(blocks):
    whole = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "qwen3"}
    calls = 0
    for name, value in blocks:
        if name == "thinking":
            delta = {"reasoning_content": value}
        elif name is None:
            delta = {"role": "assistant", "content": value}
        else:
            call = {"index": calls, "id": f"call_{id(value)}", "type": "function",
                    "function": {"name": name, "arguments": json.dumps(value)}}
            delta, calls = {"tool_calls": [call]}, calls + 1
        yield {**whole, "choices": [{"index": 0, "finish_reason": None, "delta": delta}]}
    reason = "tool_calls" if calls else "stop"
    yield {**whole, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    total = USAGE["input"] + USAGE["cached"]
    yield {**whole, "choices": [], "usage": {"prompt_tokens": total, "completion_tokens": USAGE["output"],
                                             "prompt_tokens_details": {"cached_tokens": USAGE["cached"]},
                                             "total_tokens": total + USAGE["output"]}}


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def refuse(self, status, words):
        error = {"type": "error", "error": {"type": "invalid_request_error", "message": words, "code": None}}
        if self.path.startswith("/model/"):
            error = {"message": words}
        body = json.dumps(error).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": len(body), "retry-after-ms": 20}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/token":
            grant = json.dumps({"access_token": "ya29.of-the-matrix", "expires_in": 3599}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(grant)))
            self.end_headers()
            return self.wfile.write(grant)
        count, pictures, thoughts = results(body)
        event, blocks = plan(count, tools(body))
        is_main = len(tools(body)) > 0
        if not is_main:
            event, blocks = None, [(None, "A title")]
        with lock:
            if event is None or event in done_once:
                event = None
            else:
                done_once.add(event)
            did = MODE if MODE in ("denied", "long") else event or "answered"
            print(json.dumps({"path": self.path, "results": count, "pictures": pictures, "thoughts": thoughts,
                              "did": did, "main": is_main, "model": body.get("model")}), flush=True)
        if body.get("model") in BUSY:
            return self.refuse(529, "come back later")
        if MODE == "denied":
            return self.refuse(401, "wrong key")
        if MODE == "long":
            words = "prompt is too long: 9 tokens > 8 maximum"
            if wire_of(self.path) != "messages":
                words = "This model's maximum context length is 8 tokens. However, your messages resulted in 9 tokens."
            return self.refuse(400, words)
        if event in ("429", "529"):
            return self.refuse(int(event), "come back later")
        return self.stream(blocks, event == "cut")

    def stream(self, blocks, is_cut):
        wire = wire_of(self.path)
        events = list({"messages": messages, "responses": responses, "chat": chat}[wire](blocks))
        if is_cut:
            events = events[:2] if wire != "chat" else events[:1]
        is_amazon = self.path.startswith("/model/")
        self.send_response(200)
        kind = "application/vnd.amazon.eventstream" if is_amazon else "text/event-stream"
        self.send_header("content-type", kind)
        self.send_header("connection", "close")
        self.end_headers()
        for event in events:
            if is_amazon:
                self.wfile.write(framed(event))
            else:
                name = f"event: {event['type']}\n" if "type" in event else ""
                self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())
        if wire == "chat" and not is_cut:
            self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
print(server.server_port, flush=True)
server.serve_forever()
