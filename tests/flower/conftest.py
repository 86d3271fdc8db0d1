"""Flower quiet and offline, before anything imports it."""

import os
from typing import Any

import pytest

os.environ |= {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "OMP_NUM_THREADS": "1",  # small tensors: threads only get into each other's way
}


@pytest.fixture(autouse=True)
def _a_minute_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that waits for what never comes fails after a minute, not after an hour."""
    from anymix.flower import Patience

    defaults: Any = Patience.__init__.__defaults__
    changed = tuple(60.0 if value == 3600.0 else value for value in defaults)
    monkeypatch.setattr(Patience.__init__, "__defaults__", changed)
