"""The settings that the paper does not give, chosen on the training data alone.

One choice serves all rows of a table. Each row has an aim of its own, its loss on the worst λ of
its Λ, estimated on five folds that deal out every domain and class evenly. Settings that suit one
row may fail another: long training suits Û and overfits the 413 doctorates. So the choice is the
agnostic one: with L_r(s) the held-out loss of row r under the settings s and e_r the standard error
of its least one,

    s* = argmin_s max_r (L_r(s) − min_s' L_r(s')) / e_r,

and of settings that differ in nothing but a λ-step that does not matter, those with the smaller.
The test data are never looked at.

    python paper/choose_settings.py adult      (25 minutes on two cores; or fashion: 10)
"""

import csv
import sys
from dataclasses import asdict, dataclass, replace
from itertools import islice, product
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from linear_models import EXPERIMENTS, Experiment, Output, Settings, train
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

import anymix as ax
from anymix.datasets import Dataset

Array = NDArray[np.float64]
FOLDER = Path(__file__).parents[1] / "docs" / "reproduction"

STEPS_W = {"adult": (0.03, 0.05, 0.1, 0.2, 0.3, 1.0), "fashion": (3e-4, 1e-3, 3e-3)}
STEPS_MIXTURE = (1e-3, 1e-2, 1e-1)  # with smaller ones λ would stay where it starts
BATCHES = {"adult": (1, 10, 20, 50, 100, 200, 400), "fashion": (10, 50)}
N_STEPS = {
    "adult": (250, 500, 750, 1000, 1500, 2000, 4000, 8000),
    "fashion": (500, 1000, 2000, 4000),
}
FOLDS = 5
SEEDS = {"adult": (0, 1, 2), "fashion": (0,)}  # a fold's loss is the mean over these runs


@dataclass(frozen=True)
class Candidate:
    """Settings for a row, and the loss L_r(s) to which they lead on the rows held out."""

    row: str
    settings: Settings
    loss: float  # mean over the folds
    standard_error: float  # of the mean


def choose(tried: list[Candidate]) -> Settings:
    """The settings s* for all rows."""
    regrets: dict[Settings, float] = {}  # of the row that is served worst
    for row in dict.fromkeys(c.row for c in tried):
        candidates = [c for c in tried if c.row == row]
        best = min(candidates, key=lambda c: c.loss)
        for c in candidates:
            regret = (c.loss - best.loss) / best.standard_error
            for settings in _all_mixture_steps(c.settings) if row != "agnostic" else [c.settings]:
                regrets[settings] = max(regrets.get(settings, 0.0), regret)
    return min(regrets, key=lambda s: (regrets[s], s.step_mixture))


def _all_mixture_steps(settings: Settings) -> list[Settings]:
    """λ-steps are of no account where Λ is one point."""
    return [replace(settings, step_mixture=step) for step in STEPS_MIXTURE]


def held_out(experiment: Experiment, data: Dataset, row: str) -> list[Candidate]:
    """All settings for a row: a course for each, all numbers of steps on its way, both outputs."""
    name = experiment.name
    steps_mixture = STEPS_MIXTURE if row == "agnostic" else STEPS_MIXTURE[:1]
    grid = product(STEPS_W[name], steps_mixture, BATCHES[name], N_STEPS[name][-1:], ["last"])
    courses = [Settings(*values) for values in grid]
    kinds = [f"{domain} {label}" for domain, label in zip(data.domains, data.y, strict=True)]
    folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(data.X, kinds))
    tasks = (delayed(_course)(experiment, data, row, c, *fold) for c in courses for fold in folds)
    losses: dict[Settings, list[Array]] = {}
    for course in Parallel(n_jobs=2, verbose=1)(tasks):
        for settings, loss in course.items():
            losses.setdefault(settings, []).append(loss)
    sizes = np.unique(data.domains, return_counts=True)[1].astype(np.float64)
    mixtures = experiment.rows[row](sizes)
    return [_candidate(row, s, np.array(loss), mixtures) for s, loss in losses.items()]


def _candidate(row: str, settings: Settings, losses: Array, mixtures: ax.MixtureSet) -> Candidate:
    """From the losses L_k in each fold, (folds, p): the λ ∈ Λ is the worst for their mean."""
    by_fold = losses @ mixtures.maximize(losses.mean(axis=0))  # Σ_k λ_k L_k, (folds,)
    error = by_fold.std(ddof=1) / np.sqrt(FOLDS)
    return Candidate(row, settings, float(by_fold.mean()), float(error))


def _course(
    experiment: Experiment,
    data: Dataset,
    row: str,
    settings: Settings,
    training: NDArray[np.intp],
    test: NDArray[np.intp],
) -> dict[Settings, Array]:
    """Losses (p,) on the test part after each number of steps, mean over the seeds."""
    problem, other = (
        ax.LinearDomains(data.X[rows], data.y[rows], data.domains[rows])
        for rows in (training, test)
    )
    losses: dict[Settings, Array] = {}
    seeds, n_steps = SEEDS[experiment.name], N_STEPS[experiment.name]
    with threadpool_limits(1):
        for seed in seeds:
            run = train(problem, experiment, row, settings, seed, every=n_steps[0])
            for iterate in islice(run, settings.n_steps // n_steps[0]):
                outputs: dict[Output, Array] = {"last": iterate.w, "average": iterate.w_average}
                for output, w in outputs.items():
                    here = replace(settings, n_steps=iterate.step, output=output)
                    losses[here] = losses.get(here, 0.0) + other.losses(w) / len(seeds)
    return {here: loss for here, loss in losses.items() if here.n_steps in n_steps}


def save(candidates: list[Candidate], file: Path) -> None:
    """Everything that was tried, a line each."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["trained on", *asdict(candidates[0].settings), "loss", "standard error"])
        for c in candidates:
            numbers = (f"{c.loss:.5f}", f"{c.standard_error:.5f}")
            writer.writerow([c.row, *asdict(c.settings).values(), *numbers])


if __name__ == "__main__":
    name = sys.argv[1] if len(sys.argv) == 2 else ""
    if name not in EXPERIMENTS:
        sys.exit(f"usage: choose_settings.py {' | '.join(EXPERIMENTS)}")
    experiment = EXPERIMENTS[name]
    data = experiment.load()
    tried = [c for row in experiment.rows for c in held_out(experiment, data, row)]
    save(tried, FOLDER / f"settings_{name}.csv")
    print(choose(tried))
