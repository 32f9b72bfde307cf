"""Lasting sandboxes of fullsend, from Python.

    from fullsend import Sandboxes

    with Sandboxes() as sandboxes:
        sandbox = sandboxes.create()
        print(sandbox.exec(["echo", "hello"]).stdout)

`AsyncSandboxes` has the same verbs as coroutines. Both start `fullsend sandbox serve --stdio` and end it, and with it every
sandbox that was created through it.
"""
from .client import (
    AsyncSandbox,
    AsyncSandboxes,
    CommandResult,
    FullsendError,
    Sandbox,
    Sandboxes,
)

__all__ = [
    "AsyncSandbox",
    "AsyncSandboxes",
    "CommandResult",
    "FullsendError",
    "Sandbox",
    "Sandboxes",
]
