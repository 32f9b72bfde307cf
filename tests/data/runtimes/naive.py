"""A launch as one would write it without thinking of a hostile repository, in a network of its own.

    naive.py claude|codex|acp PROGRAM DIRECTORY SCENARIO [again]

DIRECTORY holds `repo/`, which is trusted; `config/` becomes the program's own configuration: the agent `mend`, and one hook
that takes its time and refuses every shell command with the word RAN in it; `acp` is opencode, with a rule that refuses it. With `again` the conversation is continued
by a second launch, with the words of a retry. The scripted model's log is DIRECTORY/server/log.jsonl. Run it as
`unshare -rn`: it brings up loopback, and there is nothing else to reach.
"""

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import time

runtime, program, directory, scenario, *again = sys.argv[1:]
here = os.path.dirname(os.path.abspath(__file__))
repo, config, server = (f"{directory}/{name}" for name in ("repo", "config", "server"))
os.makedirs(config, exist_ok=True)
os.makedirs(server, exist_ok=True)

# IFF_UP | IFF_RUNNING on `lo`, SIOCSIFFLAGS.
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    fcntl.ioctl(sock, 0x8914, struct.pack("16sh", b"lo", 0x41))

model = subprocess.Popen([sys.executable, f"{here}/model_server.py", scenario, f"{server}/log.jsonl", f"{server}/port"])
while not os.path.exists(f"{server}/port"):
    time.sleep(0.02)
address = f"http://127.0.0.1:{open(f'{server}/port').read()}"

hook = f"{config}/__hook.sh"
with open(hook, "w") as file:
    file.write("#!/bin/sh\nsleep 0.4\ngrep -q RAN- || exit 0\necho REFUSED-BY-THE-HOOK >&2\nexit 2\n")
os.chmod(hook, 0o755)
environment = {"PATH": os.environ["PATH"], "HOME": config, "IS_SANDBOX": "1"}

if runtime == "claude":
    hooks = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": hook}]}]}
    os.makedirs(f"{config}/agents", exist_ok=True)
    with open(f"{config}/settings.json", "w") as file:
        json.dump({"hooks": hooks}, file)
    with open(f"{config}/.claude.json", "w") as file:
        json.dump({"projects": {os.path.realpath(repo): {"hasTrustDialogAccepted": True}}}, file)
    with open(f"{config}/agents/mend.md", "w") as file:
        file.write("---\nname: mend\ndescription: Mends.\n---\nYou are MEND-OF-THE-HARNESS.\n")
    command = [program, "-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions",
               "--agent", "mend"]
    more = ["--continue"]
    environment |= {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "k", "CLAUDE_CONFIG_DIR": config,
                    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "ANTHROPIC_MODEL": "claude-sonnet-4-5"}
elif runtime == "acp":
    place = f"{config}/.config/opencode"
    os.makedirs(f"{place}/agent", exist_ok=True)
    provider = {"npm": "@ai-sdk/anthropic", "options": {"baseURL": f"{address}/v1", "apiKey": "k"},
                "models": {"claude-sonnet-4-5": {"name": "x"}, "evil-model": {"name": "x"}}}
    rules = {"*": "allow", "bash": {"*": "allow", "*RAN-*": "deny"}}
    with open(f"{place}/opencode.json", "w") as file:
        json.dump({"model": "lab/claude-sonnet-4-5", "provider": {"lab": provider}, "enabled_providers": ["lab"],
                   "default_agent": "mend", "permission": rules, "autoupdate": False, "share": "disabled"}, file)
    with open(f"{place}/agent/mend.md", "w") as file:
        file.write("---\nmode: primary\ndescription: Mends.\n---\nYou are MEND-OF-THE-HARNESS.\n")
    command = [program, "run", "--auto"]
    more = ["--continue"]
    environment |= {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1",
                    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"}
else:
    with open(f"{config}/config.toml", "w") as file:
        file.write(f"""
model = "gpt-5.1"
model_provider = "lab"
approval_policy = "never"
sandbox_mode = "danger-full-access"
developer_instructions = "You are MEND-OF-THE-HARNESS."
[model_providers.lab]
name = "lab"
base_url = "{address}/v1"
env_key = "LAB_KEY"
wire_api = "responses"
[analytics]
enabled = false
[features]
plugins = false
apps = false
remote_plugin = false
[projects."{os.path.realpath(repo)}"]
trust_level = "trusted"
[[hooks.PreToolUse]]
matcher = "^Bash$"
[[hooks.PreToolUse.hooks]]
type = "command"
command = "{hook}"
timeout = 5
""")
    command = [program, "exec", "--json", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check",
               "--dangerously-bypass-hook-trust", "-"]
    more = ["resume", "--last"]
    environment |= {"CODEX_HOME": config, "LAB_KEY": "k"}



def launch(command, words):
    done = subprocess.run(command, cwd=repo, env=environment, input=words, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=120, start_new_session=True)
    sys.stdout.buffer.write(done.stdout)


try:
    launch(command, b"Do your task now.")
    if again:
        place = 1 if runtime == "claude" else 2
        launch(command[:place] + more + command[place:], b"Your output was rejected.")
finally:
    model.kill()
