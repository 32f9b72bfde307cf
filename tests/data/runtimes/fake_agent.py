"""A small agent of the Agent Client Protocol that shares no code with fullsend, and breaks the rules of it on demand.

    fake_agent.py MODE [WORDS]

It runs inside the sandbox. It writes the result that the stage of the tests accepts; what it learnt is the `cause`.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request

mode = sys.argv[1]
words = sys.argv[2:]
last = 0
messages = []


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def read():
    line = sys.stdin.readline()
    if not line and mode != "stays":
        sys.exit(0)
    while not line:
        time.sleep(60)
    return json.loads(line)


def ask(method, parameters):
    """A request to the client, and its answer."""
    global last
    last += 1
    send({"id": f"a{last}", "method": method, "params": parameters})
    while True:
        message = read()
        if message.get("id") == f"a{last}":
            return message


def update(**fields):
    send({"method": "session/update", "params": {"sessionId": "s1", "update": fields}})


def say(text):
    for piece in (text[:3], text[3:]):
        update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": piece})


def finish(cause):
    os.makedirs("/sandbox/workspace/output", exist_ok=True)
    with open("/sandbox/workspace/output/agent-result.json", "w") as file:
        json.dump({"fixed": True, "file": "greet.sh", "cause": cause}, file)


def permission(call, command):
    """The option that the client chose for a command."""
    options = [{"optionId": "yes", "kind": "allow_once", "name": "y"}, {"optionId": "no", "kind": "reject_once", "name": "n"}]
    tool = {"toolCallId": call, "title": "a command", "kind": "execute", "rawInput": {"command": command} if command else {}}
    answer = ask("session/request_permission", {"sessionId": "s1", "toolCall": tool, "options": options})
    return answer["result"]["outcome"].get("optionId", "cancelled")


def model(prompt):
    """Works with the model, and runs what it asks for without asking anyone."""
    messages.append({"role": "user", "content": prompt})
    while True:
        known = [("bash", "Runs a command."), *zip(words[::2], words[1::2])]
        tools = [{"name": name, "description": text, "input_schema": {"type": "object"}} for name, text in known]
        body = {"model": "claude-sonnet-4-5", "max_tokens": 1000, "stream": True, "messages": messages, "tools": tools}
        request = urllib.request.Request(
            os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json.dumps(body).encode(),
            {"content-type": "application/json", "x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01"})
        blocks = {}
        for line in urllib.request.urlopen(request):
            event = json.loads(line[6:]) if line.startswith(b"data: {") else {}
            if event.get("type") == "content_block_start":
                blocks[event["index"]] = {**event["content_block"], "json": ""}
            elif event.get("type") == "content_block_delta":
                block = blocks[event["index"]]
                block["text"] = block.get("text", "") + event["delta"].get("text", "")
                block["json"] += event["delta"].get("partial_json", "")
        answer, results = [], []
        for block in blocks.values():
            if block["type"] == "text":
                answer.append({"type": "text", "text": block["text"] or "."})
                continue
            given = json.loads(block["json"] or "{}")
            answer.append({"type": "tool_use", "id": block["id"], "name": block["name"], "input": given})
            update(sessionUpdate="tool_call", toolCallId=block["id"], title=block["name"], kind="execute", rawInput=given)
            ran = subprocess.run(["sh", "-c", given["command"]], capture_output=True, text=True)
            update(sessionUpdate="tool_call_update", toolCallId=block["id"], status="completed",
                   content=[{"type": "content", "content": {"type": "text", "text": ran.stdout}}])
            results.append({"type": "tool_result", "tool_use_id": block["id"], "content": ran.stdout + ran.stderr})
        messages.append({"role": "assistant", "content": answer})
        if not results:
            say(answer[-1]["text"] if answer else "nothing")
            return
        messages.append({"role": "user", "content": results})


def work(prompt):
    """The agent's turn; its stop reason."""
    if mode == "works":
        update(sessionUpdate="plan", entries=[{"content": "write", "priority": "low", "status": "pending"}])
        update(sessionUpdate="tool_call", toolCallId="c1", title="write it", kind="edit", status="pending")
        finish("servers: " + json.dumps(servers) + " environment: " + " ".join(sorted(os.environ)))
        update(sessionUpdate="tool_call_update", toolCallId="c1", status="completed")
        say("I wrote the file.")
    elif mode == "asks":
        finish("; ".join(f"{word} -> {permission(f'p{n}', word)}" for n, word in enumerate(words)))
    elif mode == "takes":
        methods = ["fs/read_text_file", "fs/write_text_file", "terminal/create", "made/up"]
        finish(", ".join(f"{m} {ask(m, {'path': '/etc/passwd', 'content': 'x'}).get('error', {}).get('code')}" for m in methods))
    elif mode == "model":
        model(prompt)
    elif mode == "garbage":
        while True:
            print("\x00 garbage {")
    elif mode == "endless":
        while True:
            sys.stdout.write("x" * 65536)
    elif mode == "flood":
        while True:
            send({"id": "f", "method": "fs/read_text_file", "params": {}})
    elif mode == "wrong-ids":
        for number in range(1000, 1090):
            send({"id": number, "result": {"stopReason": "end_turn"}})
        time.sleep(600)
    elif mode == "never":
        while True:
            if read().get("method") == "session/cancel":
                say("CANCELLED-BY-THE-CLIENT")
                return "cancelled"
    elif mode == "dies":
        sys.stderr.write("there is no licence\n")
        sys.exit(3)
    elif mode == "stays":
        finish("It stays after its turn, deaf to the end of its input.")
    elif mode in ("refusal", "max_tokens", "odd"):
        say("I will not do that.")
        return mode
    return "end_turn"


while True:
    message = read()
    method = message.get("method")
    if method == "initialize":
        send({"id": message["id"], "result": {"protocolVersion": 7 if mode == "version" else 1}})
    elif method == "session/new" and mode == "no-login":
        send({"id": message["id"], "error": {"code": -32000, "message": "log in first"}})
    elif method == "session/new":
        servers = message["params"]["mcpServers"]
        send({"id": message["id"], "result": {"sessionId": "s1"}})
    elif method == "session/prompt":
        reason = work(message["params"]["prompt"][0]["text"])
        send({"id": message["id"], "result": {"stopReason": reason}})
