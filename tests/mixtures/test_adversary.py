"""Where λ goes: trajectories by hand, the laws of both geometries, averages, and restarts."""

from __future__ import annotations

import io
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.mixtures import (
    Adversary,
    Box,
    Chi2Ball,
    Chi2Penalty,
    DirichletPrior,
    Hull,
    MixtureSet,
    Point,
    Simplex,
    TVBall,
    Vertices,
)

Array = NDArray[np.float64]
Kind = Literal["euclidean", "entropic"]
KINDS: list[Kind] = ["euclidean", "entropic"]
seeds = st.integers(0, 2**32 - 1)


def random_set(rng: np.random.Generator, p: int, kind: Kind) -> MixtureSet:
    middle = rng.dirichlet(np.ones(p))
    lower = rng.random(p) * rng.integers(0, 2, p) / (2 * p)
    upper = np.minimum(1, lower + rng.random(p) * 4 / p)
    upper[0] = 1
    exact = [Simplex(p), Vertices(p), Point(middle), Box(lower, upper), TVBall(middle, 0.2)]
    others = [Hull(rng.dirichlet(np.ones(p), size=4)), Chi2Ball(1 + rng.random(p), 1.1)]
    choice = exact if kind == "entropic" else [*exact, *others]
    return choice[rng.integers(len(choice))]


# Trajectories by hand.


def test_two_domains_by_hand() -> None:
    adversary = Adversary(Simplex(2), 0.5, start=[0.5, 0.5])
    trajectory = []
    for gradient in ([1.0, 0.0], [1.0, 0.5], [0.0, 3.0]):
        adversary.step(gradient)
        trajectory.append(adversary.mixture)
    # (1, .5) − .25 each; (1.25, .5) − .375; (.875, 1.625) − .75
    np.testing.assert_allclose(trajectory, [[0.75, 0.25], [0.875, 0.125], [0.125, 0.875]])
    np.testing.assert_allclose(adversary.average, [1.75 / 3, 1.25 / 3])


def test_three_domains_by_hand_until_one_leaves() -> None:
    adversary = Adversary(Simplex(3), 1.0)
    adversary.step([0.3, 0.0, -0.3])
    np.testing.assert_allclose(adversary.mixture, [19 / 30, 10 / 30, 1 / 30])
    adversary.step([0.3, 0.0, -0.3])  # (28, 10, −8)/30: the third leaves, the others lose 4/30
    np.testing.assert_allclose(adversary.mixture, [24 / 30, 6 / 30, 0], atol=1e-16)


def test_optimistic_by_hand() -> None:
    adversary = Adversary(Simplex(2), 0.1, optimistic=True)
    adversary.step([1.0, 0.0])  # δ⁰ = δ¹: a plain step
    np.testing.assert_allclose(adversary.mixture, [0.55, 0.45])
    adversary.step([0.0, 2.0])  # 2(0, 2) − (1, 0) = (−1, 4)
    np.testing.assert_allclose(adversary.mixture, [0.3, 0.7])
    adversary.step([0.0, 0.0])  # −(0, 2)
    np.testing.assert_allclose(adversary.mixture, [0.4, 0.6])


def test_penalty_by_hand() -> None:
    adversary = Adversary(Simplex(2), 0.1, penalty=Chi2Penalty(0.5, [1, 1]), start=[0.75, 0.25])
    adversary.step([0.0, 0.0])  # −2μ(λ/m̄ − 1) = (−½, ½)
    np.testing.assert_allclose(adversary.mixture, [0.7, 0.3])
    adversary = Adversary(
        Simplex(2), 0.1, penalty=Chi2Penalty(0.5, [1, 1]), start=[0.75, 0.25], optimistic=True
    )
    adversary.step([0.0, 0.0])
    adversary.step([0.0, 0.0])  # 2(−0.4, 0.4) − (−0.5, 0.5): the penalty is part of δ
    np.testing.assert_allclose(adversary.mixture, [0.67, 0.33])


