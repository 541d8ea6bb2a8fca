"""Inspect asks a sandbox every two seconds for what its agent wants of the model. The tests have it ask more often."""

import pytest
from inspect_ai.agent._bridge.sandbox import service


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    patient = service.sandbox_service

    async def often(*arguments, **named):
        return await patient(*arguments, **{**named, "polling_interval": 0.1})

    monkeypatch.setattr(service, "sandbox_service", often)
