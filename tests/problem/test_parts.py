"""Rows in parts are the same problem as all rows at one place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize

import anymix as ax
from anymix.problem.balance import balanced, bend
from anymix.problem.duals import conjugates
from anymix.problem.part_sums import ABOUT, LOOK, PROOF, Question, answer
from anymix.problem.parts import Parts
from anymix.solvers import sqp
from anymix.solvers.certificates import newton_step

Array = NDArray[np.float64]

LOSSES: dict[str, Any] = {
    "binary": ax.CrossEntropy(),
    "three": ax.CrossEntropy(),
    "squared": ax.SquaredError(),
    "huber": ax.Huber(0.5),
}


def table(name: str, n: int = 60, d: int = 3, p: int = 3, seed: int = 5) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    X, domains = rng.normal(size=(n, d)), rng.integers(p, size=n)
    domains[:p] = np.arange(p)
    y: Any = X[:, 0] * (1 + 0.5 * domains) + rng.logistic(size=n)
    if name == "binary":
        y = np.where(y > 0, "yes", "no")
        y[:2] = ["yes", "no"]
    elif name == "three":
        y = np.digitize(y, [-1.0, 1.0])
        y[:3] = [0, 1, 2]
    return X, y, np.array(["c", "a", "b"])[domains]


def cut(name: str, owner: Any, rows: tuple[Any, Any, Any], **options: Any) -> list[Any]:
    """Row i is in part owner[i]; parts without rows are none."""
    X, y, domains = rows
    if name in ("binary", "three"):
        options["classes"] = np.unique(y)
    return [
        ax.LinearDomains(X[mine], y[mine], domains[mine], LOSSES[name], **options)
        for i in np.unique(owner)
        for mine in [np.flatnonzero(owner == i)]
    ]


@given(st.sampled_from(sorted(LOSSES)), st.integers(0, 2**32 - 1))
def test_any_parts_give_the_numbers_of_all_rows(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, intercept = table(name, n=12, seed=seed % 7), bool(rng.integers(2))
    if rng.integers(2):
        rows = sparse.csr_array(rows[0]), *rows[1:]
    owner = rng.integers(int(rng.integers(1, 6)), size=12)
    whole = ax.LinearDomains(*rows, LOSSES[name], intercept=intercept)
    parts = Parts.of(cut(name, owner, rows, intercept=intercept))
    w = rng.normal(size=whole.n_parameters)
    lam, other = rng.dirichlet(np.ones(3)), np.array([1.0, 0.0, 0.0])
    here, there = whole.at(w), parts.look(w, lam)
    close: dict[str, Any] = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(there.losses, here.losses, **close)
    np.testing.assert_allclose(there.jacobian(), here.jacobian(), **close)
    np.testing.assert_allclose(there.gradient(other), here.gradient(other), **close)
    for mixture in (lam, other):
        hessian, v = here.hessian(mixture), rng.normal(size=len(w))
        np.testing.assert_allclose(there.hessian(mixture), hessian, **close)
        np.testing.assert_allclose(there.hessian_diagonal(mixture), np.diag(hessian), **close)
        np.testing.assert_allclose(there.hessian_vector(mixture, v), hessian @ v, **close)
    np.testing.assert_array_equal(parts.penalized, whole.penalized)
    np.testing.assert_allclose(parts.sizes, whole.sizes)
    assert (parts.n_scores, parts.n_domains) == (whole.n_scores, whole.n_domains)
    assert parts.loss_scale == pytest.approx(whole.loss_scale, rel=1e-12)


def lower(problem: Any, w: Array, lam: Array, step: Array) -> float:
    objective = ax.Objective(gamma=0.1).on(problem)
    return objective.lower(problem.at(w), lam, step)


@given(st.sampled_from(sorted(LOSSES)), st.integers(0, 2**32 - 1))
def test_any_parts_prove_the_same_bound(name: str, seed: int) -> None:
    """From any small step: also from one that does not balance the intercepts."""
    rng = np.random.default_rng(seed)
    rows = table(name, n=12)
    whole = ax.LinearDomains(*rows, LOSSES[name])
    parts = Parts.of(cut(name, rng.integers(4, size=12), rows))
    w, lam = 0.1 * rng.normal(size=whole.n_parameters), rng.dirichlet(np.ones(3))
    step, scale = 0.01 * rng.normal(size=len(w)), float(rng.choice([1.0, 0.7]))
    value, v, _ = parts.at(w).dual(lam, step, scale)
    for u in rng.normal(size=(5, len(w))):
        assert lam @ whole.losses(u) >= value + v @ u - 1e-11
    here = whole.at(w)
    c = here.weights(lam)
    alpha = balanced(here.slope + bend(here.curvature, whole.scores(step)), c, here.curvature)
    assert alpha is not None
    if np.isfinite(
        conjugates(whole, c, alpha)[0]
    ):  # else rows try another α, and parts cut this one
        expected = here.dual(lam, step, scale)
        assert value == pytest.approx(expected[0], rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(v, expected[1], rtol=1e-12, atol=1e-12)
        assert lower(parts, w, lam, step) == pytest.approx(lower(whole, w, lam, step), abs=1e-11)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("n_parts", [1, 2, 7])
def test_the_solution_over_parts_is_that_over_rows(name: str, n_parts: int) -> None:
    rows = table(name)
    whole = ax.LinearDomains(*rows, LOSSES[name])
    parts = Parts.of(cut(name, np.arange(60) % n_parts, rows))
    central, found = (ax.solve(problem, gamma=1e-2, tol=1e-12) for problem in (whole, parts))
    assert found.converged
    assert found.objective == pytest.approx(central.objective, abs=1e-10)
    np.testing.assert_allclose(found.w, central.w, atol=1e-6)
    np.testing.assert_allclose(found.domain_losses, whole.losses(found.w), rtol=1e-12)
    proof = ax.certify(parts, None, found.w, found.mixture, gamma=1e-2)
    assert proof.gap <= 1e-10


@pytest.mark.parametrize("name", LOSSES)
def test_wide_problems_are_solved_to_the_same_optimum(name: str) -> None:
    rows = table(name)
    whole = ax.LinearDomains(*rows, LOSSES[name])
    parts = Parts.of(cut(name, np.arange(60) % 3, rows), dense_up_to=0)
    central, found = (ax.solve(problem, gamma=1e-2, tol=1e-8) for problem in (whole, parts))
    assert found.converged
    assert found.objective == pytest.approx(central.objective, abs=2e-8)


class Heard:
    """Parts that keep the questions of every round."""

    def __init__(self, parts: Sequence[ax.LinearDomains], **options: Any) -> None:
        self.rounds: list[Sequence[Question]] = []
        whole = Parts.of(parts)

        def ask(questions: Sequence[Question]) -> list[Any]:
            self.rounds.append(questions)
            return [answer(part, q) for part, q in zip(parts, questions, strict=True)]

        self.parts = Parts(ask, whole.places, whole.sizes, whole.n_parameters, **options)

    @property
    def wanted(self) -> list[tuple[str, ...]]:
        return [questions[0].want for questions in self.rounds]


def test_narrow_problems_send_the_curvature_along_and_wide_ones_do_not() -> None:
    rows = table("binary")
    pieces = cut("binary", np.arange(60) % 3, rows)
    lam = np.array([0.2, 0.3, 0.5])
    narrow = Heard(pieces, center=lam, dense_up_to=4)
    narrow.parts.at(np.zeros(4)).hessian(lam)
    narrow.parts.at(np.zeros(4)).moved(np.ones(4), 1.0, lam).hessian(lam)
    assert narrow.wanted == [(*LOOK, "curvature", *ABOUT), (*LOOK, "curvature")]
    wide = Heard(pieces, center=lam, dense_up_to=3)
    look = wide.parts.at(np.zeros(4)).moved(np.ones(4), 1.0, lam)
    look.jacobian(), look.hessian_diagonal(lam), look.dual(lam, 0.01 * np.ones(4))
    assert wide.wanted[:3] == [LOOK + ABOUT, LOOK, ("diagonal",)]
    assert set(wide.wanted[3:]) == {PROOF}
    numbers = [np.prod(s) for q in wide.rounds for s in q[0].shapes.values()]
    assert max(numbers) <= 3 * 4  # the Jacobian is the largest thing sent
    np.testing.assert_allclose(
        look.hessian(lam), ax.LinearDomains(*rows).hessian(look.w, lam), atol=1e-13
    )


@pytest.mark.parametrize("norm", ["squared", "plain"])
def test_wide_problems_are_certified_without_a_hessian(norm: str) -> None:
    rows = table("binary", n=120, d=1000)
    heard = Heard(cut("binary", np.arange(120) % 3, rows), dense_up_to=200)
    found = ax.solve(heard.parts, gamma=1e-2, norm=norm, tol=1e-6)
    assert found.converged
    assert found.certificate.gap <= 1e-6
    whole = ax.solve(ax.LinearDomains(*rows), gamma=1e-2, norm=norm, tol=1e-6)
    assert abs(found.objective - whole.objective) <= 2e-6
    proof = ax.certify(heard.parts, None, found.w, found.mixture, gamma=1e-2, norm=norm)
    assert 0 <= proof.gap <= 1e-5
    assert not any("curvature" in want for want in heard.wanted)


def test_wide_problems_far_away_never_turn_to_a_hessian(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqp, "PATIENCE", 1)
    heard = Heard(cut("three", np.arange(60) % 3, table("three")), dense_up_to=3)
    assert ax.solve(heard.parts, gamma=1e-2, tol=1e-7).converged
    assert not any("curvature" in want for want in heard.wanted)


def test_a_solution_is_proved_without_a_round_and_a_newton_step_in_one() -> None:
    rows = table("three")
    heard = Heard(cut("three", np.arange(60) % 3, rows))
    solution = ax.solve(heard.parts, gamma=1e-2, tol=1e-10)
    assert solution.converged
    assert heard.wanted.count(PROOF) == 0  # the last answers prove it
    objective = ax.Objective(gamma=1e-2).on(heard.parts)
    here = heard.parts.at(solution.w)
    here.dual(solution.mixture, newton_step(objective, here, solution.mixture))
    assert heard.wanted.count(PROOF) == 1


def test_a_part_without_weight_leaves_out_what_is_weighted() -> None:
    rows = ax.LinearDomains(*table("binary"))
    step, want = np.ones(4), (*LOOK, "curvature", "diagonal", "product", *PROOF)
    for weights, names in ((np.ones(3), set(want)), (np.zeros(3), set(LOOK))):
        question = Question(np.zeros(4), weights, want, step, n_free=1)
        found = answer(rows, question)
        assert set(found) == names
        assert {name: a.shape for name, a in found.items()} == question.shapes


def test_a_question_survives_its_journey() -> None:
    question = Question(np.ones(4), np.array([0.1, 0.2]), PROOF, np.zeros(4), 0.7, 1)
    arrays, rest = question.to_arrays()
    again = Question.of_arrays(arrays, json.loads(json.dumps(rest)))
    for name, value in vars(question).items():
        np.testing.assert_array_equal(getattr(again, name), value)


def test_domains_that_a_part_does_not_have() -> None:
    X, y, domains = table("binary")
    whole = ax.LinearDomains(X, y, domains)
    owner = np.unique(domains, return_inverse=True)[1]  # a part is a domain
    parts = Parts.of(cut("binary", owner, (X, y, domains)))
    assert [place.tolist() for place in parts.places] == [[0], [1], [2]]
    w = np.array([0.3, -0.1, 0.2, 0.5])
    np.testing.assert_allclose(parts.at(w).losses, whole.losses(w), rtol=1e-13)
    alone = ax.solve(parts, ax.Point([0.0, 1.0, 0.0]), tol=1e-9)
    central = ax.solve(whole, ax.Point([0.0, 1.0, 0.0]), tol=1e-9)
    assert alone.objective == pytest.approx(central.objective, abs=2e-9)


def test_mistakes_are_named() -> None:
    pieces = cut("binary", np.arange(60) % 3, table("binary"))
    with pytest.raises(ValueError, match="give 4 finite numbers"):
        Parts.of(pieces).at(np.zeros(3))
    with pytest.raises(ValueError, match=r"question .*\('slope',\) .*without"):
        answer(pieces[0], Question(np.zeros(4), np.ones(3), ("slope",)))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("off", [0.0, 1e-6, 1e-3, -1e-3, 0.05, -0.05, 0.5, -0.5])
def test_the_tangent_proves_its_bound_without_a_question(name: str, off: float) -> None:
    """Also where the intercepts are off: what is left of v there is paid for.

    The bound is tried where it is nearest to the truth, at the minimum of Σ λ_k L_k(u) − ⟨v, u⟩.
    """
    rng = np.random.default_rng(1)
    rows = table(name, n=40)
    whole = ax.LinearDomains(*rows, LOSSES[name])
    parts = Parts.of(cut(name, rng.integers(4, size=40), rows))
    lam, free = rng.dirichlet(np.ones(3)), ~parts.penalized
    w = ax.solve(whole, ax.Point(lam), gamma=0.1, tol=1e-12).w
    w = w + 1.0 * free  # an intercept that is not 0 makes the sign of what is left matter
    if name != "three":

        def along(b: Array) -> float:
            return float(lam @ whole.losses(w + b * free))

        best = minimize(along, np.zeros(1), tol=1e-14).x
        w = w + (best + off) * free
    else:
        w = w + off * free * np.array([1.0, -1.0, 0.5]).repeat(4)
    here = parts.look(w, lam)

    def silent(questions: Any) -> Any:
        raise AssertionError("a question was asked")

    parts._ask = silent
    value, v, error = here.dual(lam)
    small = abs(off) <= 0.05 and name != "huber"  # there the rows have the room for it
    if small:
        assert np.all(v[free] == 0)
        assert np.all(error[free] == 0)

    def above(u: Array) -> float:
        return float(lam @ whole.losses(u)) - float(v @ u)

    def slope(u: Array) -> Array:
        return whole.gradient(u, lam) - v

    found = minimize(above, w, jac=slope, method="BFGS", options={"gtol": 1e-9})
    assert found.fun >= value - 1e-12
    if small:
        assert found.fun - value <= 1e-11 + off**2  # to second order


def test_a_proof_near_the_optimum_costs_no_question() -> None:
    rows = table("binary", n=300)
    whole = Parts.of(cut("binary", np.arange(300) % 3, rows))
    counted: list[str] = []
    ask = whole._ask

    def counting(questions: Any) -> Any:
        counted.append(",".join(questions[0].want))
        return ask(questions)

    whole._ask = counting
    found = ax.solve(whole, gamma=0.1, tol=1e-6)
    assert found.certificate.gap <= 1e-6
    assert not any("conjugate" in want for want in counted)
