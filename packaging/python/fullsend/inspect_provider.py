"""A sandbox provider for inspect_ai: `sandbox="fullsend"`, or `sandbox=("fullsend", "policy.yaml")` with a policy file."""
from __future__ import annotations

from pathlib import PurePosixPath
from typing import Literal, Union, overload

from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    SandboxUserUnsupportedError,
    sandboxenv,
)

from .client import AsyncSandbox, AsyncSandboxes, FullsendError

#: What a shell gives for a command that it cannot find.
COMMAND_NOT_FOUND = 127


@sandboxenv(name="fullsend")
class FullsendSandboxEnvironment(SandboxEnvironment):
    """One lasting sandbox for each sample. It ends with the process that runs the evaluation, whatever happens to it."""

    def __init__(self, sandboxes: AsyncSandboxes, sandbox: AsyncSandbox) -> None:
        super().__init__()
        self._sandboxes = sandboxes
        self._sandbox = sandbox

    @classmethod
    def config_files(cls) -> list[str]:
        return ["fullsend-policy.yaml"]

    @classmethod
    async def create(cls, policy: str | None = None) -> FullsendSandboxEnvironment:
        sandboxes = AsyncSandboxes()
        return cls(sandboxes, await sandboxes.create(policy=policy))

    @classmethod
    async def sample_init(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        return {"default": await cls.create(config if isinstance(config, str) else None)}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        for environment in environments.values():
            await environment.as_type(FullsendSandboxEnvironment).close()

    async def close(self) -> None:
        await self._sandboxes.close()

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        try:
            result = await self._sandbox.exec(
                cmd,
                stdin=input.encode() if isinstance(input, str) else input,
                cwd=cwd,
                env=env,
                user=user,
                timeout=timeout,
                max_output_bytes=limit,
            )
        except FullsendError as error:
            if error.kind == "command_not_found":
                return ExecResult(False, COMMAND_NOT_FOUND, "", str(error))
            if error.kind == "permission_denied":
                raise PermissionError(str(error)) from error
            if error.kind == "user_unsupported":
                raise SandboxUserUnsupportedError(str(error)) from error
            raise
        if result.timed_out:
            raise TimeoutError(f"the command was killed after {timeout} s")
        stdout = result.stdout.decode(errors="replace")
        if result.truncated:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, stdout)
        return ExecResult(result.exit_code == 0, result.exit_code, stdout, result.stderr.decode(errors="replace"))

    async def write_file(self, file: str, contents: str | bytes) -> None:
        data = contents.encode() if isinstance(contents, str) else contents
        try:
            await self._sandbox.put(self._path(file), data)
        except FullsendError as error:
            raise _file_error(error) from error

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> Union[str, bytes]:
        try:
            data = await self._sandbox.get(
                self._path(file), max_bytes=SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
            )
        except FullsendError as error:
            if error.kind == "too_large":
                limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR
                raise OutputLimitExceededError(limit, None) from error
            raise _file_error(error) from error
        return data.decode() if text else data

    def _path(self, file: str) -> str:
        return str(PurePosixPath(self._sandbox.workspace) / file)


def _file_error(error: FullsendError) -> Exception:
    kinds = {
        "not_found": FileNotFoundError,
        "not_a_directory": FileNotFoundError,
        "permission_denied": PermissionError,
        "is_a_directory": IsADirectoryError,
    }
    return kinds.get(error.kind, RuntimeError)(str(error))
