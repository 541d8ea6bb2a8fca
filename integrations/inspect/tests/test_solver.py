"""The agent in the `local` sandbox, with Inspect's mock model: one small task of our own, and an end that is none."""

import os
from pathlib import Path

from inspect_ai import Task, eval
from inspect_ai._util.registry import registry_info
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatCompletionChoice, ChatMessageAssistant, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.tool import ToolCall
from rawko_inspect_solver import rawko

BINARY = os.environ["RAWKO_BINARY"]
# The mock model would count with a tokenizer that it downloads.
USAGE = ModelUsage(input_tokens=100, output_tokens=10, total_tokens=110)


def turn(name: str, **arguments: str) -> ModelOutput:
    call = ToolCall(id=f"call-{name}", function=name, arguments=arguments)
    message = ChatMessageAssistant(content="I go on.", tool_calls=[call], model="mock", source="generate")
    choice = ChatCompletionChoice(message=message, stop_reason="tool_calls")
    return ModelOutput(model="mock", choices=[choice], usage=USAGE)


def run(outputs: list[ModelOutput], tmp_path: Path, **program: str):
    (tmp_path / "greeting.py").write_text('print("hello wrold")\n')
    agent = rawko(
        **(program or {"binary": BINARY}),
        cwd=str(tmp_path),
        config={"agents": {"builtin": ["developer"]}, "verify": ["python3 greeting.py | grep -q world"]},
        options=["--no-cache"],
    )
    task = Task(
        dataset=[Sample(input="Correct the spelling in greeting.py.", target="It says world.")],
        solver=agent,
        scorer=includes(),
        sandbox="local",
    )
    model = get_model("mockllm/model", custom_outputs=outputs)
    [log] = eval(task, model=model, log_dir=str(tmp_path / "logs"), display="plain")
    return log


def test_a_task_is_carried_out_in_the_sandbox_and_scored(tmp_path):
    edit = turn("Edit", file_path="greeting.py", old_string="wrold", new_string="world")
    log = run(
        [turn("Read", file_path="greeting.py"), edit, turn("Report", outcome="success", summary="It says world.")],
        tmp_path,
        copy=BINARY,
    )

    assert log.status == "success", log.error
    [sample] = log.samples
    assert (tmp_path / "greeting.py").read_text() == 'print("hello world")\n'
    assert sample.store["rawko"]["status"] == "verified"
    # The model's turns went over the bridge: they are in Inspect's own transcript, and count as its usage.
    called = [call.function for message in sample.messages if message.role == "assistant" for call in message.tool_calls or []]
    assert called == ["Read", "Edit", "Report"]
    assert log.stats.model_usage["mockllm/model"].input_tokens > 0


def test_inspect_finds_the_agent_by_its_name():
    assert registry_info(rawko()).name == "rawko_inspect_solver/rawko"


def test_work_that_fails_is_a_result_and_not_an_error(tmp_path):
    report = turn("Report", outcome="failure", summary="I cannot.")
    log = run([report] * 20, tmp_path)

    assert log.status == "success", log.error
    assert log.samples[0].store["rawko"]["status"] in ("failed", "limited")


def test_a_rawko_that_cannot_run_is_an_error_of_the_sample(tmp_path):
    # A shell does not know the options, and ends with status 2.
    log = run([], tmp_path, binary="/bin/sh")

    assert log.status == "error"
