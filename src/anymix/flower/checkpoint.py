"""A run on disk, so that a killed server goes on where it was: arrays in npz, the rest as JSON.

Whenever the process is killed, the old or the new state is there, never half of one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.files import write_whole

__all__ = ["flat", "load", "nested", "save"]


def save(path: str | Path, arrays: Mapping[str, NDArray[Any]], rest: Mapping[str, Any]) -> None:
    """Write the state of a run to a file, whole or not at all.

    Parameters
    ----------
    path : path-like
        The file to write; one that is there is replaced.
    arrays : dict of str to ndarray
        The state's arrays; no name is "".
    rest : dict
        The rest of the state: numbers, words, lists and dicts, as JSON knows them.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(f"{folder}/run.npz", {"w": np.ones(2)}, {"round": 3})
    ...     arrays, rest = load(f"{folder}/run.npz")
    >>> arrays["w"].tolist(), rest["round"]
    ([1.0, 1.0], 3)
    """

    def write(new: Path) -> None:
        with new.open("wb") as file:  # a name would get .npz added
            np.savez(file, allow_pickle=False, **arrays, **{"": np.array(json.dumps(dict(rest)))})

    write_whole(path, write, durable=True)


def load(path: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays and the rest of the state that `save` wrote to `path`."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        rest = json.loads(str(arrays.pop("")))
    except (ValueError, KeyError, OSError) as error:
        raise InputError(
            f"checkpoint {path}", f"cannot be read ({error})", "move it away"
        ) from error
    return arrays, rest


def flat(state: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """A nest of dicts as one dict of arrays: {"memory": {"v": v}} is {"memory/v": v}.

    What is None is left out.

    Examples
    --------
    >>> flat({"t": 3, "previous": None, "memory": {"v": np.ones(2)}})
    {'t': array(3), 'memory/v': array([1., 1.])}
    """
    arrays: dict[str, NDArray[Any]] = {}
    for name, value in state.items():
        if isinstance(value, Mapping):
            arrays |= {f"{name}/{inner}": array for inner, array in flat(value).items()}
        elif value is not None:
            arrays[name] = np.asarray(value)
    return arrays


def nested(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """The nest of dicts that `flat` was given.

    Examples
    --------
    >>> nested({"t": np.array(3), "memory/v": np.ones(2)})
    {'t': array(3), 'memory': {'v': array([1., 1.])}}
    """
    state: dict[str, Any] = {}
    for path, array in arrays.items():
        *folders, name = path.split("/")
        here = state
        for folder in folders:
            here = here.setdefault(folder, {})
        here[name] = array
    return state
