"""What is minimised: made once, checked once, and the same however it is said."""

from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest

import anymix as ax
from anymix.errors import InputError
from anymix.mixtures import NoPenalty

P = 3


@pytest.fixture(scope="module")
def problem() -> ax.LinearDomains:
    rng = np.random.default_rng(0)
    X, k = rng.normal(size=(90, 2)), np.repeat(["a", "b", "c"], [60, 20, 10])
    return ax.LinearDomains(X, X[:, 0] * (k == "a") + rng.normal(size=90) > 0, k)


PARTS: list[dict[str, Any]] = [
    {},
    {"gamma": 0.1, "mu": 0.2},
    {"norm": "plain", "gamma": 0.01},
    {"prior": ax.DirichletPrior([2.0, 1.0, 3.0])},
    {"prior": ax.DirichletPrior([2.0, 1.0, 3.0]), "multiplicative": True},
    {"offsets": [0.1, 0.0, -0.2], "anchor": [1.0, -1.0, 0.0]},
    {"robustness": 0.4},
]


@pytest.mark.parametrize("parts", PARTS, ids=lambda parts: ",".join(parts) or "none")
def test_said_as_one_value_or_by_name(problem: ax.LinearDomains, parts: dict[str, Any]) -> None:
    objective = ax.Objective("cvar:0.5", **parts)
    one, other = ax.solve(problem, objective), ax.solve(problem, "cvar:0.5", **parts)
    np.testing.assert_array_equal(one.w, other.w)
    proofs = [
        ax.certify(problem, objective, one.w, one.mixture),
        ax.certify(problem, "cvar:0.5", one.w, one.mixture, **parts),
    ]
    assert proofs[0] == proofs[1]
    assert proofs[0].gap <= 1e-6


def test_robustness_draws_the_set_to_the_mixture_of_the_data(problem: ax.LinearDomains) -> None:
    box = ax.Box([0.1] * 3, [0.6] * 3)
    by_part = ax.solve(problem, box, robustness=0.4)
    by_set = ax.solve(problem, box.shrunk(0.4, problem.reference))
    np.testing.assert_array_equal(by_part.w, by_set.w)


def test_a_function_of_the_sizes(problem: ax.LinearDomains) -> None:
    made = ax.Objective(lambda sizes: ax.Chi2Ball(sizes, 1.5)).on(problem)
    assert made.mixtures.skewness(problem.sizes) == pytest.approx(1.5)


def test_stochastic_steps_have_no_regulariser_unless_it_is_asked_for(
    problem: ax.LinearDomains,
) -> None:
    steps: dict[str, Any] = {"step_w": 0.1, "step_mixture": 0.1, "every": 20}
    ways = [
        ax.stochastic_afl(problem, **steps),
        ax.stochastic_afl(problem, ax.Objective(gamma=0.0), **steps),
        ax.stochastic_afl(problem, ax.Objective(), **steps),
        ax.stochastic_afl(problem, gamma=1e-3, **steps),
    ]
    w = [next(way).w for way in ways]
    np.testing.assert_array_equal(w[0], w[1])
    np.testing.assert_array_equal(w[2], w[3])
    assert not np.array_equal(w[0], w[2])


def test_stochastic_steps_are_pulled_to_an_anchor(problem: ax.LinearDomains) -> None:
    anchor = np.array([2.0, -1.0, 0.0])
    steps: dict[str, Any] = {"step_w": 0.3, "step_mixture": 0.0, "every": 3000}
    steps["sampler"] = ax.samplers.FullBatch()
    objective = ax.Objective(gamma=2.0, anchor=anchor)
    run = next(ax.stochastic_afl(problem, objective, **steps))
    even = replace(objective, mixtures=ax.Point([1 / 3] * 3))
    np.testing.assert_allclose(run.w, ax.solve(problem, even, tol=1e-10).w, atol=1e-4)
    with pytest.raises(InputError) as caught:
        ax.stochastic_afl(problem, objective, compiled=True, **steps | {"sampler": None})
    assert caught.value.argument == "compiled"


def test_it_cannot_be_changed() -> None:
    offsets = np.zeros(3)
    objective = ax.Objective(offsets=offsets)
    offsets[0] = 5.0
    assert np.asarray(objective.offsets).tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(FrozenInstanceError):
        objective.gamma = 1.0  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        objective.offsets[0] = 1.0  # type: ignore[index]


