#!/usr/bin/env python3
"""Kills `rawko land` at its system calls, and looks at what is left.

kill-landing.py RAWKO [EVERY]     on Linux (x86-64 or arm64)

A run in a tree of its own has changed, added and removed files, and the user has changed others. Then `rawko land` is run
under ptrace and killed at one system call that can change a file, with all of its processes; each time at a later one (with
EVERY, only at each EVERYth). After each kill another command of rawko is run in the project, and then:
- Either nothing has landed, and `rawko land` lands all of it; or all of it has landed.
- The user's own changes are there, and every file is a version that somebody made, and whole.
- `git fsck` finds nothing, and the session's journal can be read.
"""

import ctypes
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

FILES = 6
OLD, NEW, MINE = "old\n" * 50, "new\n" * 50, "mine\n" * 50
# By number: what makes, changes, moves or removes a file, or writes something out.
CALLS = {
    "x86_64": {1, 2, 18, 20, 74, 75, 76, 77, 82, 83, 84, 85, 86, 87, 88, 257, 258, 263, 264, 265, 266, 280, 285, 316, 326, 437},
    "aarch64": {34, 35, 36, 37, 38, 45, 46, 47, 56, 64, 66, 68, 82, 83, 88, 276, 285, 437},
}
TRACEME, CONT, SYSCALL, SETOPTIONS, GETREGSET = 0, 7, 24, 0x4200, 0x4204
# Follow new threads and processes, and kill all when this program ends.
OPTIONS = 0x1 | 0x2 | 0x4 | 0x8 | 0x100000
WALL = 0x40000000

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def ptrace(what, pid, address=0, data=0):
    return libc.ptrace(what, pid, address, data)


def call_of(pid):
    """The number of the system call that a stopped thread makes."""
    registers = (ctypes.c_ulonglong * 64)()
    vector = Vector(ctypes.cast(registers, ctypes.c_void_p), ctypes.sizeof(registers))
    ptrace(GETREGSET, pid, 1, ctypes.cast(ctypes.pointer(vector), ctypes.c_void_p))
    return registers[15 if platform.machine() == "x86_64" else 8]


def killed_at(command, environment, folder, wanted):
    """Runs a command, and kills it with all that it started at call number `wanted`. Gives the calls that it made, and
    whether it was killed."""
    pid = os.fork()
    if pid == 0:
        try:
            ptrace(TRACEME, 0)
            os.chdir(folder)
            nothing = os.open("/dev/null", os.O_RDWR)
            for stream in range(3):
                os.dup2(nothing, stream)
            os.execve(command[0], command, environment)
        finally:
            os._exit(127)
    os.waitpid(pid, 0)
    ptrace(SETOPTIONS, pid, 0, OPTIONS)
    ptrace(SYSCALL, pid)
    calls, inside, known = 0, {}, {pid}
    while known:
        try:
            stopped, status = os.waitpid(-1, WALL)
        except ChildProcessError:
            break
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            known.discard(stopped)
            continue
        known.add(stopped)
        number, passed = os.WSTOPSIG(status), 0
        if number == signal.SIGTRAP | 0x80:
            inside[stopped] = not inside.get(stopped, False)
            if inside[stopped] and call_of(stopped) in CALLS[platform.machine()]:
                calls += 1
                if calls == wanted:
                    for each in known:
                        try:
                            os.kill(each, signal.SIGKILL)
                        except ProcessLookupError:
                            pass
                    while True:
                        try:
                            os.waitpid(-1, WALL)
                        except ChildProcessError:
                            return calls, True
        elif number == signal.SIGTRAP:
            pass  # exec, or a new thread or process
        elif number != signal.SIGSTOP:
            passed = number
        ptrace(SYSCALL, stopped, 0, passed)
    return calls, False


