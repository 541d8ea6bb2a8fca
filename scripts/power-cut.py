#!/usr/bin/env python3
"""Cuts the power under runs of rawko, and looks at what is left.

power-cut.py RAWKO [CUTS]     as root, on Linux, with git, ext4 and loop devices

A project lies on an ext4 file system of its own, in a file that serves as the disk. A run works in it. Some time later the
disk is copied: the copy has what was written to the disk, not what was only in memory. That is about what a power cut leaves: a
real disk may also lose what it was given and not asked to flush, and the copy is not made in one moment. Half of the cuts come
while the run works, and half when it has just ended. Where nothing can be mounted, nothing is done, and it says so.

After a cut, the copy is mounted. Then these must hold:
- `rawko sessions list` gives no damaged session.
- A run that ended as verified before the cut still is: its end, its files, and git's repository.
- A run that was cut off ends as verified after `rawko resume`. Where nothing had begun, a new run does.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZE_MB = 96
STEPS = 12
SELECT = {"decision": "SELECT_MODE", "mode": "developer", "reason": "there is work"}
COMPLETE = {"decision": "COMPLETE", "summary": "done", "reason": "the check passes"}


def main():
    rawko = Path(sys.argv[1]).resolve()
    cuts = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    # In memory, so that what the machine's own disk is busy with delays nothing.
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    work = Path(tempfile.mkdtemp(prefix="power-cut-", dir=memory))
    try:
        disk = Disk(work)
        if not disk.can_mount():
            print("skipped: no disk can be mounted here")
            return 0
        took = Round(disk, rawko).length()
        problems = []
        seen = {}
        for number in range(cuts):
            after = None if number % 2 else random.uniform(0, took)
            found, ended = Round(disk, rawko).cut(after)
            seen[ended] = seen.get(ended, 0) + 1
            for problem in found:
                problems.append(f"cut {number} ({'at its end' if after is None else f'{after:.2f} s'}): {problem}")
                print(problems[-1], flush=True)
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(seen.items()))
        print(f"{cuts} cuts of runs of {took:.1f} s ({kinds}): {len(problems)} problems")
        return 1 if problems else 0
    finally:
        shutil.rmtree(work, ignore_errors=True)


class Disk:
    """A file system that lies in a file, and the copy of it that a power cut leaves."""

    def __init__(self, work):
        self.image, self.copy, self.at = work / "disk", work / "copy", work / "at"
        self.at.mkdir()

    def make(self):
        self.image.unlink(missing_ok=True)
        with open(self.image, "wb") as image:
            image.truncate(SIZE_MB << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", self.image], check=True)

    def can_mount(self):
        try:
            self.make()
            self.mount(self.image)
        except (OSError, subprocess.CalledProcessError):
            return False
        self.unmount()
        return True

    def mount(self, image):
        # What is not synced stays in memory for as long as may be, so that a cut shows it.
        subprocess.run(["mount", "-o", "loop,commit=300", image, self.at], check=True)

    def unmount(self):
        for _ in range(50):
            if subprocess.run(["umount", self.at], capture_output=True).returncode == 0:
                return
            time.sleep(0.1)
        raise SystemExit(f"{self.at} cannot be unmounted")

    def cut(self):
        subprocess.run(["cp", "--sparse=always", self.image, self.copy], check=True)


class Round:
    """A project on a new disk, and a run in it."""

    def __init__(self, disk, rawko):
        self.disk, self.rawko = disk, rawko
        self.project = disk.at / "project"

    def environment(self):
        home = self.disk.at / "home"
        return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "TMPDIR": "/tmp"}

    def begin(self):
        self.disk.make()
        self.disk.mount(self.disk.image)
        (self.disk.at / "home").mkdir()
        rawko = self.project / ".rawko"
        rawko.mkdir(parents=True)
        (self.project / "check.sh").write_text(
            f"for n in $(seq {STEPS}); do grep -qsx done step-$n || exit 1; done\ngrep -qsx built built\n"
        )
        config = {
            "provider": {"default": "rehearsal", "rehearsal": {"type": "scripted", "script": ".rawko/script.json"}},
            "verify": ["sh check.sh"],
        }
        (rawko / "config.yaml").write_text(json.dumps(config))
        (rawko / "script.json").write_text(json.dumps(script()))
        for command in (["init", "-q"], ["add", "-A"], ["-c", "user.name=p", "-c", "user.email=p@x", "commit", "-qm", "it"]):
            subprocess.run(["git", "-C", self.project, *command], check=True, env=self.environment())
        subprocess.run(["sync"], check=True)

    def start(self, *arguments):
        command = [self.rawko, "-C", self.project, *arguments]
        return subprocess.Popen(command, env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def ask(self, *arguments):
        process = self.start(*arguments)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def length(self):
        """How long a run takes, in seconds."""
        self.begin()
        try:
            begun = time.monotonic()
            code, out, err = self.ask("run", "--output", "json", "--yes", "make the steps")
            if code != 0 or json.loads(out)["status"] != "verified":
                raise SystemExit(f"a run without a cut does not end as verified: {code} {out} {err}")
            return time.monotonic() - begun
        finally:
            self.disk.unmount()

    def cut(self, after):
        """Cuts the power `after` seconds, or when the run has ended. What is wrong then, and whether the run had ended."""
        self.begin()
        try:
            process = self.start("run", "--output", "json", "--yes", "make the steps")
            if after is None:
                process.communicate()
            else:
                time.sleep(after)
            ended = process.poll() is not None
            self.disk.cut()
            process.kill()
            process.communicate()
        finally:
            self.disk.unmount()
        self.disk.mount(self.disk.copy)
        try:
            return list(self.look(ended)), "ended" if ended else "cut off"
        finally:
            self.disk.unmount()

    def look(self, ended):
        code, out, err = self.ask("sessions", "list", "--json")
        if code != 0:
            yield f"sessions list: {code} {err}"
            return
        sessions = json.loads(out)
        for session in sessions:
            if session["status"] == "unreadable":
                yield f"session {session['id']}: {session.get('problem')}"
        outcome = sessions[-1].get("outcome") if sessions else None
        if ended and (outcome or {}).get("status") != "verified":
            yield f"it ended as verified, and is now {outcome and outcome.get('status')}: {sessions}"
        begun = any(session["status"] == "unfinished" for session in sessions)
        if not outcome:
            again = ["resume"] if begun else ["run", "make the steps"]
            code, out, err = self.ask(again[0], "--yes", "--output", "json", *again[1:])
            status = json.loads(out)["status"] if out.startswith("{") else None
            if code != 0 or status != "verified":
                yield f"rawko {again[0]} ends with {code}, {status}: {out[-2000:]} {err[-1000:]}"
        checked = subprocess.run(["sh", "check.sh"], cwd=self.project)
        if checked.returncode != 0:
            empty = [path.name for path in self.project.glob("*") if path.is_file() and not path.stat().st_size]
            yield f"the check is red now; empty files: {empty}"
        git = subprocess.run(["git", "-C", self.project, "fsck", "--full"], capture_output=True, text=True, env=self.environment())
        if git.returncode != 0:
            yield f"git fsck: {git.stderr}"


def script():
    """Half of the steps are made by a tool, half by a command. Then, as an agent does that looks at its work before it
    reports, what is missing is made again."""
    turns = []
    for number in range(1, STEPS + 1):
        tool = (
            {"name": "Write", "input": {"file_path": f"step-{number}", "content": "done\n"}}
            if number % 2
            else {"name": "Bash", "input": {"command": f"echo done > step-{number}"}}
        )
        turns.append({"for": "developer", "delayMs": 30, "tools": [tool]})
    missing = f"for n in $(seq {STEPS}); do grep -qsx done step-$n || echo done > step-$n; done; echo built > built"
    report = {"outcome": "success", "summary": "the steps are made"}
    for _ in range(4):
        turns.append({"for": "developer", "tools": [{"name": "Bash", "input": {"command": missing}}]})
        turns.append({"for": "developer", "tools": [{"name": "Report", "input": report}]})
    return [
        {"for": "select", "repeat": True, "decision": SELECT},
        *turns,
        {"for": "evaluate", "repeat": True, "decision": COMPLETE},
    ]


if __name__ == "__main__":
    sys.exit(main())
