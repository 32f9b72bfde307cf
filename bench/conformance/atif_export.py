#!/usr/bin/env python3
"""harbor's own validator of trajectories (ATIF) on what `fullsend runs export --atif` writes.

    python3.12 -m venv V && V/bin/pip install harbor
    FULLSEND_PROGRAM=target/release/fullsend V/bin/python bench/conformance/atif_export.py [RUN...]

Without runs, the script makes one: the example `hello`, with a scripted model, two attempts and five tool calls. It also checks that the
validator refuses the same trajectory with a field that ATIF does not have. The exit code is 0 if every trajectory is valid.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from harbor.utils.trajectory_validator import TrajectoryValidator

ROOT = pathlib.Path(__file__).resolve().parents[2]


def export(program, run, environment):
    command = [program, "runs", "export", "--atif", "-", run]
    return json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def check(name, trajectory):
    validator = TrajectoryValidator()
    is_valid = validator.validate(trajectory)
    steps = trajectory["steps"]
    calls = sum(len(step.get("tool_calls", [])) for step in steps)
    print(f"{name}: {'valid' if is_valid else 'not valid'}, {len(steps)} steps, {calls} tool calls")
    for error in validator.get_errors():
        print(f"  {error}")
    refuses = not TrajectoryValidator().validate({**trajectory, "unknown": 1})
    return is_valid and refuses


def main(runs):
    program = os.path.abspath(os.environ["FULLSEND_PROGRAM"])
    if runs:
        return all([check(run, export(program, run, None)) for run in runs])
    with tempfile.TemporaryDirectory() as scratch:
        repository = pathlib.Path(scratch) / "hello"
        shutil.copytree(ROOT / "examples" / "hello", repository)
        environment = {**os.environ, "HOME": scratch, "XDG_STATE_HOME": f"{scratch}/state"}
        subprocess.run(["git", "init", "-q"], cwd=repository, check=True)
        subprocess.run([program, "run", "hello", "--quiet"], cwd=repository, env=environment, check=True,
                       stdout=subprocess.DEVNULL)
        return check("hello", export(program, "latest", environment))


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
