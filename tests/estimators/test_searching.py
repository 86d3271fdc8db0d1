"""The search: losses of all candidates on rows held out, against one fit after the other."""

import warnings
from typing import Any

import numpy as np
import pytest
from clark import expected_worst
from numpy.typing import NDArray
from regions import labels_data, numbers_data
from sklearn.model_selection import StratifiedKFold

import anymix as ax
from anymix.errors import InputError
from anymix.estimators import reading, searching
from anymix.estimators.fitting import OverfitWarning
from anymix.estimators.reading import read_classes, read_numbers
from anymix.estimators.searching import Candidate, Found, Plan, candidates_of, search
from anymix.problem.dealing import deal, sorted_rows
from anymix.problem.losses import regression_loss
from anymix.problem.rows import Rows
from anymix.selection.held_out import HeldOut
from anymix.selection.rule import choose
from anymix.solvers.paths import Path
from anymix.solvers.sqp import Waypoint

Array = NDArray[np.float64]
Folds = list[tuple[Any, Any]]


TIGHT = 1e-10


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits of the search to a gap that lets losses be compared to many digits.

    Losses follow w, and w is off by √gap: no proof adds digits that were not asked for.
    """
    monkeypatch.setattr(searching, "ROUGH", 1e-2 * TIGHT)


def rows_of(X: Any, y: Any, domains: Any, weight: Any = None) -> Rows:
    return read_classes(ax.AgnosticClassifier(), X, y, domains, weight)


def brute_force(
    X: Array, y: NDArray[Any], domains: NDArray[Any], folds: Folds, candidates: list[dict[str, Any]]
) -> Array:
    """Losses (candidates, rows) on the rows held out, one fit after the other; nan if never."""
    losses = np.full((len(candidates), len(y)), np.nan)
    for i, parameters in enumerate(candidates):
        for train, test in folds:
            with warnings.catch_warnings(action="ignore", category=OverfitWarning):
                model = ax.AgnosticClassifier(**parameters, tol=TIGHT)
                model.fit(X[train], y[train], domains=domains[train])
            P = model.predict_proba(X[test])
            losses[i, test] = -np.log(P[np.arange(len(test)), (y[test] == "yes").astype(int)])
    return losses


def by_domain(losses: Array, domains: NDArray[Any]) -> Array:
    return np.column_stack([losses[:, domains == k].mean(axis=1) for k in np.unique(domains)])


def unequal_folds(n: int) -> Folds:
    parts = np.split(np.random.default_rng(0).permutation(n), [60, 150, 300])
    return [(np.setdiff1d(np.arange(n), part), part) for part in parts]


def agnostic(
    gammas: Any, mus: Any = (0.0,), skewnesses: Any = (None,), **options: Any
) -> Plan:  # t = 1 and no anchor
    return Plan(candidates_of([1.0], gammas, mus, skewnesses), anchor=None, **options)


def assert_least_expected(held: HeldOut, losses: Array, domains: Any) -> None:
    """V is that of these losses of robust models, and at any price the least is taken."""
    V = expected_worst(losses, domains, held.losses[0])
    scale = np.ptp(losses) / np.sqrt(len(domains))
    np.testing.assert_allclose(held.expected[1:], V, atol=0.02 * scale)  # it is a mean of draws
    chosen = choose(held, np.inf)
    assert chosen > 0
    assert V[chosen - 1] <= V.min() + 0.02 * scale


# -- against brute force -------------------------------------------------------------------------


@pytest.mark.usefixtures("tight")
def test_agnostic_candidates_are_those_of_brute_force() -> None:
    X, y, domains = labels_data()
    folds = unequal_folds(len(y))
    candidates = [
        {"gamma": gamma, "mu": mu, "max_skewness": r}
        for r in (2.0, None)
        for mu in (0.1, 0.0)
        for gamma in (1.0, 0.1, 0.01)
    ]
    plan = agnostic([0.1, 0.01, 1.0], (0.0, 0.1), (None, 2.0))
    found = search(rows_of(X, y, domains), folds, plan)
    assert [c._asdict() for c in found.candidates[1:]] == [
        {"robustness": 1.0, "to_zero": False, **c} for c in candidates
    ]
    rows = brute_force(X, y, domains, folds, candidates)
    losses = by_domain(rows, domains)
    held = found.held_out
    np.testing.assert_allclose(held.domain_losses[1:], losses, atol=1e-5)
    np.testing.assert_allclose(held.value[1:], losses.max(axis=1), atol=1e-5)
    np.testing.assert_allclose(held.pooled[1:], losses @ [400 / 460, 60 / 460], atol=1e-5)
    assert_least_expected(held, rows, domains)


@pytest.mark.usefixtures("tight")
def test_anchored_candidates_are_those_of_brute_force() -> None:
    """Every fold has an anchor of its own: the ordinary model of the rows that it fits."""
    X, y, domains = labels_data()
    folds, rows = unequal_folds(len(y)), rows_of(*labels_data())
    gammas = (0.1, 0.01)
    plan = Plan(candidates_of([0.5, 1.0], [1.0, 0.1], to_zero=True), ordinary_gammas=gammas)
    found = search(rows, folds, plan)
    ordinary = brute_force(X, y, domains, folds, [{"gamma": g, "robustness": 0.0} for g in gammas])
    g0 = gammas[int(np.argmin(ordinary.mean(axis=1)))]
    assert found.candidates[0] == Candidate(0.0, g0)
    np.testing.assert_allclose(
        found.held_out.losses[0], ordinary[gammas.index(g0)], rtol=0, atol=1e-5
    )
    for c, (t, gamma, _, _, to_zero) in enumerate(found.candidates[1:], start=1):
        for train, test in folds:
            w0 = ax.AgnosticClassifier(gamma=g0, robustness=0.0, tol=TIGHT)
            w0.fit(X[train], y[train], domains=domains[train])
            options = {"gamma": gamma, "robustness": t, "anchor": None if to_zero else w0.coef_}
            peer = brute_force(X, y, domains, [(train, test)], [options])[0, test]
            np.testing.assert_allclose(found.held_out.losses[c, test], peer, rtol=0, atol=1e-5)


@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_a_regression_is_that_of_brute_force(loss: str) -> None:
    X, y, domains = numbers_data()
    folds = list(StratifiedKFold(4).split(X, domains))
    gammas = (1.0, 0.1, 0.01)
    rows = read_numbers(ax.AgnosticRegressor(), X, y, domains, None, True, regression_loss(loss))
    held = search(rows, folds, agnostic(gammas)).held_out
    losses = np.empty((3, len(y)))
    for i, gamma in enumerate(gammas):
        for train, test in folds:
            with warnings.catch_warnings(action="ignore", category=OverfitWarning):
                peer = ax.AgnosticRegressor(gamma=gamma, loss=loss, tol=TIGHT)
                peer.fit(X[train], y[train], domains=domains[train])
            r = np.abs(peer.predict(X[test]) - y[test])
            losses[i, test] = r**2 / 2 if loss == "squared" else np.where(r < 1, r**2 / 2, r - 0.5)
    worst = by_domain(losses, domains).max(axis=1)
    np.testing.assert_allclose(held.value[1:], worst, atol=1e-5)
    assert_least_expected(held, losses, domains)


@pytest.mark.usefixtures("tight")
def test_the_target_set_judges_not_the_worst_domain_alone() -> None:
    X, y, domains = labels_data()
    folds = list(StratifiedKFold(4).split(X, domains))
    target = ax.Point([0.9, 0.1])
    plan = agnostic([1.0, 0.01], objective=ax.Objective(target))
    held = search(rows_of(X, y, domains), folds, plan).held_out
    candidates = [{"gamma": g, "mixtures": target} for g in (1.0, 0.01)]
    losses = by_domain(brute_force(X, y, domains, folds, candidates), domains)
    np.testing.assert_allclose(held.value[1:], losses @ [0.9, 0.1], atol=1e-5)


@pytest.mark.usefixtures("tight")
def test_regret_is_judged_by_the_best_alone() -> None:
    X, y, domains = labels_data()
    folds = list(StratifiedKFold(4).split(X, domains))
    gammas = (1.0, 0.1, 0.01)
    plan = agnostic(gammas, baseline="regret")
    held = search(rows_of(X, y, domains), [*folds, *folds], plan).held_out  # the same twice
    candidates: list[dict[str, Any]] = [{"gamma": g, "baseline": "regret"} for g in gammas]
    losses = by_domain(brute_force(X, y, domains, folds, candidates), domains)
    alone = [
        by_domain(
            brute_force(
                X, y, domains, folds, [{"gamma": g, "mixtures": ax.Point(v)} for g in gammas]
            ),
            domains,
        )
        for v in np.eye(2)
    ]
    baseline = np.array([alone[k][:, k].min() for k in range(2)])
    np.testing.assert_allclose(held.offsets, baseline, atol=1e-5)
    np.testing.assert_allclose(held.value[1:], (losses - baseline).max(axis=1), atol=1e-5)


@pytest.mark.usefixtures("tight")
def test_given_baseline_shifts_the_judgement() -> None:
    rows = rows_of(*labels_data())
    folds, even = list(deal(sorted_rows(rows), 5)), ax.Objective(ax.Point([0.5, 0.5]))
    plain, shifted = (
        search(rows, folds, agnostic([1.0, 0.1], objective=even, baseline=b))
        for b in (None, [0.1, 0.3])
    )
    np.testing.assert_allclose(shifted.held_out.value, plain.held_out.value - 0.2, atol=1e-5)


@pytest.mark.usefixtures("tight")
def test_one_domain_has_the_ordinary_model_and_its_own_regret() -> None:
    """The only model is compared with itself: the best of one domain is the ordinary one."""
    X, y, _ = labels_data()
    rows = rows_of(X, y, None)
    folds = list(deal(sorted_rows(rows), 3))
    found = search(rows, folds, Plan([], baseline="regret"))
    assert len(found.candidates) == len(found.held_out.losses) == 1
    assert found.held_out.value[0] == pytest.approx(0.0, abs=1e-5)
    with pytest.raises(InputError, match="baseline is 'best'"):
        search(rows, folds, Plan([], baseline="best"))


# -- weights and rows never held out ----------------------------------------------------


@pytest.mark.usefixtures("tight")
def test_a_row_held_out_twice_has_the_mean_of_both_losses() -> None:
    rows = rows_of(*labels_data())
    deals = [
        list(deal(sorted_rows(rows, None if i == 0 else np.random.default_rng(i)), 3))
        for i in range(2)
    ]
    plan = Plan(candidates_of([1.0], [0.1]), anchor=None, ordinary_gammas=[0.1])
    one, other, both = (search(rows, folds, plan) for folds in (*deals, [*deals[0], *deals[1]]))
    mean = (one.held_out.losses + other.held_out.losses) / 2
    assert np.abs(one.held_out.losses - other.held_out.losses).max() > 0.01
    np.testing.assert_allclose(both.held_out.losses, mean, rtol=0, atol=1e-5)


@pytest.mark.usefixtures("tight")
def test_only_rows_held_out_count() -> None:
    X, y, domains = labels_data()
    folds = [(np.arange(200, 460), np.arange(0, 150))]
    held = search(rows_of(X, y, domains), folds, agnostic([0.1])).held_out
    assert held.losses.shape == (2, 150)
    peer = brute_force(X, y, domains, folds, [{"gamma": 0.1}])[:, :150]
    np.testing.assert_allclose(held.domain_losses[1:], by_domain(peer, domains[:150]), atol=1e-5)
    np.testing.assert_allclose(held.reference, [400 / 460, 60 / 460])  # m̄ is that of all rows


@pytest.mark.usefixtures("tight")
def test_integer_weights_are_repetitions() -> None:
    """Equal models and means; standard errors differ, for copies of a row tell nothing new."""
    X, y, domains = labels_data(n_large=150)
    weight = np.random.default_rng(0).integers(0, 3, size=len(y))
    copies = np.repeat(np.arange(len(y)), weight)
    turn = np.arange(len(y)) % 3
    plan = agnostic([0.1, 0.01])

    def found(index: Any, w: Any) -> Found:
        folds = [
            (np.flatnonzero(turn[index] != k), np.flatnonzero(turn[index] == k)) for k in range(3)
        ]
        return search(rows_of(X[index], y[index], domains[index], w), folds, plan)

    weighted, repeated = found(np.arange(len(y)), weight), found(copies, None)
    assert weighted.candidates == repeated.candidates
    for name in ("domain_losses", "value", "pooled"):
        one, other = getattr(weighted.held_out, name), getattr(repeated.held_out, name)
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


# -- paths and folds -----------------------------------------------------------------------------


def test_candidates_go_from_tame_to_bold() -> None:
    found = candidates_of([1.0, 0.5], [0.1, 1.0], [0.0, 0.3], [None, 3.0, 2.0])
    assert found == [
        Candidate(t, gamma, mu, r)
        for t in (0.5, 1.0)
        for r in (2.0, 3.0, None)
        for mu in (0.3, 0.0)
        for gamma in (1.0, 0.1)
    ]
    short = [Candidate(0.5, 1.0), Candidate(0.7, 1.0), Candidate(0.7, 1.0, to_zero=True)]
    assert candidates_of([0.7, 0.5], [1.0], to_zero=True) == short
    assert candidates_of([], [1.0], to_zero=True) == []


def test_each_fit_starts_at_its_predecessor_or_at_the_ordinary_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starts: list[tuple[float, Any]] = []
    found: list[Waypoint] = []

    class Watched(Path):
        def model(self, objective: ax.Objective, start: Waypoint | None = None) -> Waypoint:
            found.append(super().model(objective, start))
            starts.append((objective.gamma, start))
            return found[-1]

    monkeypatch.setattr(searching, "Path", Watched)
    rows = rows_of(*labels_data())
    plan = Plan(candidates_of([0.5, 1.0], [1.0, 0.1, 0.01]), ordinary_gammas=[0.1])
    search(rows, deal(sorted_rows(rows), 2), plan)
    assert [gamma for gamma, _ in starts] == [1.0, 0.1, 0.01] * 4
    for i, (gamma, start) in enumerate(starts):
        assert start is not None
        assert (start is found[i - 1]) == (gamma < 1.0)
    assert starts[0][1] is starts[3][1] is not starts[6][1]  # the ordinary model of each fold


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_folds_share_out_every_domain_and_class(overlap: bool, seed: int) -> None:
    X, y, domains = labels_data(n_small=23)
    X = np.column_stack([np.arange(len(y)), X])
    table = np.column_stack([domains == "city", domains == "rural", overlap & (X[:, 1] > 0)])
    rows = rows_of(X, y, table if overlap else domains)
    seen: list[int] = []
    for parts in reading.folds(rows, 5, seed):
        train, test = (rows.to_fit(part) for part in parts)
        ids = test.X[:, 0].astype(int)
        assert sorted([*ids, *train.X[:, 0].astype(int)]) == list(range(len(y)))
        seen += ids.tolist()
        for k in ("city", "rural"):
            for c in ("no", "yes"):
                cell = (domains == k) & (y == c)
                assert abs(cell[ids].sum() - cell.sum() / 5) <= (2 if overlap else 1)
    assert sorted(seen) == list(range(len(y)))


def test_a_class_that_a_fold_lacks_is_named() -> None:
    X, y, domains = labels_data(n_small=20)
    once = np.where(np.arange(len(y)) == 7, "once", y)
    rows = rows_of(X, once, domains)
    with pytest.raises(ValueError, match=r"class .*'once' .*training part"):
        search(rows, deal(sorted_rows(rows), 5), agnostic([0.1]))