class Landing:
    """A project with a session that has not landed."""

    def __init__(self, rawko, folder):
        self.rawko, self.folder = rawko, Path(folder)
        self.project, self.home = self.folder / "project", self.folder / "home"
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8", "TMPDIR": "/tmp"}

    def ask(self, *arguments):
        command = [self.rawko, "-C", self.project, *arguments]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120)

    def make(self):
        self.home.mkdir(parents=True)
        (self.project / ".rawko").mkdir(parents=True)
        for number in range(FILES):
            (self.project / f"changed-{number}").write_text(OLD)
            (self.project / f"removed-{number}").write_text(OLD)
        (self.project / "mine").write_text(OLD)
        (self.project / "both").write_text("1\n2\n3\n4\n5\n")
        write = "; ".join(f"yes new | head -n 50 > changed-{n}; mkdir -p deep/{n}; cp changed-{n} deep/{n}/added; rm removed-{n}" for n in range(FILES))
        turns = [
            {"for": "developer", "tools": [{"name": "Bash", "input": {"command": write + "; sed -i s/1/one/ both"}}]},
            {"for": "developer", "tools": [{"name": "Report", "input": {"outcome": "success", "summary": "done"}}]},
        ]
        script = [
            {"for": "select", "repeat": True, "decision": {"decision": "SELECT_MODE", "mode": "developer", "reason": "work"}},
            *turns,
            {"for": "evaluate", "repeat": True, "decision": {"decision": "COMPLETE", "summary": "done", "reason": "done"}},
        ]
        config = {
            "provider": {"default": "rehearsal", "rehearsal": {"type": "scripted", "script": ".rawko/script.json"}},
            "verify": ["test -f deep/0/added"],
        }
        (self.project / ".rawko/config.yaml").write_text(json.dumps(config))
        (self.project / ".rawko/script.json").write_text(json.dumps(script))
        for command in (["init", "-q"], ["add", "-A"], ["-c", "user.name=p", "-c", "user.email=p@x", "commit", "-qm", "it"]):
            subprocess.run(["git", "-C", self.project, *command], check=True, env=self.environment)
        ran = self.ask("run", "--isolated", "--land", "never", "--yes", "--output", "json", "make the changes")
        if ran.returncode != 0 or json.loads(ran.stdout)["landing"]["end"] != "kept":
            raise SystemExit(f"the run does not end as it should: {ran}")
        (self.project / "mine").write_text(MINE)
        (self.project / "both").write_text("1\n2\n3\n4\nfive\n")

    def state(self):
        """How many of the run's changes are in the project, and what is wrong with it."""
        problems, landed = [], 0
        for number in range(FILES):
            for name, old, new in [
                (f"changed-{number}", OLD, NEW),
                (f"removed-{number}", OLD, None),
                (f"deep/{number}/added", None, NEW),
            ]:
                path = self.project / name
                found = path.read_text() if path.exists() else None
                if found not in (old, new):
                    problems.append(f"{name} is {found[:30]!r}")
                landed += found == new
        both = (self.project / "both").read_text()
        if both not in ("1\n2\n3\n4\nfive\n", "one\n2\n3\n4\nfive\n"):
            problems.append(f"both is {both!r}")
        landed += both.startswith("one")
        if (self.project / "mine").read_text() != MINE:
            problems.append("what the user changed is gone")
        extra = [path.name for path in self.project.rglob("*.rawko*") if path.name != ".rawko"]
        if extra:
            problems.append(f"left: {extra}")
        return landed, problems

    def check(self):
        """What is wrong after a kill."""
        # The next command completes what was begun.
        self.ask("diff", "last", "--stat")
        landed, problems = self.state()
        if landed not in (0, 3 * FILES + 1):
            problems.append(f"{landed} of {3 * FILES + 1} changes have landed after the next command")
        again = self.ask("land", "last")
        landed, found = self.state()
        problems += found
        if landed != 3 * FILES + 1:
            problems.append(f"{landed} of {3 * FILES + 1} changes have landed at the end: {again}")
        listed = self.ask("sessions", "list", "--json")
        if listed.returncode != 0 or json.loads(listed.stdout)[-1]["status"] != "ended":
            problems.append(f"sessions: {listed}")
        if self.ask("replay", "last").returncode != 0:
            problems.append("the journal does not replay")
        git = subprocess.run(["git", "-C", self.project, "fsck", "--full"], capture_output=True, text=True, env=self.environment)
        if git.returncode != 0:
            problems.append(f"git fsck: {git.stderr}")
        return problems


def main():
    rawko = str(Path(sys.argv[1]).resolve())
    every = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    if platform.machine() not in CALLS:
        print(f"skipped: the system calls of {platform.machine()} are not known here")
        return 0
    work = Path(tempfile.mkdtemp(prefix="kill-landing-", dir="/var/tmp"))
    try:
        landing = Landing(rawko, work / "now")
        landing.make()
        # Each kill begins with the same, at the same path.
        os.rename(work / "now", work / "made")
        wanted, kills, problems = 1, 0, 0
        while True:
            subprocess.run(["rm", "-rf", work / "now"], check=True)
            subprocess.run(["cp", "-a", work / "made", work / "now"], check=True)
            _, was_killed = killed_at([rawko, "-C", str(landing.project), "land", "last"], landing.environment, "/", wanted)
            if not was_killed:
                break
            kills += 1
            for problem in landing.check():
                problems += 1
                print(f"killed at call {wanted}: {problem}", flush=True)
            wanted += every
        if not kills and not os.environ.get("RAWKO_NO_SKIP"):
            print("skipped: no process can be traced here")
            return 0
        print(f"{kills} kills at up to {wanted - every} calls: {problems} problems")
        return 1 if problems or not kills else 0
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