def test_a_size_given_to_a_step_replaces_the_default_once() -> None:
    adversary = Adversary(Simplex(2), 0.1)
    adversary.step([1.0, 0.0], size=0.2)
    np.testing.assert_allclose(adversary.mixture, [0.6, 0.4])
    adversary.step([1.0, 0.0])
    np.testing.assert_allclose(adversary.mixture, [0.65, 0.35])


# Laws.


@given(seeds, st.sampled_from([1, 2, 3, 10, 200]), st.sampled_from(KINDS), st.booleans())
def test_the_mixture_and_its_average_never_leave_the_set(
    seed: int, p: int, kind: Kind, optimistic: bool
) -> None:
    rng = np.random.default_rng(seed)
    mixtures = random_set(rng, p, kind)
    adversary = Adversary(mixtures, 0.3, kind=kind, optimistic=optimistic)
    for scale in (1e-9, 1.0, 30.0, 1e6, 1.0, 1e17, 1e150, 1.0):
        adversary.step(scale * rng.standard_normal(p))
        assert adversary.mixture.min() >= 0
        assert adversary.mixture.sum() == pytest.approx(1, abs=1e-13)
        assert mixtures.contains(adversary.mixture, 1e-9)
        assert mixtures.contains(adversary.average, 1e-9)


@pytest.mark.parametrize("p", [1, 3])
def test_steps_that_move_all_logits_far_alike(p: int) -> None:
    """Next to a common 1e17 the width of a box is lost, unless the 1e17 is taken off."""
    box = Box(np.full(p, 0.1), np.ones(p))
    adversary = Adversary(box, 1.0, kind="entropic")
    for sign in (1.0, -1.0, 1.0):
        adversary.step(np.full(p, sign * 1e17))
        np.testing.assert_allclose(adversary.mixture, np.full(p, 1 / p), rtol=1e-13)


@given(seeds, st.sampled_from([1, 2, 5, 40]), st.sampled_from([0.1, 3.0, 100.0]))
def test_an_entropic_step_is_the_kl_projection(seed: int, p: int, step: float) -> None:
    """No member y of Λ is nearer to w = λ e^{γδ}: ⟨log(z/w), y − z⟩ ≥ 0."""
    rng = np.random.default_rng(seed)
    mixtures = random_set(rng, p, "entropic")
    adversary = Adversary(mixtures, step, kind="entropic")
    log_z = np.asarray(adversary.state_dict()["logarithm"])
    for _ in range(3):
        gradient = rng.standard_normal(p)
        log_w = log_z + step * gradient
        adversary.step(gradient)
        z, log_z = adversary.mixture, np.asarray(adversary.state_dict()["logarithm"])
        gain = log_w - log_z
        assert gain @ (mixtures.maximize(gain) - z) <= 1e-13 * (1 + np.abs(log_w).max())


def test_entropic_steps_on_the_simplex_have_a_closed_form() -> None:
    rng = np.random.default_rng(0)
    start, gradients = rng.dirichlet(np.ones(6)), rng.standard_normal((50, 6))
    adversary = Adversary(Simplex(6), 0.2, kind="entropic", start=start)
    for gradient in gradients:
        adversary.step(gradient)
    weights = start * np.exp(0.2 * gradients.sum(axis=0))
    np.testing.assert_allclose(adversary.mixture, weights / weights.sum(), rtol=1e-13)


def test_entropic_weights_come_back_from_below_the_smallest_number() -> None:
    adversary = Adversary(Simplex(2), 1.0, kind="entropic")
    adversary.step([1e6, 0.0])
    np.testing.assert_array_equal(adversary.mixture, [1, 0])
    adversary.step([0.0, 1e6])
    np.testing.assert_allclose(adversary.mixture, [0.5, 0.5])


