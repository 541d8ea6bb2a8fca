"""The agent: it puts the program into the task's container, runs it there, and takes the session as the trial's trajectory.

The trajectory is rawko's own export in ATIF, Harbor's format, and no translation of what was printed.
"""

import json
import shlex
import shutil
from pathlib import Path
from typing import override

from harbor.agents.capabilities import AgentCapabilities
from harbor.agents.installed.base import BaseInstalledAgent, with_prompt_template
from harbor.agents.options import InstalledAgentOptions
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext
from harbor.models.trajectories import Trajectory
from harbor.models.trial.paths import EnvironmentPaths
from pydantic import Field

PLACE = "/installed-agent"
# What Harbor calls a vendor, and what rawko calls it. Others have one name.
PROVIDERS = {"anthropic": "claude", "openai": "responses", "google": "gemini"}
KEYS = {"claude": "ANTHROPIC_API_KEY", "responses": "OPENAI_API_KEY"}


class RawkoOptions(InstalledAgentOptions):
    """What `--ak name=value` sets."""

    binary: str = Field(default="rawko", description="The program on this machine; it is copied into the container.")
    confined: bool = Field(
        default=True,
        description="Whether rawko's own walls stay: it changes the task's folder alone. Tasks that change the system need false.",
    )
    options: str = Field(default="", description="Further options of `rawko run`, as in a shell.")


class Rawko(BaseInstalledAgent):
    """rawko, which carries an instruction to a verified change."""

    capabilities = AgentCapabilities(atif=True, native_config=True)
    options_model = RawkoOptions
    options: RawkoOptions

    @staticmethod
    @override
    def name() -> str:
        return "rawko"

    @override
    def get_version_command(self) -> str | None:
        return f"{PLACE}/rawko --version"

    @override
    def parse_version(self, stdout: str) -> str:
        return stdout.split()[-1]

    @override
    async def install(self, environment: BaseEnvironment) -> None:
        binary = shutil.which(self.options.binary)
        if binary is None:
            raise ValueError(f"{self.options.binary} is not a program here: install rawko, or name it with --ak binary=PATH")
        await self.ensure_system_dependencies(environment, ("bash", "git"))
        await environment.upload_file(binary, f"{PLACE}/rawko")
        await self.exec_as_root(environment, command=f"chmod 755 {PLACE}/rawko")

    @override
    async def configure(self, environment: BaseEnvironment) -> None:
        source = self.config_source
        if source is None:
            return
        # Every JSON text is YAML.
        content = source.read_text() if isinstance(source, Path) else json.dumps(source)
        await self.exec_as_root(environment, command=f"mkdir -p {PLACE}/config/rawko")
        await self._upload_config_text(
            environment, content=content, remote_path=f"{PLACE}/config/rawko/config.yaml", filename="config.yaml"
        )

    def environment(self) -> dict[str, str]:
        """The model, its key, and where the configuration is."""
        env = {"XDG_CONFIG_HOME": f"{PLACE}/config"} if self.config_source is not None else {}
        if self.model_name:
            vendor, _, model = self.model_name.rpartition("/")
            provider = PROVIDERS.get(vendor, vendor)
            env["RAWKO_MODEL"] = model
            if provider:
                env["RAWKO_PROVIDER"] = provider
                key = KEYS.get(provider, f"{provider.upper()}_API_KEY")
                if value := self._get_env(key):
                    env[key] = value
        return env

    def command(self, instruction: str) -> str:
        """One run, its trajectory, and its session out of the task's folder."""
        logs = EnvironmentPaths.agent_dir.as_posix()
        walls = "" if self.options.confined else "--no-sandbox --allow-read --allow-write --allow-net"
        return f"""
rawko={PLACE}/rawko
[ -e .rawko ] && kept=1 || kept=
$rawko run --cwd . --output json {walls} {self.options.options} -- {shlex.quote(instruction)} \\
    >{logs}/rawko.json 2>{logs}/rawko.log && status=0 || status=$?
$rawko --cwd . sessions export last --format atif >{logs}/trajectory.json 2>>{logs}/rawko.log || rm -f {logs}/trajectory.json
cp -r .rawko/sessions {logs}/sessions 2>/dev/null || true
[ "$kept" ] || rm -rf .rawko
case $status in
  0 | 1 | 3) exit 0 ;; # done, failed, stopped by a limit: the task's own tests judge
  *) tail -n 40 {logs}/rawko.log >&2; exit $status ;;
esac
""".strip()

    @with_prompt_template
    @override
    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        await self.exec_as_agent(environment, command=self.command(instruction), env=self.environment())

    @override
    def populate_context_post_run(self, context: AgentContext) -> None:
        path = self.logs_dir / "trajectory.json"
        if not path.exists():
            self.logger.warning("rawko left no trajectory: see rawko.log")
            return
        trajectory = Trajectory.model_validate_json(path.read_text())
        total = trajectory.final_metrics
        if total is None:
            return
        context.n_input_tokens = total.total_prompt_tokens
        context.n_cache_tokens = total.total_cached_tokens
        context.n_output_tokens = total.total_completion_tokens
        context.cost_usd = total.total_cost_usd
