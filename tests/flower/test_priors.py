"""A prior on λ over clients: the steps of `stochastic_afl`, and the optimum of `solve`."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
from flower.clients import grid_of, table

import anymix as ax
from anymix.flower import AgnosticStrategy, Patience, Steps, federated_solve
from anymix.solvers.samplers import FullBatch

PRIOR = ax.DirichletPrior([2.0, 1.5, 1.2])


def test_one_optimum_by_three_paths() -> None:
    problem = ax.LinearDomains(*table())
    exact = ax.solve(problem, gamma=0.1, prior=PRIOR, tol=1e-9)
    solved = federated_solve(grid_of(), ax.Objective(gamma=0.1, prior=PRIOR), tol=1e-9)
    assert solved.objective == pytest.approx(exact.objective, abs=1e-8)
    objective, full = ax.Objective(gamma=0.1, prior=PRIOR), FullBatch()
    steps = ax.stochastic_afl(
        problem, objective, step_w=0.5, step_mixture=0.02, sampler=full, mixture_sampler=full
    )
    last = next(islice(steps, 299, None))
    strategy = AgnosticStrategy(objective, steps=Steps(0.5, 0.02), patience=Patience(min_clients=5))
    trained = strategy.start(grid_of(), num_rounds=300)
    np.testing.assert_allclose(trained.w, last.w, atol=1e-9)
    np.testing.assert_allclose(trained.mixture, last.mixture, atol=1e-9)
    proof = ax.certify(problem, None, trained.w, trained.mixture, gamma=0.1, prior=PRIOR)
    assert proof.upper <= exact.objective + 1e-4


def test_robustness_draws_the_set_to_the_mixture_of_all_rows() -> None:
    problem, patience = ax.LinearDomains(*table()), Patience(min_clients=5)
    near = ax.Simplex(3).shrunk(0.3, problem.reference)
    trained = [
        AgnosticStrategy(given, steps=Steps(0.5, 0.1), patience=patience).start(grid_of(), None, 30)
        for given in (ax.Objective(gamma=0.1, robustness=0.3), ax.Objective(near, gamma=0.1))
    ]
    np.testing.assert_allclose(trained[0].w, trained[1].w, atol=1e-12)
    solved = federated_solve(grid_of(), gamma=0.1, robustness=0.3, tol=1e-9)
    assert solved.objective == pytest.approx(ax.solve(problem, near, gamma=0.1).objective, abs=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"prior": PRIOR},
        {"prior": ax.DirichletPrior([200.0, 50.0, 80.0])},
        {"prior": ax.DirichletPrior([1.01, 1.0, 3.0])},
        {"mu": 0.01},
        {"prior": PRIOR, "adversary": "entropic"},
    ],
    ids=str,
)
def test_no_step_sizes_are_needed_and_the_best_model_is_the_penalised_one(options: Any) -> None:
    """A step along the slope of a Dirichlet prior left the simplex, where it has none."""
    problem = ax.LinearDomains(*table())
    aim: dict[str, Any] = {"gamma": 0.1, **{k: v for k, v in options.items() if k != "adversary"}}
    exact = ax.solve(problem, tol=1e-9, **aim)
    steps = Steps(adversary=options.get("adversary", "euclidean"))
    strategy = AgnosticStrategy(ax.Objective(**aim), steps=steps, patience=Patience(min_clients=5))
    found = strategy.start(grid_of(), num_rounds=60)
    values = [
        ax.certify(problem, None, w, exact.mixture, **aim).upper
        for w in (found.w_best, found.w, found.w_average)
    ]
    assert values[0] <= exact.objective + 1e-4
    assert values[0] == pytest.approx(min(values), abs=1e-9)
