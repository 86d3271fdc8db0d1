"""A search for a wrong certificate: problems of every kind, columns, targets and anchors far out.

No lower value is above Φ(w', λ) at any w' tried, in extended precision and beside the package; no
upper value, and no loss of a domain, is that of another w than the one it is given with.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from extended import Phi, long
from numpy.typing import NDArray
from scipy import sparse

import anymix as ax
from anymix.mixtures import (
    Box,
    Chi2Ball,
    DirichletPrior,
    Hull,
    LogPrior,
    MixtureSet,
    Point,
    Simplex,
    TVBall,
    Vertices,
    cvar,
)
from anymix.problem.losses import CrossEntropy, Hinge, Huber, SquaredError
from anymix.problem.oracle import Oracle
from anymix.problem.parts import Parts

Array = NDArray[np.float64]

SETS = ("simplex", "vertices", "point", "hull", "box", "cvar", "chi2", "tv", "shrunk")
GAMMAS = (0.0, 0.0, 1e-12, 1e-6, 1e-3, 1.0, 100.0, 1e4)


@dataclass(frozen=True)
class Problem:
    """What `solve` takes, and the same for the other precision."""

    problem: ax.LinearDomains
    mixtures: MixtureSet
    phi: Phi
    terms: dict[str, Any] = field(default_factory=dict)
    w_radius: float | None = None
    parts: Parts | None = None


def random_problem(seed: int) -> Problem:
    """One of every kind; each strange thing is in about a fifth of them."""
    rng = np.random.default_rng(seed)
    n, d, p = int(rng.integers(4, 40)), int(rng.integers(1, 4)), int(rng.integers(1, 5))
    loss, classes = [
        (CrossEntropy(), 2),
        (CrossEntropy(), 3),
        (SquaredError(), 0),
        (Huber(float(rng.choice([0.1, 1.0]))), 0),
        (Hinge(), 2),
    ][rng.choice(5, p=[0.2, 0.15, 0.35, 0.25, 0.05])]
    n = max(n, p, classes)
    X, y, unit = random_rows(rng, n, d, classes)
    domains, S = random_domains(rng, n, p)
    weight = np.ones(n) if rng.random() < 0.7 else 10.0 ** rng.uniform(-9, 9, n)
    intercept = bool(rng.random() < 0.8)
    codes: dict[str, Any] = {"classes": np.arange(classes)} if classes else {}
    options = {"loss": loss, "intercept": intercept, "sample_weight": weight, **codes}
    problem = ax.LinearDomains(
        sparse.csr_array(X) if rng.random() < 0.2 else X, y, domains, **options
    )
    K, D = problem.n_scores, problem.n_parameters
    sizes = (S * weight[:, None]).sum(axis=0)
    kind = str(rng.choice(SETS))
    mixtures = random_set(kind, problem.sizes, rng)
    penalty, seen = random_penalty(kind, p, unit, rng)
    anchor = np.zeros(D)
    if rng.random() < 0.4:
        anchor = 10.0 ** rng.choice([0, 0, 3, 10, 14]) * rng.normal(size=D)
    terms: dict[str, Any] = {
        "gamma": float(rng.choice(GAMMAS)),
        "norm": str(rng.choice(["squared", "plain"])),
        "offsets": unit**2 * rng.normal(size=p) if rng.random() < 0.2 else np.zeros(p),
        "anchor": anchor,
    }
    phi = Phi(
        X,
        y,
        long(S * weight[:, None]).T / long(S * weight[:, None]).sum(axis=0)[:, None],
        long(sizes) / long(sizes).sum(),
        loss,
        K,
        intercept,
        terms["gamma"],
        terms["norm"],
        np.where(problem.penalized, anchor, 0.0),
        terms["offsets"],
        **seen,
    )
    parts, is_dealt = None, domains.ndim == 1 and n >= 2 * p
    if loss.is_smooth and is_dealt and rng.random() < 0.15:
        parts = Parts.of(
            [
                ax.LinearDomains(X[i], y[i], domains[i], **options | {"sample_weight": weight[i]})
                for i in (np.arange(n) % 2 == 0, np.arange(n) % 2 == 1)
            ]
        )
    radius = float(10.0 ** rng.uniform(-2, 3)) if rng.random() < 0.3 else None
    return Problem(problem, mixtures, phi, terms | penalty, radius, parts)


def random_rows(
    rng: np.random.Generator, n: int, d: int, classes: int
) -> tuple[Array, Array, float]:
    """X, y and the unit of y; columns with units and offsets of their own, or nearly copies."""
    X, far = rng.normal(size=(n, d)), rng.random() < 0.5
    y, unit = X @ rng.normal(size=d) + rng.normal(size=n) * rng.choice([0, 0.01, 1.0]), 1.0
    if classes:
        y = np.append(np.arange(classes), rng.integers(0, classes, n - classes)).astype(float)
    elif rng.random() < 0.4:
        unit = 10.0 ** rng.uniform(-9, 12)
        y = unit * (y + rng.choice([0, 0, 1e4, 1e8]))
    for j in range(d if far else 0):
        match rng.integers(6):
            case 0:
                X[:, j] *= 10.0 ** rng.uniform(-12, 13)
            case 1:
                X[:, j] += 10.0 ** rng.uniform(2, 12)
            case 2:
                X[:, j] = (X[:, j] > 0) * (rng.random() < 0.8)
            case 3:
                X[:, j] = X[:, 0] + 10.0 ** rng.uniform(-12, 0) * X[:, j]
            case 4:
                X[:, j] = 10.0 ** rng.uniform(9, 13) * np.arange(n)
    return X, y, unit


def random_domains(rng: np.random.Generator, n: int, p: int) -> tuple[NDArray[Any], Array]:
    """Labels or memberships, and the memberships as (n, p)."""
    labels = np.append(np.arange(p), rng.integers(0, p, n - p))
    if p == 1 or rng.random() < 0.7:
        return labels, np.eye(p)[labels]
    S = np.eye(p)[labels] + rng.random((n, p)) * (rng.random((n, p)) < 0.3)
    return S, S


def random_set(kind: str, sizes: Array, rng: np.random.Generator) -> MixtureSet:
    p, m, c = len(sizes), sizes / sizes.sum(), rng.dirichlet(np.ones(len(sizes)))
    match kind:
        case "simplex":
            return Simplex(p)
        case "vertices":
            return Vertices(p)
        case "point":
            return Point(c)
        case "hull":
            return Hull(rng.dirichlet(np.ones(p), size=3))
        case "box":
            return Box(c * rng.random(p), np.minimum(1, c + 0.5 * rng.random(p)))
        case "cvar":
            return cvar(m, rng.uniform(0.2, 1))
        case "chi2":
            return Chi2Ball(sizes, 1 + rng.choice([0.01, 0.3, 2.0]))
        case "tv":
            return TVBall(c, rng.choice([0.05, 0.3, 1.0]))
        case _:
            return Simplex(p).shrunk(rng.choice([0.1, 0.9]), m)


def random_penalty(
    kind: str, p: int, unit: float, rng: np.random.Generator
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What λ pays, for `solve` and for Phi; often in the unit of the losses."""
    size = unit**2 if rng.random() < 0.7 else 1.0
    is_slow = kind in ("chi2", "hull", "tv", "shrunk") and rng.random() < 0.8
    match rng.choice(6 - 3 * is_slow) + 3 * is_slow:
        case 0:
            mu = size * 10.0 ** rng.uniform(-3, 1)
            return {"mu": mu}, {"mu": mu}
        case 1:
            alpha = 1 + rng.choice([0, 0.01, 0.5, 2], size=p)
            return {"prior": DirichletPrior(alpha).times(size)}, {"alpha": alpha, "unit": size}
        case 2:
            c, k = rng.dirichlet(np.ones(p)), float(rng.choice([0.1, 5.0]))
            density = lambda x: -k * float(np.sum((x - c) ** 2))  # noqa: E731
            prior = LogPrior(density, lambda x: -2 * k * (x - c), p)
            return {"prior": prior.times(size)}, {"normal": (k, c), "unit": size}
        case _:
            return {}, {}


