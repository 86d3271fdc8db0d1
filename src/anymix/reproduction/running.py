"""Running an experiment: every row by Stochastic-AFL, many times, and by the exact solver.

Stochastic-AFL with PerDomain gradients runs with seeds 0, 1, …; the same rows by the exact solver,
γ chosen by cross-validation on the training data, show what is left to be gained.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from numbers import Integral
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn
from threadpoolctl import threadpool_limits

from anymix.datasets import Dataset
from anymix.errors import InputError
from anymix.estimators import (
    AgnosticClassifier,
    AgnosticClassifierCV,
    NothingGained,
    OverfitWarning,
)
from anymix.problem.linear import LinearDomains
from anymix.reproduction.experiments import Experiment, Settings
from anymix.reproduction.results import ExactRow, Table
from anymix.solvers.samplers import PerDomain
from anymix.solvers.stochastic import Iterate, stochastic_afl

Array = NDArray[np.float64]

__all__ = ["reproduce", "train"]


def reproduce(
    experiment: Experiment,
    runs: int = 50,
    *,
    jobs: int = 2,
    gammas: Iterable[float] | None = None,
    progress: bool = True,
) -> Table:
    """Train every row of a table with seeds 0 … runs − 1, and solve it exactly.

    Parameters
    ----------
    experiment : Experiment
        Such as ADULT or FASHION.
    runs : int
        How often each row is trained.
    jobs : int
        Processes at a time; the numbers do not depend on it.
    gammas : iterable of float, optional
        What the exact solver chooses from; by default the experiment's own.
    progress : bool
        Show progress bars on standard error.

    Returns
    -------
    Table
        Test accuracies of every run and of the exact solver.

    Examples
    --------
    >>> from anymix.reproduction import ADULT
    >>> reproduce(ADULT, runs=0)
    Traceback (most recent call last):
        ...
    anymix.errors.InputError: runs is 0; give a whole number ≥ 1
    """
    for name, value in (("runs", runs), ("jobs", jobs)):
        if not isinstance(value, Integral) or value < 1:
            raise InputError(name, f"is {value}", "give a whole number ≥ 1")
    data = experiment.load(progress=progress)
    problem = LinearDomains(data.X, data.y, data.domains)
    tried = tuple(experiment.gammas if gammas is None else gammas)
    exact = [delayed(_solve_row)(experiment, data, row, tried) for row in experiment.rows]
    stochastic = [
        delayed(_run_row)(experiment, problem, data, row, seed)
        for row in experiment.rows
        for seed in range(runs)
    ]
    columns = (SpinnerColumn(), *Progress.get_default_columns(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not progress) as bar:
        solved = _in_parallel(exact, jobs, bar, f"{experiment.name}: exact solver")
        trained = _in_parallel(
            stochastic, jobs, bar, f"{experiment.name}: {runs} runs, compiled first"
        )
    parts = {row: trained[i * runs : (i + 1) * runs] for i, row in enumerate(experiment.rows)}
    return Table(
        experiment,
        accuracies={row: np.array([a for a, _ in part]) for row, part in parts.items()},
        mixtures={row: np.array([mixture for _, mixture in part]) for row, part in parts.items()},
        exact=dict(zip(experiment.rows, solved, strict=True)),
    )


def _in_parallel(tasks: list[Any], jobs: int, bar: Progress, label: str) -> list[Any]:
    """The results in the order of the tasks."""
    results = Parallel(n_jobs=jobs, return_as="generator")(tasks)
    return list(bar.track(results, total=len(tasks), description=label))


def train(
    problem: LinearDomains,
    experiment: Experiment,
    row: str,
    settings: Settings,
    seed: int,
    every: int,
) -> Iterator[Iterate]:
    """Run Stochastic-AFL with the Λ of a row, without end.

    Parameters
    ----------
    problem : LinearDomains
        The rows to learn from.
    experiment : Experiment
        Gives Λ and the optimizer.
    row : str
        The row of the table.
    settings : Settings
        Steps and batch size; where to stop is up to the caller.
    seed : int
        The seed of all randomness: the same seed gives the same numbers.
    every : int
        How many steps apart the iterates are.

    Returns
    -------
    iterator of Iterate
        The state after every so many steps.

    Examples
    --------
    >>> from anymix.reproduction import ADULT
    >>> problem = LinearDomains([[0.0]] * 4, [1, 1, 0, 1], ["D1", "D1", "D2", "D2"])
    >>> run = train(problem, ADULT, "agnostic", ADULT.settings, seed=0, every=100)
    >>> next(run).step, next(run).step
    (100, 200)
    """
    return stochastic_afl(
        problem,
        experiment.rows[row](problem.sizes),
        step_w=settings.step_w,
        step_mixture=settings.step_mixture,
        sampler=PerDomain(settings.batch_size),
        optimizer=experiment.optimizer,
        seed=seed,
        every=every,
    )


def _run_row(
    experiment: Experiment, problem: LinearDomains, data: Dataset, row: str, seed: int
) -> tuple[Array, Array]:
    """Test accuracies (columns,) and the last λ (p,) of one run, domains as in the table."""
    settings = experiment.settings
    with threadpool_limits(1):  # sums of several threads would round differently
        end = next(train(problem, experiment, row, settings, seed, every=settings.n_steps))
        w = end.w_average if settings.output == "average" else end.w
        coef, intercept = problem.unpack(w)  # (scores, d), (scores,)
        scores = data.X_test @ coef.T + intercept  # (n, scores)
    best = scores.argmax(axis=1) if problem.n_scores > 1 else np.intp(scores[:, 0] > 0)
    assert problem.classes is not None
    accuracies = _accuracies(experiment, data, problem.classes[best])
    return accuracies, _as_in_table(experiment, problem.domain_names, end.mixture)


def _solve_row(
    experiment: Experiment, data: Dataset, row: str, gammas: tuple[float, ...]
) -> ExactRow:
    """The row solved with the γ whose cross-validated loss max_{λ∈Λ} Σ λ_k L̂_k is least."""
    options: dict[str, Any] = {"mixtures": experiment.rows[row], "tol": 1e-4}
    with threadpool_limits(1):
        tried = AgnosticClassifierCV(
            gammas, robustness=(1.0,), anchor=None, price=np.inf, **options
        )
        with warnings.catch_warnings(action="ignore", category=NothingGained):
            tried.fit(data.X, data.y, domains=data.domains)
        gamma = _best_gamma(tried.cv_results_)
        model = AgnosticClassifier(gamma=gamma, **options)
        with warnings.catch_warnings(action="ignore", category=OverfitWarning):
            model.fit(data.X, data.y, domains=data.domains)
        accuracies = _accuracies(experiment, data, model.predict(data.X_test))
    mixture = _as_in_table(experiment, model.domain_names_, model.mixture_)
    return ExactRow(gamma, mixture, model.certificate_.gap, accuracies)


def _best_gamma(results: dict[str, Any]) -> float:
    """γ of the least loss for this Λ; the first model is the ordinary one, another row's."""
    losses = results["worst_test_loss"]
    place = 1 + int(np.argmin(losses[1:])) if len(losses) > 1 else 0
    return float(results["param_gamma"][place])


def _as_in_table(experiment: Experiment, names: NDArray[Any], mixture: Array) -> Array:
    """λ (p,) of domains with these names, in the order of the paper's columns."""
    order = [names.tolist().index(name) for name in experiment.domains]
    return mixture[order]


def _accuracies(experiment: Experiment, data: Dataset, predicted: NDArray[Any]) -> Array:
    """Percentage of right answers in every column of the table, (columns,)."""
    right = predicted == data.y_test  # (n,)
    by_domain = [right[data.domains_test == name].mean() for name in experiment.domains]
    return 100 * np.array([right.mean(), *by_domain, min(by_domain)])
