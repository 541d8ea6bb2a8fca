"""One run: its events as they come, its steering, and its outcome."""

from __future__ import annotations

import asyncio
import json
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, AsyncIterator, Optional, Union

from .errors import RawkoError, RunLost
from .events import ApprovalRequested, RunEvent, SessionFinished, SessionStarted, parse_event

if TYPE_CHECKING:
    from .client import Rawko

#: How much of what the program says on standard error is kept, in bytes.
KEPT_WORDS = 64 * 1024


@dataclass(frozen=True)
class SteerResult:
    """What became of a command to a run."""

    #: Whether it was carried out. Else it had no meaning at the moment.
    taken: bool
    #: Why it was ignored.
    reason: Optional[str] = None


class Run:
    """A run. Iterate over it for its events; all are kept until they are read.

    As a context manager it ends with its block: a run that goes on is cancelled.
    """

    def __init__(self, rawko: "Rawko", process: "asyncio.subprocess.Process") -> None:
        loop = asyncio.get_running_loop()
        self._rawko = rawko
        self._process = process
        self._events: "asyncio.Queue[Optional[RunEvent]]" = asyncio.Queue()
        self._started: "asyncio.Future[SessionStarted]" = loop.create_future()
        self._outcome: Optional[SessionFinished] = None
        self._words = b""
        self._reading = loop.create_task(self._read())

    async def __aenter__(self) -> "Run":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[RunEvent]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[RunEvent]:
        while True:
            event = await self._events.get()
            if event is None:
                # For a second iteration.
                self._events.put_nowait(None)
                return
            yield event

    @property
    def exit_code(self) -> Optional[int]:
        """The exit status, once the process has ended."""
        return self._process.returncode

    @property
    def stderr(self) -> str:
        """What the program said on standard error, the end of it."""
        return self._words.decode("utf-8", "replace")

    async def started(self) -> SessionStarted:
        """Waits for the beginning, which names the session. Raises `RunLost` if the run cannot begin."""
        return await asyncio.shield(self._started)

    async def outcome(self) -> SessionFinished:
        """Waits for the end. Raises `RunLost` if there is no outcome. Events can still be read after it."""
        await asyncio.shield(self._reading)
        if self._outcome is None:
            raise self._lost()
        return self._outcome

    async def say(self, text: str) -> SteerResult:
        """Tells the agent that works, or the next one, and the arbiter."""
        return await self._steer("say", text)

    async def pause(self) -> SteerResult:
        """Lets what is under way end, and begins nothing new."""
        return await self._steer("pause")

    async def go(self) -> SteerResult:
        """Ends the pause."""
        return await self._steer("go")

    async def force(self, agent: str) -> SteerResult:
        """Makes this agent work now."""
        return await self._steer("force", agent)

    async def cancel(self) -> SessionFinished:
        """Cancels the run, and waits for its end."""
        if self._process.returncode is None and self._outcome is None:
            session = (await self.started()).session
            try:
                await self._rawko.command("cancel", "--json", "--", session)
            except RawkoError:
                # It may have ended by itself in the meantime.
                if self._process.returncode is None and self._outcome is None:
                    raise
        return await self.outcome()

    async def approve(self, question: Union[ApprovalRequested, str], *, allow: bool = True) -> None:
        """Answers a question of this run: that of an event, or the one with this digest.

        Raises `RawkoError` if it waits no longer.
        """
        digest = question.digest if isinstance(question, ApprovalRequested) else question
        session = (await self.started()).session
        deny = [] if allow else ["--deny"]
        await self._rawko.command("approve", "--json", f"--call={digest}", *deny, "--", session)

    async def deny(self, question: Union[ApprovalRequested, str]) -> None:
        """Says no to a question of this run."""
        await self.approve(question, allow=False)

    async def close(self) -> None:
        """Ends the run if it goes on: it is cancelled, and its process is waited for."""
        if self._process.returncode is None:
            try:
                self._process.send_signal(signal.SIGTERM)
            except ProcessLookupError:
                pass
        await asyncio.shield(self._reading)

    async def _steer(self, *words: str) -> SteerResult:
        session = (await self.started()).session
        _, out = await self._rawko.command("steer", "--json", "--", session, *words)
        answer = json.loads(out)
        return SteerResult(taken=bool(answer.get("taken")), reason=answer.get("reason"))

    async def _read(self) -> None:
        listening = asyncio.ensure_future(self._listen())
        out = self._process.stdout
        assert out is not None
        try:
            async for line in out:
                self._take(line)
            await listening
            await self._process.wait()
        finally:
            listening.cancel()
            if not self._started.done():
                self._started.set_exception(self._lost())
                # Nobody may wait for it.
                self._started.exception()
            self._events.put_nowait(None)

    def _take(self, line: bytes) -> None:
        try:
            value: Any = json.loads(line)
        except ValueError:
            return
        if not isinstance(value, dict):
            return
        event = parse_event(value)
        if isinstance(event, SessionStarted) and not self._started.done():
            self._started.set_result(event)
        if isinstance(event, SessionFinished):
            self._outcome = event
        self._events.put_nowait(event)

    async def _listen(self) -> None:
        err = self._process.stderr
        assert err is not None
        while True:
            words = await err.read(8192)
            if not words:
                return
            self._words = (self._words + words)[-KEPT_WORDS:]

    def _lost(self) -> RunLost:
        if self._outcome is not None:
            message = f"the run did not begin: {self._outcome.summary}"
        else:
            message = self.stderr.strip() or f"the run ended without an outcome (exit status {self.exit_code})"
        return RunLost(message, exit_code=self.exit_code)
