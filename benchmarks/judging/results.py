"""Losses of test rows, kept by table, split and learner.

One npz file per task, written beside its place and renamed, so that a killed run leaves a whole
file or none. A file that cannot be read in full counts as missing.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anymix
from anymix.files import write_whole

Array = NDArray[np.float64]
Task = tuple[str, int, str]  # table, split, learner

__all__ = ["Result", "Task", "load", "path", "save", "state_of_code"]


@dataclass(frozen=True, eq=False)
class Result:
    """What a learner achieved on one split of a table.

    Attributes
    ----------
    kind : "classification" or "regression"
        Of the table.
    domains : ndarray of shape (p,)
        Their names, sorted.
    shares : ndarray of shape (p,)
        m̄, the shares of the domains in the training rows.
    k : ndarray of shape (n,)
        The domain of each test row.
    losses : dict of str to ndarray of shape (n,)
        Log loss or squared error of each test row under each predictor, in single precision.
    facts : dict of str to ndarray
        Anything else the learner reported.
    code : str
        The state of the package that computed it.
    """

    kind: str
    domains: NDArray[np.str_]
    shares: Array
    k: NDArray[np.intp]
    losses: dict[str, NDArray[np.float32]]
    facts: dict[str, NDArray[Any]] = field(default_factory=dict)
    code: str = ""


def path(folder: Path, task: Task) -> Path:
    """The file of a task."""
    table, split, learner = task
    return folder / learner / f"{table}__{split}.npz"


def save(folder: Path, task: Task, result: Result) -> None:
    """Write it whole or not at all."""
    data = {f"fact {name}": value for name, value in result.facts.items()}
    data |= {
        "kind": np.array(result.kind),
        "code": np.array(result.code),
        "domains": np.asarray(result.domains, dtype=str),
        "shares": result.shares,
        "k": result.k.astype(np.int16),
        "columns": np.array(list(result.losses)),
        "losses": np.array(list(result.losses.values()), dtype=np.float32),
    }

    def write(place: Path) -> None:
        with place.open("wb") as out:
            np.savez(out, allow_pickle=False, **data)

    write_whole(path(folder, task), write)


def load(folder: Path, task: Task) -> Result | None:
    """The result of a task, None where there is no whole file."""
    file = path(folder, task)
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as archive:
            data = {name: archive[name] for name in archive.files}  # checks every checksum
    except (FileNotFoundError, EOFError, ValueError, zipfile.BadZipFile):
        return None
    facts = {name[5:]: value for name, value in data.items() if name.startswith("fact ")}
    return Result(
        str(data["kind"]),
        data["domains"],
        data["shares"],
        data["k"].astype(np.intp),
        dict(zip(data["columns"].tolist(), data["losses"], strict=True)),
        facts,
        str(data["code"]),
    )


@cache
def state_of_code() -> str:
    """A fingerprint of the sources of anymix."""
    root = Path(anymix.__file__).parent
    digest = sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
