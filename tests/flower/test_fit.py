"""federated_fit: the choice of AgnosticClassifierCV over clients, from sums alone."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from flower.clients import app_of

import anymix as ax
from anymix.errors import InputError
from anymix.estimators import NothingGained, searching
from anymix.flower import LocalGrid, federated_fit
from anymix.flower import fit as federated
from anymix.flower.client_data import number_of
from anymix.flower.client_parts import Clients
from anymix.flower.fold_rows import FoldedRows
from anymix.flower.folded_clients import FoldedClients
from anymix.problem.rows import Rows


def rows_of(kind: str, n: int = 360) -> tuple[Any, Any, Any, Any]:
    """A table in which what matters depends on the domain (kind "alike": it does not), in parts."""
    rng = np.random.default_rng(3)
    domains = rng.choice(["city", "port", "rural"], n, p=[0.6, 0.25, 0.15])
    X = rng.normal(size=(n, 3))
    column = {"city": 0, "port": 0, "rural": 0 if kind == "alike" else 1}
    score = X[np.arange(n), [column[d] for d in domains]] * 2
    noise = rng.logistic(size=n)
    y: Any = (score + noise > 0).astype(int)
    if kind == "three":
        y = np.digitize(score + noise, [-1.0, 1.0])
    if kind == "numbers":
        y = score + noise
    owner = rng.integers(0, 4, n)
    owner[domains == "rural"] = rng.integers(2, 4, int(np.sum(domains == "rural")))
    return X, y, domains, [np.flatnonzero(owner == i) for i in range(4)]


def splits_of(X: Any, y: Any, domains: Any, parts: Any, folds: int, seed: int) -> Any:
    """The clients' folds as pairs of rows of the table (whose order their problems keep)."""
    held = np.zeros(len(y), dtype=int)
    for i, rows in enumerate(parts):
        loss = None if y.dtype.kind == "i" else ax.SquaredError()
        classes = np.unique(y) if loss is None else None
        problem = ax.LinearDomains(X[rows], y[rows], domains[rows], loss, classes=classes)
        held[rows] = FoldedRows(problem, number_of(str(i)), folds, seed).held_by
    return [(np.flatnonzero(held != f), np.flatnonzero(held == f)) for f in range(folds)]


FEW: dict[str, Any] = {"gammas": [1.0, 0.1, 0.01], "robustness": [0.5, 1.0]}


