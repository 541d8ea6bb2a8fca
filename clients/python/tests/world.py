"""A project, a user whose provider is a script, and the real program."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any, Dict, List, Optional

from rawko_client import Rawko
from rawko_client._record import Record

BINARY = os.environ["RAWKO_BINARY"]


def select(agent: str) -> Dict[str, Any]:
    return {"for": "select", "decision": {"decision": "SELECT_MODE", "mode": agent, "reason": "it is to be done"}}


def calls(name: str, **arguments: Any) -> Dict[str, Any]:
    return {"for": "developer", "tools": [{"name": name, "input": arguments}]}


def report() -> Dict[str, Any]:
    return calls("Report", outcome="success", summary="It is written.")


def complete() -> Dict[str, Any]:
    decision = {"decision": "COMPLETE", "summary": "done", "reason": "the record shows it"}
    return {"for": "evaluate", "decision": decision, "repeat": True}


#: A developer who writes the answer.
WRITES = [select("developer"), calls("Write", file_path="answer.txt", content="42\n"), report(), complete()]
#: A developer who thinks for ten minutes.
HANGS = [select("developer"), {"for": "developer", "text": "I think.", "delayMs": 600_000}]


class World(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="rawko-client-")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        self.project = self.root / "project"
        self.project.mkdir()
        self.env = {
            "HOME": str(self.root),
            "XDG_CONFIG_HOME": str(self.root / "config"),
            "XDG_STATE_HOME": str(self.root / "state"),
        }
        subprocess.run(["git", "init", "--quiet"], cwd=self.project, env={**os.environ, **self.env}, check=True)

    def rawko(self, script: List[Dict[str, Any]], settings: Optional[Dict[str, Any]] = None) -> Rawko:
        """The program, with these answers of the model and settings of the user."""
        path = self.root / "script.json"
        path.write_text(json.dumps(script), encoding="utf-8")
        provider = {"default": "script", "script": {"type": "scripted", "script": str(path)}}
        config = {"provider": provider, "arbiter": {"mode": "llm"}, **(settings or {})}
        file = self.root / "config/rawko/config.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(config), encoding="utf-8")
        return Rawko(self.project, binary=BINARY, env=self.env)

    def program(self, text: str) -> Path:
        """Another program, in place of rawko."""
        path = self.root / "program"
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
        return path

    def fits_the_schema(self, seen: List[Any]) -> None:
        """These events have no field that the types lack, and all that the types require."""
        self.assertTrue(seen)
        self.assertEqual([problem for event in seen for problem in problems(event)], [])


def problems(record: Record) -> List[str]:
    name = type(record).__name__
    known = {key: attribute for attribute, key, _ in record.FIELDS}
    found = [f"{name}.{key} is not known" for key in record.raw if key not in known]
    defaults = {field.name for field in dataclasses.fields(record) if field.default is field.default_factory}  # type: ignore
    found += [f"{name}.{key} is missing" for key, field in known.items() if field in defaults and key not in record.raw]
    for attribute in known.values():
        value = getattr(record, attribute)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Record):
                found += problems(item)
    return found
