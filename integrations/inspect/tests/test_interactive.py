"""rawko as an ACP agent on the base class of inspect_swe, in the `local` sandbox with Inspect's mock model."""

import os
import subprocess
from pathlib import Path

import anyio
import pytest
from acp import text_block
from inspect_ai import Task, eval
from inspect_ai.agent import AgentState
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import solver
from inspect_ai.tool import tool
from inspect_ai.util import store
from rawko_inspect_solver.interactive import interactive_rawko
from test_solver import turn

BINARY = os.environ["RAWKO_BINARY"]
pytestmark = pytest.mark.skipif(
    subprocess.run([BINARY, "acp"], stdin=subprocess.DEVNULL, capture_output=True).returncode != 0,
    reason="this rawko was built without the feature acp",
)


@tool
def right_word():
    async def execute(wrong: str):
        """The right word for a wrong one.

        Args:
            wrong: The word.
        """
        return wrong.replace("wrold", "world")

    return execute


@solver
def prompts(texts: list[str], **named):
    """Gives a session of rawko one prompt after the other, and keeps how each ended."""

    async def solve(state, generate):
        agent = interactive_rawko(**named)

        async def work():
            worked = await agent(AgentState(messages=state.messages))
            state.messages, state.output = worked.messages, worked.output

        async with anyio.create_task_group() as group:
            group.start_soon(work)
            # The base class makes its event anew when it begins.
            await anyio.lowlevel.checkpoint()
            await agent.ready.wait()
            ends = []
            for text in texts:
                end = await agent.conn.prompt(session_id=agent.session_id, prompt=[text_block(text)])
                ends.append({"stop": end.stop_reason, **end.field_meta["rawko"]})
            store().set("ends", ends)
            group.cancel_scope.cancel()
        return state

    return solve


def edit(old: str, new: str) -> ModelOutput:
    return turn("Edit", file_path="greeting.py", old_string=old, new_string=new)


def run(texts: list[str], outputs: list[ModelOutput], tmp_path: Path, **named):
    (tmp_path / "greeting.py").write_text('print("hello wrold")\n')
    config = {
        "arbiter": {"mode": "rules"},
        "agents": {"builtin": ["developer"]},
        "verify": ["python3 greeting.py | grep -q world"],
    }
    agent = {"binary": BINARY, "cwd": str(tmp_path), "config": config, **named}
    task = Task(
        dataset=[Sample(input=texts[0], target="It says world.")],
        solver=prompts(texts, **agent),
        scorer=includes(),
        sandbox="local",
    )
    model = get_model("mockllm/model", custom_outputs=outputs)
    [log] = eval(task, model=model, log_dir=str(tmp_path / "logs"), display="plain")
    return log


def calls(log) -> list[str]:
    turns = [message for message in log.samples[0].messages if message.role == "assistant"]
    return [call.function for message in turns for call in message.tool_calls or []]


def test_two_prompts_of_one_session_are_carried_out(tmp_path):
    read, done = turn("Read", file_path="greeting.py"), turn("Report", outcome="success", summary="It says world.")
    log = run(
        ["Correct the spelling in greeting.py.", "Now let it end with an exclamation mark."],
        [read, edit("wrold", "world"), done, read, edit("world", "world!"), done],
        tmp_path,
        copy=BINARY,
    )

    assert log.status == "success", log.error
    assert (tmp_path / "greeting.py").read_text() == 'print("hello world!")\n'
    ends = log.samples[0].store["ends"]
    assert [(end["stop"], end["status"]) for end in ends] == [("end_turn", "verified")] * 2, ends
    assert ends[0]["session"] == ends[1]["session"], ends
    # The model's turns went over the bridge: they are in Inspect's own transcript, and count as its usage.
    assert calls(log) == ["Read", "Edit", "Report"] * 2
    assert log.stats.model_usage["mockllm/model"].input_tokens > 0


def test_a_tool_of_inspect_is_a_tool_of_rawkos_agents(tmp_path):
    log = run(
        ["Correct the spelling in greeting.py."],
        [
            turn("mcp__tools__right_word", wrong="wrold"),
            turn("Read", file_path="greeting.py"),
            edit("wrold", "world"),
            turn("Report", outcome="success", summary="It says world."),
        ],
        tmp_path,
        bridged_tools=[right_word()],
    )

    assert log.status == "success", log.error
    assert log.samples[0].store["ends"][0]["status"] == "verified"
    answers = [message.text for message in log.samples[0].messages if message.role == "tool"]
    assert "world" in answers[0] and "wrold" not in answers[0], answers


def test_a_rawko_that_cannot_serve_is_an_error_of_the_sample(tmp_path):
    log = run(["Correct the spelling in greeting.py."], [], tmp_path, binary="/bin/sh")

    assert log.status == "error"
    assert "ACP" in log.error.message, log.error
