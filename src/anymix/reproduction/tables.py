"""The paper's Tables 1 and 2, Proposition 1 and the picture of λ*, beside what the paper prints.

Every row of a table is the same algorithm with another set Λ of mixtures:

    Point(δ_k)   trained on domain k          Point(m̄)   trained on Û, all the data pooled
    Simplex(p)   the agnostic model, trained for any mixture of the domains

Stochastic-AFL with PerDomain gradients runs `runs` times with seeds 0, 1, …; the same rows by the
exact solver, γ chosen by cross-validation on the training data, show what is left to be gained.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, Literal

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table as Grid
from scipy.special import expit
from threadpoolctl import threadpool_limits

from anymix.datasets.sets import Dataset, load_adult, load_fashion
from anymix.estimators.selection import AgnosticClassifierCV
from anymix.mixtures.sets import MixtureSet, Point, Simplex
from anymix.problem.linear import LinearDomains
from anymix.solvers.exact import Solution, solve
from anymix.solvers.optimizers import Adagrad, Adam, Optimizer
from anymix.solvers.samplers import PerDomain
from anymix.solvers.stochastic import Iterate, stochastic_afl

Array = NDArray[np.float64]
Sets = Callable[[Array], MixtureSet]  # m_k: Λ
Entry = tuple[float, float]  # mean and standard deviation
Output = Literal["average", "last"]  # w^A or w_T

__all__ = [
    "ADULT",
    "EXPERIMENTS",
    "FASHION",
    "Experiment",
    "Output",
    "Proposition1",
    "Settings",
    "Table",
    "draw_least_risky",
    "proposition1",
    "reproduce",
    "train",
]


# The experiments -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """What the paper leaves open; paper/choose_settings.py finds it, on training data."""

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
    rows: Mapping[str, Sets]  # trained on: Λ
    settings: Settings
    printed: Mapping[str, tuple[Entry, ...]]  # for each row, an entry for each of `columns`
    gammas: tuple[float, ...]  # tried by the exact solver

    @property
    def columns(self) -> tuple[str, ...]:
        """What accuracies are of: all test rows, each domain, the domain that is worst."""
        return ("all", *self.domains, "worst")


def _only(k: int) -> Sets:
    return lambda sizes: Point(np.eye(len(sizes))[k])


def _pooled(sizes: Array) -> MixtureSet:
    return Point(sizes / sizes.sum())


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
        "Û": _pooled,
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

FASHION = Experiment(
    name="fashion",
    title="Table 2, Fashion-MNIST: test accuracy in percent",
    load=partial(load_fashion, classes=("t-shirt/top", "pullover", "shirt")),
    optimizer=Adam(),
    domains=("shirt", "pullover", "t-shirt/top"),
    rows={"Û": _pooled, "agnostic": _any_mixture},
    settings=Settings(
        step_w=3e-3, step_mixture=1e-2, batch_size=50, n_steps=4000, output="average"
    ),
    printed={
        "Û": ((81.8, 1.3), (71.2, 7.8), (87.8, 6.0), (86.2, 4.9), (71.2, 7.8)),
        "agnostic": ((82.3, 0.9), (74.5, 6.0), (87.6, 4.5), (84.9, 4.4), (74.5, 6.0)),
    },
    gammas=tuple(np.logspace(-1, -4, 4).tolist()),
)

EXPERIMENTS = {"adult": ADULT, "fashion": FASHION}


# One table -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ExactRow:
    """The certified solution of one row: what stochastic steps approach."""

    gamma: float  # of least cross-validated loss
    mixture: Array  # λ*, (p,), in the order of the experiment's domains
    gap: float
    accuracies: Array  # (columns,)


@dataclass(frozen=True, eq=False)
class Table:
    """Test accuracies in percent, of every run and by the exact solver."""

    experiment: Experiment
    accuracies: Mapping[str, Array]  # trained on: (runs, columns)
    mixtures: Mapping[str, Array]  # trained on: λ at the end of each run, (runs, p), likewise
    exact: Mapping[str, ExactRow]

    @property
    def runs(self) -> int:
        """How often each row was trained."""
        return len(next(iter(self.accuracies.values())))

    def mean(self, row: str) -> Array:
        """Over the runs, (columns,)."""
        return np.asarray(self.accuracies[row].mean(axis=0))

    def std(self, row: str) -> Array:
        """Over the runs, (columns,); 0 for a single run."""
        return np.asarray(self.accuracies[row].std(axis=0, ddof=min(1, self.runs - 1)))

    def difference(self, row: str) -> Array:
        """Ours less the paper's, (columns,)."""
        printed: Array = np.array([mean for mean, _ in self.experiment.printed[row]])
        return self.mean(row) - printed

    def as_dict(self) -> dict[str, Any]:
        """Everything but the single runs, for JSON."""
        return {
            "experiment": self.experiment.name,
            "title": self.experiment.title,
            "runs": self.runs,
            "optimizer": repr(self.experiment.optimizer),
            "settings": asdict(self.experiment.settings),
            "columns": list(self.experiment.columns),
            "rows": {row: self._row_as_dict(row) for row in self.experiment.rows},
        }

    def _row_as_dict(self, row: str) -> dict[str, Any]:
        exact = self.exact[row]
        return {
            "paper": {
                "mean": [mean for mean, _ in self.experiment.printed[row]],
                "std": [std for _, std in self.experiment.printed[row]],
            },
            "ours": {"mean": self.mean(row).tolist(), "std": self.std(row).tolist()},
            "difference": self.difference(row).tolist(),
            "mixture": self._by_name(self.mixtures[row].mean(axis=0)),
            "exact": {
                "accuracy": exact.accuracies.tolist(),
                "gamma": exact.gamma,
                "mixture": self._by_name(exact.mixture),
                "gap": exact.gap,
            },
        }

    def _by_name(self, mixture: Array) -> dict[str, float]:
        return dict(zip(self.experiment.domains, mixture.tolist(), strict=True))

    def grid(self) -> Grid:
        """Four lines for each row: the paper, ours, the difference, the exact solver."""
        title = f"{self.experiment.title}\nmean±standard deviation of {self.runs} runs"
        grid = Grid(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
        for heading in ("trained on", ""):
            grid.add_column(heading, no_wrap=True)
        for column in self.experiment.columns:
            grid.add_column(column, justify="right", no_wrap=True)
        for row, printed in self.experiment.printed.items():
            ours = zip(self.mean(row), self.std(row), strict=True)
            grid.add_row(row, "paper", *(f"{mean:.2f}±{std:.2f}" for mean, std in printed))
            grid.add_row("", "ours", *(f"{mean:.2f}±{std:.2f}" for mean, std in ours))
            grid.add_row("", "diff.", *(f"{value:+.2f}" for value in self.difference(row)))
            exact = (f"{value:.2f}" for value in self.exact[row].accuracies)
            grid.add_row("", "exact", *exact, end_section=True)
        return grid

    def save(self, folder: Path) -> list[Path]:
        """<name>.json (the table), .csv (every run) and .png (not without matplotlib)."""
        name = self.experiment.name
        header = ["trained on", "seed", *self.experiment.columns]
        lines = [
            [row, seed, *values.round(4).tolist()]
            for row, runs in self.accuracies.items()
            for seed, values in enumerate(runs)
        ]
        written = _write(folder, name, self.as_dict(), header, lines)
        n = len(self.accuracies)
        return written + _draw(self._panels, n, folder / f"{name}.png", width=3.3)

    def _limits(self) -> tuple[float, float]:
        """A range of accuracies for all panels."""
        printed = [entry for entries in self.experiment.printed.values() for entry in entries]
        shown = [mean + sign * std for mean, std in printed for sign in (-1, 1)]
        shown += [value for runs in self.accuracies.values() for value in runs.mean(axis=0)]
        shown += [value for exact in self.exact.values() for value in exact.accuracies]
        return min(shown) - 2, max(shown) + 2

    def _panels(self, panels: Any) -> None:
        """A panel for each row: the paper's entries, ours, and those of the exact solver."""
        places = np.arange(len(self.experiment.columns))
        for axes, (row, printed) in zip(panels, self.experiment.printed.items(), strict=True):
            paper, spread = np.array(printed).T  # (columns,) each
            bar: dict[str, Any] = {"fmt": "o", "capsize": 3, "markersize": 6}
            axes.errorbar(
                places - 0.2, paper, spread, mfc="white", color="0.35", label="the paper", **bar
            )
            label = f"ours, {self.runs} runs"
            axes.errorbar(
                places, self.mean(row), self.std(row), color="tab:blue", label=label, **bar
            )
            exact = self.exact[row].accuracies
            axes.plot(places + 0.2, exact, "D", color="tab:orange", label="exact solver")
            axes.set_title(f"trained on {row}" if row != "agnostic" else "trained for any mixture")
            axes.set_xticks(places, self.experiment.columns, rotation=20)
            axes.set(xlim=(-0.5, len(places) - 0.5), ylim=self._limits())
            axes.grid(axis="y", alpha=0.3)
        panels[0].set_ylabel("test accuracy, %")
        handles, labels = panels[-1].get_legend_handles_labels()
        place: dict[str, Any] = {"loc": "outside lower center", "ncols": 3, "frameon": False}
        panels[-1].figure.legend(handles, labels, **place)


# Running it ------------------------------------------------------------------------------------


def reproduce(
    experiment: Experiment,
    runs: int = 50,
    *,
    jobs: int = 2,
    gammas: Iterable[float] | None = None,
    progress: bool = True,
) -> Table:
    """The table: every row trained with seeds 0 … runs − 1, and solved exactly.

    Parameters
    ----------
    jobs : processes; the numbers do not depend on it.
    gammas : what the exact solver chooses from, those of the experiment by default.
    progress : show progress bars on standard error.

    >>> reproduce(ADULT, runs=0)
    Traceback (most recent call last):
        ...
    ValueError: runs is 0; give a whole number ≥ 1
    """
    for name, value in (("runs", runs), ("jobs", jobs)):
        if not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} is {value}; give a whole number ≥ 1")
    data = experiment.load(progress=progress)
    problem = LinearDomains(data.X, data.y, data.domains)
    tried = tuple(experiment.gammas if gammas is None else gammas)
    exact = [delayed(_solve_row)(experiment, data, row, tried) for row in experiment.rows]
    stochastic = [
        delayed(_run_row)(experiment, problem, data, row, seed)
        for row in experiment.rows
        for seed in range(runs)
    ]
    with Progress(console=Console(stderr=True), disable=not progress) as bar:
        solved = _in_parallel(exact, jobs, bar, f"{experiment.name}: exact solver")
        trained = _in_parallel(stochastic, jobs, bar, f"{experiment.name}: {runs} runs")
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
    """Stochastic-AFL with the Λ of a row: its iterates after every so many steps.

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
    with threadpool_limits(1):
        model = AgnosticClassifierCV(gammas, mixtures=experiment.rows[row], tol=1e-4)
        model.fit(data.X, data.y, domains=data.domains)
        accuracies = _accuracies(experiment, data, model.predict(data.X_test))
    mixture = _as_in_table(experiment, model.domain_names_, model.mixture_)
    return ExactRow(float(model.gamma_), mixture, model.certificate_.gap, accuracies)


def _as_in_table(experiment: Experiment, names: NDArray[Any], mixture: Array) -> Array:
    """λ (p,) of domains with these names, in the order of the paper's columns."""
    order = [names.tolist().index(name) for name in experiment.domains]
    return mixture[order]


