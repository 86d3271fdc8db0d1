"""The experiments of the paper's Tables 1 and 2: data, sets Λ, settings, and the printed numbers.

Every row of a table is the same algorithm with another set Λ of mixtures:

    Point(δ_k)   trained on domain k          Point(m̄)   trained on Û, all the data pooled
    Simplex(p)   the agnostic model, trained for any mixture of the domains
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anymix.datasets import Dataset, load_adult, load_fashion
from anymix.mixtures import MixtureSet, Point, Simplex
from anymix.mixtures.parsing import data_mixture
from anymix.solvers.optimizers import Adagrad, Adam, Optimizer

Array = NDArray[np.float64]
Sets = Callable[[Array], MixtureSet]  # m_k: Λ
Entry = tuple[float, float]  # mean and standard deviation
Output = Literal["average", "last"]  # w^A or w_T

__all__ = ["ADULT", "EXPERIMENTS", "FASHION", "Experiment", "Output", "Settings"]


@dataclass(frozen=True)
class Settings:
    """What the paper leaves open; paper/choose_settings.py finds it, on training data.

    Attributes
    ----------
    step_w : float
        γ_w, the step of w.
    step_mixture : float
        γ_λ, the step of λ.
    batch_size : int
        Rows of each domain in one gradient.
    n_steps : int
        T, the number of steps.
    output : "average" or "last"
        Which w is judged: the average of all of them, or the last.

    Examples
    --------
    >>> from dataclasses import replace
    >>> quick = replace(ADULT.settings, n_steps=100)
    >>> quick.n_steps, quick.batch_size, quick.output
    (100, 200, 'average')
    """

    step_w: float
    step_mixture: float
    batch_size: int
    n_steps: int
    output: Output


@dataclass(frozen=True)
class Experiment:
    """One table: the data, a set Λ for each row, the settings, and what the paper prints.

    Attributes
    ----------
    name : str
        The name of the files, and that of the experiment for `anymix reproduce`.
    title : str
        The heading of the table.
    load : function
        Called with `progress`, gives the data.
    optimizer : Optimizer
        The rule of the steps of w.
    domains : tuple of str
        The domains in the order of the paper's columns.
    rows : mapping of str to function
        For each row of the table, by what it is trained on: from the domains' sizes to Λ.
    settings : Settings
        What the paper leaves open.
    printed : mapping of str to entries
        For each row what the paper prints: a mean and a standard deviation for each of `columns`.
    gammas : tuple of float
        The γ that the exact solver chooses from.

    Examples
    --------
    >>> ADULT.columns
    ('all', 'doctorate', 'non-doctorate', 'worst')
    >>> ADULT.rows["agnostic"](np.array([413.0, 32148.0]))
    Simplex(n_domains=2)
    """

    name: str
    title: str
    load: Callable[..., Dataset]
    optimizer: Optimizer
    domains: tuple[str, ...]
    rows: Mapping[str, Sets]
    settings: Settings
    printed: Mapping[str, tuple[Entry, ...]]
    gammas: tuple[float, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """What accuracies are of: all test rows, each domain, the domain that is worst."""
        return ("all", *self.domains, "worst")


def _only(k: int) -> Sets:
    """{δ_k}: trained on domain k alone."""
    return lambda sizes: Point(np.eye(len(sizes))[k])


def _any_mixture(sizes: Array) -> MixtureSet:
    return Simplex(len(sizes))


ADULT = Experiment(
    name="adult",
    title="Table 1, Adult: test accuracy in percent",
    load=load_adult,
    optimizer=Adagrad(initial=0.1),  # TensorFlow's, which the paper used
    domains=("doctorate", "non-doctorate"),
    rows={
        "doctorate": _only(0),
        "non-doctorate": _only(1),
        "Û": data_mixture,
        "agnostic": _any_mixture,
    },
    settings=Settings(
        step_w=0.2, step_mixture=1e-3, batch_size=200, n_steps=1000, output="average"
    ),
    printed={
        "doctorate": ((53.35, 0.91), (73.58, 0.48), (53.12, 0.89), (53.12, 0.89)),
        "non-doctorate": ((82.15, 0.09), (69.46, 0.29), (82.29, 0.09), (69.46, 0.29)),
        "Û": ((82.10, 0.09), (69.61, 0.35), (82.24, 0.09), (69.61, 0.35)),
        "agnostic": ((80.10, 0.39), (71.53, 0.88), (80.20, 0.40), (71.53, 0.88)),
    },
    gammas=tuple(np.logspace(-1, -6, 21).tolist()),
)
"""Table 1 of the paper: Adult, people with a doctorate and all others."""

FASHION = Experiment(
    name="fashion",
    title="Table 2, Fashion-MNIST: test accuracy in percent",
    load=partial(load_fashion, classes=("t-shirt/top", "pullover", "shirt")),
    optimizer=Adam(),
    domains=("shirt", "pullover", "t-shirt/top"),
    rows={"Û": data_mixture, "agnostic": _any_mixture},
    settings=Settings(
        step_w=3e-3, step_mixture=1e-2, batch_size=50, n_steps=4000, output="average"
    ),
    printed={
        "Û": ((81.8, 1.3), (71.2, 7.8), (87.8, 6.0), (86.2, 4.9), (71.2, 7.8)),
        "agnostic": ((82.3, 0.9), (74.5, 6.0), (87.6, 4.5), (84.9, 4.4), (74.5, 6.0)),
    },
    gammas=tuple(np.logspace(-1, -4, 4).tolist()),
)
"""Table 2 of the paper: three kinds of clothes of Fashion-MNIST."""

EXPERIMENTS = {"adult": ADULT, "fashion": FASHION}
"""The experiments with tables, by name."""
