"""Tables 1 and 2: Adult and Fashion-MNIST, by Stochastic-AFL with PerDomain gradients.

Every row of a table is the same algorithm with another set Λ of mixtures:

    Point(δ_k)   trained on domain k          Point(m̄)   trained on Û, all the data pooled
    Simplex(p)   the agnostic model, trained for any mixture of the domains

Table 1: doctorates are 413 of the 32,561 people. The paper uses "just the categorical features".
Among them is the education, which tells the domain; it must be left out for the table to come out.
Table 2: each class is a domain. Shirts look like the other two, so Û leaves its errors with them.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from joblib import Parallel, delayed
from results import Array, Entry, Table, accuracies
from threadpoolctl import threadpool_limits

import anymix as ax
from anymix.datasets import Dataset, load_adult, load_fashion
from anymix.estimators import NothingGained, OverfitWarning
from anymix.mixtures.parsing import data_mixture
from anymix.solvers import Iterate
from anymix.solvers.optimizers import Adagrad, Adam, Optimizer
from anymix.solvers.samplers import PerDomain

Sets = Callable[[Array], ax.MixtureSet]  # m_k: Λ
Output = Literal["average", "last"]  # w^A or w_T


@dataclass(frozen=True)
class Settings:
    """What the paper leaves open; choose_settings.py finds it, on training data."""

    step_w: float  # γ_w
    step_mixture: float  # γ_λ
    batch_size: int  # rows of each domain in one gradient
    n_steps: int  # T
    output: Output


@dataclass(frozen=True)
class Experiment:
    """One table: the data, a set Λ for each row, the settings, and what the paper prints."""

    name: str
    title: str
    load: Callable[..., Dataset]
    optimizer: Optimizer
    domains: tuple[str, ...]  # in the order of the paper's columns
    rows: Mapping[str, Sets]
    settings: Settings
    printed: Mapping[str, tuple[Entry, ...]]
    gammas: tuple[float, ...]  # the exact solver chooses from these

    @property
    def columns(self) -> tuple[str, ...]:
        return ("all", *self.domains, "worst")


def _only(k: int) -> Sets:
    return lambda sizes: ax.Point(np.eye(len(sizes))[k])


def _any_mixture(sizes: Array) -> ax.MixtureSet:
    return ax.Simplex(len(sizes))


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
    settings=Settings(0.2, 1e-3, batch_size=200, n_steps=1000, output="average"),
    printed={
        "doctorate": ((53.35, 0.91), (73.58, 0.48), (53.12, 0.89), (53.12, 0.89)),
        "non-doctorate": ((82.15, 0.09), (69.46, 0.29), (82.29, 0.09), (69.46, 0.29)),
        "Û": ((82.10, 0.09), (69.61, 0.35), (82.24, 0.09), (69.61, 0.35)),
        "agnostic": ((80.10, 0.39), (71.53, 0.88), (80.20, 0.40), (71.53, 0.88)),
    },
    gammas=tuple(np.logspace(-1, -6, 21).tolist()),
)
FASHION = Experiment(
    name="fashion",
    title="Table 2, Fashion-MNIST: test accuracy in percent",
    load=partial(load_fashion, classes=("t-shirt/top", "pullover", "shirt")),
    optimizer=Adam(),
    domains=("shirt", "pullover", "t-shirt/top"),
    rows={"Û": data_mixture, "agnostic": _any_mixture},
    settings=Settings(3e-3, 1e-2, batch_size=50, n_steps=4000, output="average"),
    printed={
        "Û": ((81.8, 1.3), (71.2, 7.8), (87.8, 6.0), (86.2, 4.9), (71.2, 7.8)),
        "agnostic": ((82.3, 0.9), (74.5, 6.0), (87.6, 4.5), (84.9, 4.4), (74.5, 6.0)),
    },
    gammas=tuple(np.logspace(-1, -4, 4).tolist()),
)
EXPERIMENTS = {"adult": ADULT, "fashion": FASHION}


def train(
    problem: ax.LinearDomains,
    experiment: Experiment,
    row: str,
    settings: Settings,
    seed: int,
    every: int,
) -> Iterator[Iterate]:
    """Stochastic-AFL with the Λ of a row, without end."""
    return ax.stochastic_afl(
        problem,
        experiment.rows[row](problem.sizes),
        step_w=settings.step_w,
        step_mixture=settings.step_mixture,
        sampler=PerDomain(settings.batch_size),
        optimizer=experiment.optimizer,
        seed=seed,
        every=every,
    )


def run(
    experiment: Experiment, runs: int = 50, jobs: int = 2, gammas: Iterable[float] | None = None
) -> Table:
    """Train every row with the seeds 0 … runs − 1, and solve it exactly."""
    data = experiment.load()
    problem = ax.LinearDomains(data.X, data.y, data.domains)
    tried = tuple(experiment.gammas if gammas is None else gammas)
    rows, parallel = list(experiment.rows), Parallel(n_jobs=jobs)
    exact = parallel(delayed(_solved)(experiment, data, row, tried) for row in rows)
    tasks = [(row, seed) for row in rows for seed in range(runs)]
    trained = parallel(delayed(_trained)(experiment, problem, data, *task) for task in tasks)
    parts = {row: trained[i * runs : (i + 1) * runs] for i, row in enumerate(rows)}
    facts = {
        "optimizer": repr(experiment.optimizer),
        "settings": asdict(experiment.settings),
        "domains": list(experiment.domains),
        "mixtures": {
            row: {"ours": [list(mixture) for _, mixture in parts[row]], "exact": fact}
            for row, (_, fact) in zip(rows, exact, strict=True)
        },
    }
    return Table(
        experiment.name,
        experiment.title,
        experiment.columns,
        {row: np.array([found for found, _ in part]) for row, part in parts.items()},
        experiment.printed,
        {row: found for row, (found, _) in zip(rows, exact, strict=True)},
        facts,
    )


def _trained(
    experiment: Experiment, problem: ax.LinearDomains, data: Dataset, row: str, seed: int
) -> tuple[Array, list[float]]:
    """Test accuracies (columns,) and the last λ (p,) of one run, domains as in the table."""
    settings = experiment.settings
    with threadpool_limits(1):  # sums of several threads would round differently
        end = next(train(problem, experiment, row, settings, seed, every=settings.n_steps))
        w = end.w_average if settings.output == "average" else end.w
        coef, intercept = problem.unpack(w)  # (scores, d), (scores,)
        scores = data.X_test @ coef.T + intercept  # (n, scores)
    best = scores.argmax(axis=1) if problem.n_scores > 1 else np.intp(scores[:, 0] > 0)
    assert problem.classes is not None
    found = accuracies(problem.classes[best], data.y_test, data.domains_test, experiment.domains)
    return found, _as_in_table(experiment, problem.domain_names, end.mixture)


def _solved(
    experiment: Experiment, data: Dataset, row: str, gammas: tuple[float, ...]
) -> tuple[Array, dict[str, Any]]:
    """The certified optimum with the γ whose cross-validated loss max_{λ∈Λ} Σ λ_k L̂_k is least."""
    options: dict[str, Any] = {"mixtures": experiment.rows[row], "tol": 1e-4}
    with threadpool_limits(1), warnings.catch_warnings():
        for category in (NothingGained, OverfitWarning):
            warnings.simplefilter("ignore", category)
        tried = ax.AgnosticClassifierCV(
            gammas, robustness=(1.0,), anchor=None, price=np.inf, **options
        ).fit(data.X, data.y, domains=data.domains)
        losses = tried.cv_results_["worst_test_loss"]
        # the first model is the ordinary one, another row's
        place = 1 + int(np.argmin(losses[1:])) if len(losses) > 1 else 0
        gamma = float(tried.cv_results_["param_gamma"][place])
        model = ax.AgnosticClassifier(gamma=gamma, **options)
        model.fit(data.X, data.y, domains=data.domains)
        predicted = model.predict(data.X_test)
    mixture = _as_in_table(experiment, model.domain_names_, model.mixture_)
    found = accuracies(predicted, data.y_test, data.domains_test, experiment.domains)
    return found, {"gamma": gamma, "mixture": mixture, "gap": model.certificate_.gap}


def _as_in_table(experiment: Experiment, names: Any, mixture: Array) -> list[float]:
    """λ (p,) of domains with these names, in the order of the paper's columns."""
    return [float(mixture[names.tolist().index(name)]) for name in experiment.domains]
