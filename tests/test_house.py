"""What loads what. Layers and cycles are import-linter's, in pyproject.toml: `make lint`."""

import re
import subprocess
import sys
from pathlib import Path

EXTRAS = {"torch", "flwr", "ray", "jinja2", "matplotlib", "pandas", "polars", "psutil",
          "pyarrow", "dp_accounting"}  # fmt: skip
HEAVY = {"numba", "sklearn"}


def loaded_by(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after the code."""
    command = [sys.executable, "-W", "error", "-c", f"{code}; import sys; print(*sys.modules)"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_import_is_light() -> None:
    assert not loaded_by("import anymix") & (EXTRAS | HEAVY | {"numpy", "rich", "typer"})


def test_an_audit_loads_no_solver() -> None:
    code = "import anymix as ax, anymix.auditing; ax.audit([1, 0], [1, 1], ['a', 'b']).summary()"
    loaded = loaded_by(code)
    assert "anymix.auditing" in loaded
    assert not loaded & (EXTRAS | HEAVY)
    assert not [name for name in loaded if name.startswith("anymix.solvers")]


def test_a_solver_loads_no_scikit_learn() -> None:
    loaded = loaded_by("import anymix as ax; ax.solve; ax.stochastic_afl")
    assert "anymix.solvers" in loaded
    assert not loaded & (EXTRAS | {"sklearn"})


def test_a_client_loads_no_solver() -> None:
    loaded = loaded_by("from anymix.flower import client_app")
    assert "anymix.flower.client" in loaded
    assert not loaded & {"anymix.flower.strategy", "anymix.solvers.exact", "torch"}


def test_make_quick_runs_tests_that_there_are() -> None:
    root = Path(__file__).parents[1]
    core = re.findall(r"tests/\S+\.py", (root / "Makefile").read_text(encoding="utf-8"))
    assert len(core) > 10
    assert [name for name in core if not (root / name).exists()] == []
