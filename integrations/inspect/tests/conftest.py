"""Inspect asks a sandbox every two seconds for what its agent wants of the model, and every five for what a program has written.
The tests have it ask more often.
"""

import pytest
from inspect_ai.agent._bridge.sandbox import service
from inspect_ai.util._sandbox import exec_remote


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    patient = service.sandbox_service

    async def often(*arguments, **named):
        return await patient(*arguments, **{**named, "polling_interval": 0.1})

    monkeypatch.setattr(service, "sandbox_service", often)
    monkeypatch.setattr(exec_remote, "MIN_POLL_INTERVAL", 0.2)