@pytest.mark.parametrize("size", [1e16, 1e17, 1e150, 1e300])
def test_an_entropic_step_of_any_length_stays_between_its_bounds(size: float) -> None:
    """Next to such numbers log 0.7 − log 0.1 is lost in rounding; the answer must not be."""
    adversary = Adversary(Box([0.1, 0.2, 0.0], [0.7, 1.0, 1.0]), 1.0, kind="entropic")
    adversary.step([size, 0.0, 0.0])
    np.testing.assert_allclose(adversary.mixture, [0.7, 0.2, 0.1], rtol=1e-14)
    adversary = Adversary(Box([0.1, 0.2, 0.0], [1.0, 1.0, 1.0]), 1.0, kind="entropic")
    adversary.step([size, 0.0, 0.0])
    np.testing.assert_allclose(adversary.mixture, [0.8, 0.2, 0.0], rtol=1e-14, atol=1e-300)


def test_entropic_box_by_hand() -> None:
    adversary = Adversary(
        Box([0, 0, 0.2], [0.5, 1, 1]), 1.0, kind="entropic", start=[0.4, 0.4, 0.2]
    )
    adversary.step(np.log([4.0, 1.0, 0.25]))  # w ∝ (1.6, .4, .05): capped, free, floored
    np.testing.assert_allclose(adversary.mixture, [0.5, 0.3, 0.2])


