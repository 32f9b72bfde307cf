#!/usr/bin/env python3
"""MCP's own conformance suite on our server (`fullsend mcp --http`) and on the client of the runtime `native`.

    npm install --prefix D node@22 @modelcontextprotocol/conformance@0.1.16
    sudo FULLSEND_PROGRAM=target/release/fullsend bench/conformance/mcp_own.py D

The client runs in a sandbox and reaches the suite's server through the proxy, in a network that the script makes for itself (so it
needs root). Prints a line for each scenario and one line with the numbers of each side. The exit code is 0 if every scenario that
is listed in `NEEDED` passes; the others ask for what we do not have, such as the suite's own test tools, resources, prompts and OAuth.
"""
import http.client
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

ADDRESS = "10.77.0.9"
HOST = "mcp.lab.test"
INSIDE = "FULLSEND_CONFORMANCE_NETWORK"
TOKEN = "conformance-0123456789"
NEEDED = {
    "server": {"server-initialize", "ping", "tools-list", "dns-rebinding-protection"},
    "client": {"initialize", "tools_call"},
}
#: The calls of the model, by scenario.
CALLS = {
    "tools_call": {"tool": "mcp__suite__add_numbers", "input": {"a": 5, "b": 3}},
    "elicitation-sep1034-client-defaults": {"tool": "mcp__suite__test_client_elicitation_defaults", "input": {}},
    "sse-retry": {"tool": "mcp__suite__test_reconnection", "input": {}},
}
CLIENT_SCENARIOS = ["initialize", *CALLS]


def in_own_network(directory):
    with tempfile.TemporaryDirectory() as scratch:
        hosts = pathlib.Path(scratch) / "hosts"
        hosts.write_text(f"127.0.0.1 localhost\n{ADDRESS} {HOST}\n")
        script = (f"ip link set lo up && ip addr add {ADDRESS}/32 dev lo && mount --bind {hosts} /etc/hosts && "
                  f"exec {sys.executable} {os.path.abspath(__file__)} {directory}")
        command = ["unshare", "--net", "--mount", "--", "sh", "-c", script]
        return subprocess.run(command, env={**os.environ, INSIDE: "1"}).returncode


def suite(directory, *arguments):
    """The checks of every scenario: how many succeeded, failed, or only warned."""
    program = ["node_modules/.bin/node", "node_modules/@modelcontextprotocol/conformance/dist/index.js"]
    found = {}
    with tempfile.TemporaryDirectory() as results:
        ran = subprocess.run([*program, *arguments, "-o", results], cwd=directory, capture_output=True, text=True, timeout=600)
        for path in pathlib.Path(results).glob("**/checks.json"):
            # The name of a directory is the scenario's, and a time.
            scenario = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", path.parent.name)
            scenario = scenario.removeprefix(f"{arguments[0]}-")
            statuses = [check["status"] for check in json.loads(path.read_text())]
            found[scenario] = {status: statuses.count(status) for status in ("SUCCESS", "FAILURE", "WARNING")}
    if not found:
        sys.exit(f"no results: {ran.stdout[-1000:]}{ran.stderr[-1000:]}")
    return found


def report(side, found):
    """Prints the scenarios, and returns those that are needed and did not pass."""
    passed = {name for name, counts in found.items() if counts["SUCCESS"] and not counts["FAILURE"]}
    for name in sorted(found):
        counts = found[name]
        print(f"{side}: {name}: {counts['SUCCESS']} succeeded, {counts['FAILURE']} failed, {counts['WARNING']} warnings")
    print(f"{side}: {len(passed)} of {len(found)} scenarios passed: {', '.join(sorted(passed))}")
    return NEEDED[side] - passed


class WithToken(http.server.BaseHTTPRequestHandler):
    """The suite sends no token, so this adds it. `Host` and `Origin` pass as they are, under the port of the server."""

    protocol_version = "HTTP/1.1"
    target = 0

    def pass_on(self):
        own = f":{self.server.server_address[1]}"
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        connection = http.client.HTTPConnection("127.0.0.1", self.target)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() in ("host", "origin"):
                value = value.replace(own, f":{self.target}")
            if name.lower() not in ("authorization", "connection"):
                connection.putheader(name, value)
        connection.putheader("Authorization", f"Bearer {TOKEN}")
        connection.endheaders(body)
        answer = connection.getresponse()
        content = answer.read()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "content-length", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = pass_on

    def log_message(self, *_):
        pass


