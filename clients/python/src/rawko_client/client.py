"""A project, and the program that works in it."""

from __future__ import annotations

import asyncio
import os
from typing import Any, List, Mapping, Optional, Sequence, Union

from .errors import RawkoError, RawkoNotFound
from .run import Run

PathLike = Union[str, "os.PathLike[str]"]

#: An event may hold a file: how long a line of the stream may be, in bytes.
LONGEST_LINE = 256 * 1024 * 1024


class Rawko:
    """Runs in one project.

    `binary` is the program, by its path or its name in `PATH`. `env` are variables of its environment, in addition to
    those of this process.
    """

    def __init__(
        self,
        project: PathLike = ".",
        *,
        binary: PathLike = "rawko",
        env: Optional[Mapping[str, str]] = None,
    ) -> None:
        self.project = os.fspath(project)
        self.binary = os.fspath(binary)
        self.env = {**os.environ, **(env or {})}

    async def run(
        self,
        task: str,
        *,
        agent: Optional[str] = None,
        provider: Optional[str] = None,
        model: Optional[str] = None,
        max_iterations: Optional[int] = None,
        max_tokens: Optional[int] = None,
        max_cost: Optional[float] = None,
        timeout: Union[None, str, int] = None,
        verify: Sequence[str] = (),
        files: Sequence[PathLike] = (),
        require_verified: bool = False,
        isolated: bool = False,
        dry_run: bool = False,
        trust: bool = False,
        args: Sequence[str] = (),
    ) -> Run:
        """Starts a run of `task`.

        `trust` lets the folder's configuration take effect for this run. `args` are further options of `rawko run`.
        Leave the run's `async with` block to end it.
        """
        options: List[str] = []
        values = {
            "--agent": agent,
            "--provider": provider,
            "--model": model,
            "--max-iterations": max_iterations,
            "--max-tokens": max_tokens,
            "--max-cost": max_cost,
            "--timeout": timeout,
        }
        for name, value in values.items():
            if value is not None:
                options.append(f"{name}={value}")
        options += [f"--verify={command}" for command in verify]
        options += [f"--file={os.fspath(path)}" for path in files]
        flags = {
            "--require-verified": require_verified,
            "--isolated": isolated,
            "--dry-run": dry_run,
            "--yes": trust,
        }
        options += [name for name, is_set in flags.items() if is_set]
        return await self._stream("run", [*options, *args, "--", task])

    async def continue_session(self, session: str, task: str, *, args: Sequence[str] = ()) -> Run:
        """Gives a session that has ended its next task. `args` are options of `rawko continue`."""
        return await self._stream("continue", [*args, "--", session, task])

    async def resume(self, session: str, *, args: Sequence[str] = ()) -> Run:
        """Goes on with an interrupted session. `args` are options of `rawko resume`."""
        return await self._stream("resume", [*args, "--", session])

    async def command(self, *arguments: str) -> "tuple[int, str]":
        """Runs another command in the project, and gives its exit status, 0 or 1, and what it printed.

        Raises `RawkoError` with the program's words for any other exit status.
        """
        process = await self._start(arguments)
        out, err = await process.communicate()
        code = process.returncode if process.returncode is not None else -1
        if code not in (0, 1) or (code == 1 and not out):
            words = err.decode("utf-8", "replace").strip() or f"exit status {code}"
            raise RawkoError(words, exit_code=code, command=[self.binary, *arguments])
        return code, out.decode("utf-8", "replace")

    async def _stream(self, name: str, arguments: Sequence[str]) -> Run:
        process = await self._start([name, "--output=stream-json", *arguments])
        return Run(self, process)

    async def _start(self, arguments: Sequence[str]) -> "asyncio.subprocess.Process":
        if not os.path.isdir(self.project):
            raise RawkoNotFound(f"the project {self.project} is no folder")
        pipe = asyncio.subprocess.PIPE
        kinds: Any = {"stdin": asyncio.subprocess.DEVNULL, "stdout": pipe, "stderr": pipe}
        try:
            return await asyncio.create_subprocess_exec(
                self.binary, *arguments, cwd=self.project, env=self.env, limit=LONGEST_LINE, **kinds
            )
        except OSError as error:
            raise RawkoNotFound(
                f"cannot start {self.binary}: {error.strerror or error}; install rawko, or name it with Rawko(binary=…)",
                command=[self.binary, *arguments],
            ) from error
