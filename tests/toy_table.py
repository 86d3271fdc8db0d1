"""An experiment whose table can be checked by hand, for the tests of tables."""

from functools import cache
from typing import Any

import numpy as np
from linear_models import Experiment, Settings, run
from numpy.typing import NDArray
from results import Table

from anymix.datasets import Dataset
from anymix.mixtures import Point, Simplex
from anymix.solvers.optimizers import Adagrad

# Feature ±1 and label "up" for +1. Of the 20 test rows of "easy" all follow that rule, of the 10 of
# "hard" 6 do. Training rows follow it often enough that every model learns it.
ROWS = {"hard": lambda sizes: Point([0.0, 1.0]), "any": lambda sizes: Simplex(2)}


def follow(n: int, exceptions: int) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    x = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    rule = np.where(np.arange(n) < exceptions, -x, x)
    return x[:, None], np.where(rule > 0, "up", "down")


def rows(easy: tuple[int, int], hard: tuple[int, int]) -> tuple[Any, Any, Any]:
    """X, y and domains."""
    (X, y), (X_hard, y_hard) = follow(*easy), follow(*hard)
    domains = np.repeat(["easy", "hard"], [len(y), len(y_hard)])
    return np.vstack([X, X_hard]), np.concatenate([y, y_hard]), domains


def toy_data() -> Dataset:
    train, test = rows((40, 4), (30, 6)), rows((20, 0), (10, 4))
    return Dataset(*train, *test, ("x",), "toy", "made here", "none")


TOY = Experiment(
    name="toy",
    title="A toy",
    load=toy_data,
    optimizer=Adagrad(),
    domains=("hard", "easy"),  # not the order in which they are sorted
    rows=ROWS,
    settings=Settings(0.1, 0.01, 5, 60, "average"),
    printed={
        "hard": ((80.0, 1.0), (50.0, 1.0), (90.0, 1.0), (50.0, 1.0)),
        "any": ((86.0, 0.0), (60.0, 0.0), (100.0, 0.0), (60.0, 0.0)),
    },
    gammas=(0.1, 0.01),
)


@cache
def toy_table() -> Table:
    return run(TOY, runs=3, jobs=1)
