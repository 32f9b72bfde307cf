"""An environment for harbor: `harbor run -e fullsend.harbor_environment:FullsendEnvironment`.

A task with `docker_image` gets that image. A task with a Dockerfile is refused, because fullsend builds no images; with
`--ek host_programs=true` its commands use the programs of this machine instead. `--ek policy=FILE` names a policy. Without one, a task
reaches the hosts of its allowlist on the ports 80 and 443, and nothing if it has none: also where it asks for the public network.
"""
from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities, EnvironmentResourceCapabilities
from harbor.environments.definition import COMPOSE_FILE_NAME, DOCKERFILE_NAME

from .client import AsyncSandbox, AsyncSandboxes, FullsendError

#: The directories of harbor's own, and those that tasks use. They are empty, or views of what is there, and never change it.
WRITABLE = ["/app", "/logs", "/solution", "/tests", "/tmp", "/workspace"]
#: An image holds nothing of this machine, so homes can be used. A sandbox refuses to start with a writable /etc or /usr.
WRITABLE_IN_IMAGE = ["/home", "/opt", "/root", "/srv", "/var"]
READABLE = ["/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/usr"]
PORTS = [80, 443]
#: What a shell gives for a command that was killed after its time.
TIMED_OUT = 124


def policy_text(has_image: bool, hosts: list[str]) -> str:
    """A policy as JSON, which is valid YAML."""
    writable = WRITABLE + (WRITABLE_IN_IMAGE if has_image else [])
    readable = [path for path in READABLE if path not in writable]
    endpoints = [{"host": host, "port": port} for host in hosts for port in PORTS]
    rules = {"task": {"binaries": [{"path": "/**"}], "endpoints": endpoints}} if hosts else {}
    return json.dumps({
        "version": 1,
        "filesystem_policy": {"include_workdir": True, "read_only": readable, "read_write": writable},
        "network_policies": rules,
    })


class FullsendEnvironment(BaseEnvironment):
    """One lasting sandbox for each trial. It ends with harbor, whatever happens to harbor."""

    def __init__(self, *args: Any, policy: str | None = None, host_programs: bool = False, **kwargs: Any) -> None:
        self._policy = policy
        self._host_programs = host_programs
        self._sandboxes = AsyncSandboxes()
        self._sandbox: AsyncSandbox | None = None
        super().__init__(*args, **kwargs)

    @staticmethod
    def type() -> str:
        return "fullsend"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(
            disable_internet=True,
            network_allowlist=True,
            network_allowlist_hostnames=True,
            network_allowlist_wildcard_hostnames=True,
        )

    @classmethod
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        return EnvironmentResourceCapabilities(memory_limit=True)

    def _validate_definition(self) -> None:
        if self.task_env_config.docker_image or self._host_programs:
            return
        for name in (DOCKERFILE_NAME, COMPOSE_FILE_NAME):
            if (self.environment_dir / name).exists():
                raise ValueError(
                    f"{self.environment_dir / name}: fullsend builds no images; name a built one with `docker_image`, "
                    "or use the programs of this machine with --ek host_programs=true"
                )

    async def start(self, force_build: bool) -> None:
        image = None if self._host_programs else self.task_env_config.docker_image
        text = None
        if self._policy is None:
            hosts = self.network_policy.allowed_hosts if self._network_is_allowlist else []
            text = policy_text(image is not None, list(hosts))
        self._sandbox = await self._sandboxes.create(
            policy=self._policy,
            policy_text=text,
            image=image,
            memory_mb=self._effective_memory_mb,
            disk_mb=self._effective_storage_mb,
        )
        await self.ensure_dirs(self._mount_targets(writable_only=True))
        await self._upload_environment_dir_after_start()

    async def stop(self, delete: bool) -> None:
        """A sandbox that has ended cannot be started again, so it is removed in any case."""
        if self._sandbox is not None:
            self._sandbox = None
            await self._sandboxes.close()

    def _running(self) -> AsyncSandbox:
        if self._sandbox is None:
            raise FullsendError("unavailable", "the environment has not been started")
        return self._sandbox

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        wanted = self._resolve_user(user)
        # The one user of a sandbox owns everything in it, as root does in a container.
        is_owner = wanted in (None, "root", 0, "0")
        result = await self._running().exec(
            ["bash", "-c", command],
            cwd=cwd or self.task_env_config.workdir,
            env=self._merge_env(env),
            user=None if is_owner else str(wanted),
            timeout=timeout_sec,
        )
        return ExecResult(
            stdout=result.stdout.decode(errors="replace"),
            stderr=result.stderr.decode(errors="replace"),
            return_code=TIMED_OUT if result.timed_out else result.exit_code,
        )

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        source = Path(source_path)
        await self._running().put(target_path, source.read_bytes(), mode=source.stat().st_mode & 0o777)

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await self._running().put_from(target_dir, str(source_dir))

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        target = Path(target_path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(await self._running().get(source_path))

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        """The target may exist and have files, which `get` refuses."""
        with tempfile.TemporaryDirectory() as scratch:
            copy = Path(scratch) / "copy"
            await self._running().get_to(source_dir, str(copy))
            shutil.copytree(copy, target_dir, symlinks=True, dirs_exist_ok=True)
