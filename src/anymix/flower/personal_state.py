"""Where a client keeps its own model between rounds: with Flower, or in a file of its own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from flwr.app import Array as FlowerArray
from flwr.app import ArrayRecord, Context
from numpy.typing import NDArray

from anymix.files import write_whole

Array = NDArray[np.float64]

__all__ = ["PersonalModel", "read_model", "save_model"]

NAME = "anymix.personal"  # in the state of a context


@dataclass(frozen=True, eq=False)
class PersonalModel:
    """α h + (1 − α) h_k of one client.

    Attributes
    ----------
    own, shared : ndarray of shape (D,)
        The parameters of h_k and of the h that it was last mixed with.
    alpha : float
        The share of h.
    rounds : int
        How many rounds it has been through.
    fits : int
        How often h_k was fitted.
    """

    own: Array
    shared: Array
    alpha: float
    rounds: int
    fits: int


def save_model(model: PersonalModel, place: Path | None, context: Context) -> None:
    """Keep a model in the state of the context, and in the file if there is one, whole or not.

    Parameters
    ----------
    model : PersonalModel
        What to keep.
    place : Path or None
        The file.
    context : flwr.app.Context
        The client's context.
    """
    arrays = _arrays(model)
    context.state[NAME] = ArrayRecord({k: FlowerArray(v) for k, v in arrays.items()})
    if place is not None:
        os.makedirs(place.parent, mode=0o700, exist_ok=True)

        def write(new: Path) -> None:
            with open(new, "wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]

        write_whole(place, write)


def read_model(place: Path | None, context: Context) -> PersonalModel | None:
    """The model that was kept, None if there is none: the file counts, then the context.

    Parameters
    ----------
    place : Path or None
        The file.
    context : flwr.app.Context
        The client's context.
    """
    if place is not None and place.exists():
        with np.load(place) as file:
            return _model({name: file[name] for name in file.files})
    record = context.state.get(NAME)
    if isinstance(record, ArrayRecord):
        return _model({name: array.numpy() for name, array in record.items()})
    return None


def _arrays(model: PersonalModel) -> dict[str, Array]:
    numbers = np.array([model.alpha, model.rounds, model.fits], dtype=np.float64)
    return {"own": model.own, "shared": model.shared, "numbers": numbers}


def _model(arrays: dict[str, Array]) -> PersonalModel:
    alpha, rounds, fits = arrays["numbers"].tolist()
    return PersonalModel(arrays["own"], arrays["shared"], alpha, int(rounds), int(fits))
