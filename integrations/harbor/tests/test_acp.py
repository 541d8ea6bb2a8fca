"""The client that Harbor's generic ACP agent runs in a container, against `rawko acp`."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from harbor.agents.installed import acp_runner

BINARY = os.environ["RAWKO_BINARY"]


def turn(name, **given):
    return {"for": "developer", "tools": [{"name": name, "input": given}]}


SOLVED = [
    turn("Read", file_path="greet.sh"),
    turn("Edit", file_path="greet.sh", old_string="wrold", new_string="world"),
    turn("Report", outcome="success", summary="It says world."),
]


@pytest.mark.skipif(
    subprocess.run([BINARY, "acp"], stdin=subprocess.DEVNULL, capture_output=True).returncode != 0,
    reason="this rawko was built without the feature acp",
)
def test_a_task_is_carried_out_over_acp(tmp_path):
    settings, project, logs = tmp_path / "home/.config/rawko", tmp_path / "project", tmp_path / "logs"
    settings.mkdir(parents=True)
    project.mkdir()
    (project / "greet.sh").write_text("echo hello wrold\n")
    (settings / "script.json").write_text(json.dumps(SOLVED))
    config = {
        "arbiter": {"mode": "rules"},
        "agents": {"builtin": ["developer"]},
        "verify": ["bash greet.sh | grep -q world"],
        "provider": {"default": "script", "script": {"type": "scripted", "script": str(settings / "script.json")}},
    }
    (settings / "config.yaml").write_text(json.dumps(config))
    entry = json.loads((Path(__file__).parent.parent / "acp.json").read_text())["distribution"]["local"]
    launcher = tmp_path / "launch.sh"
    launcher.write_text(f'#!/bin/sh\nexec "{BINARY}" {" ".join(entry["args"])}\n')
    launcher.chmod(0o755)

    # Harbor copies it, too: beside it is a module with the name of the protocol's library.
    runner = shutil.copy(acp_runner.__file__, tmp_path / "acp_runner.py")
    command = [sys.executable, str(runner), "--instruction=Correct the spelling in greet.sh."]
    made = subprocess.run(
        [*command, f"--logs-dir={logs}", f"--launcher={launcher}"],
        cwd=project,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )

    summary = json.loads((logs / "acp-summary.json").read_text())
    assert made.returncode == 0, (summary.get("error"), made.stderr)
    assert summary["prompt_response"]["stopReason"] == "end_turn"
    assert (project / "greet.sh").read_text() == "echo hello world\n"
    events = [json.loads(line) for line in (logs / "acp-events.jsonl").read_text().splitlines()]
    assert any("tool_call" in json.dumps(event) for event in events)
