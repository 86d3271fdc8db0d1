"""A run on disk, so that a killed server goes on where it was: arrays in npz, the rest as JSON.

Whenever the process is killed, the old or the new state is there, never half of one. The history
grows in a file of its own, `<name>.history`, a line for each round, so that a round costs the same
however many there were. It is written first: after a kill it may be a line ahead of the state, and
such a line is not read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.files import write_whole
from anymix.flower.results import History, Record
from anymix.flower.wire import record_of

__all__ = ["Checkpoint", "Saved", "flat", "nested"]


@dataclass(frozen=True)
class Saved:
    """What a checkpoint holds."""

    round: int
    players: dict[str, Any]
    arrays: ArrayRecord  # the model, for names and shapes
    domains: tuple[str, ...]
    failures: dict[str, int]
    excluded: dict[str, str]
    history: History
    extra: dict[str, Any]  # arrays of the step rule, the best model, coordinates
    best: dict[str, Any]

    def check_size(self, n_parameters: int) -> None:
        """The clients must have the model of the checkpoint."""
        saved = self.players["w"].size
        if saved != n_parameters:
            found = f"has {saved} parameters, the clients' model {n_parameters}"
            raise InputError("checkpoint", found, "give another file")


class Checkpoint:
    """A file with the state of a run, and one with its history beside it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.lines = self.path.with_name(self.path.name + ".history")
        self._written = [0, 0]  # records of the history, and their bytes
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            writable = os.access(self.path.parent, os.W_OK) and not self.path.is_dir()
        except OSError:
            writable = False
        if not writable:
            found = f"is {str(path)!r}, which cannot be written"
            raise InputError("checkpoint", found, "give a file in a folder that can")

    def save(
        self,
        number: int,
        players: Mapping[str, Any],
        rest: Mapping[str, Any],
        history: list[Record],
    ) -> None:
        """Write the state after round `number`, whole or not at all."""
        self._append(history)
        about = json.dumps({"round": number, "history": self._written, **rest})

        def write(new: Path) -> None:
            with new.open("wb") as file:  # a name would get .npz added
                np.savez(file, allow_pickle=False, **flat(players), **{"": np.array(about)})

        write_whole(self.path, write, durable=True)

    def _append(self, history: list[Record]) -> None:
        """Write the new records after those that count."""
        n, size = self._written
        new = "".join(json.dumps(record) + "\n" for record in history[n:]).encode()
        with self.lines.open("r+b" if self.lines.exists() else "w+b") as file:
            file.truncate(size)
            file.seek(size)
            file.write(new)
            file.flush()
            os.fsync(file.fileno())
        self._written = [len(history), size + len(new)]

    def load(self, settings: str) -> Saved | None:
        """The state of a run with these settings, None if there is no file yet."""
        if not self.path.exists():
            return None
        try:
            arrays, rest, history = self._read()
        except (ValueError, KeyError, OSError, EOFError) as error:
            found = f"cannot be read ({error})"
            raise InputError(f"checkpoint {self.path}", found, "move it away") from error
        if rest["settings"] != settings:
            raise InputError(
                f"checkpoint {self.path}",
                f"is of a run with {rest['settings']}, this one has {settings}",
                "give the same settings or another file",
            )
        players = nested(arrays)
        form = {name: np.zeros(shape, dtype) for name, shape, dtype in rest["form"]}
        return Saved(
            round=rest["round"],
            extra=players.pop("extra"),
            players=players,
            best=rest["best"],
            arrays=record_of(form),
            domains=tuple(rest["domains"]),
            failures=rest["failures"],
            excluded=rest["excluded"],
            history=history,
        )

    def _read(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any], History]:
        with np.load(self.path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        rest = json.loads(str(arrays.pop("")))
        n, size = self._written = rest["history"]
        lines = self.lines.read_bytes()[:size].decode().splitlines()
        if len(lines) != n:
            raise ValueError(f"{self.lines} has {len(lines)} rounds and not {n}")
        return arrays, rest, History(map(json.loads, lines))


def flat(state: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """A nest of dicts as one dict of arrays: {"memory": {"v": v}} is {"memory/v": v}; no None."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, value in state.items():
        if isinstance(value, Mapping):
            arrays |= {f"{name}/{inner}": array for inner, array in flat(value).items()}
        elif value is not None:
            arrays[name] = np.asarray(value)
    return arrays


def nested(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """The nest of dicts that `flat` was given."""
    state: dict[str, Any] = {}
    for path, array in arrays.items():
        *folders, name = path.split("/")
        here = state
        for folder in folders:
            here = here.setdefault(folder, {})
        here[name] = array
    return state
