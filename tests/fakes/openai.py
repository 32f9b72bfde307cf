"""OpenAI's Responses and Chat Completions APIs, Azure's addresses for them, and a server without keys like Ollama, as their
public documentation describes them.

Arguments: `openai`, `azure` or `open`, and the result that it hands in. Prints its port. Every request that it takes is one
JSON line on standard output, with the usage that was sent for it; a request that breaks a rule gets an error as OpenAI
writes it.
"""
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KIND = sys.argv[1]
RESULT = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {"summary": "done by OpenAI"}
PATHS = {
    "openai": re.compile(r"^/v1/(?P<api>responses|chat/completions)$"),
    "azure": re.compile(r"^/openai/(?:v1/|deployments/[a-z0-9-]+/)(?P<api>responses|chat/completions)(\?api-version=[0-9a-z-]+)?$"),
    "open": re.compile(r"^/v1/(?P<api>chat/completions)$"),
}
USAGE = {"input": 11, "cached": 4, "output": 5}


def hand_in(request):
    """A call of the tool that takes the result, or the result as text."""
    tools = [tool.get("function", tool).get("name") for tool in request.get("tools", [])]
    answered = any(message.get("role") == "tool" for message in request.get("messages", []))
    if "StructuredOutput" in tools and not answered:
        return "StructuredOutput", json.dumps(RESULT)
    return ("finish", json.dumps({"output": RESULT})) if "finish" in tools else (None, json.dumps(RESULT))


def responses(request):
    name, text = hand_in(request)
    whole = {"id": "resp_1", "object": "response", "model": request["model"], "status": "completed", "output": []}
    if name:
        item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name, "arguments": text,
                "status": "completed"}
    else:
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": text, "annotations": []}]}
    yield {"type": "response.created", "response": {**whole, "status": "in_progress"}}
    empty = {"arguments": ""} if name else {"content": []}
    yield {"type": "response.output_item.added", "output_index": 0, "item": {**item, **empty, "status": "in_progress"}}
    if name:
        yield {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_1", "delta": text}
    else:
        yield {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "item_id": "msg_1",
               "delta": text}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    usage = {"input_tokens": USAGE["input"], "input_tokens_details": {"cached_tokens": USAGE["cached"]},
             "output_tokens": USAGE["output"], "output_tokens_details": {"reasoning_tokens": 0},
             "total_tokens": USAGE["input"] + USAGE["output"]}
    yield {"type": "response.completed", "response": {**whole, "output": [item], "usage": usage}}


def chat(request):
    name, text = hand_in(request)
    whole = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": request["model"]}
    delta = {"role": "assistant", "content": text}
    if name:
        call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": text}}
        delta = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "finish_reason": None}
    yield {**whole, "choices": [{**choice, "delta": delta}]}
    yield {**whole, "choices": [{**choice, "delta": {}, "finish_reason": "tool_calls" if name else "stop"}]}
    if request.get("stream_options", {}).get("include_usage"):
        usage = {"prompt_tokens": USAGE["input"], "completion_tokens": USAGE["output"],
                 "prompt_tokens_details": {"cached_tokens": USAGE["cached"]},
                 "total_tokens": USAGE["input"] + USAGE["output"]}
        yield {**whole, "choices": [], "usage": usage}


class OpenAi(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def send(self, status, kind, body):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, words):
        error = {"error": {"message": words, "type": "invalid_request_error", "code": None, "param": None}}
        self.send(status, "application/json", json.dumps(error).encode())

    def key_problem(self):
        bearer, key = self.headers["authorization"], self.headers["api-key"]
        if KIND == "openai" and (bearer, key) != ("Bearer sk-of-the-fake-for-tests", None):
            return "Incorrect API key provided."
        if KIND == "azure" and (bearer, key) != (None, "azure-key-of-the-fake-for-tests"):
            return "Access denied due to invalid subscription key or wrong API endpoint."
        if KIND == "open" and (bearer, key) != (None, None):
            return "no key is expected"
        return None

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        line = {"path": self.path, "headers": dict(self.headers), "body": body.decode(), "usage": USAGE}
        print(json.dumps(line) + "\n", end="", flush=True)
        found = PATHS[KIND].match(self.path)
        if not found:
            return self.refuse(404, f"Invalid URL (POST {self.path})")
        problem = self.key_problem()
        if problem:
            return self.refuse(401, problem)
        request = json.loads(body)
        if not request.get("stream"):
            return self.refuse(400, "this server only streams")
        if found["api"] == "responses":
            frames = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in responses(request))
        else:
            frames = "".join(f"data: {json.dumps(event)}\n\n" for event in chat(request)) + "data: [DONE]\n\n"
        return self.send(200, "text/event-stream; charset=utf-8", frames.encode())


server = ThreadingHTTPServer(("127.0.0.1", 0), OpenAi)
print(server.server_port, flush=True)
server.serve_forever()
