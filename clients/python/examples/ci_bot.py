"""A bot for CI: it carries out the task of an issue, and writes what came of it for people to read.

usage: ci_bot.py EVENT    a JSON file with `issue`: `title` and `body`, as GitHub gives it to a workflow (GITHUB_EVENT_PATH)

It exits with 0 if the project's own checks prove the change. GITHUB_STEP_SUMMARY names the file for the summary, else it is printed.
A person who can open an issue writes what the agents read: run it only for issues of people whom you trust, in a job without other secrets.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import List

from rawko_client import Rawko, RawkoError, events


async def carry_out(task: str) -> "tuple[int, List[str]]":
    """The exit status, and the lines of the summary."""
    lines: List[str] = []
    rawko = Rawko(os.environ.get("GITHUB_WORKSPACE", "."), binary=os.environ.get("RAWKO_BINARY", "rawko"))
    run = await rawko.run(task, max_iterations=20, timeout="30m", require_verified=True, trust=True)
    async with run:
        async for event in run:
            if isinstance(event, events.AgentStarted):
                print(f"{event.agent} works", file=sys.stderr)
            elif isinstance(event, events.ApprovalRequested):
                # Nobody is there to look at it.
                await run.deny(event)
                lines.append(f"- denied: `{event.call.name}` of {event.agent}, {event.why}")
            elif isinstance(event, events.VerificationFinished):
                for check in event.verification.runs:
                    lines.append(f"- `{check.command}`: exit status {check.exit_code}")
        outcome = await run.outcome()
    lines.insert(0, f"**{outcome.status}**: {outcome.summary}\n")
    lines += [f"- changed: `{path}`" for path in outcome.files_modified]
    return (0 if outcome.status == "verified" else 1), lines


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    issue = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["issue"]
    task = f"{issue['title']}\n\n{issue.get('body') or ''}".strip()
    try:
        code, lines = asyncio.run(carry_out(task))
    except RawkoError as error:
        print(f"ci_bot: {error}", file=sys.stderr)
        return 2
    summary = "\n".join(lines) + "\n"
    to = os.environ.get("GITHUB_STEP_SUMMARY")
    if to:
        with open(to, "a", encoding="utf-8") as file:
            file.write(summary)
    else:
        print(summary, end="")
    return code


if __name__ == "__main__":
    sys.exit(main())
