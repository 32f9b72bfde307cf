"""The client of `fullsend sandbox serve --stdio`: JSON-RPC 2.0, one message a line."""
from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import shutil
import subprocess
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Mapping, Sequence

PROTOCOL = 1


class FullsendError(Exception):
    """A request that failed. `kind` says why, for programs."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class CommandResult:
    """How a command ended, and what it wrote."""

    exit_code: int
    signal: int | None
    timed_out: bool
    stdout: bytes
    stderr: bytes
    truncated: bool


def _program(program: str | None) -> str:
    found = program or os.environ.get("FULLSEND_PROGRAM") or shutil.which("fullsend")
    if found is None:
        raise FullsendError("unavailable", "the program `fullsend` is not in PATH; install it or set FULLSEND_PROGRAM")
    return found


class _Connection:
    """One server process. Requests may come from many threads; a thread of its own reads the answers."""

    def __init__(self, program: str | None, command_prefix: Sequence[str]) -> None:
        arguments = [*command_prefix, _program(program), "sandbox", "serve", "--stdio"]
        self._process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()
        self.call("initialize", {"protocol": PROTOCOL}).result(timeout=60)

    def call(self, method: str, params: Mapping[str, Any]) -> Future[Any]:
        number = next(self._numbers)
        future: Future[Any] = Future()
        line = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"
        assert self._process.stdin is not None
        try:
            with self._lock:
                self._waiting[number] = future
                self._process.stdin.write(line)
                self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            self._fail()
        future.number = number  # type: ignore[attr-defined]
        return future

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            with self._lock:
                future = self._waiting.pop(message.get("id"), None)
            if future is None or future.cancelled():
                continue
            error = message.get("error")
            if error is None:
                future.set_result(message.get("result"))
            else:
                future.set_exception(FullsendError(error["data"]["kind"], error["message"]))
        self._fail()

    def _fail(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(FullsendError("unavailable", "`fullsend sandbox serve` has ended"))

    def close(self) -> None:
        assert self._process.stdin is not None
        try:
            with self._lock:
                self._process.stdin.close()
        except BrokenPipeError:
            pass
        self._process.wait(timeout=60)


def _without_none(**params: Any) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


def _exec_params(
    sandbox: str,
    command: Sequence[str],
    stdin: bytes | None,
    cwd: str | None,
    env: Mapping[str, str] | None,
    user: str | None,
    timeout: float | None,
    max_output_bytes: int | None,
) -> dict[str, Any]:
    return _without_none(
        sandbox=sandbox,
        command=list(command),
        stdin=None if stdin is None else base64.b64encode(stdin).decode(),
        cwd=cwd,
        env=None if env is None else dict(env),
        user=user,
        timeout_ms=None if timeout is None else int(timeout * 1000),
        max_output_bytes=max_output_bytes,
    )


def _result(answer: Mapping[str, Any]) -> CommandResult:
    return CommandResult(
        exit_code=answer["exit_code"],
        signal=answer["signal"],
        timed_out=answer["timed_out"],
        stdout=base64.b64decode(answer["stdout"]),
        stderr=base64.b64decode(answer["stderr"]),
        truncated=answer["truncated"],
    )


def _put_params(sandbox: str, path: str, data: bytes, mode: int | None) -> dict[str, Any]:
    return _without_none(sandbox=sandbox, path=path, data=base64.b64encode(data).decode(), mode=mode)


def _put_from_params(sandbox: str, path: str, source: str) -> dict[str, Any]:
    return {"sandbox": sandbox, "path": path, "from": os.path.abspath(source)}


def _get_to_params(sandbox: str, path: str, target: str) -> dict[str, Any]:
    return {"sandbox": sandbox, "path": path, "to": os.path.abspath(target)}


class Sandboxes:
    """Creates sandboxes; they end when this is closed."""

    def __init__(self, program: str | None = None, command_prefix: Sequence[str] = ()) -> None:
        self._connection = _Connection(program, command_prefix)

    def __enter__(self) -> Sandboxes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def create(
        self,
        *,
        policy: str | None = None,
        policy_text: str | None = None,
        image: str | None = None,
        repo: str | None = None,
        name: str | None = None,
        ttl_seconds: int | None = None,
        memory_mb: int | None = None,
        pids: int | None = None,
        disk_mb: int | None = None,
    ) -> Sandbox:
        params = _without_none(
            policy=policy, policy_text=policy_text, image=image, repo=repo, name=name, ttl_seconds=ttl_seconds,
            memory_mb=memory_mb, pids=pids, disk_mb=disk_mb,
        )
        answer = self._connection.call("create", params).result()
        return Sandbox(self._connection, answer["sandbox"], answer["workspace"])

    def list(self, *, all: bool = False) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = self._connection.call("list", {"all": all}).result()
        return answer


class Sandbox:
    """One lasting sandbox."""

    def __init__(self, connection: _Connection, id: str, workspace: str) -> None:
        self._connection = connection
        self.id = id
        self.workspace = workspace

    def exec(
        self,
        command: Sequence[str],
        *,
        stdin: bytes | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout: float | None = None,
        max_output_bytes: int | None = None,
    ) -> CommandResult:
        """Runs a command. After `timeout` seconds it is killed with everything that it started."""
        params = _exec_params(self.id, command, stdin, cwd, env, user, timeout, max_output_bytes)
        return _result(self._connection.call("exec", params).result())

    def put(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        self._connection.call("put", _put_params(self.id, path, data, mode)).result()

    def put_from(self, path: str, source: str) -> None:
        """Copies a file or a directory of the host."""
        self._connection.call("put", _put_from_params(self.id, path, source)).result()

    def get(self, path: str, *, max_bytes: int | None = None) -> bytes:
        params = _without_none(sandbox=self.id, path=path, max_bytes=max_bytes, file_only=True)
        return base64.b64decode(self._connection.call("get", params).result()["data"])

    def get_to(self, path: str, target: str) -> None:
        """Copies a file or a directory to a new path of the host."""
        self._connection.call("get", _get_to_params(self.id, path, target)).result()

    def logs(self) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = self._connection.call("logs", {"sandbox": self.id}).result()
        return answer

    def remove(self) -> None:
        self._connection.call("rm", {"sandbox": self.id}).result()


class AsyncSandboxes:
    """`Sandboxes` with coroutines. A coroutine that is cancelled kills its command."""

    def __init__(self, program: str | None = None, command_prefix: Sequence[str] = ()) -> None:
        self._start = (program, tuple(command_prefix))
        self._connection: _Connection | None = None

    async def __aenter__(self) -> AsyncSandboxes:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        if self._connection is None:
            self._connection = await asyncio.to_thread(_Connection, *self._start)

    async def close(self) -> None:
        if self._connection is not None:
            await asyncio.to_thread(self._connection.close)
            self._connection = None

    async def create(self, **options: Any) -> AsyncSandbox:
        """Takes what `Sandboxes.create` takes."""
        await self.open()
        assert self._connection is not None
        answer = await _wait(self._connection, "create", _without_none(**options))
        return AsyncSandbox(self._connection, answer["sandbox"], answer["workspace"])


async def _wait(connection: _Connection, method: str, params: Mapping[str, Any]) -> Any:
    future = connection.call(method, params)
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        connection.call("cancel", {"request": future.number})  # type: ignore[attr-defined]
        raise


class AsyncSandbox:
    """One lasting sandbox, with coroutines."""

    def __init__(self, connection: _Connection, id: str, workspace: str) -> None:
        self._connection = connection
        self.id = id
        self.workspace = workspace

    async def exec(
        self,
        command: Sequence[str],
        *,
        stdin: bytes | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout: float | None = None,
        max_output_bytes: int | None = None,
    ) -> CommandResult:
        params = _exec_params(self.id, command, stdin, cwd, env, user, timeout, max_output_bytes)
        return _result(await _wait(self._connection, "exec", params))

    async def put(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        await _wait(self._connection, "put", _put_params(self.id, path, data, mode))

    async def put_from(self, path: str, source: str) -> None:
        """Copies a file or a directory of the host."""
        await _wait(self._connection, "put", _put_from_params(self.id, path, source))

    async def get(self, path: str, *, max_bytes: int | None = None) -> bytes:
        params = _without_none(sandbox=self.id, path=path, max_bytes=max_bytes, file_only=True)
        return base64.b64decode((await _wait(self._connection, "get", params))["data"])

    async def get_to(self, path: str, target: str) -> None:
        """Copies a file or a directory to a new path of the host."""
        await _wait(self._connection, "get", _get_to_params(self.id, path, target))

    async def remove(self) -> None:
        await _wait(self._connection, "rm", {"sandbox": self.id})
