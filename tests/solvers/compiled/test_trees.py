"""Every walk ends, ties or not, and its λ is that of exact arithmetic."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exact_paths import EuclideanPath

from anymix.solvers.compiled.kernels import euclidean, euclidean_read, euclidean_step


def python(*arguments: str, timeout: float = 600) -> str:
    """What a process prints. It is stopped if it hangs, which takes seconds otherwise."""
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, timeout=timeout, check=True, capture_output=True, text=True
    ).stdout


def exact_paths(steps: int, seed: int, timeout: float) -> dict[str, Any]:
    script = Path(__file__).parents[2] / "exact_paths.py"
    found: dict[str, Any] = json.loads(python(str(script), str(steps), str(seed), timeout=timeout))
    return found


@pytest.mark.parametrize("seed", [0, 1])
def test_ties_end_and_are_exact(seed: int) -> None:
    found = exact_paths(4000, seed, timeout=600)
    assert found["steps"] >= 4000
    assert found["entry"] < 1e-12
    assert found["sum"] < 1e-11


@pytest.mark.slow
def test_a_million_steps_end_and_are_exact() -> None:
    found = exact_paths(10**6, 2, timeout=6 * 3600)
    print(found)
    assert found["steps"] >= 10**6
    assert found["entry"] < 1e-12
    assert found["sum"] < 1e-11


RUNS = """
import numpy as np
import anymix as ax
from anymix.solvers.compiled.kernels import euclidean, euclidean_read, euclidean_step

for size, start in ((1.0, [0.7, 0.3, 0.0]), (0.0, [0.1, 0.1, 0.8, 0.0])):
    p = len(start)
    problem = ax.LinearDomains(np.eye(p), np.arange(p) > 0, np.arange(p))
    run = ax.stochastic_afl(problem, step_w=0.1, step_mixture=size, start_mixture=start)
    assert np.allclose(next(run).mixture, start, rtol=0, atol=1e-15)

rng = np.random.default_rng(14460)
domains, moves = rng.integers(0, 3, (2000, 3)), 100.0 * rng.integers(-1, 2, (2000, 3))
tree = euclidean(np.full(3, 1 / 3), np.zeros(3))
for k, move in zip(domains, moves):
    euclidean_step(tree, k, move, 3)
"""


def test_a_tie_at_the_threshold_does_not_hang() -> None:
    """Rounding lets one that is as large as τ leave, and come back when τ has risen."""
    python("-c", RUNS)


FACES = """
import numba
import numpy as np
from anymix.solvers.compiled.kernels import project_simplex

@numba.njit
def project(rows):
    lost = np.zeros(rows.shape[1])
    for row in rows:
        project_simplex(row, lost, len(row))

for p in (3, 8, 16, 50):
    rng = np.random.default_rng(p)
    lam = rng.dirichlet(np.ones(p), size=20_000)
    lam[lam < 1 / p] = 0
    lam /= lam.sum(axis=1, keepdims=True)
    found = lam + rng.choice([0.0, 0.1, 1 / 3, np.log(2), 100.0], size=(20_000, 1))
    project(found)
    assert np.abs(found - lam).max() < 1e-13
"""


def test_equal_moves_on_a_face_do_not_hang() -> None:
    """Those at 0 are at the threshold: λ moves nowhere, but rounding does not know."""
    python("-c", FACES)


NOT_NUMBERS = """
from itertools import product
import numpy as np
from anymix.solvers.compiled.kernels import euclidean, euclidean_read, euclidean_step

for p, n, bad, seed in product((3, 9, 100), (1, 2), (np.nan, np.inf, -np.inf), range(20)):
    rng = np.random.default_rng(seed)
    tree = euclidean(rng.dirichlet(np.ones(p)), np.zeros(p))
    for _ in range(10):
        moves = rng.normal(size=n)
        moves[rng.integers(n)] = bad
        euclidean_step(tree, rng.integers(p, size=n), moves, n)
        euclidean_step(tree, rng.integers(p, size=1), np.array([0.1]), 1)
"""


def test_even_what_is_not_a_number_does_not_hang() -> None:
    """The loops are finite by themselves, not because numbers behave."""
    python("-c", NOT_NUMBERS)


def test_long_moves_take_no_digits_from_the_mixture() -> None:
    """λ + 1e9 has seven digits of λ left; the sum is kept exactly."""
    rng, domains = np.random.default_rng(0), np.array([1, 3])
    for _ in range(20):
        start = rng.dirichlet(np.ones(5))
        tree, path, total = euclidean(start, np.zeros(5)), EuclideanPath(start), np.zeros(5)
        for moves in 1e9 + rng.random((2, 2)):
            euclidean_step(tree, domains, moves, 2)
            path.step(domains, moves)
            total += path.mixture()
        found, wanted = euclidean_read(tree), (path.mixture(), total)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-15)


def test_many_moves_take_no_digits_either() -> None:
    """Each is short, but their sum is not: λ_1 and λ_2 rise by 3000 and fall together again."""
    rng, domains = np.random.default_rng(0), np.tile([1, 2], 100)
    start = np.array([0.2, 0.1, 0.7])
    tree, path = euclidean(start, np.zeros(3)), EuclideanPath(start)
    for _ in range(20):
        moves = np.repeat(60 * rng.random(100), 2) + 1e-3 * rng.normal(size=200)
        euclidean_step(tree, domains, moves, 200)
        path.step(domains, moves)
        found, wanted = euclidean_read(tree)[0], path.mixture()
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-14)


def test_rounding_does_not_pile_up() -> None:
    rng, n = np.random.default_rng(0), 20_000
    tree, path = euclidean(np.full(2, 0.5), np.zeros(2)), EuclideanPath(np.full(2, 0.5))
    for k, move in zip(rng.integers(2, size=(n, 1)), 0.01 * rng.random((n, 1)), strict=True):
        euclidean_step(tree, k, move, 1)
        path.step(k, move)
    np.testing.assert_allclose(euclidean_read(tree)[0], path.mixture(), rtol=0, atol=1e-14)


def test_a_projection_onto_a_vertex_of_many_domains_adds_up_to_one() -> None:
    """The zeros are 5000 numbers at the threshold: a rounded τ counts 5000 times in Σλ."""
    rng, p, there = np.random.default_rng(0), 5000, np.zeros(2, dtype=np.int64)
    tree = euclidean(np.eye(p)[0], np.zeros(p))
    for move in 100 + rng.random(20):
        euclidean_step(tree, there, np.array([move, rng.normal() * 1e-12 - move]), 2)
        assert abs(euclidean_read(tree)[0].sum() - 1) < 1e-12


def test_nor_does_the_rounding_of_tau_count_for_all_domains() -> None:
    """τ = 18 leaves 14 digits after the point; 5000 domains may be at or just above 0."""
    rng, p = np.random.default_rng(0), 5000
    tree, path = euclidean(np.eye(p)[0], np.zeros(p)), EuclideanPath(np.eye(p)[0])
    steps: list[tuple[Any, Any]] = [([1, 2], [9.9, -9.7]), ([3, 4], [10.1, -9.7])]
    for _ in range(20):
        steps.append((rng.integers(4, p, size=2), -10 * rng.random(2)))  # below 0, and back to it
        steps.append(([3, 4], [-1e-10 * rng.random(), 0]))  # the largest gives a little to all
    for domains, moves in steps:
        euclidean_step(tree, np.array(domains), np.array(moves), 2)
        path.step(domains, moves)
        found = euclidean_read(tree)[0]
        assert abs(found.sum() - 1) < 1e-12
        np.testing.assert_allclose(found, path.mixture(), rtol=0, atol=1e-13)
