"""How often do 95 % intervals of audits cover the truth? Measured, for docs/auditing.md.

    python benchmarks/interval_coverage.py            # 2000 draws a case, some ten minutes
    python benchmarks/interval_coverage.py --draws 200
    python benchmarks/interval_coverage.py --only differences

Each table is of one kind of interval. A cell is the share of draws whose interval holds the true
value, in percent, and the median width of the intervals. 2000 draws are accurate to ±1 (two
standard errors at 95 %). Differences are of half as many draws, agnostic losses of a fifth, gains
that are there, and those on other sets Λ than the simplex, of an eighth.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtri
from scipy.stats import norm

import anymix as ax
from anymix.auditing import Audit, audit, compare, intervals, scores
from anymix.auditing.bounded import Bounded
from anymix.auditing.measures import FLOOR
from anymix.mixtures import MixtureSet

Array = NDArray[np.float64]
Rng = np.random.Generator
Ends = tuple[float, float]
Draw = Callable[[Rng, int], Array]

LEVEL = 0.95
ZERO_ONE = "0 or 1, 10 % are 1"
LOG_LOSS_BOUND = -math.log(FLOOR)


def cell(ends: Callable[[Rng], Ends], truth: float, draws: int) -> str:
    """'95.2 (0.31)': coverage and median width."""
    rng = np.random.default_rng(0)
    low, high = np.array([ends(rng) for _ in range(draws)]).T
    covered = np.mean((low <= truth + 1e-12) & (truth - 1e-12 <= high))
    return f"{100 * covered:.1f} ({np.median(high - low):.3g})"


def show(
    title: str,
    head: str,
    cases: dict[str, tuple[Any, float]],
    columns: Sequence[Any],
    ends: Callable[[Any, Any, Rng], Ends],
    draws: int,
) -> None:
    """A row for each case (what to draw, and the truth), a column for each number of rows."""
    names = [" × ".join(map(str, np.ravel(column))) for column in columns]
    print(f"\n{title}\n\n| {head} | {' | '.join(names)} |\n|{'---|' * (len(columns) + 1)}")
    for name, (case, truth) in cases.items():
        cells = [cell(partial(ends, case, column), truth, draws) for column in columns]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


# Means ------------------------------------------------------------------------------------------

SIZES = (1, 2, 3, 10, 20, 50, 200)


def log_losses(said: float, true: float) -> tuple[Draw, float]:
    """A model that says `said` where the event has the probability `true`."""
    yes, no = -math.log(said), -math.log(1 - said)
    mean = true * yes + (1 - true) * no
    return lambda rng, n: np.where(rng.random(n) < true, yes, no), mean


def calibrated(rng: Rng, n: int) -> Array:
    """Log losses of q uniform and y ~ q; their mean is ½."""
    q = rng.random(n)
    return -np.log(np.where(rng.random(n) < q, q, 1 - q))


BOUNDED: dict[str, tuple[Draw, float]] = {
    "calibrated, q uniform": (calibrated, 0.5),
    "says 0.02, is 0.02": log_losses(0.02, 0.02),
    "says 0.001, is 0.02": log_losses(0.001, 0.02),
    "says 1e-6, is 0.05": log_losses(1e-6, 0.05),
    "all rows alike": (lambda rng, n: np.full(n, 0.3), 0.3),
    "alike, jitter 1e-9": (lambda rng, n: 0.3 + 1e-9 * rng.random(n), 0.3),
}
UNBOUNDED: dict[str, tuple[Draw, float]] = {
    "normal": (lambda rng, n: rng.normal(size=n), 0.0),
    "absolute normal error": (lambda rng, n: np.abs(rng.normal(size=n)), math.sqrt(2 / math.pi)),
    "squared normal error": (lambda rng, n: rng.normal(size=n) ** 2 / 2, 0.5),
    "exponential": (lambda rng, n: rng.exponential(size=n), 1.0),
    "log-normal, σ = 1": (lambda rng, n: rng.lognormal(size=n), math.exp(0.5)),
    "log-normal, σ = 1.5": (lambda rng, n: rng.lognormal(0, 1.5, n), math.exp(1.125)),
    "Pareto, 3 moments": (lambda rng, n: rng.pareto(3, n), 0.5),
    "Student's t, 3 df": (lambda rng, n: rng.standard_t(3, n), 0.0),
    "0 or 1, half each": (lambda rng, n: (rng.random(n) < 0.5) + 1e-3 * rng.random(n), 0.5005),
    ZERO_ONE: (lambda rng, n: (rng.random(n) < 0.1) + 1e-3 * rng.random(n), 0.1005),
    "0 or 1, 2 % are 1": (lambda rng, n: (rng.random(n) < 0.02) + 1e-3 * rng.random(n), 0.0205),
}


def means(draws: int) -> None:
    def errors(rate: float, n: int, rng: Rng) -> Ends:
        return intervals.share(rng.random(n) < rate, LEVEL)[1:]

    def log_loss(draw: Draw, n: int, rng: Rng) -> Ends:
        return intervals.bounded(draw(rng, n), LEVEL, 0.0, LOG_LOSS_BOUND)[1:]

    def other(draw: Draw, n: int, rng: Rng) -> Ends:
        return intervals.mean(draw(rng, n), LEVEL)[1:]

    rates = {f"error {rate}": (rate, rate) for rate in (0.001, 0.02, 0.3, 0.5)}
    show("0-1 loss, accuracy: exact", "rows", rates, SIZES, errors, draws)
    show("Log loss: guaranteed", "rows", BOUNDED, SIZES, log_loss, draws)
    show("Other losses, MAE, RMSE: approximate", "rows", UNBOUNDED, SIZES, other, draws)


# Differences of two models ----------------------------------------------------------------------

PAIRED = (20, 50, 200, 2000)
Pair = Callable[[Rng, int], tuple[Audit, Audit]]
Model = Callable[[Array, Array], Array]


def sure_model(slope: float, noise: float) -> Model:
    """The log-odds that a model says: the true ones s times a slope, and an error of its own."""
    return lambda s, z: slope * s + noise * z


def expected_log_loss(model: Model) -> float:
    """E of the loss where y ~ expit(s), s ~ N(0, 2²) and z ~ N(0, 1), on a grid of s and z."""
    grid = np.linspace(-9, 9, 1801)
    w = norm.pdf(grid) / norm.pdf(grid).sum()
    s, z = np.meshgrid(2 * grid, grid, indexing="ij")
    said, true = model(s, z), expit(s)
    losses = true * np.logaddexp(0, -said) + (1 - true) * np.logaddexp(0, said)
    return float(w @ losses @ w)


def of_log_odds(a: Model, b: Model) -> tuple[Pair, float]:
    """Two models of the same rows; each has errors of its own."""

    def draw(rng: Rng, n: int) -> tuple[Audit, Audit]:
        s = 2 * rng.normal(size=n)
        y = rng.random(n) < expit(s)
        first, second = (expit(model(s, rng.normal(size=n))) for model in (a, b))
        return audit(y, first, classes=[False, True]), audit(y, second, classes=[False, True])

    return draw, expected_log_loss(b) - expected_log_loss(a)


def of_constants(a: float, b: float, true: float) -> tuple[Pair, float]:
    """Both say nearly the same of all rows: their log-odds are off by 0.1 up or down."""

    def near(q: float, step: Any) -> Any:
        return expit(logit(q) + 0.1 * step)

    def draw(rng: Rng, n: int) -> tuple[Audit, Audit]:
        y = rng.random(n) < true
        first, second = (near(q, rng.choice([-1, 1], n)) for q in (a, b))
        return audit(y, first, classes=[False, True]), audit(y, second, classes=[False, True])

    def expected(q: float) -> float:
        return sum(log_losses(float(near(q, step)), true)[1] for step in (-1, 1)) / 2

    return draw, expected(b) - expected(a)


def differences(draws: int) -> None:
    """Errors and losses that two models share mostly, and those of a sure and a careful model."""

    def errors(rng: Rng, n: int) -> tuple[Audit, Audit]:
        u, y = rng.random(n), np.ones(n, dtype=int)
        wrong_a, wrong_b = (u < 0.2) | (u > 0.95), u < 0.32
        return audit(y, 1 - wrong_a, classes=[0, 1]), audit(y, 1 - wrong_b, classes=[0, 1])

    def squared(rng: Rng, n: int) -> tuple[Audit, Audit]:
        y, z = rng.normal(size=n), rng.normal(size=n)
        return audit(y, y + z, loss="squared"), audit(y, y + z + 0.5, loss="squared")

    def ends(draw: Pair, n: int, rng: Rng) -> Ends:
        low, high = compare(*draw(rng, n)).difference_intervals[0]
        return float(low), float(high)

    cases: dict[str, tuple[Pair, float]] = {
        "0-1 loss (guaranteed)": (errors, 0.07),
        "squared error": (squared, 0.125),
        "log loss, two similar sure models": of_log_odds(sure_model(2, 0.5), sure_model(2.2, 0.5)),
        "log loss, calibrated and sure": of_log_odds(sure_model(1, 0), sure_model(2, 0.5)),
        "log loss, calibrated and very sure": of_log_odds(sure_model(1, 0), sure_model(5, 1)),
        "log loss, say 0.3 and 0.001, is 0.3": of_constants(0.3, 0.001, 0.3),
        "log loss, say 0.02 and 0.001, is 0.02": of_constants(0.02, 0.001, 0.02),
        "log loss, say 0.02 and 1e-6, is 0.02": of_constants(0.02, 1e-6, 0.02),
    }
    show("Differences of two models", "rows", cases, PAIRED, ends, draws // 2)


# AUC and calibration ----------------------------------------------------------------------------


def normal_scores(area: float, wide: float = 1.0) -> tuple[Callable[..., Any], float]:
    shift = float(ndtri(area)) * math.hypot(1, wide)
    return lambda rng, m, n: (rng.normal(shift, wide, m), rng.normal(size=n)), area


def tied_scores(area: float) -> tuple[Callable[..., Any], float]:
    """Rounded to whole numbers; the true area by the distribution of the rounded scores."""
    shift, grid = float(ndtri(area)) * math.sqrt(2), np.arange(-8, 13)
    p, q = (np.diff(norm.cdf(grid - 0.5, loc)) for loc in (shift, 0.0))
    truth = float(p @ (np.cumsum(q) - q / 2))
    return (
        lambda rng, m, n: (np.round(rng.normal(shift, 1, m)), np.round(rng.normal(size=n))),
        truth,
    )


def split_scores(area: float) -> tuple[Callable[..., Any], float]:
    """Positives are above all negatives or below all of them."""
    return lambda rng, m, n: (np.where(rng.random(m) < area, 2.0, -2.0), rng.random(n)), area


AREAS = {
    "normal, 0.5": normal_scores(0.5),
    "normal, 0.6": normal_scores(0.6),
    "normal, 0.8": normal_scores(0.8),
    "normal, 0.95": normal_scores(0.95),
    "normal, 0.99": normal_scores(0.99),
    "positives wide, 0.8": normal_scores(0.8, 3.0),
    "positives wide, 0.95": normal_scores(0.95, 3.0),
    "positives narrow, 0.95": normal_scores(0.95, 0.3),
    "ties, 0.8": tied_scores(0.8),
    "ties, 0.95": tied_scores(0.95),
    "split, 0.9": split_scores(0.9),
}
COUNTS = ((2, 2), (2, 100), (5, 5), (5, 50), (10, 10), (10, 100), (100, 10), (30, 30), (100, 100))


def areas(draws: int) -> None:
    def ends(draw: Any, counts: tuple[int, int], rng: Rng) -> Ends:
        q = np.concatenate(draw(rng, *counts))
        return scores.auc(q, np.arange(len(q)) < counts[0], LEVEL)[1:]

    show("AUC: approximate", "positives × negatives", AREAS, COUNTS, ends, draws)


def said_and_true(said: Any, true: Any) -> Callable[[Rng, int], tuple[Array, Any]]:
    def draw(rng: Rng, n: int) -> tuple[Array, Any]:
        u = rng.random(n)
        return said(u), rng.random(n) < true(u)

    return draw


CALIBRATIONS: dict[str, tuple[Any, float]] = {
    "calibrated, q uniform": (said_and_true(lambda u: u, lambda u: u), 0.0),
    "says q/2": (said_and_true(lambda u: u / 2, lambda u: u), 0.25),
    "says 0.01, is 0.01": (said_and_true(lambda u: 0 * u + 0.01, lambda u: 0.01), 0.0),
    "says 0.001, is 0.05": (said_and_true(lambda u: 0 * u + 0.001, lambda u: 0.05), 0.049),
    "says 0.001, is 0.2": (said_and_true(lambda u: 0 * u + 0.001, lambda u: 0.2), 0.199),
    "says 0.02 or 0.98, is 0.15 or 0.85": (
        said_and_true(
            lambda u: np.where(u < 0.5, 0.02, 0.98), lambda u: np.where(u < 0.5, 0.15, 0.85)
        ),
        0.13,
    ),
    "says 0.95 for 3 %, is 0.05": (
        said_and_true(lambda u: np.where(u < 0.03, 0.95, 0.05), lambda u: 0.05),
        0.027,
    ),
}


def calibrations(draws: int) -> None:
    def ends(draw: Any, n: int, rng: Rng) -> Ends:
        return scores.calibration(*draw(rng, n), LEVEL)[1:]

    show("Calibration error: approximate", "rows", CALIBRATIONS, SIZES, ends, draws)


# The worst mixture ------------------------------------------------------------------------------

RARE = log_losses(0.001, 0.02)[1]
WORST: dict[str, tuple[Any, float]] = {
    "0-1 loss, 10 % wrong": (lambda rng, n: audit_of(rng.random(n) < 0.1), 0.1),
    "log loss, says 0.001, is 0.02": (
        lambda rng, n: partial(audit, rng.random(n) < 0.02, np.full(n, 0.001)),
        RARE,
    ),
    "exponential": (lambda rng, n: audit_of(rng.exponential(size=n)), 1.0),
    "log-normal, σ = 1": (lambda rng, n: audit_of(rng.lognormal(size=n)), math.exp(0.5)),
    "0 or 1, 10 % are 1": (lambda rng, n: audit_of(UNBOUNDED[ZERO_ONE][0](rng, n)), 0.1005),
    "0 or 1, 90 % are 1": (lambda rng, n: audit_of(1 - UNBOUNDED[ZERO_ONE][0](rng, n)), 0.8995),
}
SHAPES = ((5, 20), (20, 20), (50, 20), (20, 50))
SETS: dict[str, Callable[[Array], MixtureSet]] = {
    "Simplex": lambda sizes: ax.Simplex(len(sizes)),
    "Chi2Ball, r = 1.01": lambda sizes: ax.Chi2Ball(sizes, 1.01),
    "Point": lambda sizes: ax.Point(sizes / sizes.sum()),
}


def audit_of(losses: Any) -> Callable[..., Audit]:
    return partial(audit, None, losses)


def agnostic(draws: int) -> None:
    """All domains have the same distribution, so the truth is its mean for every Λ."""

    def ends(mixtures: Any, draw: Any, shape: tuple[int, int], rng: Rng) -> Ends:
        domains = np.repeat(np.arange(shape[0]), shape[1])
        return draw(rng, len(domains))(domains, mixtures=mixtures).agnostic_interval

    for title, mixtures in SETS.items():
        worst = partial(ends, mixtures)
        show(f"Agnostic loss, {title}", "domains × rows", WORST, SHAPES, worst, draws // 5)


# What held-out rows promise ----------------------------------------------------------------------

DELTA = 0.05
Losses = Callable[[Rng, int, float], Array]  # (rng, n, mean) -> losses in [0, 1]
PROMISED: dict[str, Losses] = {
    "0-1 loss (exact)": lambda rng, n, mean: (rng.random(n) < mean) * 1.0,
    "0-1 loss, as numbers": lambda rng, n, mean: (rng.random(n) < mean) * 1.0,
    "beta, a + b = 2": lambda rng, n, mean: rng.beta(2 * mean, 2 - 2 * mean, n),
    "log loss cut at 3": lambda rng, n, mean: cut_log_loss(rng, n, mean),
}
LAYOUTS: dict[str, tuple[list[int], list[float]]] = {  # rows and mean loss of each domain
    "2 x 50, one at .2": ([50, 50], [0.2, 0.05]),
    "2 x 50, both at .2": ([50, 50], [0.2, 0.2]),
    "10 x 50, others at .18": ([50] * 10, [0.2] + [0.18] * 9),
    "10 x 50, one at .2": ([50] * 10, [0.2] + [0.05] * 9),
    "50 x 300, others at .05": ([300] + [300] * 49, [0.2] + [0.05] * 49),
    "50: 30 rows at .2, 100 at .1": ([30] + [100] * 49, [0.2] + [0.1] * 49),
}
CUT = 3.0


def cut_log_loss(rng: Rng, n: int, mean: float) -> Array:
    """min(−log q, 3)/3, where q is 0.95 or so small that the loss is cut."""
    low, high = -math.log(0.95) / CUT, 1.0
    return np.where(rng.random(n) < (mean - low) / (high - low), high, low)


def promises(draws: int) -> None:
    """How often `held_out(...).value` is below the worst mean, and how far above it on average."""
    print(f"\nheld_out(...).value at δ = {DELTA}: misses in %, mean value (the truth is 0.2)\n")
    print(f"| domains | {' | '.join(PROMISED)} |\n|{'---|' * (len(PROMISED) + 1)}")
    for name, (sizes, means_) in LAYOUTS.items():
        cells = []
        for title, draw in PROMISED.items():
            rng, exact = np.random.default_rng(0), "exact" in title
            values = np.empty(draws)
            for i in range(draws):
                parts = tuple(draw(rng, n, m) for n, m in zip(sizes, means_, strict=True))
                rows = Bounded(parts, 1.0, are_errors=exact, disjoint=True)
                values[i] = rows.highest(DELTA).max()  # the value of `held_out` for all mixtures
            cells.append(f"{100 * np.mean(values < 0.2):.2f} ({values.mean():.3f})")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def promised_case(draws: int) -> None:
    """40, 150 and 600 rows of mean loss .05, .12 and .2, beta(s·mean, s·(1 − mean)), at δ = 0.1."""
    print(
        "\n40, 150, 600 rows of mean .05, .12, .2, beta losses, δ = 0.1: mean value, misses in %\n"
    )
    for s in (1.0, 1.7, 5.0):
        rng, values = np.random.default_rng(0), np.empty(draws)
        for i in range(draws):
            cases = zip((40, 150, 600), (0.05, 0.12, 0.2), strict=True)
            parts = tuple(rng.beta(s * m, s * (1 - m), n) for n, m in cases)
            values[i] = Bounded(parts, 1.0, are_errors=False, disjoint=True).highest(0.1).max()
        print(f"s = {s}: {values.mean():.4f}, {100 * np.mean(values < 0.2):.2f}", flush=True)


# Sure gains ------------------------------------------------------------------------------------

PLACES = ((2, 100), (10, 50), (20, 50), (20, 200))
LossPairs = Callable[[Rng, tuple[int, int], float], tuple[Array, Array]]


def squared_errors(rng: Rng, shape: tuple[int, int], shared: float) -> tuple[Array, Array]:
    """Of two models alike, whose errors correlate."""
    z, own = rng.normal(size=shape), rng.normal(size=(2, *shape))
    a, b = (math.sqrt(shared) * z + math.sqrt(1 - shared) * x for x in own)
    return a**2 / 2, b**2 / 2


def logistic_losses(rng: Rng, shape: tuple[int, int], shared: float) -> tuple[Array, Array]:
    """Log-odds with errors that correlate, of the true ones s ~ N(0, 2²)."""
    s, z, own = 2 * rng.normal(size=shape), rng.normal(size=shape), rng.normal(size=(2, *shape))
    sign = np.where(rng.random(shape) < expit(s), -1, 1)
    said = (s + math.sqrt(shared) * z + math.sqrt(1 - shared) * x for x in own)
    a, b = (np.logaddexp(0, sign * x) for x in said)
    return a, b


def wrong_labels(rng: Rng, shape: tuple[int, int], shared: float) -> tuple[Array, Array]:
    """Errors of 16 % of the rows, of which two models share some."""
    z, own = rng.normal(size=shape), rng.normal(size=(2, *shape))
    a, b = (math.sqrt(shared) * z + math.sqrt(1 - shared) * x > 1 for x in own)
    return a.astype(float), b.astype(float)


def better_by(gain: float, a: Array, b: Array, rng: Rng) -> Array:
    """b with a mean loss that is less by so many standard deviations; errors are made right."""
    if not np.isin(b, (0, 1)).all():
        return np.asarray(b - gain * np.std(b))
    rate = float(b.mean())
    right = rng.random(b.shape) < gain * math.sqrt(rate * (1 - rate)) / rate
    return np.where(right, 0.0, b)


def found_gains(
    draw: LossPairs, shape: tuple[int, int], shared: float, gain: float, mixtures: Any, draws: int
) -> Array:
    """How often a gain is sure, and how often with the interval of a λ chosen beforehand."""
    p, n = shape
    rng, name = np.random.default_rng(0), "zero_one" if draw is wrong_labels else "loss"
    some, domains = np.tile([0.0, 1.0], p * n // 2), np.repeat(np.arange(p), n)
    form, found = audit(None, some, domains, loss=name, mixtures=mixtures), np.zeros(2)
    for _ in range(draws):
        a, b = draw(rng, shape, shared)
        means = a.mean(axis=1), (b := better_by(gain, a, b, rng)).mean(axis=1)
        pair = compare(
            *(
                replace(form, row_losses=tuple(x), domain_losses=L, worst_mixture=λ)
                for x, L, λ in zip((a, b), means, map(form.mixtures.maximize, means), strict=True)
            )
        )
        one = ax.Point(pair.a.worst_mixture)
        before = compare(*(replace(x, mixtures=one) for x in (pair.a, pair.b)))
        found += pair.is_sure_gain, before.is_sure_gain
    return found / draws


def sure_gains(draws: int) -> None:
    """Two models alike: a gain that is sure is false. Then b is better everywhere."""
    losses = {"squared": squared_errors, "log": logistic_losses, "0-1": wrong_labels}
    cases = [
        (f"{name}, {'independent' if not shared else 'errors correlate'}", draw, shared, None)
        for name, draw in losses.items()
        for shared in (0.0, 0.9)
    ]
    sets = ("cvar:0.3", "chi2:1.05", "chi2:1.5", "tv:0.1")
    cases += [(f"squared, {mixtures}", squared_errors, 0.9, mixtures) for mixtures in sets]
    for gain in (0.0, 0.1, 0.2, 0.5):
        names = " | ".join(f"{p} × {n}" for p, n in PLACES)
        print(
            f"\nSure gains in %, b better by {gain} standard deviations; in brackets: of a λ that"
        )
        print(f"was chosen beforehand\n\n| domains × rows | {names} |\n|{'---|' * 5}")
        for name, draw, shared, mixtures in cases:
            cells = []
            for shape in PLACES:
                some = draws if gain == 0 and mixtures is None else draws // 8
                now, before = 100 * found_gains(draw, shape, shared, gain, mixtures, some)
                cells.append(f"{now:.1f} ({before:.1f})")
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


# Metrics asked for by name ----------------------------------------------------------------------

ROWS = (20, 50, 100, 200)
SCORED = ("precision", "recall", "f1", "jaccard", "balanced_accuracy", "accuracy")
SLOW = ("f1_macro", "matthews_corrcoef")  # by the jackknife: 21 calls of scikit-learn a draw
MODELS = {  # the share of positives, and of those said positive among positives and negatives
    "precision 0.9": (0.35, 0.857, 0.051),
    "precision 0.8": (0.5, 0.8, 0.2),
    "10 % positive": (0.1, 0.6, 0.05),
    "nearly always right": (0.3, 0.97, 0.01),
}


def true_scores(positive: float, a: float, b: float) -> dict[str, float]:
    tp, fp, fn, tn = positive * a, (1 - positive) * b, positive * (1 - a), (1 - positive) * (1 - b)
    f1 = 2 * tp / (2 * tp + fp + fn)
    cross = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    return {
        "precision": tp / (tp + fp),
        "recall": a,
        "f1": f1,
        "jaccard": tp / (tp + fp + fn),
        "balanced_accuracy": (a + 1 - b) / 2,
        "accuracy": tp + tn,
        "f1_macro": (f1 + 2 * tn / (2 * tn + fp + fn)) / 2,
        "matthews_corrcoef": (tp * tn - fp * fn) / cross,
    }


def labelled(model: tuple[float, float, float], n: int, draws: int, names: Sequence[str]) -> Audit:
    """Every domain is a draw of n rows."""
    rng, (positive, a, b) = np.random.default_rng(0), model
    y = rng.random((draws, n)) < positive
    said, domains = rng.random((draws, n)) < np.where(y, a, b), np.repeat(np.arange(draws), n)
    return audit(y.ravel(), said.ravel(), domains, metrics=names, classes=[False, True])


def asked(draws: int) -> None:
    """Coverage in the draws in which the metric is defined at all, and the median width."""
    names = " | ".join(map(str, ROWS))
    for title, model in MODELS.items():
        print(f"\nMetrics asked for, {title}\n\n| rows | {names} |\n|{'---|' * (len(ROWS) + 1)}")
        rows: dict[str, list[str]] = {}
        for n in ROWS:
            for some, measured in ((SCORED, draws), (SLOW, draws // 10)):
                found = labelled(model, n, measured, some)
                for name in some:
                    low, high = found.metric_intervals[name][~np.isnan(found.metrics[name])].T
                    truth = true_scores(*model)[name]
                    covered = 100 * np.mean((low <= truth) & (truth <= high))
                    width = np.median(high - low)
                    rows.setdefault(name, []).append(f"{covered:.1f} ({width:.2f})")
        for name, cells in rows.items():
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Coverage of the intervals of audits.")
    parser.add_argument("--draws", type=int, default=2000)
    of_all = (means, differences, areas, calibrations, agnostic, promises, promised_case)
    of_all += (sure_gains, asked)
    tables = {f.__name__: f for f in of_all}
    parser.add_argument("--only", choices=tables, help="this table alone")
    arguments = parser.parse_args()
    for name, table in tables.items():
        if arguments.only in (None, name):
            table(arguments.draws)