# -- what is checked -------------------------------------------------------------------------------


def check(seed: int) -> Iterator[str]:
    """What is wrong with the certificates of a problem."""
    case, rng = random_problem(seed), np.random.default_rng([seed, 1])
    problem, phi, Λ = case.problem, case.phi, case.mixtures
    D, p, free = problem.n_parameters, problem.n_domains, Λ.center
    lowers: list[tuple[str, float, Array]] = []
    places = [phi.anchor, np.zeros(D), 10.0 ** rng.uniform(-3, 14) * rng.normal(size=D)]
    if problem.is_smooth:
        sources: list[Oracle] = [problem] if case.parts is None else [problem, case.parts]
        for source in sources:
            tol = float(rng.choice([1e-6, 1e-9]))
            found = ax.solve(source, Λ, tol=tol, max_iter=100, **case.terms)
            yield from wrong_values(case, found)
            lowers.append(("solve", found.certificate.lower, found.mixture))
            places, free = [found.w, *places], found.mixture
    mixtures = [Λ.project(free), Λ.project(rng.dirichlet(np.ones(p)))]
    for i, w in enumerate(places):
        lam = mixtures[i % 2]
        known = ax.certify(problem, Λ, w, lam, **case.terms)
        lowers.append(("certify", known.lower, lam))
        yield from wrong_upper(case, w, known.upper, "certify")
        if case.w_radius is not None:
            ball = case.terms | {"w_radius": case.w_radius}
            known = ax.certify(problem, Λ, shortened(w, case.w_radius), mixtures[0], **ball)
            yield from wrong_upper(case, shortened(w, case.w_radius), known.upper, "in a ball")
            inside = [shortened(v, case.w_radius) for v in places]
            best = min(value_at(phi, v, mixtures[0]) for v in inside)
            yield from too_high(case, "in a ball", known.lower, best)
    starts = [w for w in places if np.abs(w).max() < 1e6]
    places += [w + 10.0 ** rng.uniform(-9, -2) * np.abs(w) * rng.normal(size=D) for w in places]
    for lam in mixtures:
        places += [phi.least(lam, w) for w in starts]
    for name, lower, lam in lowers:
        if lower > -np.inf:
            yield from too_high(case, name, lower, min(value_at(phi, w, lam) for w in places))


