"""What can go wrong with the program. How a run went is no error: its outcome says it."""

from __future__ import annotations

from typing import Optional, Sequence


class RawkoError(Exception):
    """A command of rawko failed. Its words are those of the program."""

    def __init__(self, message: str, *, exit_code: Optional[int] = None, command: Sequence[str] = ()) -> None:
        super().__init__(message)
        #: The exit status, where the program ended by itself.
        self.exit_code = exit_code
        #: The command line.
        self.command = list(command)


class RawkoNotFound(RawkoError):
    """The program cannot be started."""


class RunLost(RawkoError):
    """A run ended without an outcome: its command line was refused, or its process was killed."""