def check_server(directory, program):
    with tempfile.TemporaryDirectory() as scratch:
        environment = {**os.environ, "FULLSEND_MCP_TOKEN": TOKEN, "XDG_STATE_HOME": scratch}
        server = subprocess.Popen([program, "mcp", "--http", "127.0.0.1:0"], cwd=scratch, env=environment,
                                  stdout=subprocess.PIPE, text=True)
        try:
            WithToken.target = int(server.stdout.readline().strip().rsplit(":", 1)[1].removesuffix("/mcp"))
            front = http.server.ThreadingHTTPServer(("127.0.0.1", 0), WithToken)
            # The suite hangs up on streams; that is no error.
            front.handle_error = lambda *_: None
            threading.Thread(target=front.serve_forever, daemon=True).start()
            url = f"http://127.0.0.1:{front.server_address[1]}/mcp"
            return suite(directory, "server", "--suite", "all", "--url", url)
        finally:
            server.terminate()
            server.wait()


def check_client(directory):
    command = f"{sys.executable} {os.path.abspath(__file__)} --client"
    found = {}
    for scenario in CLIENT_SCENARIOS:
        os.environ["MCP_SCENARIO"] = scenario
        checks = suite(directory, "client", "--command", command, "--scenario", scenario, "--timeout", "60000")
        found[scenario] = next(iter(checks.values()))
    return found


def run_client(url):
    """What the suite starts as a client: one run whose scripted model makes the scenario's call."""
    url = url.replace("//localhost:", f"//{HOST}:")
    port = url.split(":")[2].split("/")[0]
    call = CALLS.get(os.environ["MCP_SCENARIO"])
    turns = [[call]] if call else []
    files = {
        "harness/conformance.yaml": "agent: agents/conformance.md\nruntime: native\npolicy: policies/p.yaml\n"
                                    "output_schema: schemas/s.json\nproviders: [model]\n"
                                    f"mcp_servers:\n  suite:\n    url: {url}\n",
        "agents/conformance.md": "---\nname: conformance\n---\nUse the tools.\n",
        "schemas/s.json": json.dumps({"type": "object"}),
        "providers/model.yaml": "name: model\ntype: anthropic\nconfig:\n  scenario: scenarios/s.json\n",
        "scenarios/s.json": json.dumps({"turns": [*turns, [{"finish": {"done": True}}]]}),
        "policies/p.yaml": "version: 1\nfilesystem_policy: {include_workdir: true}\nnetwork_policies:\n  suite:\n"
                           f"    binaries: [{{path: '/**'}}]\n    endpoints:\n      - {{host: {HOST}, port: {port}}}\n",
    }
    with tempfile.TemporaryDirectory() as scratch:
        for name, text in files.items():
            path = pathlib.Path(scratch) / "repo" / ".fullsend" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        subprocess.run(["git", "init", "-q", "repo"], cwd=scratch, check=True)
        program = os.path.abspath(os.environ["FULLSEND_PROGRAM"])
        environment = {**os.environ, "XDG_STATE_HOME": f"{scratch}/state", "HOME": scratch}
        return subprocess.run([program, "run", "conformance"], cwd=f"{scratch}/repo", env=environment).returncode


def main(directory):
    os.environ["FULLSEND_PROGRAM"] = program = os.path.abspath(os.environ["FULLSEND_PROGRAM"])
    missed = report("server", check_server(directory, program)) | report("client", check_client(directory))
    for scenario in sorted(missed):
        print(f"did not pass: {scenario}")
    return 1 if missed else 0


if __name__ == "__main__":
    if sys.argv[1] == "--client":
        sys.exit(run_client(sys.argv[2]))
    sys.exit(main(sys.argv[1]) if os.environ.get(INSIDE) else in_own_network(os.path.abspath(sys.argv[1])))