def _accuracies(experiment: Experiment, data: Dataset, predicted: NDArray[Any]) -> Array:
    """Percentage of right answers in every column of the table, (columns,)."""
    right = predicted == data.y_test  # (n,)
    by_domain = [right[data.domains_test == name].mean() for name in experiment.domains]
    return 100 * np.array([right.mean(), *by_domain, min(by_domain)])


# Proposition 1 and the picture of λ* -----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Proposition1:
    """D1(x, 1) = 1, D2(x, 0) = D2(x, 1) = ½: the model for the uniform mixture and the agnostic."""

    problem: LinearDomains
    uniform: Solution
    agnostic: Solution

    @property
    def entries(self) -> dict[str, tuple[float, float]]:
        """What: its value in the paper, and here."""
        worst = float(self.uniform.domain_losses.max())
        least = float(self.agnostic.domain_losses.max())
        return {
            "uniform model: p₀ = 1/4": (1 / 4, _p0(self.uniform)),
            "uniform model: worst loss log(4/√3)": (math.log(4 / math.sqrt(3)), worst),
            "agnostic model: p₀ = 1/2": (1 / 2, _p0(self.agnostic)),
            "agnostic model: worst loss log 2": (math.log(2), least),
            "gap between the two: log(2/√3)": (math.log(2 / math.sqrt(3)), worst - least),
        }

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "experiment": "proposition1",
            "entries": {
                name: {"paper": paper, "ours": ours, "difference": ours - paper}
                for name, (paper, ours) in self.entries.items()
            },
            "certificate": {
                "lower": self.agnostic.certificate.lower,
                "upper": self.agnostic.certificate.upper,
            },
        }

    def grid(self) -> Grid:
        """A line for each entry."""
        grid = Grid(title="Proposition 1")
        grid.add_column("")
        for heading in ("paper", "ours", "difference"):
            grid.add_column(heading, justify="right")
        for name, (paper, ours) in self.entries.items():
            grid.add_row(name, f"{paper:.6f}", f"{ours:.6f}", f"{ours - paper:+.1e}")
        return grid

    def save(self, folder: Path) -> list[Path]:
        """proposition1.json, .csv and .png, the picture of λ* (not without matplotlib)."""
        entries = [[name, *values] for name, values in self.entries.items()]
        written = _write(folder, "proposition1", self.as_dict(), ["", "paper", "ours"], entries)
        problems = {"Proposition 1": (self.problem, 0.0)}
        return written + draw_least_risky(problems, folder / "proposition1.png")


