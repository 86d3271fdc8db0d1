from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from conic import Case, random_case
from flower.solving import LOSSES, Spy, Table, grid_of, parts_of, spread, table
from flwr.app import Context
from sklearn.exceptions import ConvergenceWarning

from anymix import datasets
from anymix.flower import LocalGrid, client_app, federated_certify, federated_solve
from anymix.mixtures import Chi2Ball, DirichletPrior, Point, Simplex
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import CrossEntropy, Hinge, SquaredError
from anymix.solvers.certificates import certify
from anymix.solvers.exact import solve

# -- the same answer as with all rows at one place -------------------------------------------------


@pytest.mark.parametrize(
    "how",
    ["a client is a domain", "a domain is many clients", "a client holds several domains", "one"],
)
@pytest.mark.parametrize("name", LOSSES)
def test_the_solution_is_the_one_of_all_rows(name: str, how: str) -> None:
    rows = table(name)
    problem = LinearDomains(*rows, LOSSES[name])
    central = solve(problem, gamma=1e-2, tol=1e-12)
    federated = federated_solve(
        grid_of(rows, spread(rows, how), LOSSES[name]), gamma=1e-2, tol=1e-12
    )
    assert federated.converged
    assert federated.objective == pytest.approx(central.objective, abs=1e-9)
    np.testing.assert_allclose(federated.w, central.w, atol=1e-6)
    np.testing.assert_allclose(federated.domain_losses, problem.losses(federated.w), rtol=1e-12)
    assert federated.domain_names == ("a", "b", "c")
    assert federated.sizes.tolist() == problem.sizes.tolist()


def spread_case(case: Case, n_clients: int) -> LocalGrid:
    """Rows with memberships in several domains; a client names only the domains it holds."""
    weight = 1.0 if case.weight is None else case.weight[:, None]
    members = pd.DataFrame(case.memberships * weight)
    members.columns = [f"domain {k:02}" for k in members.columns]
    place = np.arange(len(members)) % n_clients

    def load(context: Context) -> Any:
        rows = np.flatnonzero(place == context.node_config["partition-id"])
        mine = members.iloc[rows]
        return case.X[rows], case.y[rows], mine.loc[:, mine.sum() > 0]

    classes = np.unique(case.y) if isinstance(case.loss, CrossEntropy) else None
    app = client_app(load, loss=case.loss, intercept=case.intercept, classes=classes)
    return LocalGrid(app, nodes=n_clients)


@pytest.mark.parametrize("seed", range(72))
def test_objective_and_proof_are_those_of_cvxpy(seed: int) -> None:
    cases = (random_case(seed + 36 + 144 * k) for k in range(5))  # γ of 1e-6 and 1e-3
    case = next(case for case in cases if case.memberships.shape[1] > 1)
    value = case.reference()
    solution = federated_solve(spread_case(case, 3), case.mixtures, tol=1e-9, **case.objective)
    assert solution.objective == pytest.approx(value, rel=1e-7, abs=2e-8)
    assert solution.certificate.lower <= value + 1e-7 * max(1.0, abs(value))
    assert solution.converged


@pytest.mark.parametrize("name", LOSSES)
def test_without_a_regularizer(name: str) -> None:
    rows = table(name)
    central = solve(LinearDomains(*rows, LOSSES[name]), gamma=0.0, tol=1e-9)
    grid = grid_of(rows, np.arange(90) % 4, LOSSES[name])
    assert federated_solve(grid, gamma=0.0, tol=1e-9).objective == pytest.approx(
        central.objective, abs=2e-9
    )


@pytest.mark.parametrize(
    ("mixtures", "more"),
    [
        (Point([0.2, 0.3, 0.5]), {}),
        (lambda sizes: Chi2Ball(sizes, 1.3), {}),
        (lambda sizes: Point(sizes / sizes.sum()), {}),
        (Simplex(3), {"mu": 0.1}),
        (None, {"prior": DirichletPrior([1.5, 1.5, 2.0])}),
        (None, {"norm": "plain"}),
        (None, {"offsets": [0.3, 0.0, 0.1]}),
    ],
)
def test_every_objective_of_solve(mixtures: Any, more: dict[str, Any]) -> None:
    rows = table()
    problem = LinearDomains(*rows)
    chosen = mixtures(problem.sizes) if callable(mixtures) else mixtures
    central = solve(problem, chosen, tol=1e-10, **more)
    federated = federated_solve(grid_of(rows, np.arange(90) % 4), mixtures, tol=1e-10, **more)
    assert federated.objective == pytest.approx(central.objective, abs=1e-9)


