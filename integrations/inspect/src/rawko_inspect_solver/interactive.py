"""The agent for several prompts: `rawko acp` in the sample's sandbox, on the base class of inspect_swe for ACP agents.

The base class starts a session and leaves the prompts to a solver, which is how its own agents work. It says yes to all that
rawko asks, so rules that must hold belong into `config`. This module needs the extra `acp`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Unpack

from inspect_ai.agent import AgentState, SandboxAgentBridge, agent, sandbox_agent_bridge
from inspect_ai.model import Model, get_model
from inspect_ai.util import ExecRemoteProcess, ExecRemoteStreamingOptions, sandbox
from inspect_swe import ACPAgent, ACPAgentParams

from rawko_inspect_solver.installation import install


class RawkoAcp(ACPAgent):
    """`rawko acp`. The arguments are those of `interactive_rawko`."""

    def __init__(
        self,
        binary: str,
        copy: str | None,
        config: dict[str, Any] | None,
        options: list[str],
        port: int,
        **kwargs: Unpack[ACPAgentParams],
    ) -> None:
        if kwargs.get("system_prompt"):
            raise ValueError("rawko's agents have system prompts of their own: put yours into the first prompt, or into AGENTS.md")
        self._installation = (binary, copy, config, port)
        self._options = options
        super().__init__(**kwargs)

    def _build_model_map(self) -> dict[str, str | Model]:
        return {**super()._build_model_map(), "inspect": get_model(self.model)}

    @asynccontextmanager
    async def _start_agent(self, state: AgentState) -> AsyncIterator[tuple[ExecRemoteProcess, SandboxAgentBridge]]:
        box = sandbox(self.sandbox)
        program, env = await install(box, *self._installation)
        async with sandbox_agent_bridge(
            state,
            model=str(get_model(self.model)),
            model_aliases=self.model_map,
            filter=self.filter,
            retry_refusals=self.retry_refusals,
            bridged_tools=self.bridged_tools or None,
            sandbox=self.sandbox,
            port=self._installation[-1],
        ) as bridge:
            process = await box.exec_remote(
                [program, "acp", *self._options],
                ExecRemoteStreamingOptions(stdin_open=True, cwd=self.cwd, env=env | self.env, user=self.user),
            )
            yield process, bridge


@agent
def interactive_rawko(
    *,
    binary: str = "rawko",
    copy: str | None = None,
    config: dict[str, Any] | None = None,
    options: list[str] | None = None,
    port: int = 13131,
    **kwargs: Unpack[ACPAgentParams],
) -> ACPAgent:
    """rawko for several prompts; a solver makes it for each sample and gives it them.

    Args:
        binary: The program in the sandbox. It has the command `acp`, as those of releases do.
        copy: A static program on this machine, which is copied into the sandbox and used in place of `binary`.
        config: What a user's `~/.config/rawko/config.yaml` would say; it replaces that of the sandbox.
        options: Further options of `rawko acp`.
        port: Of the model's address in the sandbox; another one for each agent that is there at the same time.
        **kwargs: Those of inspect_swe's `ACPAgentParams`, less `system_prompt`. `cwd` is the project's folder.
    """
    return RawkoAcp(binary, copy, config, options or [], port, **kwargs)
