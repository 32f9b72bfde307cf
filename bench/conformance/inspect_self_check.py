#!/usr/bin/env python3
"""inspect_ai's own checks of a sandbox provider (44 in its wheel), on ours.

    python3 -m venv V && V/bin/pip install inspect_ai pytest pytest-asyncio
    FULLSEND_PROGRAM=target/release/fullsend V/bin/python bench/conformance/inspect_self_check.py

Prints a line for each check that did not pass and one line with the numbers. The exit code is 0 if nothing failed. `--peer`
runs inspect_ai's own `local` provider in place of ours.
"""
import asyncio
import inspect
import pathlib
import sys
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "packaging" / "python"))

from inspect_ai.util import SandboxUserUnsupportedError  # noqa: E402
from inspect_ai.util._sandbox import self_check  # noqa: E402
from inspect_ai.util._sandbox.local import LocalSandboxEnvironment  # noqa: E402

from fullsend.inspect_provider import FullsendSandboxEnvironment  # noqa: E402


async def one(check, environment):
    try:
        await check(environment)
        return "passed", ""
    except SandboxUserUnsupportedError as error:
        return "skipped", f"it needs a second user: {error}"
    except Exception as error:  # noqa: BLE001
        return "failed", "".join(traceback.format_exception_only(error)).strip()


async def main(arguments):
    is_peer = "--peer" in arguments
    named = [argument for argument in arguments if not argument.startswith("--")]
    checks = [getattr(self_check, name) for name in self_check.__all__]
    checks = [check for check in checks if inspect.iscoroutinefunction(check)]
    checks = [check for check in checks if not named or check.__name__ in named]
    environment = LocalSandboxEnvironment() if is_peer else await FullsendSandboxEnvironment.create()
    counts = {"passed": 0, "skipped": 0, "failed": 0}
    for check in checks:
        outcome, reason = await one(check, environment)
        counts[outcome] += 1
        if outcome != "passed":
            print(f"{outcome}: {check.__name__}: {reason}")
    if not is_peer:
        await environment.close()
    print(f"{len(checks)} checks: " + ", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