@pytest.mark.parametrize("kind", ["apart", "numbers", "three"])
@pytest.mark.parametrize(
    "options", [FEW, pytest.param({}, marks=pytest.mark.slow)], ids=["few", "all"]
)
def test_it_is_the_choice_of_the_estimator_on_the_same_folds(
    kind: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (federated, searching):  # so that fits differ by less than is compared
        monkeypatch.setattr(module, "ROUGH", 1e-10)
    X, y, domains, parts = rows_of(kind)
    if kind == "three":  # clients sort the rows by domain, so the table is in that order
        order = np.concatenate([rows[np.argsort(domains[rows], kind="stable")] for rows in parts])
        ends = np.cumsum([len(rows) for rows in parts])[:-1]
        X, y, domains = X[order], y[order], domains[order]
        parts = np.split(np.arange(len(y)), ends)
    loss = ax.SquaredError() if kind == "numbers" else None
    grid = LocalGrid(app_of(X, y, domains, parts, loss=loss), 4)
    with warnings.catch_warnings(action="ignore", category=NothingGained):
        found = federated_fit(grid, folds=2, price=np.inf, seed=7, tol=1e-8, **options)
        make = ax.AgnosticRegressorCV if kind == "numbers" else ax.AgnosticClassifierCV
        splits = splits_of(X, y, domains, parts, 2, 7)
        whole = make(cv=splits, price=np.inf, tol=1e-8, **options).fit(X, y, domains=domains)
    assert (found.robustness, found.gamma) == (whole.robustness_, whole.gamma_)
    assert found.robustness > 0
    for name, column in found.results.items():
        np.testing.assert_allclose(column, whole.cv_results_[name], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.solution.domain_losses, whole.domain_losses_, atol=1e-6)
    np.testing.assert_allclose(found.ordinary.w, whole.ordinary_.solution_.w, atol=1e-3)
    assert found.solution.certificate.gap <= 1e-8
    assert len(found.rounds) <= 60


@pytest.mark.parametrize("kind", ["apart", "numbers"])
def test_the_errors_are_those_of_the_rows(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of means, of paired differences, and of what a model has more than a constant guess."""
    for module in (federated, searching):
        monkeypatch.setattr(module, "ROUGH", 1e-10)
    X, y, domains, parts = rows_of(kind)
    loss = ax.SquaredError() if kind == "numbers" else ax.CrossEntropy()
    clients = Clients(LocalGrid(app_of(X, y, domains, parts, loss=loss), 4))
    candidates = searching.candidates_of([1.0], [1e3, 0.1], to_zero=True)
    ours: Any = federated._Search(FoldedClients(clients, 2, 7), None).run([0.1], candidates)
    rows = Rows.read(X, y, domains, loss)
    plan = searching.Plan(candidates, ordinary_gammas=[0.1])
    theirs = searching.search(rows, splits_of(X, y, domains, parts, 2, 7), plan).held_out
    held = ours.held_out
    assert held.squared == theirs.squared == (kind == "numbers")
    np.testing.assert_allclose(held.constant, np.asarray(theirs.constant), rtol=1e-6)
    np.testing.assert_allclose(held.spread, theirs.spread, rtol=1e-6)
    np.testing.assert_allclose(held.chances(), theirs.chances(), atol=2e-3)
    np.testing.assert_allclose(held.judged_at, theirs.judged_at, atol=2e-3)
    np.testing.assert_allclose(held.gain(1), theirs.gain(1), atol=2e-3)
    mixture = np.array([0.2, 0.3, 0.5])
    for c, other in ((0, None), (1, 0), (2, 1)):
        expected = theirs.error(c, mixture, other)
        assert held.error(c, mixture, other) == pytest.approx(expected, rel=1e-5)
    guess, errors = len(held.domain_losses), np.asarray(theirs.constant_errors)
    for c, k in ((0, 1), (2, 2)):
        error = held.error(c, np.eye(3)[k], guess)
        assert error == pytest.approx(errors[c, k], rel=1e-5)
    excess = held.domain_losses - held.constant
    doubtful = (excess > 0) & (excess[0] <= 0)
    assert doubtful.any()  # a model that says the same of all rows, for the worst mixture
    np.testing.assert_allclose(held.constant_errors, errors * doubtful, rtol=1e-5)


def test_a_client_of_one_row_that_not_every_fold_fits() -> None:
    X, y, domains, parts = rows_of("apart", 160)
    domains = domains.astype("<U6")
    domains[parts[0][:1]], parts = "island", [parts[0][1:], *parts[1:], parts[0][:1]]
    domains[parts[1][:9]] = "island"
    options: dict[str, Any] = {"gammas": [0.1], "robustness": [1.0], "tol": 1e-8}
    grid = LocalGrid(app_of(X, y, domains, parts), 5)
    with warnings.catch_warnings(action="ignore", category=NothingGained):
        found = federated_fit(grid, folds=2, **options)
        splits = splits_of(X, y, domains, parts, 2, 0)
        whole = ax.AgnosticClassifierCV(cv=splits, **options).fit(X, y, domains=domains)
    for name, column in found.results.items():
        np.testing.assert_allclose(column, whole.cv_results_[name], rtol=1e-7, err_msg=name)
    assert found.solution.client_keys == ("0", "1", "2", "3", "4")


def test_nothing_is_gained_where_domains_are_alike() -> None:
    X, y, domains, parts = rows_of("alike")
    grid = LocalGrid(app_of(X, y, domains, parts), 4)
    with pytest.warns(NothingGained, match="ordinary model is kept"):
        found = federated_fit(grid, gammas=[0.1, 0.01], robustness=[1.0], folds=2)
    assert found.is_ordinary
    assert found.solution.w.tolist() == found.ordinary.w.tolist()


def test_only_sums_leave_the_clients() -> None:
    """No message grows with the rows: twice the clients' rows, the same bytes."""
    sent = []
    for times in (1, 2):
        X, y, domains = (np.concatenate([a] * times) for a in rows_of("apart")[:3])
        owner = np.arange(len(y)) % 3
        grid = LocalGrid(app_of(X, y, domains, [np.flatnonzero(owner == i) for i in range(3)]), 3)
        found = federated_fit(grid, gammas=[0.1], robustness=[1.0], folds=2, price=np.inf)
        sent.append([r["received"] for r in found.rounds[:2]])
    assert sent[0] == sent[1]


def test_bad_input() -> None:
    X, y, domains, parts = rows_of("apart", 40)
    grid = LocalGrid(app_of(X, y, domains, parts), 4)
    with pytest.raises(InputError, match="folds is 1"):
        federated_fit(grid, folds=1)
    with pytest.raises(InputError, match="price is -1"):
        federated_fit(grid, price=-1)
    with pytest.raises(InputError, match=r"domain 'rural' .*not in all"):
        federated_fit(grid, folds=20)
