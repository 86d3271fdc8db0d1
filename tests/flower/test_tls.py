from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from anymix.flower.engines import federate

ADULT = Path(__file__).parents[2] / "examples" / "federated_adult"


@pytest.mark.deployment
def test_only_nodes_with_a_registered_key_take_part_over_tls() -> None:
    done = subprocess.run(
        [sys.executable, str(ADULT / "tls.py")],
        env={**os.environ, "PYTHONWARNINGS": "default"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    refused = dict(re.findall(r"refused: ([\w-]+): (.*)", done.stdout))
    assert set(refused) == {"unregistered", "without-key", "without-authority", "plain-text"}
    assert "Failed to activate SuperNode" in refused["unregistered"]
    assert "authentication is enabled" in refused["without-key"]
    assert "CERTIFICATE_VERIFY_FAILED" in refused["without-authority"]
    assert "nodes online: 2 of 2 registered" in done.stdout
    objective = federate(ADULT, run_config={"num-clients": 2})["objective"]
    assert f"objective {objective:.9f}" in done.stdout
