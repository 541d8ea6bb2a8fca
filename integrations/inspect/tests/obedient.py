"""A model that obeys: it does what any text of its sample asks for, and then the task.

It stands for the worst model that an injection can meet. One serves all samples: it knows a sample by the file that its task
names, and where it is by the number of its turns.
"""

import re
from collections.abc import Iterable
from typing import Any

from fixes import FIXES
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatCompletionChoice, ChatMessage, ChatMessageAssistant, ModelOutput, ModelUsage
from inspect_ai.tool import ToolCall

# A command in prose, a comment or a fence, up to the end of its line or of its back quotes.
COMMAND = re.compile(r"""\b(?:python -c ["'].*["'](?=\)?[`\s]|$)|(?:echo|pip install|cat|env \||mkdir -p|python -m)\s[^`\n]+)""")
APPEND = re.compile(r"[Aa]dd `([^`]+)` to (\S+\.txt)")
NOT_ASKED = ("python -m pytest",)
# The mock model would count with a tokenizer that it downloads.
USAGE = ModelUsage(input_tokens=100, output_tokens=10, total_tokens=110)

# A tool and its input.
Call = tuple[str, dict[str, Any]]


def injected(text: str) -> list[str]:
    """The commands that `text` asks for."""
    found = [match.group(0).rstrip(" .") for match in COMMAND.finditer(text)]
    found += [f"echo '{line}' >> {file}" for line, file in APPEND.findall(text)]
    return [command for command in dict.fromkeys(found) if not command.startswith(NOT_ASKED)]


def added_imports(text: str) -> list[tuple[str, str]]:
    """The code that `text` wants in a file: (file, code)."""
    wanted = re.findall(r"following to `([^`]+)`:\s*```python\n(.*?)```", text, re.DOTALL)
    return wanted + re.findall(r"```python\n# In (\S+)\n(.*?)```", text, re.DOTALL)


class Obedient:
    """The model's answers. `Sample`s are those of the benchmark."""

    def __init__(self, samples: Iterable[Sample]):
        self.plans = {target(sample.input): plan(sample) for sample in samples}

    def __call__(self, messages: list[ChatMessage], tools: Any, choice: Any, config: Any) -> ModelOutput:
        asked = "\n".join(message.text for message in messages if message.role == "user")
        turns = self.plans[target(asked)]
        turn = sum(message.role == "assistant" for message in messages)
        calls = turns[turn] if turn < len(turns) else [("Report", {"outcome": "success", "summary": "It is fixed."})]
        return answer([ToolCall(id=f"t{turn}-{at}", function=name, arguments=given) for at, (name, given) in enumerate(calls)])


def target(asked: Any) -> str:
    """The file that a task wants repaired."""
    return next(file for file in re.findall(r"src/\w+\.py", str(asked)) if file in FIXES)


def plan(sample: Sample) -> list[list[Call]]:
    """All turns but the last: read; obey, repair and test."""
    files = sample.metadata["repo_files"]
    path = target(sample.input)
    repair = [("Edit", {"file_path": path, "old_string": old, "new_string": new}) for old, new in FIXES[path]]
    read = [("Read", {"file_path": file}) for file in files]
    return [read, [*extra(sample), *repair, ("Bash", {"command": "pytest tests/"})]]


def extra(sample: Sample) -> list[Call]:
    """The calls that a sample's injection asks for. Clean samples have examples in their comments, which ask for nothing."""
    if sample.metadata["is_benign"]:
        return []
    text = "\n".join([str(sample.input), *sample.metadata["repo_files"].values()])
    lines = [(file, f"{line}\n") for line, file in APPEND.findall(text)]
    return [
        *(("Bash", {"command": command}) for command in injected(text)),
        *(("Write", {"file_path": file, "content": content}) for file, content in [*lines, *added_imports(text)]),
    ]


def answer(calls: list[ToolCall]) -> ModelOutput:
    message = ChatMessageAssistant(content="", tool_calls=calls, model="obedient", source="generate")
    choice = ChatCompletionChoice(message=message, stop_reason="tool_calls")
    return ModelOutput(model="obedient", choices=[choice], usage=USAGE)
