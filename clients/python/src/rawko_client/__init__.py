"""Starts, follows and steers runs of rawko, the program, from Python.

    rawko = Rawko(project=".")
    async with await rawko.run("Fix the date parser") as run:
        async for event in run:
            print(event.type)
        outcome = await run.outcome()
"""

from . import events
from .client import Rawko
from .errors import RawkoError, RawkoNotFound, RunLost
from .run import Run, SteerResult

__all__ = ["Rawko", "RawkoError", "RawkoNotFound", "Run", "RunLost", "SteerResult", "events"]
