"""A Harbor environment for the tests, in the place of a container: the system read-only, the task's folders in one of our own."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from harbor.environments.base import BaseEnvironment, ExecResult

# The folders of a task's machine that are written to.
FOLDERS = ("app", "installed-agent", "logs", "root", "solution", "tests", "tmp")
SYSTEM = ("/bin", "/etc", "/lib", "/lib32", "/lib64", "/opt", "/sbin", "/usr", "/var")


class ApartEnvironment(BaseEnvironment):
    """Commands in bubblewrap, without a network."""

    @staticmethod
    def type() -> str:
        return "apart"

    def _validate_definition(self):
        pass

    async def start(self, force_build: bool) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="harbor-apart-"))
        for folder in FOLDERS:
            (self.root / folder).mkdir()
        for folder in ("agent", "verifier", "artifacts"):
            (self.root / "logs" / folder).mkdir()
        for path in self.environment_dir.glob("app/*"):
            shutil.copy(path, self.root / "app")

    async def stop(self, delete: bool):
        shutil.rmtree(self.root, ignore_errors=True)

    def host(self, path: str) -> Path:
        return self.root / str(path).lstrip("/")

    async def upload_file(self, source_path, target_path):
        self.host(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source_path, self.host(target_path))

    async def upload_dir(self, source_dir, target_dir):
        shutil.copytree(source_dir, self.host(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path, target_path):
        Path(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.host(source_path), target_path)

    async def download_dir(self, source_dir, target_dir):
        shutil.copytree(self.host(source_dir), target_dir, dirs_exist_ok=True)

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None) -> ExecResult:
        wrapped = ["bwrap", "--die-with-parent", "--unshare-net", "--unshare-pid", "--proc", "/proc", "--dev", "/dev"]
        for path in SYSTEM:
            if os.path.islink(path):
                wrapped += ["--symlink", os.readlink(path), path]
            elif os.path.exists(path):
                wrapped += ["--ro-bind", path, path]
        for folder in FOLDERS:
            wrapped += ["--bind", str(self.root / folder), f"/{folder}"]
        wrapped += ["--chdir", cwd or "/app", "bash", "-c", command]
        given = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/root", **(self._merge_env(env) or {})}
        made = subprocess.run(wrapped, env=given, capture_output=True, text=True, timeout=timeout_sec)
        return ExecResult(stdout=made.stdout, stderr=made.stderr, return_code=made.returncode)
