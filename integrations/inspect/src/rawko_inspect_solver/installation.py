"""rawko in a sample's sandbox: the program, its configuration, and the environment in which it reaches Inspect's model."""

import json
from pathlib import Path
from typing import Any

from inspect_ai.util import SandboxEnvironment

# Outside of the project, so that the rules are the user's and need no trust.
PLACE = "/tmp/rawko-solver"


async def install(
    box: SandboxEnvironment, binary: str, copy: str | None, config: dict[str, Any] | None, port: int
) -> tuple[str, dict[str, str]]:
    """Gives the program's path in the sandbox, and its variables for a bridge at `port`."""
    # The model is Inspect's; "inspect" is the name that the bridge knows it by, and the key reaches nobody.
    env = {"RAWKO_PROVIDER": "claude", "RAWKO_MODEL": "inspect", "ANTHROPIC_API_KEY": "inspect"}
    env["ANTHROPIC_BASE_URL"] = f"http://127.0.0.1:{port}"
    if config is not None:
        await box.write_file(f"{PLACE}/rawko/config.yaml", json.dumps(config))
        env["XDG_CONFIG_HOME"] = PLACE
    if copy is None:
        return binary, env
    program = f"{PLACE}/rawko-program"
    await box.write_file(program, Path(copy).read_bytes())
    await box.exec(["chmod", "755", program])
    return program, env
