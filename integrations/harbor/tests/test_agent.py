"""Whole trials by Harbor itself, in an environment of the tests: install, run, trajectory, the task's own verifier."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from harbor.agents.installed.acp import AcpRegistryEntry
from harbor.models.agent.context import AgentContext
from harbor.models.trajectories import Trajectory
from rawko_harbor import Rawko

BINARY = os.environ["RAWKO_BINARY"]
HERE = Path(__file__).parent


def turn(name, **given):
    return {"for": "developer", "tools": [{"name": name, "input": given}]}


SOLVED = [
    turn("Read", file_path="greet.sh"),
    turn("Edit", file_path="greet.sh", old_string="wrold", new_string="world"),
    turn("Report", outcome="success", summary="It says world."),
]
UNSOLVED = [turn("Report", outcome="failure", summary="I cannot.")] * 9


def trial(place: Path, replies: list, **provider) -> tuple[dict, Path]:
    """A task of one misspelt word, tried once; the result, and the folder of the trial."""
    task = place / "task"
    (task / "environment" / "app").mkdir(parents=True)
    (task / "tests").mkdir()
    (task / "task.toml").write_text('version = "1.0"\n[agent]\ntimeout_sec = 120.0\n[verifier]\ntimeout_sec = 60.0\n')
    (task / "instruction.md").write_text("Correct the spelling in greet.sh; it's \"wrong\".\n")
    (task / "environment" / "Dockerfile").write_text("FROM debian:12\nWORKDIR /app\n")
    (task / "environment" / "app" / "greet.sh").write_text("echo hello wrold\n")
    (task / "environment" / "app" / "script.json").write_text(json.dumps(replies))
    (task / "tests" / "test.sh").write_text(
        'if [ "$(bash /app/greet.sh)" = "hello world" ] && ! [ -e /app/.rawko ]; then echo 1; else echo 0; fi '
        ">/logs/verifier/reward.txt\n"
    )
    config = {
        "arbiter": {"mode": "rules"},
        "agents": {"builtin": ["developer"]},
        "verify": ["bash greet.sh | grep -q world"],
        "provider": {"default": "script", "script": {"type": "scripted", "script": "/app/script.json", **provider}},
    }
    asked = ["--agent", "rawko_harbor:Rawko", "--agent-kwarg", f"binary={BINARY}", "--agent-kwarg", f"config={json.dumps(config)}"]
    asked += ["--env", "apart_environment:ApartEnvironment", "--trials-dir", str(place / "trials"), "--trial-name", "one"]
    made = subprocess.run(
        [str(Path(sys.executable).parent / "harbor"), "trial", "start", "--path", str(task), *asked],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]), "HOME": str(place)},
        capture_output=True,
        text=True,
    )
    found = place / "trials" / "one"
    assert (found / "result.json").exists(), made.stdout + made.stderr
    return json.loads((found / "result.json").read_text()), found


def test_a_trial_is_rewarded_and_its_trajectory_is_valid(tmp_path):
    result, place = trial(tmp_path, SOLVED)

    assert result["exception_info"] is None, result["exception_info"]
    assert result["verifier_result"]["rewards"] == {"reward": 1.0}
    assert result["agent_info"]["name"] == "rawko"
    trajectory = Trajectory.model_validate_json((place / "agent" / "trajectory.json").read_text())
    called = [call.function_name for step in trajectory.steps for call in step.tool_calls or []]
    assert called == ["Read", "Edit", "Report"]
    assert result["agent_result"]["n_input_tokens"] == trajectory.final_metrics.total_prompt_tokens
    assert json.loads((place / "agent" / "rawko.json").read_text())["status"] == "verified"
    assert list((place / "agent" / "sessions").glob("*/journal.jsonl"))


def test_work_that_fails_is_judged_and_a_run_that_could_not_be_made_is_an_error(tmp_path):
    result, _ = trial(tmp_path / "fails", UNSOLVED)
    assert result["exception_info"] is None, result["exception_info"]
    assert result["verifier_result"]["rewards"] == {"reward": 0.0}

    result, _ = trial(tmp_path / "errs", SOLVED, noSuchKey=1)
    assert "noSuchKey" in result["exception_info"]["exception_message"]


@pytest.mark.parametrize(
    ("model", "key", "provider"),
    [
        ("anthropic/claude-sonnet-5-5", "ANTHROPIC_API_KEY", "claude"),
        ("openai/gpt-6", "OPENAI_API_KEY", "responses"),
        ("deepseek/deepseek-chat", "DEEPSEEK_API_KEY", "deepseek"),
    ],
)
def test_a_model_comes_with_its_own_key_and_no_other(tmp_path, monkeypatch, model, key, provider):
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "DEEPSEEK_API_KEY"):
        monkeypatch.setenv(name, f"value of {name}")
    agent = Rawko(logs_dir=tmp_path, model_name=model)

    assert agent.environment() == {
        "RAWKO_PROVIDER": provider,
        "RAWKO_MODEL": model.split("/")[1],
        key: f"value of {key}",
    }
    assert key not in agent.command("Do it."), "a key is in no command line"


def test_walls_stay_unless_they_are_taken_down(tmp_path):
    assert "--no-sandbox" not in Rawko(logs_dir=tmp_path).command("Do it.")
    assert "--no-sandbox" in Rawko(logs_dir=tmp_path, confined=False).command("Do it.")


def test_a_run_without_a_trajectory_leaves_the_figures_open(tmp_path):
    context = AgentContext()
    Rawko(logs_dir=tmp_path).populate_context_post_run(context)
    assert context.is_empty()


def test_the_entry_for_the_generic_acp_agent_is_one(tmp_path):
    entry = AcpRegistryEntry.model_validate_json((HERE.parent / "acp.json").read_text())
    assert entry.distribution.local.args == ["acp"]
