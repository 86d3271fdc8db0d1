"""Masked sums on every engine: the clients' secrets live from message to message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flower.left_over import alive

from anymix.flower.engines import federate

MASKED_WAYS = Path(__file__).parent / "masked_ways"


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param("ray", marks=pytest.mark.ray),
        pytest.param("deployment", marks=pytest.mark.deployment),
    ],
)
def test_all_engines_agree(engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    there, here = federate(MASKED_WAYS, engine), federate(MASKED_WAYS, "local")
    np.testing.assert_allclose(there["solved"], here["solved"], atol=1e-9)
    np.testing.assert_allclose(there["trained"], here["trained"], atol=1e-12)
    assert there["gap"] <= 1e-6
    assert there["clients"] == [3, 3]
    assert alive(str(tmp_path)) == []


def test_an_app_with_masked_sums_runs() -> None:
    result = federate(MASKED_WAYS, "local")
    assert result["gap"] <= 1e-6
    assert result["clients"] == [3, 3]
