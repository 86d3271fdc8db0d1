"""The pictures of the documentation:  python docs/pictures.py"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anymix as ax
from anymix.reporting import draw_frontier
from anymix.solvers.samplers import FullBatch
from anymix.solvers.stochastic import Iterate, mirror_prox_afl

Array = NDArray[np.float64]
FOLDER = Path(__file__).parent / "img"
INK, PLAIN, AVERAGE, OPTIMISTIC, PROX = "#333333", "#d55e00", "#e69f00", "#0072b2", "#009e73"


def optimistic(n_steps: int = 600) -> None:
    """Last iterates on L(w, λ) = 1 + (λ_2 − λ_1) w, |w| ≤ 1: a saddle at w = 0, λ = (½, ½)."""
    from matplotlib import pyplot as plt

    plain = _run(ax.stochastic_afl, n_steps)
    inward = _run(ax.optimistic_afl, n_steps)
    prox = _run(mirror_prox_afl, n_steps)
    style: dict[Any, Any] = {
        "font.size": 10,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "text.color": INK,
    }
    with plt.rc_context(style):
        figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.1), layout="constrained")
        _paths(left, plain, inward)
        _distances(right, plain, inward, prox)
        for axes in (left, right):
            axes.spines[["top", "right"]].set_visible(False)
        FOLDER.mkdir(exist_ok=True)
        figure.savefig(FOLDER / "optimistic.png", dpi=150)
        plt.close(figure)


def _run(algorithm: Callable[..., Iterator[Iterate]], n_steps: int) -> list[Iterate]:
    problem = ax.LinearDomains([[1.0], [1.0]], [1, 0], ["a", "b"], ax.Hinge(), intercept=False)
    options = {"step_w": 0.1, "step_mixture": 0.1, "sampler": FullBatch(), "start": [0.3]}
    return list(islice(algorithm(problem, ax.Simplex(2), **options), n_steps))


def _paths(axes: Any, plain: list[Iterate], inward: list[Iterate]) -> None:
    for steps, color, name, at in (
        (plain, PLAIN, "Stochastic-AFL circles outwards", (0, 1.06)),
        (inward, OPTIMISTIC, "Optimistic spirals in", (0.01, 0.705)),
    ):
        w, lam = [0.3, *(s.w[0] for s in steps)], [0.5, *(s.mixture[0] for s in steps)]
        axes.plot(w, lam, color=color, linewidth=1.1)
        axes.text(*at, name, color=color, ha="center", va="center", fontsize=9)
    axes.plot(0.3, 0.5, "o", color=INK, markersize=5)
    axes.annotate("start", (0.3, 0.5), (1, 7), textcoords="offset points", ha="center")
    axes.plot(0, 0.5, "*", color=INK, markersize=11)
    arrow = {"arrowstyle": "-", "color": INK, "linewidth": 0.8, "shrinkB": 6}
    axes.annotate("saddle", (0, 0.5), (0, 0.19), ha="center", va="center", arrowprops=arrow)
    axes.set(xlabel="model w", ylabel="mixture λ₁", title="The last iterates, step by step")
    axes.set_ylim(-0.05, 1.12)


def _distances(axes: Any, plain: list[Iterate], inward: list[Iterate], prox: list[Iterate]) -> None:
    steps = np.arange(1, len(plain) + 1)
    curves = (
        ([s.w for s in plain], [s.mixture for s in plain], PLAIN, "Stochastic-AFL, last"),
        ([s.w_average for s in plain], [s.mixture_average for s in plain], AVERAGE,
         "Stochastic-AFL, average"),
        ([s.w for s in inward], [s.mixture for s in inward], OPTIMISTIC, "Optimistic, last"),
        ([s.w for s in prox], [s.mixture for s in prox], PROX, "Mirror-Prox, last"),
    )  # fmt: skip
    for w, lam, color, name in curves:
        distance = np.hypot(np.ravel(w), np.linalg.norm(np.array(lam) - 0.5, axis=1))
        axes.semilogy(steps, distance, color=color, linewidth=1.4, label=name)
    axes.set(xlabel="step", title="Distance to the saddle")
    axes.legend(frameon=False, loc="lower left")


def frontier() -> None:
    """The models from ordinary to robust of the example in docs/estimators.md, held out."""
    rng = np.random.default_rng(0)
    region = np.repeat(["city", "rural"], [900, 100])
    effect = np.where(region[:, None] == "city", [2, 1, 0], [0, 1, 2])
    X = rng.normal(size=(len(region), 10))
    y = (X[:, :3] * effect).sum(axis=1) + rng.logistic(size=len(region)) > 0
    model = ax.AgnosticClassifierCV().fit(X, y, domains=region)
    draw_frontier(model.frontier_, FOLDER / "frontier.png")


def partitions(n: int = 200_000) -> None:
    """Distance to the optimum by passes, and seconds of a solve by workers, by the cost model."""
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.9), layout="constrained")
    ours, sgd = _by_passes(n)
    left.semilogy(*ours, "o-", color=OPTIMISTIC, label="anymix, with a proof")
    left.semilogy(*sgd, "o-", color=PLAIN, label="SGDClassifier.partial_fit, averaged")
    left.axhline(1e-6, color=INK, linewidth=0.8, linestyle=":")
    left.set(xlabel="passes over the rows", ylabel="distance to the optimum")
    left.set_title("Ordinary training, 200,000 rows", fontsize=10)
    workers = np.array([1, 2, 5, 10, 20, 50, 100, 200, 500])
    for rows, color in ((1e8, OPTIMISTIC), (1e9, PLAIN)):
        seconds = 7 * (rows / workers * 250e-9 + 0.01)
        right.loglog(workers, seconds, "o-", color=color, label=f"{rows:.0e} rows")
    right.set(xlabel="workers of one core", ylabel="seconds of a solve, 7 passes")
    right.set_title("Rows in the workers' memory, 20 features", fontsize=10)
    for axes in (left, right):
        axes.legend(frameon=False, fontsize=9, loc="upper right" if axes is right else (0.4, 0.5))
        axes.spines[["top", "right"]].set_visible(False)
    FOLDER.mkdir(exist_ok=True)
    figure.savefig(FOLDER / "partitions.png", dpi=150)
    plt.close(figure)


def _by_passes(n: int, step: int = 16_384) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Passes and distances, of the exact solver over batches and of SGD over the same ones."""
    from sklearn.linear_model import SGDClassifier

    from anymix.partitions import from_batches, scanning

    rng, gamma = np.random.default_rng(0), 1e-4
    X, d = rng.normal(size=(n, 20)), rng.integers(50, size=n)
    W = rng.normal(size=20) + 0.3 * rng.normal(size=(50, 20))
    y = (np.einsum("ij,ij->i", X, W[d]) + rng.logistic(size=n) > 0).astype(int)
    whole = ax.LinearDomains(X, y, d)
    target = ax.Point(whole.reference)
    best = ax.solve(whole, target, gamma=gamma, tol=1e-11).objective

    def chunks() -> Iterator[Any]:
        for i in range(0, n, step):
            yield X[i : i + step], y[i : i + step], d[i : i + step]

    scanning.SAMPLE = 21 * n // 100  # 1 % of the rows, as of 20 million
    problem = from_batches(chunks)
    seen, look = [], problem.look

    def noted(w: Array, mixture: Array) -> Any:
        there = look(w, mixture)
        value = float(whole.reference @ there.losses) + 0.5 * gamma * float(w[:-1] @ w[:-1])
        seen.append((problem.n_passes, max(value - best, 1e-12)))
        return there

    problem.look = noted  # type: ignore[method-assign]
    ax.solve(problem, target, gamma=gamma, tol=1e-9)
    passes, distances = np.array(seen).T
    model = SGDClassifier(loss="log_loss", alpha=gamma, average=True, random_state=0)
    theirs = []
    for _ in range(8):
        for X_part, y_part, _domains in chunks():
            model.partial_fit(X_part, y_part, classes=[0, 1])
        w = np.append(model.coef_.ravel(), model.intercept_)
        theirs.append(ax.certify(whole, target, w, whole.reference, gamma=gamma).upper - best)
    return (passes, distances), (np.arange(1, len(theirs) + 1), theirs)


if __name__ == "__main__":
    optimistic()
    frontier()
    partitions()
