"""A scripted model that shares no code with fullsend: Messages and Responses, streamed, on a loopback port.

    model_server.py SCENARIO LOG PORT_FILE

Every request and the usage that was sent for it becomes one JSON line of LOG, and its bytes as they came, but for the
key, are added to LOG.raw. Which turn answers is counted from the
request's own history. Understood of a scenario: `turns`, `branches` with `user_contains` and `tool_result_contains`,
and the blocks `text`, `shell`, `tool` with `input`, `finish`, `usage`, `sleep` in seconds
before the answer, `pause` in seconds after each block of it, `cut` with the number of answers that end too early, and
`error` with a status. A value `{"found": PATTERN}` in an
input is what the pattern's group last matched in a result. PLANTED and PLANTED-APART stand for the word that the runner
planted.
"""

import http.server
import json
import os
import re
import sys
import threading
import time

scenario = json.load(open(sys.argv[1]))
log = open(sys.argv[2], "a", buffering=1)
raw = open(sys.argv[2] + ".raw", "ab", buffering=0)
lock = threading.Lock()
count = 0
cuts = 0


def history(body):
    """The conversation as (kind, text) pairs: user, result, assistant."""
    said = []
    for item in body.get("messages", []) + (body["input"] if isinstance(body.get("input"), list) else []):
        kind, content = item.get("type", "message"), item.get("content")
        if kind in ("function_call", "custom_tool_call"):
            said.append(("assistant", ""))
        elif kind in ("function_call_output", "custom_tool_call_output"):
            said.append(("result", json.dumps(item["output"])))
        elif kind == "message" and item["role"] == "assistant":
            said.append(("assistant", ""))
        elif kind == "message" and item["role"] == "user":
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            for block in blocks:
                if block["type"] == "tool_result":
                    said.append(("result", json.dumps(block.get("content"))))
                elif "text" in block:
                    said.append(("user", block["text"]))
    return said


def choose(said):
    turns, start = scenario.get("turns", []), 0
    for branch in scenario.get("branches", []):
        when = branch["when"]
        wanted = [("user", when.get("user_contains")), ("result", when.get("tool_result_contains"))]
        found = [max((i for i, (k, t) in enumerate(said) if k == kind and part in t), default=None)
                 for kind, part in wanted if part is not None]
        if found and None not in found:
            turns, start = branch["turns"], max(found) + 1
            break
    spoken = [kind == "assistant" for kind, _ in said[start:]]
    turn = sum(now and not before for before, now in zip([False] + spoken, spoken))
    return turns[turn] if turn < len(turns) else [{"text": "There is nothing more to say."}]


def with_planted(acts, body):
    """The same where the model repeats the word that its runner planted."""
    said, planted = json.dumps(acts), re.search(r"(fs[0-9a-f]{32}) is a secret test value", json.dumps(body))
    if "PLANTED" not in said or not planted:
        return acts
    word = planted.group(1)
    return json.loads(said.replace("PLANTED-APART", ".".join(word)).replace("PLANTED", word))


def offered(body):
    """The tools of a request, wherever they are offered."""
    later = body["input"] if isinstance(body.get("input"), list) else []
    return body.get("tools", []) + [tool for item in later for tool in item.get("tools", [])]


def fill(value, said):
    """An input with what earlier results said in it; digits are a number."""
    if not isinstance(value, dict) or "found" not in value:
        return {key: fill(inner, said) for key, inner in value.items()} if isinstance(value, dict) else value
    results = [text for kind, text in said if kind == "result"]
    found = [match for text in results for match in re.findall(value["found"], text)][-1]
    return int(found) if found.isdigit() else found


def fit(block, tools, said):
    """A block as (text, None) or (tool name, input)."""
    names = {tool.get("name"): tool for tool in tools}
    if "shell" in block:
        if "Bash" in names:
            return "Bash", {"command": block["shell"], "description": "scripted"}
        if "bash" in names:
            return "bash", {"command": block["shell"], "description": "scripted"}
        return "exec_command", {"cmd": block["shell"]}
    if "tool" in block:
        return block["tool"], fill(block.get("input", {}), said)
    if "finish" in block:
        if "StructuredOutput" in names:
            return "StructuredOutput", block["finish"]
        if "finish" in names:
            return "finish", {"output": block["finish"]}
        return json.dumps(block["finish"]), None
    return block["text"], None


