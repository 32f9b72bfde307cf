#!/usr/bin/env python3
"""harbor's oracle agent on a local task, through our environment.

    python3.12 -m venv V && V/bin/pip install harbor
    FULLSEND_PROGRAM=target/release/fullsend V/bin/python bench/conformance/harbor_oracle.py

The script writes a task whose tests pass only after its solution ran, and runs it twice: with harbor's `oracle` agent, which runs the
solution, and with its `nop` agent, which does nothing. Prints both rewards. The exit code is 0 if they are 1.0 and 0.0.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "packaging" / "python"
ENVIRONMENT = "fullsend.harbor_environment:FullsendEnvironment"
TASK = {
    "task.toml": 'version = "1.0"\n[agent]\ntimeout_sec = 60.0\n[verifier]\ntimeout_sec = 60.0\n'
                 '[environment]\nmemory_mb = 1024\nstorage_mb = 1024\nworkdir = "/app"\nnetwork_mode = "no-network"\n',
    "instruction.md": "Write the sum of the numbers in /app/numbers.txt to /app/sum.txt.\n",
    "environment/numbers.txt": "40\n2\n",
    "solution/solve.sh": "#!/bin/bash\nset -e\nprintf '40\\n2\\n' > /app/numbers.txt\n"
                         "awk '{ s += $1 } END { print s }' /app/numbers.txt > /app/sum.txt\n",
    "tests/test.sh": "#!/bin/bash\nif [ \"$(cat /app/sum.txt)\" = 42 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n",
}


def write_task(directory):
    for name, text in TASK.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if name.endswith(".sh") else 0o644)


def reward(agent, scratch):
    jobs = scratch / f"jobs-{agent}"
    harbor = pathlib.Path(sys.executable).with_name("harbor")
    command = [harbor, "run", "-p", scratch / "sum", "-a", agent, "-e", ENVIRONMENT, "-o", jobs, "-n", "1", "-y"]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    for path in jobs.glob("*/*/result.json"):
        result = json.loads(path.read_text())
        if result.get("exception_info"):
            sys.exit(f"{agent}: {result['exception_info']}")
        return (result.get("verifier_result") or {}).get("rewards", {}).get("reward")
    sys.exit(f"{agent}: no result: {ran.stdout[-2000:]}{ran.stderr[-2000:]}")


def main():
    os.environ["FULLSEND_PROGRAM"] = os.path.abspath(os.environ["FULLSEND_PROGRAM"])
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        write_task(scratch / "sum")
        rewards = {agent: reward(agent, scratch) for agent in ("oracle", "nop")}
    print(", ".join(f"{agent}: reward {value}" for agent, value in rewards.items()))
    return 0 if rewards == {"oracle": 1.0, "nop": 0.0} else 1


if __name__ == "__main__":
    sys.exit(main())