def test_entropic_ball_by_hand() -> None:
    adversary = Adversary(TVBall([0.4, 0.4, 0.2], 0.1), 1.0, kind="entropic")
    adversary.step(np.log([4.0, 1.0, 1.0]))  # 0.1 to the first, from the others in proportion
    np.testing.assert_allclose(adversary.mixture, [0.5, 0.4 * 5 / 6, 0.2 * 5 / 6])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "mixtures",
    [
        Simplex(3),
        Vertices(3),
        Box([0.1, 0.1, 0.1], [0.6, 0.5, 0.5]),
        TVBall([0.2, 0.3, 0.5], 0.1),
        Point([0.2, 0.3, 0.5]),
    ],
)
def test_against_constant_losses_the_adversary_finds_the_maximum(
    mixtures: MixtureSet, kind: Kind
) -> None:
    losses = np.array([0.7, 0.9, 0.2])
    adversary = Adversary(mixtures, 0.5, kind=kind)
    for _ in range(400):
        adversary.step(losses)
    np.testing.assert_allclose(adversary.mixture, mixtures.maximize(losses), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_with_a_penalty_it_finds_the_best_response(kind: Kind) -> None:
    losses = np.array([0.7, 0.9, 0.2])
    penalty = DirichletPrior([1.5, 2.0, 1.1])
    adversary = Adversary(Simplex(3), 0.01, kind=kind, penalty=penalty)
    for _ in range(5000):
        adversary.step(losses)
    best = penalty.best_response(Simplex(3), losses)
    np.testing.assert_allclose(adversary.mixture, best, atol=1e-10)


def test_the_average_solves_a_matrix_game_and_the_last_optimistic_iterate_does_too() -> None:
    """Rock, paper, scissors with uneven stakes: both sides play the same way, the value is 0."""
    game = np.array([[0.0, 1.0, -2.0], [-1.0, 0.0, 1.0], [2.0, -1.0, 0.0]])
    for optimistic in (False, True):
        row, column = (Adversary(Simplex(3), 0.1, optimistic=optimistic) for _ in range(2))
        for _ in range(3000):
            rows, columns = row.mixture, column.mixture
            row.step(game @ columns)
            column.step(-game.T @ rows)
        found = row.mixture if optimistic else row.average
        np.testing.assert_allclose(found, [0.25, 0.5, 0.25], atol=1e-6 if optimistic else 0.05)


# What other implementations got wrong.


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_handed_out_changes_later(kind: Kind) -> None:
    adversary = Adversary(Simplex(3), 0.5, kind=kind)
    history = []
    for k in range(4):
        adversary.step(np.eye(3)[k % 3])
        history.append((adversary.mixture, adversary.mixture.copy(), adversary.average.copy()))
    for mixture, then, _ in history:
        np.testing.assert_array_equal(mixture, then)
    mean = np.mean([then for _, then, _ in history], axis=0)
    np.testing.assert_allclose(adversary.average, mean, rtol=1e-15)
    assert not np.shares_memory(adversary.average, adversary.mixture)
    with pytest.raises(ValueError, match="read-only"):
        adversary.mixture[0] = 1


def test_nothing_handed_in_is_kept() -> None:
    start, gradient = np.array([0.5, 0.5]), np.array([1.0, 0.0])
    adversary = Adversary(Simplex(2), 0.1, start=start, optimistic=True)
    adversary.step(gradient)
    start[:], gradient[:] = 9.0, 9.0  # a caller may reuse its buffers
    adversary.step([1.0, 0.0])
    np.testing.assert_allclose(adversary.mixture, [0.6, 0.4])
    np.testing.assert_allclose(adversary.average, [0.575, 0.425])


def test_the_average_leaves_out_the_start() -> None:
    adversary = Adversary(Simplex(2), 10.0, start=[0.5, 0.5])
    np.testing.assert_array_equal(adversary.average, [0.5, 0.5])
    adversary.step([1.0, 0.0])
    np.testing.assert_array_equal(adversary.average, [1, 0])
    assert adversary.n_steps == 1


# Save and restore.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("optimistic", [False, True])
def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(kind: Kind, optimistic: bool) -> None:
    rng = np.random.default_rng(1)
    gradients = rng.standard_normal((40, 5))
    settings: dict[str, Any] = {"kind": kind, "optimistic": optimistic}
    whole, first = (Adversary(Simplex(5), 0.3, **settings) for _ in range(2))
    for gradient in gradients:
        whole.step(gradient)
    for gradient in gradients[:17]:
        first.step(gradient)
    file = io.BytesIO()
    np.savez(file, **first.state_dict())  # type: ignore[arg-type]
    file.seek(0)
    second = Adversary(Simplex(5), 0.3, **settings)
    second.load_state_dict(dict(np.load(file)))
    for gradient in gradients[17:]:
        second.step(gradient)
    assert second.n_steps == whole.n_steps == 40
    np.testing.assert_array_equal(second.mixture, whole.mixture)
    np.testing.assert_array_equal(second.average, whole.average)


def test_a_state_is_a_copy_both_ways() -> None:
    adversary = Adversary(Simplex(2), 0.1, optimistic=True)
    adversary.step([1.0, 0.0])
    state = adversary.state_dict()
    before = {name: np.array(value) for name, value in state.items()}
    adversary.step([1.0, 0.0])
    for name, value in state.items():
        np.testing.assert_array_equal(value, before[name])
    total = adversary.state_dict()["total"]
    assert isinstance(total, np.ndarray)
    total[:] = 7
    np.testing.assert_allclose(adversary.average, [0.575, 0.425])
    adversary.load_state_dict(state)
    for name in ("mixture", "total", "previous"):
        array = state[name]
        assert isinstance(array, np.ndarray)
        array[:] = 7
    adversary.step([1.0, 0.0])
    np.testing.assert_allclose(adversary.mixture, [0.6, 0.4])


def test_a_state_that_does_not_fit_is_refused_and_changes_nothing() -> None:
    adversary = Adversary(Simplex(2), 0.1)
    good = adversary.state_dict()
    for name, value in [("mixture", [2.0, -1.0]), ("mixture", [1.0]), ("total", [np.nan, 1.0])]:
        with pytest.raises(ValueError, match=name):
            adversary.load_state_dict({**good, name: value})
    entropic = Adversary(Simplex(2), 0.1, kind="entropic")
    with pytest.raises(ValueError, match="logarithm"):
        entropic.load_state_dict(good)
    with pytest.raises(ValueError, match="logarithm"):
        adversary.load_state_dict(entropic.state_dict())
    with pytest.raises(ValueError, match="logarithm"):
        entropic.load_state_dict({**entropic.state_dict(), "logarithm": [0.0, 0.0]})
    np.testing.assert_array_equal(adversary.mixture, [0.5, 0.5])


# Bad input.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "gradient", [[np.nan, 0], [np.inf, 0], [1.0], [[1.0, 2.0]], ["a", "b"], 1.0]
)
def test_a_bad_gradient_is_named_and_changes_nothing(kind: Kind, gradient: Any) -> None:
    adversary = Adversary(Simplex(2), 0.1, kind=kind)
    adversary.step([1.0, 0.0])
    before = adversary.state_dict()
    with pytest.raises(ValueError, match="gradient"):
        adversary.step(gradient)
    for name, value in adversary.state_dict().items():
        np.testing.assert_array_equal(value, before[name])


