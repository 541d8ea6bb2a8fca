"""The agent: it runs rawko's command line in the sample's sandbox, against the model that Inspect lends it there.

rawko brings its own tools, permissions and checks. Inspect brings the task, the sandbox, the model and the score.
"""

import json
from typing import Any

from inspect_ai.agent import Agent, AgentState, agent, sandbox_agent_bridge
from inspect_ai.util import sandbox, store

from rawko_inspect_solver.installation import install

# Ends that say something about the work: done, failed, stopped by a limit. Others say that the run could not be made.
ENDS = (0, 1, 3)


@agent
def rawko(
    binary: str = "rawko",
    copy: str | None = None,
    cwd: str | None = None,
    config: dict[str, Any] | None = None,
    options: list[str] | None = None,
    port: int = 13131,
) -> Agent:
    """rawko, which carries the sample's task to a verified change.

    Args:
        binary: The program in the sandbox.
        copy: A static program on this machine, which is copied into the sandbox and used in place of `binary`.
        cwd: The project's folder there; by default the sandbox's own.
        config: What a user's `~/.config/rawko/config.yaml` would say; it replaces that of the sandbox.
        options: Further options of `rawko run`, such as `["--timeout", "30m"]`.
        port: Of the model's address in the sandbox.
    """

    async def execute(state: AgentState) -> AgentState:
        task = "\n\n".join(message.text for message in state.messages if message.role == "user")
        program, env = await install(sandbox(), binary, copy, config, port)
        command = [program, "run", "--output", "json", *(options or []), "-"]
        async with sandbox_agent_bridge(state, port=port) as bridge:
            ended = await sandbox().exec(command, input=task, cwd=cwd, env=env)
            if ended.returncode not in ENDS:
                raise RuntimeError(f"rawko ended with status {ended.returncode}: {ended.stderr[-4000:]}")
            store().set("rawko", json.loads(ended.stdout))
            return bridge.state

    return execute