def test_its_repr_has_what_is_not_usual() -> None:
    assert repr(ax.Objective()) == "Objective()"
    assert repr(ax.Objective(ax.Simplex(2), 0.1)) == (
        "Objective(mixtures=Simplex(n_domains=2), gamma=0.1)"
    )


def test_what_the_mixture_pays() -> None:
    prior = ax.DirichletPrior([2.0, 2.0])
    assert isinstance(ax.Objective().penalty([1, 2]), NoPenalty)
    assert ax.Objective(prior=prior).penalty([1, 2]) is prior
    assert repr(ax.Objective(mu=0.5).penalty([1, 3])) == repr(ax.Chi2Penalty(0.5, [1, 3]))


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("mixtures", 3),
        ("mixtures", [0.5, 0.5]),
        ("gamma", -1.0),
        ("gamma", None),
        ("gamma", np.nan),
        ("gamma", np.inf),
        ("gamma", "much"),
        ("mu", -0.5),
        ("mu", "much"),
        ("mu", np.nan),
        ("norm", "l1"),
        ("prior", "flat"),
        ("offsets", [0.0, np.nan, 1.0]),
        ("offsets", "best"),
        ("offsets", 1.0),
        ("anchor", [[1.0], [1.0, 2.0]]),
        ("anchor", "ordinary"),
        ("anchor", [0.0, np.nan]),
        ("robustness", 1.5),
        ("robustness", np.nan),
        ("robustness", -0.1),
        ("robustness", "half"),
        ("robustness", True),
        ("w_radius", 0.0),
        ("w_radius", -1.0),
        ("w_radius", np.nan),
        ("w_radius", "wide"),
        ("w_radius", np.inf),
    ],
)
def test_its_form_is_checked_when_it_is_made(argument: str, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        ax.Objective(**{argument: value})
    assert caught.value.argument == argument


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("mixtures", ax.Simplex(4)),
        ("mixtures", "chi2:0.5"),
        ("mixtures", "some"),
        ("mixtures", lambda sizes: 1.0),
        ("offsets", [0.0, 1.0]),
        ("anchor", [0.0, 1.0]),
    ],
)
def test_its_sizes_are_checked_against_a_problem(
    problem: ax.LinearDomains, argument: str, value: Any
) -> None:
    with pytest.raises(InputError) as caught:
        ax.solve(problem, ax.Objective(**{argument: value}))
    assert caught.value.argument == argument


def test_a_penalty_beside_a_prior_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        ax.Objective(mu=0.1, prior=ax.DirichletPrior([2.0, 2.0]))
    assert caught.value.argument == "mu"


def test_an_objective_and_a_loose_keyword_are_refused(problem: ax.LinearDomains) -> None:
    given, w, lam = ax.Objective(ax.Simplex(3)), np.zeros(3), np.ones(3) / 3
    ways: list[Any] = [
        lambda **parts: ax.solve(problem, given, **parts),
        lambda **parts: ax.certify(problem, given, w, lam, **parts),
        lambda **parts: ax.pareto_front(problem, given, **parts),
        lambda **parts: ax.stochastic_afl(problem, given, step_w=1, step_mixture=1, **parts),
        lambda **parts: ax.optimistic_afl(problem, given, step_w=1, step_mixture=1, **parts),
        lambda **parts: ax.bounds.constants(problem, given, **parts),
        lambda **parts: ax.bounds.advise_sampler(problem, mixtures=given, **parts),
    ]
    for way in ways:
        with pytest.raises(InputError) as caught:
            way(gamma=1e-3)
        assert caught.value.argument == "gamma"
    with pytest.raises(TypeError, match="gama"):
        ax.solve(problem, gama=1e-3)  # type: ignore[call-arg]


def test_the_exact_solver_takes_no_ball(problem: ax.LinearDomains) -> None:
    with pytest.raises(InputError) as caught:
        ax.solve(problem, w_radius=1.0)
    assert caught.value.argument == "w_radius"


def test_a_bound_needs_a_ball_and_knows_no_prior(problem: ax.LinearDomains) -> None:
    prior = ax.DirichletPrior([2.0, 2.0, 2.0])
    refused = {"w_radius": ax.Objective(), "prior": ax.Objective(prior=prior, w_radius=1.0)}
    for argument, objective in refused.items():
        with pytest.raises(InputError) as caught:
            ax.bounds.constants(problem, objective)
        assert caught.value.argument == argument
    loose = ax.bounds.constants(problem, ax.Simplex(3), w_radius=2.0)
    assert loose == ax.bounds.constants(problem, ax.Objective(gamma=0.0, w_radius=2.0))