def test_an_overflowing_step_is_refused() -> None:
    for kind in KINDS:
        adversary = Adversary(Simplex(2), 1e200, kind=kind)
        with pytest.raises(InputError) as caught:
            adversary.step([1e200, 0.0])
        assert caught.value.argument == "step"
        np.testing.assert_allclose(adversary.mixture, [0.5, 0.5])


def test_an_infinite_penalty_is_refused() -> None:
    adversary = Adversary(Simplex(2), 0.1, penalty=DirichletPrior([2.0, 2.0]), start=[1.0, 0.0])
    with pytest.raises(ValueError, match="penalty"):
        adversary.step([0.0, 0.0])


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"step": -1.0}, "step"),
        ({"step": np.nan}, "step"),
        ({"step": "fast"}, "step"),
        ({"kind": "newton"}, "kind"),
        ({"start": [0.9, 0.9]}, "start"),
        ({"start": [1.0]}, "start"),
        ({"start": [np.nan, 1.0]}, "start"),
        ({"kind": "entropic", "start": [1.0, 0.0]}, "start"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Adversary(Simplex(2), **{"step": 0.1, **arguments})


def test_a_bad_size_is_named() -> None:
    with pytest.raises(ValueError, match="size"):
        Adversary(Simplex(2), 0.1).step([1.0, 0.0], size=-1.0)


def test_entropic_zeros_that_the_set_forces_are_fine() -> None:
    adversary = Adversary(Box([0, 0, 0], [1, 1, 0]), 1.0, kind="entropic")
    adversary.step([0.0, np.log(3), 5.0])
    np.testing.assert_allclose(adversary.mixture, [0.25, 0.75, 0])
    fixed = Adversary(Point([1.0, 0.0]), 1.0, kind="entropic")
    fixed.step([0.0, 5.0])
    np.testing.assert_array_equal(fixed.mixture, [1, 0])


@pytest.mark.parametrize("mixtures", [Hull([[0.5, 0.5]]), Chi2Ball([1, 1], 1.5)])
def test_entropic_says_which_sets_it_knows(mixtures: MixtureSet) -> None:
    with pytest.raises(TypeError, match=type(mixtures).__name__):
        Adversary(mixtures, 0.1, kind="entropic")


@pytest.mark.parametrize("kind", ["euclidean", "entropic"])
def test_a_response_goes_part_of_the_way_to_the_best_one(kind: Any) -> None:
    prior = DirichletPrior([2.0, 2.0])
    adversary = Adversary(Simplex(2), 1.0, kind=kind, penalty=prior)
    adversary.respond([1.5, 0.0], 0.5)  # the best response is (2/3, 1/3)
    np.testing.assert_allclose(adversary.mixture, [7 / 12, 5 / 12])
    np.testing.assert_allclose(adversary.average, adversary.mixture)
    other = Adversary(Simplex(2), 1.0, kind=kind, penalty=prior)
    other.load_state_dict(adversary.state_dict())
    for one in (adversary, other):
        one.respond([1.5, 0.0], 1.0)
    np.testing.assert_array_equal(adversary.mixture, other.mixture)
    with pytest.raises(InputError, match="size is 2"):
        adversary.respond([1.0, 0.0], 2)