def proposition1() -> Proposition1:
    """min over p₀ of the worst loss: log 2, where the uniform mixture's model has log(4/√3).

    >>> worst = proposition1().agnostic.domain_losses.max()
    >>> bool(abs(worst - math.log(2)) < 1e-6)
    True
    """
    X = np.zeros((4, 1))  # no features: the model is its intercept
    problem = LinearDomains(X, [1, 1, 0, 1], ["D1", "D1", "D2", "D2"])
    uniform = solve(problem, Point([0.5, 0.5]), gamma=0.0, tol=1e-12)
    agnostic = solve(problem, Simplex(2), gamma=0.0, tol=1e-12)
    return Proposition1(problem, uniform, agnostic)


def _p0(solution: Solution) -> float:
    """Probability of label 0."""
    return float(expit(-solution.w[-1]))


def draw_least_risky(problems: Mapping[str, tuple[LinearDomains, float]], path: Path) -> list[Path]:
    """Where λ* lies in Λ for p = 2: a panel for each problem with its γ; [] without matplotlib.

    Over the mixtures λ: the least risk r(λ) = min_w Φ(w, λ), Φ(w, λ) = Σ_k λ_k L_k(w) + γ R(w),
    and Φ(w, ·) of the models w for λ*, for Ū and for a λ in between. Each of these lines touches r
    where its model is best; the one at the top of r, λ*, has the least worst case.
    """
    return _draw(lambda panels: _draw_risks(panels, problems), len(problems), path, width=5.0)


