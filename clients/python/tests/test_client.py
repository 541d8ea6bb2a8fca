"""Whole runs of the real program, driven by the client."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import unittest
from pathlib import Path

from rawko_client import Rawko, RawkoError, RawkoNotFound, RunLost, events
from world import BINARY, HANGS, WRITES, World, calls, complete, report, select

PROGRAM_THAT_DIES = """
import asyncio, sys
from rawko_client import Rawko

async def main():
    run = await Rawko(sys.argv[1], binary=sys.argv[2]).run("Think.")
    print((await run.started()).session, flush=True)
    await run.outcome()

asyncio.run(main())
"""

#: What a newer rawko may print.
NEWER = """#!/bin/sh
echo 'no JSON'
echo '[1]'
echo '{"type":"session_started","session":"s1","task":"t","at":1,"agents":[],"journal":"j","resumed":false,"degraded":[],"new":1}'
echo '{"type":"moon_rose","phase":"full"}'
echo '{"type":"warned"}'
echo '{"type":"approval_requested","digest":"d","needs":[{"type":"moon","where":"sky"}]}'
printf '%s\\n' '{"type":"session_finished","session":"s1","status":"shining","summary":"a\u2028b","usage":{"lunar":2}}'
"""


class Runs(World):
    async def test_a_verified_run_with_its_events(self) -> None:
        async with await self.rawko(WRITES).run("Write the answer.", verify=["grep -q 42 answer.txt"]) as run:
            seen = [event async for event in run]
            outcome = await run.outcome()
        self.assertEqual((outcome.status, run.exit_code), ("verified", 0))
        self.assertEqual(outcome.files_modified, ["answer.txt"])
        self.assertTrue((self.project / "answer.txt").exists())
        self.assertIsInstance(seen[0], events.SessionStarted)
        self.assertEqual(seen[-1], outcome)
        self.assertFalse([event for event in seen if isinstance(event, events.UnknownEvent)])
        self.fits_the_schema(seen)
        calls_seen = [event.call.name for event in seen if isinstance(event, events.ToolCalled)]
        self.assertEqual(calls_seen, ["Write", "Report"])
        states = [(event.from_, event.to) for event in seen if isinstance(event, events.StateChanged)]
        self.assertEqual(states[0][0], "idle")
        assert outcome.verification is not None
        self.assertEqual([check.exit_code for check in outcome.verification.runs], [0])
        # All is there again after the end, and nothing more comes.
        self.assertEqual([event async for event in run], [])

    async def test_a_run_is_steered_and_cancelled(self) -> None:
        run = await self.rawko(HANGS).run("Think.")
        async for event in run:
            if isinstance(event, events.AgentStarted):
                break
        said = await run.say("--not an option")
        self.assertTrue(said.taken, said)
        paused, again = await run.pause(), await run.pause()
        self.assertTrue(paused.taken)
        self.assertFalse(again.taken)
        self.assertTrue(again.reason)
        self.assertTrue((await run.go()).taken)
        outcome = await run.cancel()
        self.assertEqual(outcome.status, "cancelled")
        self.assertEqual((await run.cancel()).status, "cancelled")
        seen = [event async for event in run]
        self.fits_the_schema(seen)
        steered = [event.command for event in seen if isinstance(event, events.Steered) and not event.ignored]
        self.assertEqual([command.type for command in steered], ["say", "pause", "go"])
        self.assertEqual(steered[0].text, "--not an option")
        with self.assertRaises(RawkoError):
            await run.force("nobody")

    async def asked(self, allow: bool) -> "tuple[events.SessionFinished, str]":
        permissions = {"ask": ["commands"], "run": ["cat"]}
        script = [select("developer"), calls("Bash", command="echo made >> made"), report(), complete()]
        run = await self.rawko(script, {"permissions": permissions}).run("Make it.")
        answer, seen = "", []
        async for event in run:
            seen.append(event)
            if isinstance(event, events.ApprovalRequested):
                self.assertEqual([need.type for need in event.needs], ["command"])
                with self.assertRaisesRegex(RawkoError, "another call"):
                    await run.approve("0000")
                await (run.approve(event) if allow else run.deny(event))
            if isinstance(event, events.ApprovalAnswered):
                answer = event.answer
        self.fits_the_schema(seen)
        return await run.outcome(), answer

    async def test_a_question_is_answered_with_yes(self) -> None:
        _, answer = await self.asked(True)
        self.assertEqual(answer, "allowed")
        self.assertEqual((self.project / "made").read_text(), "made\n")

    async def test_a_question_is_answered_with_no(self) -> None:
        _, answer = await self.asked(False)
        self.assertEqual(answer, "denied")
        self.assertFalse((self.project / "made").exists())

    async def test_leaving_the_block_cancels_the_run(self) -> None:
        async with await self.rawko(HANGS).run("Think.") as run:
            await run.started()
        self.assertEqual((await run.outcome()).status, "cancelled")
        self.assertEqual(run.exit_code, 130)

    async def test_a_session_is_continued(self) -> None:
        first = await self.rawko(WRITES).run("Write the answer.")
        session = (await first.outcome()).session
        rawko = self.rawko([select("developer"), report(), complete()])
        second = await rawko.continue_session(session, "Say that it is done.")
        started, outcome = await second.started(), await second.outcome()
        self.assertEqual((started.session, started.continued), (session, True))
        self.assertEqual([task.task for task in outcome.earlier_tasks], ["Write the answer."])


class Ends(World):
    async def test_a_client_that_dies_cancels_its_run(self) -> None:
        rawko = self.rawko(HANGS)
        client = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM_THAT_DIES, str(self.project), BINARY,
            env={**os.environ, **self.env}, stdout=asyncio.subprocess.PIPE,
        )
        assert client.stdout is not None
        session = (await client.stdout.readline()).decode().strip()
        self.assertTrue(session)
        client.send_signal(signal.SIGKILL)
        await client.wait()
        # `watch` follows the session to its end.
        with self.assertRaises(RawkoError) as ended:
            await asyncio.wait_for(rawko.command("watch", "--output=json", session), 60)
        self.assertEqual(ended.exception.exit_code, 130)
        _, listed = await rawko.command("sessions", "list", "--json")
        self.assertEqual([it["outcome"]["status"] for it in json.loads(listed) if it["id"] == session], ["cancelled"])

    async def test_the_example_of_the_readme_runs(self) -> None:
        readme = Path(__file__).parent.parent.joinpath("README.md").read_text(encoding="utf-8")
        example = readme.split("```python\n")[1].split("```")[0]
        # What it may cost is known alone where the model has a price.
        free = {"scripted": {"input": 0, "output": 0}}
        self.rawko([select("developer"), calls("Bash", command="true"), report(), complete()], {"prices": free})
        self.program(f"#!/bin/sh\nexec '{BINARY}' \"$@\"\n").rename(self.root / "rawko")
        path = f"{self.root}{os.pathsep}{os.environ['PATH']}"
        client = await asyncio.create_subprocess_exec(
            sys.executable, "-c", example, cwd=self.project, env={**os.environ, **self.env, "PATH": path},
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await client.communicate()
        self.assertEqual(said.decode().splitlines(), ["developer Bash", "developer Report", "claimed []"])

    async def test_the_bot_for_ci_says_what_came_of_an_issue(self) -> None:
        bot = Path(__file__).parent.parent / "examples/ci_bot.py"
        issue = self.root / "event.json"
        issue.write_text(json.dumps({"issue": {"title": "The answer is missing", "body": None}}), encoding="utf-8")
        for commands, code in ([["grep -q 42 answer.txt"], 0], [["grep -q 43 answer.txt"], 1]):
            self.rawko([*WRITES[:-1], {**report(), "repeat": True}, complete()], {"verify": commands})
            summary = self.root / f"summary-{code}"
            env = {**os.environ, **self.env, "GITHUB_STEP_SUMMARY": str(summary), "GITHUB_WORKSPACE": str(self.project)}
            process = await asyncio.create_subprocess_exec(sys.executable, str(bot), str(issue), env=env, stderr=-3)
            self.assertEqual(await process.wait(), code)
            said = summary.read_text()
            self.assertEqual(said.startswith("**verified**"), code == 0, said)
            self.assertIn(f"- `{commands[0]}`: exit status {code}\n", said)
            if code == 0:
                self.assertIn("- changed: `answer.txt`", said)

    async def test_a_program_that_is_not_there_is_named(self) -> None:
        with self.assertRaisesRegex(RawkoNotFound, "cannot start /nowhere/rawko: .*binary="):
            await Rawko(self.project, binary="/nowhere/rawko").run("Think.")
        with self.assertRaisesRegex(RawkoNotFound, "is no folder"):
            await Rawko(self.project / "none", binary=BINARY).run("Think.")

    async def test_a_refused_command_line_is_no_outcome(self) -> None:
        run = await self.rawko(WRITES).run("Write.", args=["--no-such-option"])
        with self.assertRaisesRegex(RunLost, "no-such-option"):
            await run.started()
        with self.assertRaises(RunLost) as lost:
            await run.outcome()
        self.assertEqual(lost.exception.exit_code, 2)
        self.assertEqual([event async for event in run], [])

    async def test_a_run_that_cannot_begin_says_why(self) -> None:
        run = await self.rawko(WRITES).run("Write.", provider="nobody")
        outcome = await run.outcome()
        self.assertEqual((outcome.status, outcome.session), ("failed", ""))
        with self.assertRaisesRegex(RunLost, "did not begin"):
            await run.started()

    async def test_what_a_newer_program_adds_is_tolerated(self) -> None:
        run = await Rawko(self.project, binary=self.program(NEWER)).run("Rise.")
        seen = [event async for event in run]
        started, moon, warned, asked, finished = seen
        assert isinstance(started, events.SessionStarted) and isinstance(asked, events.ApprovalRequested)
        self.assertEqual((started.session, started.raw["new"], started.skills), ("s1", 1, []))
        assert isinstance(moon, events.UnknownEvent)
        self.assertEqual((moon.type, moon.raw["phase"]), ("moon_rose", "full"))
        assert isinstance(warned, events.Warned)
        self.assertIsNone(warned.message)
        self.assertEqual((asked.needs[0].type, asked.needs[0].raw["where"], asked.call), ("moon", "sky", None))
        self.assertEqual((await run.outcome()).status, "shining")
        self.assertEqual((await run.outcome()).summary, "a\u2028b")
        self.assertEqual(finished, await run.outcome())


if __name__ == "__main__":
    unittest.main()
