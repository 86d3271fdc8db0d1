"""Compiled code on disk: used again while its sources are the same, and never after."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any

import numba
import pytest
from numba.core.caching import IndexDataCacheFile

import anymix
from anymix.solvers.compiled.compilation import STAMP, jit, sources, stamp

PACKAGE = Path(anymix.__file__).parent
SOURCES = sources(PACKAGE)


def double(x: float) -> float:
    return 2 * x


# -- the stamp -------------------------------------------------------------------------------------


def test_every_source_is_in_the_stamp(tmp_path: Path) -> None:
    for name in SOURCES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGE / name, tmp_path / name)
    assert stamp(tmp_path) == stamp(files("anymix")) == STAMP
    for name in SOURCES:
        text = (PACKAGE / name).read_bytes()
        (tmp_path / name).write_bytes(text + b"\n")
        assert stamp(tmp_path) != STAMP
        (tmp_path / name).write_bytes(text)
    assert stamp(tmp_path) == STAMP
    shutil.copy(tmp_path / SOURCES[-1], tmp_path / SOURCES[-1].replace(".py", "_more.py"))
    assert stamp(tmp_path) != STAMP  # a new file counts without being named anywhere


def test_a_zip_file_has_the_same_stamp(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "anymix.zip", "w") as archive:
        for name in SOURCES:
            archive.write(PACKAGE / name, f"anymix/{name}")
    assert stamp(zipfile.Path(tmp_path / "anymix.zip", "anymix/")) == STAMP


def test_all_compiled_code_is_in_the_sources() -> None:
    words = ("import numba", "from numba", "from anymix.solvers.compiled.compilation")
    texts = {str(path.relative_to(PACKAGE)): path.read_text() for path in PACKAGE.rglob("*.py")}
    compiled = {name for name, text in texts.items() if any(word in text for word in words)}
    assert {"solvers/compiled/kernels.py", "solvers/compiled/compilation.py"} <= compiled
    assert compiled <= set(SOURCES)
    assert "__version__ = " in texts["__init__.py"]


# -- a change takes effect -------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of anymix, without what was compiled before."""
    ignore = shutil.ignore_patterns("__pycache__", "flower")
    return Path(shutil.copytree(PACKAGE, tmp_path / "copy" / "anymix", ignore=ignore))


def append(file: Path, text: str) -> None:
    file.write_text(file.read_text() + text)


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


def python(package: Path, code: str, folder: str) -> str:
    """What a process prints that imports this copy."""
    environment = {"PYTHONPATH": str(package.parent), "NUMBA_CACHE_DIR": folder}
    command = [sys.executable, "-c", code]
    return subprocess.check_output(command, env=os.environ | environment, text=True).strip()


SHIFTED = """
SHIFT = 1.0


@part
def shifted(x: float) -> float:
    return x + SHIFT
"""
PROBE = """
from anymix.solvers.compiled.euclidean_tree import shifted


@jit
def probe(x: float) -> float:
    return shifted(x)
"""
CALL = """
from anymix.solvers.compiled.kernels import probe

print(probe(1.0), sum(probe.stats.cache_hits.values()))
"""


def test_a_change_in_another_file_takes_effect(package: Path, tmp_path: Path) -> None:
    """`kernels` holds compiled code of the tree. What was compiled before is removed."""
    compiled = package / "solvers" / "compiled"
    append(compiled / "euclidean_tree.py", SHIFTED)
    append(compiled / "kernels.py", PROBE)
    folder = tmp_path / "cache"
    assert python(package, CALL, str(folder)) == "2.0 0"
    assert python(package, CALL, str(folder)) == "2.0 1"  # from the disk
    before = set(folder.rglob("kernels.probe*"))
    change(compiled / "euclidean_tree.py", "SHIFT = 1.0", "SHIFT = 41.0")
    assert python(package, CALL, str(folder)) == "42.0 0"
    after = set(folder.rglob("kernels.probe*"))
    assert len(before) == len(after) == 2  # an index and the code
    assert not before & after


RUN = """
import numpy as np
import anymix as ax

problem = ax.LinearDomains(np.eye(3), [0, 1, 1], list("abc"))
run = ax.stochastic_afl(problem, step_w=0.1, step_mixture=0.1, start_mixture=[0.6, 0.3, 0.1])
print(next(run).mixture.round(3))
"""


@pytest.mark.slow
def test_a_mended_projection_takes_effect(package: Path) -> None:
    """The same with the code of a run, beside its sources."""
    assert python(package, RUN, "") == python(package, RUN, "") == "[0.6 0.3 0.1]"
    compiled = package / "solvers" / "compiled"
    assert list((compiled / "__pycache__").glob("kernels.advance*.nbc"))
    change(compiled / "simplex.py", "v[k] = max(v[k] - tau, 0.0)", "v[k] = (k + 1.0) / 6")
    assert python(package, RUN, "") == "[0.167 0.333 0.5  ]"


# -- where it is kept ------------------------------------------------------------------------------


def test_processes_that_compile_at_once_do_not_mix_their_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Both find nothing on disk, and the first writes its code after the other one."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    late: list[tuple[Any, ...]] = []
    for name in ("_save_index", "_save_data"):
        write = getattr(IndexDataCacheFile, name)
        monkeypatch.setattr(
            IndexDataCacheFile,
            name,
            lambda *arguments, write=write: late.append((write, *arguments)),
        )
    for x in (1, 1.5):
        jit(double)(x)
    for write, *what in (late[0], late[2], late[3], late[1]):
        write(*what)
    for kind in (numba.int64, numba.float64):
        compiled: Any = jit(double)
        found = compiled._cache.load_overload((kind,), compiled.targetctx)
        assert found.signature.args == (kind,)


def test_without_a_folder_all_is_compiled_again() -> None:
    """As where neither the package nor the user's folder can be written."""
    names: dict[str, Any] = {}
    exec(compile("def double(x): return 2 * x", "<nowhere>", "exec"), names)
    with pytest.warns(RuntimeWarning, match="set NUMBA_CACHE_DIR"):
        compiled = jit(names["double"])
    assert compiled(1.5) == 3.0