def _risks(problem: LinearDomains, gamma: float) -> tuple[Array, Array, dict[str, Solution]]:
    """Shares t (n,) of the first domain, r at λ = (t, 1 − t), and the three models."""
    problem = problem.merged()
    shares = np.linspace(0, 1, 41)

    def best(t: float) -> Solution:
        return solve(problem, Point([t, 1 - t]), gamma)

    agnostic = solve(problem, Simplex(2), gamma)
    ordinary = best(problem.reference[0])
    between = best(float(agnostic.mixture[0] + problem.reference[0]) / 2)
    models = {"λ_Ū, the data": ordinary, "a λ in between": between, "λ*": agnostic}
    return shares, np.array([best(t).objective for t in shares]), models


def _draw_risks(panels: Any, problems: Mapping[str, tuple[LinearDomains, float]]) -> None:
    for axes, (name, (problem, gamma)) in zip(panels, problems.items(), strict=True):
        shares, risks, models = _risks(problem, gamma)
        first = problem.domain_names[0]
        axes.plot(shares, risks, color="0.35", label="least risk of any model")
        colors = ("tab:orange", "0.65", "tab:blue")
        for (label, model), color in zip(models.items(), colors, strict=True):
            t, losses = model.mixture[0], model.domain_losses
            regularizer = model.objective - model.mixture @ losses
            line = losses[::-1] + regularizer  # at t = 0 the second domain, at t = 1 the first
            label = f"model for {label}: worst case {line.max():.3f}"
            axes.plot([0, 1], line, color=color, linewidth=1, label=label)
            axes.plot([t], [line[0] + t * (line[1] - line[0])], "o", color=color, clip_on=False)
        axes.set(title=name, xlabel=f"share of {first} in the mixture", ylabel="risk", xlim=(0, 1))
        axes.legend(frameon=False, fontsize="small")


# Files -----------------------------------------------------------------------------------------


def _write(
    folder: Path, name: str, summary: Mapping[str, Any], header: list[str], lines: list[list[Any]]
) -> list[Path]:
    """<name>.json with the summary, <name>.csv with the lines."""
    folder.mkdir(parents=True, exist_ok=True)
    text, table = folder / f"{name}.json", folder / f"{name}.csv"
    text.write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    with table.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *lines])
    return [text, table]


def _draw(paint: Callable[[Any], None], n: int, path: Path, width: float) -> list[Path]:
    """[path], a picture of n panels side by side of a width in inches; [] without matplotlib."""
    try:
        from matplotlib.figure import Figure  # not pyplot: no window, no global state
    except ImportError:
        return []
    figure = Figure(figsize=(width * n, 4.2), layout="constrained")
    paint(figure.subplots(1, n, squeeze=False)[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    return [path]