def shortened(w: Array, radius: float) -> Array:
    return w * min(1.0, radius / max(float(np.linalg.norm(w)), 1e-300))


def value_at(phi: Phi, w: Array, lam: Array) -> float:
    """At least Φ(w, λ): columns that nearly cancel may ask for more digits than there are."""
    return phi.value(w, lam) + phi.doubt(w, 2.0**-64)


def too_high(case: Problem, name: str, lower: float, value: float) -> Iterator[str]:
    b = float(np.abs(case.terms["offsets"]).max())
    size = b + abs(float(case.phi.penalty(long(case.mixtures.center))[0]))
    if lower > value + 1e-9 * abs(value) + 1e-13 * size:
        yield f"{name}: lower {lower!r} is above {value!r} by {(lower - value) / abs(value):.1e}"


def wrong_upper(case: Problem, w: Array, upper: float, name: str) -> Iterator[str]:
    """Where it is not the exact maximum over Λ at w, up to rounding."""
    terms, phi = case.terms, case.phi
    objective = ax.Objective(case.mixtures, **terms).on(case.problem)
    best = objective.best_response(phi.losses(w).astype(float))
    low, high = phi.between(w, case.mixtures, best)
    size = float(phi.losses(w).max()) + float(np.abs(terms["offsets"]).max()) + abs(low)
    size += float(np.abs(phi.penalty(long(case.mixtures.center))[1]).max())
    allowed = phi.doubt(w) + 1e-12 * size
    if not low - allowed <= upper <= high + allowed:
        yield f"{name}: upper {upper!r} is not in [{low!r}, {high!r}], allowed {allowed:.1e}"
    if high - low > allowed + 1e-6 * size:  # to first order
        yield f"{name}: the best mixture is {high - low:.1e} from the best of {low:.3e}"


def wrong_values(case: Problem, found: ax.Solution) -> Iterator[str]:
    """Where what a solution says is not what its w is."""
    losses = case.phi.losses(found.w)
    allowed = case.phi.doubt(found.w) + 1e-12 * float(losses.max())
    if np.any(np.abs(losses - found.domain_losses) > allowed):
        yield f"solve: losses are off by {(losses - found.domain_losses).astype(float)}"
    if not found.objective == found.certificate.upper == found.history[-1]["upper"]:
        yield f"solve: objective {found.objective!r} is not {found.certificate.upper!r}"
    yield from wrong_upper(case, found.w, found.objective, "solve")


def search(seeds: range) -> list[str]:
    wrong: list[str] = []
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        for seed in seeds:
            try:
                wrong += [f"{seed}: {message}" for message in check(seed)]
            except ValueError as error:
                if getattr(error, "argument", "") != "prior":  # no best response: that is said
                    wrong.append(f"{seed}: {type(error).__name__} {error}")
    return wrong


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_no_certificate_is_wrong(first: int) -> None:
    assert not search(range(first, first + 20))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 6000, 100))
def test_no_certificate_of_many_is_wrong(first: int) -> None:
    assert not search(range(first, first + 100))
