"""A run in a file: model, optimiser, λ, sampler and the random numbers to come."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from anymix.errors import InputError
from anymix.files import write_whole

__all__ = ["Stateful", "load_checkpoint", "save_checkpoint"]


class Stateful(Protocol):
    """What has a state: modules, optimisers, schedulers, scalers, DomainBatches."""

    def state_dict(self) -> Any:
        """All that moves."""
        ...

    def load_state_dict(self, state: Any, /) -> Any:
        """Continue there."""
        ...


def save_checkpoint(path: str | os.PathLike[str], **parts: Stateful) -> Path:
    """Write the states of all parts, and of the random numbers, whole or not at all.

    Parameters
    ----------
    path : path-like
        The file to write.
    **parts : object with state_dict
        What the run is made of, by names of your choice.

    Returns
    -------
    Path

    Examples
    --------
    >>> import tempfile
    >>> model = torch.nn.Linear(2, 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_checkpoint(Path(folder) / "run.pt", model=model)
    ...     load_checkpoint(path, model=torch.nn.Linear(2, 1))
    """
    state = {name: part.state_dict() for name, part in parts.items()}
    whole = {"parts": state, "random": _random_state()}
    return write_whole(path, lambda new: torch.save(whole, new), durable=True)


def load_checkpoint(path: str | os.PathLike[str], **parts: Stateful) -> None:
    """Let all parts go on where `save_checkpoint` was called; on the CPU, bit for bit.

    Parameters
    ----------
    path : path-like
        The file to read.
    **parts : object with load_state_dict
        The same names as were saved, made with the same arguments.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_checkpoint(Path(folder) / "run.pt")
    ...     first = torch.rand(1)
    ...     load_checkpoint(path)
    ...     bool(torch.rand(1) == first)
    True
    """
    whole = _read(path)
    saved = whole["parts"]
    if set(saved) != set(parts):
        found = f"has the parts {sorted(saved)}"
        raise InputError("checkpoint", found, f"asked for were {sorted(parts)}")
    for name, part in parts.items():
        part.load_state_dict(saved[name])
    _load_random_state(whole["random"])


def _read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What `save_checkpoint` wrote."""
    try:
        whole = torch.load(path, weights_only=True)
    except OSError:
        raise
    except Exception:  # torch meets bytes that are no checkpoint with errors of many kinds
        whole = None
    if not isinstance(whole, dict) or not {"parts", "random"} <= set(whole):
        found = f"is {os.fspath(path)!r}, which is no checkpoint or a damaged one"
        raise InputError("path", found, "give a file that save_checkpoint wrote") from None
    return whole


def _random_state() -> dict[str, Any]:
    kind, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002 - other code may use it
    state = {
        "torch": torch.get_rng_state(),
        "numpy": [kind, torch.tensor(keys.astype(np.int64)), *rest],  # type: ignore[union-attr]
        "python": random.getstate(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def _load_random_state(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))  # noqa: NPY002
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