def test_a_class_that_no_row_has() -> None:
    X, y, domains = table("three")
    problem = LinearDomains(X, y, domains, classes=[0, 1, 2, 3])  # its intercept goes to −∞

    def load(context: Context) -> Table:
        mine = np.arange(90) % 4 == context.node_config["partition-id"]
        return X[mine], y[mine], domains[mine]

    grid = LocalGrid(client_app(load, classes=[0, 1, 2, 3]), nodes=4)
    central, federated = solve(problem, gamma=1e-2), federated_solve(grid, gamma=1e-2)
    assert federated.certificate.gap <= 1e-6
    assert federated.objective == pytest.approx(central.objective, abs=2e-6)


def test_domains_with_one_class_each() -> None:
    X, y, _ = table("three")
    rows = X, y, np.array(["a", "b", "c"])[y]
    central = solve(LinearDomains(*rows), gamma=1e-2)
    federated = federated_solve(grid_of(rows, y), gamma=1e-2)
    assert federated.certificate.gap <= 1e-6
    assert federated.objective == pytest.approx(central.objective, abs=2e-6)
    lonely = federated_solve(grid_of(rows, y), Point([1.0, 0.0, 0.0]), gamma=1e-2)
    assert lonely.objective == pytest.approx(0.0, abs=1e-5)


def test_the_order_of_domains_can_be_chosen() -> None:
    rows, names = table(), ["c", "a", "b"]
    solution = federated_solve(grid_of(rows, np.arange(90) % 4), domains=names)
    losses = dict(zip(names, solution.domain_losses, strict=True))
    expected = LinearDomains(*rows).losses(solution.w)  # of a, b, c
    assert [losses[k] for k in "abc"] == pytest.approx(expected, rel=1e-12)


def test_small_targets_are_solved_in_their_own_unit() -> None:
    X, y, domains = table("squared")
    rows = X, 5.0 + 1e-4 * y, domains  # a gap of 1e-6 says nothing here
    solution = federated_solve(grid_of(rows, np.arange(90) % 4, SquaredError()), gamma=1e-3)
    problem = LinearDomains(*rows, SquaredError())
    assert solution.certificate.gap <= 1e-6 * problem.loss_scale < 1e-12
    assert solution.converged


def test_bits_do_not_depend_on_node_ids() -> None:
    rows, place = table("three"), np.arange(90) % 12  # keys "10" and "11" sort before "2"
    one, two = (federated_solve(grid_of(rows, place, seed=s)) for s in (0, 1))
    np.testing.assert_array_equal(one.w, two.w)
    np.testing.assert_array_equal(one.mixture, two.mixture)


def test_adult_with_20_clients() -> None:
    data = datasets.load_adult()
    place = np.random.default_rng(0).integers(20, size=len(data.y))
    grid = grid_of((data.X, data.y, data.domains), place)
    solution = federated_solve(grid)
    assert solution.certificate.gap <= 1e-6
    assert len(solution.rounds) + 1 <= 20  # with the question who is there
    assert (
        len(solution.rounds) == 1 + solution.n_iter
    )  # the start and a round a step: they prove it
    problem = LinearDomains(data.X, data.y, data.domains)
    central, close = solve(problem, tol=1e-12), federated_solve(grid, tol=1e-12)
    assert close.objective == pytest.approx(central.objective, abs=1e-9)
    np.testing.assert_allclose(close.w, central.w, atol=1e-9)
    assert len(close.rounds) + 1 <= 20


# -- certificates ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOSSES)
def test_a_certificate_holds_far_from_the_optimum(name: str) -> None:
    rows = table(name)
    grid = grid_of(rows, np.arange(90) % 4, LOSSES[name])
    best = solve(LinearDomains(*rows, LOSSES[name]), gamma=0.1, tol=1e-12).objective
    rng = np.random.default_rng(0)
    problem, _ = parts_of(grid, np.full(3, 1 / 3))
    for scale in (1e-3, 0.1, 1.0, 10.0):
        w = scale * rng.normal(size=problem.n_parameters)
        proof = certify(problem, Simplex(3), w, rng.dirichlet(np.ones(3)), gamma=0.1)
        assert proof.lower <= best + 1e-12
        assert proof.upper >= best - 1e-12


