#!/usr/bin/env python3
"""A guard against slow changes that does not measure time: instructions of five operations (cachegrind), system calls and
processor time of a sandbox's start, compared with bench/counts.json.

    cargo build --release -p fullsend && cargo bench -p fullsend --bench boundary --no-run
    python3 bench/counts.py            # compare; exit 1 if something needs more than the baseline allows
    python3 bench/counts.py --write    # accept what is measured now as the baseline

It prints `name ours baseline ratio`. Needs valgrind, strace and bubblewrap. Instruction counts differ between processors and
compilers: compare on the machine that wrote the baseline, or write one first.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BASELINE = ROOT / "bench" / "counts.json"
# How much more than the baseline passes. Counts hardly vary; processor time does.
ALLOWED = {"instructions": 1.05, "calls": 1.10, "times_bwrap": 1.50}
STARTS = 20


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--program", default=str(release_directory() / "fullsend"))
    arguments.add_argument("--write", action="store_true", help="write the baseline")
    options = arguments.parse_args()
    for tool in ["valgrind", "strace", "bwrap"]:
        if not shutil.which(tool):
            sys.exit(f"counts: {tool} is not installed")
    if not pathlib.Path(options.program).exists():
        sys.exit(f"counts: {options.program} does not exist: build it with cargo build --release -p fullsend")
    measured = measure(options.program)
    if options.write:
        BASELINE.write_text(json.dumps(measured, indent=2) + "\n")
    baseline = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    print("name ours baseline ratio")
    worse = [name for name, ours in measured.items() if not compare(name, ours, baseline.get(name))]
    if worse:
        sys.exit(f"counts: more than the baseline allows: {', '.join(worse)}")


def release_directory():
    """Where cargo puts release builds; a configured target adds a folder."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    with_triple = sorted(target.glob("*-linux-*/release"))
    return next(iter(with_triple), target / "release")


def compare(name, ours, baseline):
    if baseline is None:
        print(f"{name} {ours} - -")
        return False
    ratio = ours / baseline
    print(f"{name} {ours} {baseline} {ratio:.3f}")
    return ratio <= ALLOWED[name.rsplit("-", 1)[1]]


def measure(program):
    with tempfile.TemporaryDirectory(prefix="fullsend-counts-") as scratch:
        world = World(program, pathlib.Path(scratch))
        results = {}
        for name, command, stdin in world.operations():
            results[f"{name}-instructions"] = world.instructions(command, stdin)
        results |= world.sandbox_start()
        return results


class World:
    def __init__(self, program, directory):
        self.program = program
        self.directory = directory
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "XDG_STATE_HOME": str(directory / "state"),
            "FULLSEND_WEIGHTS": "none",
        }
        self.repository = directory / "repository"
        for folder in ["harness", "agents"]:
            (self.repository / ".fullsend" / folder).mkdir(parents=True)
        (self.repository / ".fullsend/harness/a.yaml").write_text("agent: agents/a.md\nruntime: native\n")
        (self.repository / ".fullsend/agents/a.md").write_text("---\nname: a\ndescription: an agent\n---\nDo it.\n")
        subprocess.run(["git", "init", "-q", self.repository], check=True)

    def operations(self):
        text = self.directory / "page.md"
        text.write_text("Run `make test` before you send a change. The token is read from the environment.\n" * 4000)
        policy = self.directory / "policy.yaml"
        policy.write_text(policy_text(1000))
        call = json.dumps({"tool_name": "Bash", "tool_input": {"command": "git status && cargo test -p a"}})
        session = json.loads(self.output(["session", "create", "--agent", "a"]))["id"]
        url = "https://host-500.example.com/v1/items"
        ours = self.program
        yield "scan", [ours, "scan", "input", "--without", "llm_guard", str(text)], None
        yield "hook", [ours, "hook", "pre", "--contract", "neutral"], call
        yield "policy", [ours, "policy", "test", "--policy", str(policy), "GET", url], None
        yield "append", [ours, "session", "send", session, "a message"], None
        yield "gateway", [bench("boundary"), "--once"], None

    def output(self, arguments):
        done = subprocess.run([self.program, *arguments], cwd=self.repository, env=self.environment, text=True,
                              capture_output=True)
        if done.returncode != 0:
            sys.exit(f"counts: fullsend {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def instructions(self, command, stdin):
        valgrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
        done = subprocess.run([*valgrind, *command], cwd=self.repository, env=self.environment, text=True,
                              input=stdin or "", capture_output=True, timeout=600)
        found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
        if done.returncode != 0 or not found:
            sys.exit(f"counts: {' '.join(command)} under valgrind: {done.stderr[-2000:]}")
        return int(found.group(1).replace(",", ""))

    def sandbox_start(self):
        ours = [self.program, "sandbox", "run", "--", "true"]
        peer = ["bwrap", "--unshare-all", "--dev-bind", "/", "/", "--proc", "/proc", "true"]
        return {
            "sandbox-start-calls": self.calls(ours),
            "sandbox-start-times_bwrap": round(self.processor_time(ours) / self.processor_time(peer), 2),
        }

    def calls(self, command):
        summary = self.directory / "calls.txt"
        done = subprocess.run(["strace", "-f", "-c", "-o", summary, *command], cwd=self.repository, env=self.environment,
                              capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            sys.exit(f"counts: {' '.join(command)} under strace: {done.stderr}")
        total = summary.read_text().strip().splitlines()[-1]
        return int(re.match(r"100\.00\s+[\d.]+\s+(?:\d+\s+)?(\d+)", total).group(1))

    def processor_time(self, command):
        def spent():
            usage = resource.getrusage(resource.RUSAGE_CHILDREN)
            return usage.ru_utime + usage.ru_stime
        best = float("inf")
        for _ in range(STARTS):
            before = spent()
            subprocess.run(command, cwd=self.repository, env=self.environment, check=True, stdout=subprocess.DEVNULL)
            best = min(best, spent() - before)
        return best


def policy_text(endpoints):
    lines = ["version: 1", "network_policies:"]
    for number in range(endpoints):
        lines += [
            f"  rule-{number}:",
            f"    name: rule-{number}",
            "    endpoints:",
            f"    - {{host: host-{number}.example.com, port: 443, protocol: rest, enforcement: enforce, access: read-only}}",
            "    binaries: [{path: /usr/bin/curl}]",
        ]
    return "\n".join(lines) + "\n"


def bench(name):
    """The newest build of a bench."""
    found = [path for path in release_directory().glob(f"deps/{name}-*") if os.access(path, os.X_OK) and not path.suffix]
    if not found:
        sys.exit(f"counts: build the bench first: cargo bench -p fullsend --bench {name} --no-run")
    return str(max(found, key=lambda path: path.stat().st_mtime))


if __name__ == "__main__":
    main()
