#!/usr/bin/env python3
"""The server scenarios of MCP's own conformance suite: directly, and from a sandbox through the proxy with `protocol: rest` and `mcp`.

    npm install --prefix D node@22 @modelcontextprotocol/conformance@0.1.16 @modelcontextprotocol/server-everything
    sudo FULLSEND_PROGRAM=target/release/fullsend bench/conformance/mcp_through_proxy.py D

The server under test is `server-everything`, in a network that the script makes for itself (so it needs root). Prints a line for each
check whose result is another one through the proxy, and one line with the numbers. The exit code is 0 if there is none.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ADDRESS = "10.77.0.9"
HOST = "mcp.lab.test"
PORT = 8931
URL = f"http://{HOST}:{PORT}/mcp"
INSIDE = "FULLSEND_CONFORMANCE_NETWORK"
POLICY = """version: 1
filesystem_policy: {include_workdir: true}
network_policies:
  mcp:
    binaries: [{path: '/**'}]
    endpoints:
      - {host: %s, port: %d, %s}
"""
PROTOCOLS = {
    "rest": "protocol: rest, access: full",
    "mcp": "protocol: mcp, mcp: {allow_all_known_mcp_methods: true}, rules: [{allow: {}}]",
}
SUITE = f"""node_modules/.bin/node node_modules/@modelcontextprotocol/conformance/dist/index.js \
    server --suite all --url {URL} -o "$0" >/dev/null 2>&1
for file in "$0"/*/checks.json; do echo "@@ $file"; cat "$file"; echo; done"""


def in_own_network(directory):
    with tempfile.TemporaryDirectory() as scratch:
        hosts = pathlib.Path(scratch) / "hosts"
        hosts.write_text(f"127.0.0.1 localhost\n{ADDRESS} {HOST}\n")
        script = (f"ip link set lo up && ip addr add {ADDRESS}/32 dev lo && mount --bind {hosts} /etc/hosts && "
                  f"exec {sys.executable} {os.path.abspath(__file__)} {directory}")
        command = ["unshare", "--net", "--mount", "--", "sh", "-c", script]
        return subprocess.run(command, env={**os.environ, INSIDE: "1"}).returncode


def results(directory, before):
    """The status of every check, by scenario and its place in it."""
    with tempfile.TemporaryDirectory() as scratch:
        output = subprocess.run([*before, "sh", "-c", SUITE, f"{scratch}/results"], cwd=directory,
                                capture_output=True, text=True, timeout=600)
    found = {}
    for part in output.stdout.split("@@ ")[1:]:
        path, _, text = part.partition("\n")
        # The name of a directory is the scenario's, and a time.
        scenario = pathlib.Path(path).parent.name.split("-20")[0]
        for number, check in enumerate(json.loads(text)):
            found[scenario, number, check["id"]] = check["status"]
    if not found:
        sys.exit(f"no results: {output.stdout[-500:]}{output.stderr[-500:]}")
    return found


def wait_for_server():
    for _ in range(200):
        try:
            urllib.request.urlopen(URL, timeout=5)
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("the server did not start")


def main(directory):
    program = os.path.abspath(os.environ["FULLSEND_PROGRAM"])
    everything = "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
    server = subprocess.Popen(["node_modules/.bin/node", everything, "streamableHttp"], cwd=directory,
                              env={**os.environ, "PORT": str(PORT)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    differences = 0
    try:
        wait_for_server()
        direct = results(directory, [])
        succeeded = sum(status == "SUCCESS" for status in direct.values())
        scenarios = len({scenario for scenario, _, _ in direct})
        print(f"direct: {scenarios} scenarios, {len(direct)} checks, {succeeded} succeeded")
        for protocol, rules in PROTOCOLS.items():
            with tempfile.NamedTemporaryFile("w", suffix=".yaml") as policy:
                policy.write(POLICY % (HOST, PORT, rules))
                policy.flush()
                proxied = results(directory, [program, "sandbox", "run", "--policy", policy.name, "--"])
            different = {key for key in direct.keys() | proxied.keys() if direct.get(key) != proxied.get(key)}
            for key in sorted(different):
                print(f"{protocol}: {key}: {direct.get(key)} directly, {proxied.get(key)} through the proxy")
            print(f"{protocol}: {len(proxied)} checks, {len(different)} different")
            differences += len(different)
    finally:
        server.terminate()
        server.wait()
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if os.environ.get(INSIDE) else in_own_network(os.path.abspath(sys.argv[1])))