def messages(number, body, blocks, usage):
    tokens = {"input_tokens": usage["input"], "output_tokens": usage["output"],
              "cache_read_input_tokens": usage.get("cache_read", 0),
              "cache_creation_input_tokens": usage.get("cache_write", 0)}
    yield "message_start", {"message": {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"], "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": {**tokens, "output_tokens": 1}}}
    stop = "end_turn"
    for index, (text, arguments) in enumerate(blocks):
        if arguments is None:
            start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": text}
        else:
            stop = "tool_use"
            start = {"type": "tool_use", "id": f"toolu_{number}_{index}", "name": text, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        yield "content_block_start", {"index": index, "content_block": start}
        yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    yield "message_delta", {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": tokens}
    yield "message_stop", {}


def responses(number, body, blocks, usage):
    whole = {"id": f"resp_{number}", "object": "response", "model": body["model"], "output": []}
    yield "response.created", {"response": {**whole, "status": "in_progress"}}
    for index, (text, arguments) in enumerate(blocks):
        if arguments is None:
            item = {"type": "message", "role": "assistant", "id": f"m_{number}_{index}", "status": "completed",
                    "content": [{"type": "output_text", "text": text, "annotations": []}]}
            yield "response.output_item.added", {"output_index": index, "item": {**item, "content": []}}
            yield "response.output_text.delta", {"output_index": index, "item_id": item["id"],
                                                 "content_index": 0, "delta": text}
        else:
            item = {"type": "function_call", "id": f"f_{number}_{index}", "call_id": f"call_{number}_{index}",
                    "name": text, "arguments": json.dumps(arguments), "status": "completed"}
            # A tool that was offered within a namespace is called within it.
            spaces = [tool["name"] for tool in offered(body) if tool["type"] == "namespace"]
            space = next((name for name in spaces if text.startswith(name + "__")), None)
            if space:
                item |= {"namespace": space, "name": text[len(space) + 2:]}
            # A tool that takes plain text is called with it.
            if isinstance(arguments, str):
                item = {"type": "custom_tool_call", "id": item["id"], "call_id": item["call_id"], "name": text,
                        "input": arguments, "status": "completed"}
            yield "response.output_item.added", {"output_index": index, "item": {**item, "arguments": ""}}
        yield "response.output_item.done", {"output_index": index, "item": item}
        whole["output"].append(item)
    cached = usage.get("cache_read", 0)
    tokens = {"input_tokens": usage["input"] + cached, "input_tokens_details": {"cached_tokens": cached},
              "output_tokens": usage["output"], "output_tokens_details": {"reasoning_tokens": 0},
              "total_tokens": usage["input"] + cached + usage["output"]}
    yield "response.completed", {"response": {**whole, "status": "completed", "usage": tokens}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        global count, cuts
        received = self.rfile.read(int(self.headers["content-length"]))
        body = json.loads(received)
        fields = [f"{name}: {value}" for name, value in self.headers.items() if name.lower() not in ("x-api-key", "authorization")]
        with lock:
            raw.write("\n".join([self.requestline, *fields, "", ""]).encode() + received + b"\n")
            count += 1
            number = count
        said = history(body)
        acts = with_planted(choose(said), body)
        status = next((act["error"] for act in acts if "error" in act), None)
        if status is not None:
            self.send_error(status)
            return
        usage = {"input": 1, "output": 1, **next((act["usage"] for act in acts if "usage" in act), {})}
        # No vendor writes more than a request allows.
        most = body.get("max_tokens") or body.get("max_output_tokens") or usage["output"]
        usage["output"] = min(usage["output"], most)
        silent = {"usage", "sleep", "pause", "cut"}
        with lock:
            is_cut = cuts < sum(act.get("cut", 0) for act in acts)
            cuts += is_cut
        blocks = [fit(act, offered(body), said) for act in acts if not silent & act.keys()]
        pause = sum(act.get("pause", 0) for act in acts)
        speak = messages if "/messages" in self.path else responses
        with lock:
            print(json.dumps({"path": self.path, "usage": usage, "key": self.headers.get("x-api-key")
                              or self.headers.get("authorization"), "body": body}), file=log)
        time.sleep(sum(act.get("sleep", 0) for act in acts))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for name, data in speak(number, body, blocks, usage):
            if is_cut and name in ("content_block_stop", "response.output_item.done"):
                break
            self.wfile.write(f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode())
            time.sleep(pause if name in ("content_block_stop", "response.output_item.done") else 0)
        self.close_connection = True


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(sys.argv[3] + ".new", "w") as file:
    file.write(str(server.server_address[1]))
os.rename(sys.argv[3] + ".new", sys.argv[3])
server.serve_forever()