@pytest.mark.parametrize("name", LOSSES)
def test_a_model_of_any_origin_is_certified(name: str) -> None:
    rows = table(name)
    problem = LinearDomains(*rows, LOSSES[name])
    best = solve(problem, gamma=0.1, tol=1e-12)
    near = best.w + 1e-4 * np.random.default_rng(0).normal(size=len(best.w))
    grid = grid_of(rows, np.arange(90) % 4, LOSSES[name], kind=Spy)
    proof = federated_certify(grid, None, near, best.mixture, gamma=0.1)
    central = certify(problem, Simplex(3), near, best.mixture, gamma=0.1)
    assert proof.upper == pytest.approx(central.upper, rel=1e-13)
    assert best.objective - 1e-6 <= proof.lower <= best.objective + 1e-12
    assert len(grid.heard) == 4 * 3  # and the question who is there


def test_certify_refuses_as_certify_does() -> None:
    grid = grid_of(table(), np.arange(90) % 4)
    with pytest.raises(ValueError, match="mixture is not in"):
        federated_certify(grid, None, np.zeros(4), [0.5, 0.5, 0.5])
    with pytest.raises(ValueError, match="mixture is not in"):
        federated_certify(grid, None, np.zeros(4), [0.5, 0.5])
    with pytest.raises(TimeoutError, match="4 of 5 clients"):
        federated_certify(grid, None, np.zeros(4), [1.0, 0.0, 0.0], n_clients=5, timeout=0.1)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("scale", [1.0, 0.7])
def test_dual_is_a_minorant_for_any_step(name: str, scale: float) -> None:
    rows = table(name)
    problem = LinearDomains(*rows, LOSSES[name])
    lam = np.array([0.2, 0.3, 0.5])
    parts, _ = parts_of(grid_of(rows, np.arange(90) % 4, LOSSES[name]), lam)
    look = parts.at(np.zeros(problem.n_parameters))
    rng = np.random.default_rng(1)
    for step in (None, 0.1 * rng.normal(size=problem.n_parameters)):
        value, v, _ = look.dual(lam, step, scale)
        assert np.isfinite(value)
        for w in np.repeat([0.01, 1.0], 50)[:, None] * rng.normal(size=(100, len(v))):
            assert lam @ problem.losses(w) >= value + v @ w - 1e-12


def test_a_good_start_saves_rounds() -> None:
    grid = grid_of(table(), np.arange(90) % 4)
    first = federated_solve(grid, gamma=1e-2)
    again = federated_solve(grid, gamma=1.01e-2, start=first)
    cold = federated_solve(grid, gamma=1.01e-2)
    assert again.objective == pytest.approx(cold.objective, abs=2e-6)
    assert again.n_iter < cold.n_iter


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"mixtures": Simplex(2)}, r"over the clients' 3 domains \['a', 'b', 'c'\]"),
        ({"mixtures": "all"}, "mixtures is 'all'"),
        ({"timeout": 0.0}, "timeout is 0"),
        ({"attempts": 0}, "attempts is 0"),
        ({"domains": ["a", "b"]}, "domains is"),
        ({"start": np.zeros(3)}, "give 4 finite numbers"),
        ({"tol": 0.0}, "tol is 0"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        federated_solve(grid_of(table(), np.arange(90) % 4), **arguments)


def test_a_loss_without_curvature_is_refused() -> None:
    rows = table()
    app_rows = rows[0], (rows[1] == "yes").astype(int), rows[2]
    with pytest.raises(ValueError, match="models of another kind"):
        federated_solve(grid_of(app_rows, np.arange(90) % 4, Hinge()))


def test_a_gap_that_stays_is_said() -> None:
    with pytest.warns(ConvergenceWarning, match="stopped after 1 iterations"):
        solution = federated_solve(grid_of(table(), np.arange(90) % 4), max_iter=1)
    assert not solution.converged
