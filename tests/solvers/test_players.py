"""One step of both players: by hand, in the ball, optimistic, saved and resumed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.mixtures import Adversary, Chi2Penalty, Simplex
from anymix.solvers.optimizers import SGD, Adagrad, Adam, Momentum
from anymix.solvers.players import Players

Array = NDArray[np.float64]
OPTIMIZERS = [SGD(), Momentum(), Adagrad(), Adam()]


def make(
    optimistic: bool = False,
    optimizer: Any = None,
    radius: float | None = None,
    kind: Any = "euclidean",
    D: int = 2,
) -> Players:
    penalty = Chi2Penalty(0.1, sizes=[3, 1])
    lam = Adversary(Simplex(2), 1.0, kind=kind, optimistic=optimistic, penalty=penalty)
    w = np.arange(1.0, D + 1)
    return Players(w, lam, optimizer or SGD(), lambda t: 0.5 / t, lambda t: 0.1 / t, radius)


def play(players: Players, n: int, seed: int = 0) -> None:
    """The same gradients for the same seed."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        players.step(rng.normal(size=len(players.w)), rng.normal(size=2))


def everything(players: Players) -> dict[str, Any]:
    state = players.state_dict()
    inner = {f"{k} {n}": v for k in ("memory", "adversary") for n, v in state.pop(k).items()}
    return state | inner


def same(one: Players, other: Players) -> bool:
    a, b = everything(one), everything(other)
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


def test_two_steps_by_hand() -> None:
    g, h, u, v = np.array([1.0, 0.0]), np.array([0.0, 4.0]), [1.0, 0.0], [0.0, 1.0]
    lam = Adversary(Simplex(2), 1.0)
    players = Players(np.array([1.0, 2.0]), lam, SGD(), lambda t: 0.5 / t, lambda t: 0.1 / t)
    assert players.w_average.tolist() == [1, 2]
    players.step(g, np.array(u))
    assert players.w.tolist() == [0.5, 2]
    np.testing.assert_allclose(lam.mixture, [0.55, 0.45])
    players.step(h, np.array(v))
    assert players.w.tolist() == [0.5, 1]
    assert players.w_average.tolist() == [0.5, 1.5]
    np.testing.assert_allclose(lam.mixture, [0.525, 0.475])
    assert players.t == lam.n_steps == 2


def test_optimistic_players_go_on_from_twice_the_last_gradient_less_the_one_before() -> None:
    lam = Adversary(Simplex(2), 1.0, optimistic=True)
    players = Players(np.zeros(1), lam, SGD(), lambda t: 1.0, lambda t: 0.1)
    players.step(np.array([1.0]), np.array([1.0, 0.0]))
    players.step(np.array([3.0]), np.array([0.0, 0.0]))
    assert players.w.tolist() == [-1 - (2 * 3 - 1)]
    np.testing.assert_allclose(lam.mixture, [0.5, 0.5])  # +0.05, then −0.05
    assert players.previous is not None
    assert players.previous.tolist() == [3]


def test_w_stays_in_its_ball_from_the_start() -> None:
    players = make(radius=1.0)
    np.testing.assert_allclose(players.w, np.array([1, 2]) / np.sqrt(5))
    players.step(np.array([-30.0, 40.0]), np.zeros(2))
    assert np.linalg.norm(players.w) == pytest.approx(1.0, abs=1e-15)
    inside = players.w - 0.25 * (inward := 0.1 * players.w)
    players.step(inward, np.zeros(2))
    np.testing.assert_allclose(players.w, inside, rtol=1e-15)


def test_the_penalty_of_the_adversary_counts() -> None:
    players = make()
    players.step(np.zeros(2), np.zeros(2))
    # ∇ 0.1 χ²(λ‖(¾, ¼)) at (½, ½) is 0.2 (λ/m̄ − 1) = (−1/15, 1/5): λ moves to the first domain
    np.testing.assert_allclose(players.adversary.mixture, [0.5 + 0.1 * 4 / 30, 0.5 - 0.1 * 4 / 30])


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
@pytest.mark.parametrize("optimistic", [False, True])
def test_who_keeps_an_old_w_keeps_its_numbers(optimizer: Any, optimistic: bool) -> None:
    players = make(optimistic, optimizer)
    start = players.w
    play(players, 1)
    first, total, mixture = players.w, players.total, players.adversary.mixture
    before = first.copy(), total.copy(), mixture.copy()
    play(players, 3)
    assert start.tolist() == [1, 2]
    for old, wanted in zip((first, total, mixture), before, strict=True):
        np.testing.assert_array_equal(old, wanted)


@pytest.mark.parametrize("kind", ["euclidean", "entropic"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
@pytest.mark.parametrize("optimistic", [False, True])
def test_a_copy_and_resumed_players_take_the_same_steps(
    optimizer: Any, optimistic: bool, kind: str
) -> None:
    players = make(optimistic, optimizer, kind=kind)
    play(players, 3)
    other, resumed = players.copy(), make(optimistic, optimizer, kind=kind)
    state = players.state_dict()
    resumed.load_state_dict(state)
    play(players, 4, seed=1)
    play(other, 4, seed=1)
    play(resumed, 4, seed=1)
    assert same(players, other)
    assert same(players, resumed)
    again = make(optimistic, optimizer, kind=kind)
    again.load_state_dict(state)  # nobody has changed it
    play(again, 4, seed=1)
    assert same(players, again)


def test_a_copy_goes_its_own_way() -> None:
    players = make(optimizer=Adam())
    play(players, 2)
    wanted = everything(players)
    play(players.copy(), 5, seed=1)
    found = everything(players)
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted)


def test_given_sizes_take_the_place_of_the_schedule() -> None:
    players = make()
    players.step(np.array([1.0, 0.0]), np.zeros(2), sizes=(0.25, 0.0))
    assert players.w.tolist() == [0.75, 2]
    assert players.adversary.mixture.tolist() == [0.5, 0.5]
    assert players.next_sizes() == (0.25, 0.05)


def test_the_state_of_another_model_is_refused() -> None:
    with pytest.raises(InputError, match=r"state has 3 .*2"):
        make().load_state_dict(make(D=3).state_dict())


@pytest.mark.parametrize(
    ("delta_w", "delta_mixture", "radius", "argument"),
    [
        ([np.inf, 0.0], [1.0, 0.0], None, "step_w"),
        ([1.0, 0.0], [np.nan, 0.0], None, "step_w"),
        ([-1.7e308, 0.0], [1.0, 0.0], None, "step_w"),  # times 4 it is beyond all numbers
        ([1e200, 0.0], [1.0, 0.0], 1.0, "step_w"),  # so is ‖w‖²: the way to the ball is not known
        ([1.0, 0.0], [1e308, 0.0], None, "step_mixture"),
    ],
)
def test_what_is_not_finite_is_refused(
    delta_w: list[float], delta_mixture: list[float], radius: float | None, argument: str
) -> None:
    lam = Adversary(Simplex(2), 1.0)
    players = Players(np.ones(2), lam, SGD(), lambda t: 4.0, lambda t: 4.0, radius)
    with pytest.raises(InputError) as caught:
        players.step(np.array(delta_w), np.array(delta_mixture))
    assert caught.value.argument == argument
