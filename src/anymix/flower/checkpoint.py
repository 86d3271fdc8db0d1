"""A run on disk, so that a killed server goes on where it was: arrays in npz, the rest as JSON.

The file is replaced in one step: written beside, forced to disk, renamed. Whenever the process is
killed, the old or the new state is there, never half of one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["load", "save"]


def save(path: str | Path, arrays: Mapping[str, NDArray[Any]], rest: Mapping[str, Any]) -> None:
    """Write the state to `path`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(f"{folder}/run.npz", {"w": np.ones(2)}, {"round": 3})
    ...     arrays, rest = load(f"{folder}/run.npz")
    >>> arrays["w"].tolist(), rest["round"]
    ([1.0, 1.0], 3)
    """
    path = Path(path)
    beside = path.with_name(path.name + ".new")
    with beside.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays, **{"": np.array(json.dumps(dict(rest)))})
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the rename itself
    finally:
        os.close(folder)


def load(path: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The state in `path`."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        rest = json.loads(str(arrays.pop("")))
    except (ValueError, KeyError, OSError) as error:
        raise ValueError(f"checkpoint {path} cannot be read ({error}); move it away") from error
    return arrays, rest
