"""Compiled walks and runs full of ties, beside the same path of λ in exact arithmetic.

    python tests/exact_paths.py STEPS SEED

prints how many steps were taken and the largest error of an entry of λ and of Σλ. It is a script of
its own because compiled code that does not end can only be stopped from outside.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from itertools import islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anymix as ax
from anymix.solvers.compiled.kernels import euclidean, euclidean_read, euclidean_step
from anymix.solvers.samplers import EveryDomain, PerDomain, UniformDomain, Weighted
from anymix.solvers.stochastic import Iterate, optimistic_afl, stochastic_afl

Array = NDArray[np.float64]
Generator = np.random.Generator
Errors = Iterator[tuple[float, float]]

UNIT = 1 << 256  # λ = 1 in the integers below; half a unit is all that a division loses
DOMAINS = [2, 3, 4, 8, 9, 65, 300, 5000]
ALGORITHMS: list[Callable[..., Iterator[Iterate]]] = [stochastic_afl, optimistic_afl]
SAMPLERS: list[tuple[Any, Any]] = [
    (PerDomain(), EveryDomain()),
    (PerDomain(), UniformDomain(2)),
    (Weighted(), EveryDomain()),
    (Weighted(), UniformDomain()),
    (Weighted(2), UniformDomain(3)),
]


# -- exact arithmetic --------------------------------------------------------------------------


def integer(x: float) -> int:
    """X in units."""
    numerator, denominator = float(x).as_integer_ratio()
    return numerator * UNIT // denominator


def project(v: list[int]) -> list[int]:
    """argmin ½ ‖λ − v‖² over λ ≥ 0, Σλ = 1: τ = (Σ_S v − 1)/|S| for the largest S above its τ."""
    total, tau = -UNIT, 0
    for n, x in enumerate(sorted(v, reverse=True), start=1):
        if n * x <= total + x:
            break
        total += x
        tau = total // n
    return [max(x - tau, 0) for x in v]


class EuclideanPath:
    """λ ← Π(λ + moves)."""

    def __init__(self, start: Array) -> None:
        self.value = [integer(x) for x in start]

    def step(self, domains: Any, moves: Any) -> None:
        for k, move in zip(np.asarray(domains).tolist(), np.asarray(moves).tolist(), strict=True):
            self.value[k] += integer(move)
        self.value = project(self.value)

    def mixture(self) -> Array:
        return np.array([x / UNIT for x in self.value])


class EntropicPath:
    """λ ∝ λ_0 e^{Σ moves}."""

    def __init__(self, start: Array) -> None:
        self.value = [integer(x) for x in np.log(start)]

    def step(self, domains: Any, moves: Any) -> None:
        for k, move in zip(np.asarray(domains).tolist(), np.asarray(moves).tolist(), strict=True):
            self.value[k] += integer(move)

    def mixture(self) -> Array:
        top = max(self.value)
        weights = np.exp([max(x - top, -1000 * UNIT) / UNIT for x in self.value])
        return np.asarray(weights / weights.sum())


# -- walks of the tree -------------------------------------------------------------------------


def start(rng: Generator, p: int) -> Array:
    """A vertex, equal numbers on a face, tenths, or anywhere."""
    kind, lam = rng.integers(4), np.zeros(p)
    if kind == 0:
        lam[rng.integers(p)] = 1.0
    elif kind == 1:
        face = rng.permutation(p)[: rng.integers(1, p + 1)]
        lam[face] = 1 / len(face)
    elif kind == 2:
        lam += np.bincount(rng.integers(p, size=10), minlength=p) / 10
    else:
        lam += rng.dirichlet(np.ones(p))
    return lam


def moves(rng: Generator, shape: tuple[int, int]) -> Array:
    """Of one size between 1e-12 and 1e6: equal ones, nearly equal ones, or any."""
    size, kind = 10.0 ** rng.integers(-12, 7), rng.integers(3)
    if kind == 0:
        return np.asarray(size * rng.integers(-1, 2, shape))
    if kind == 1:
        return np.asarray(size * rng.integers(-1, 2, shape) + 0.1 * rng.integers(-3, 4, shape))
    return np.asarray(size * rng.normal(size=shape))


def errors(found: Array, wanted: Array) -> tuple[float, float]:
    """Of an entry of λ, and of Σλ."""
    assert found.min() >= 0
    return float(np.abs(found - wanted).max()), abs(float(found.sum()) - 1)


def walk(rng: Generator, p: int, steps: int) -> Errors:
    """The errors of a walk."""
    lam, n = start(rng, p), int(rng.integers(1, 5))
    tree, path = euclidean(lam, np.zeros(p)), EuclideanPath(lam)
    for move in moves(rng, (steps, n)):
        domains = rng.integers(p, size=n)
        euclidean_step(tree, domains, move, n)
        path.step(domains, move)
        yield errors(euclidean_read(tree)[0], path.mixture())


# -- runs --------------------------------------------------------------------------------------


def problem(rng: Generator, p: int) -> ax.LinearDomains:
    """Rows that are all 0, 0 or 1, or normal; domains of one row and more."""
    n, d = p + int(rng.integers(2 * p)), int(rng.integers(1, 4))
    X = [np.zeros((n, d)), rng.integers(0, 2, (n, d)) * 1.0, rng.normal(size=(n, d))]
    loss = [ax.CrossEntropy(), ax.SquaredError(), ax.Huber(0.5), ax.Hinge()][rng.integers(4)]
    domains = np.append(np.arange(p), rng.integers(p, size=n - p))
    return ax.LinearDomains(X[rng.integers(3)], np.arange(n) % 2, domains, loss)


def run(rng: Generator, p: int, steps: int) -> Errors:
    """The errors of a run, given the gradients of λ that it has met."""
    lam, adversary = start(rng, p), ("euclidean", "entropic")[rng.integers(2)]
    longest = 6
    if adversary == "entropic":
        lam, longest = 0.5 * lam + 0.5 / p, 1  # log λ = −1000 has 13 digits left for λ
    size = float(rng.choice([0.0, 1.0, 1.0, 1.0]) * 10.0 ** rng.integers(-12, longest + 1) / p)
    sampler, mixture_sampler = SAMPLERS[rng.integers(len(SAMPLERS))]
    algorithm = ALGORITHMS[rng.integers(2)]
    iterates = algorithm(
        problem(rng, p),
        step_w=float(rng.choice([0.0, 0.1])),
        step_mixture=size,
        sampler=sampler,
        mixture_sampler=mixture_sampler,
        adversary=adversary,
        mu=float(rng.choice([0.0, 0.0, 0.1])),
        start_mixture=lam,
        seed=rng,
        compiled=True,
    )
    path = EuclideanPath(lam) if adversary == "euclidean" else EntropicPath(lam)
    before = None
    for now in islice(iterates, steps):
        kept = now.state["compiled"]
        path.step(*moved(kept, before, size))
        yield errors(now.mixture, path.mixture())
        before = kept if algorithm is optimistic_afl else None


def moved(kept: Any, before: Any, size: float) -> tuple[Any, Any]:
    """The domains and the moves of a step, 2δ less the last δ if there was a step before."""
    if "Dense gradient" in kept:
        delta = kept["Dense gradient"]
        last = delta if before is None else before["Dense gradient"]
        return np.arange(len(delta)), size * (2 * delta - last)
    domains, moves = kept["Choice domains"], kept["Step moves"]
    m = len(moves) // 2
    if before is None:
        return domains[:m], moves[:m]
    return np.append(domains[:m], before["Choice domains"][:m]), moves


# -- all ---------------------------------------------------------------------------------------


def main(steps: int, seed: int) -> None:
    """Walks and runs in turn, the longer the fewer domains they have."""
    rng, taken, worst = np.random.default_rng(seed), 0, np.zeros(2)
    while taken < steps:
        for p, kind in product(DOMAINS, (walk, run)):
            for error in kind(rng, p, 5 + 1000 // p):
                worst, taken = np.maximum(worst, error), taken + 1
    print(json.dumps({"steps": taken, "entry": worst[0], "sum": worst[1]}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
