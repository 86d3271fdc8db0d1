"""The names of the folder, which are loaded when they are asked for."""

import subprocess
import sys

import pytest

from anymix import tables

LOADED = "import sys, anymix.tables; print(*sys.modules)"


def test_importing_the_folder_loads_none_of_what_it_needs() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, check=True)
    loaded = set(done.stdout.decode().split())
    assert "anymix.tables" in loaded
    assert not loaded & {"numpy", "pandas", "sklearn", "numba"}


def test_every_name_is_there_and_no_other() -> None:
    assert set(tables.__all__) <= set(dir(tables))
    assert [getattr(tables, name).__name__ for name in tables.__all__] == tables.__all__
    with pytest.raises(AttributeError, match="fit_tabel"):
        _ = tables.fit_tabel  # type: ignore[attr-defined]
