"""Numba keeps compiled code on disk until the file that holds it changes."""

from pathlib import Path
from typing import Any

import anymix
from anymix.solvers.compiled import kernels

PACKAGE = Path(anymix.__file__).parent


def test_all_compiled_code_is_in_one_file() -> None:
    """A callee in another file could change, and its old code would stay in use."""
    words = ("import numba", "from numba")
    files = (PACKAGE / "solvers" / "compiled").glob("*.py")
    found = [file.name for file in files if any(word in file.read_text() for word in words)]
    assert found == ["kernels.py"]
    assert "from anymix" not in Path(kernels.__file__).read_text()


def test_the_kernels_are_kept_on_disk() -> None:
    functions: list[Any] = [kernels.advance, kernels.euclidean_step]
    assert all(function._cache.cache_path for function in functions)
