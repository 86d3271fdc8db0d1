from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flower.clients import Tampered, grid_of
from scipy.optimize import brentq
from scipy.stats import norm

import anymix as ax
from anymix.flower import AgnosticStrategy, Patience, Privacy, Steps
from anymix.flower.aggregation import Contribution

STEPS: dict[str, Any] = {"steps": Steps(1.0, 0.1)}


def gaussian_epsilon(z: float, rounds: int, delta: float) -> float:
    """ε of T Gaussian mechanisms, exact (Balle and Wang, 2018): they are one of z/√T."""
    s = z / np.sqrt(rounds)

    def excess(epsilon: float) -> float:
        a, b = 1 / (2 * s) - epsilon * s, -1 / (2 * s) - epsilon * s
        return float(norm.cdf(a) - np.exp(epsilon) * norm.cdf(b)) - delta

    return float(brentq(excess, 0.0, 200.0))


@pytest.mark.parametrize(("z_w", "z_l", "rounds"), [(2.0, 2.0, 1), (10.0, 30.0, 50), (4.0, 3.0, 8)])
def test_epsilon_is_that_of_the_closed_form(z_w: float, z_l: float, rounds: int) -> None:
    privacy = Privacy(1.0, 1.0, update_noise=z_w, loss_noise=z_l, delta=1e-5)
    z = (z_w**-2 + z_l**-2) ** -0.5
    exact = gaussian_epsilon(z, rounds, 1e-5)
    assert exact - 1e-6 <= privacy.epsilon(rounds) <= exact * 1.01 + 1e-3


def quiet(**options: Any) -> Privacy:
    """Clips with next to no noise."""
    values = {"update_clip": 0.05, "loss_clip": 0.1, "update_noise": 1e-9, "loss_noise": 1e-9}
    return Privacy(**{**values, **options}, seed=0)


def move(change: Callable[..., None] | None) -> tuple[Any, Any]:
    """Σ update (the step from 0 is its negative) and Σ losses, of one round."""
    grid = grid_of("mixed")
    if change is not None:
        grid.app = Tampered(grid.app, 1, change)
    result = AgnosticStrategy(aggregation=quiet(), **STEPS).start(grid, num_rounds=1)
    return -result.w, np.array(result.history[0]["domain_losses"])


def silent(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
    arrays["update"] = 0 * arrays["update"]
    settings["sums"][: len(settings["sums"]) // 2] = 0


def loud(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
    arrays["update"] = 1e6 * (1 + arrays["update"])
    settings["sums"][: len(settings["sums"]) // 2] = 1e6


def test_a_client_moves_the_sums_by_at_most_its_clip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Privacy, "epsilon", lambda self, rounds: np.inf)  # of next to no noise
    base = move(silent)
    for change in (None, loud):
        update, losses = move(change)
        assert np.linalg.norm(update - base[0]) <= 0.05 + 1e-7
        assert np.linalg.norm(losses - base[1]) <= 0.1 + 1e-7
    update, losses = move(loud)
    assert np.linalg.norm(update - base[0]) == pytest.approx(0.05, abs=1e-7)  # and the clip is felt
    assert np.linalg.norm(losses - base[1]) == pytest.approx(0.1, abs=1e-7)


def test_noise_has_the_promised_size_on_updates_and_losses() -> None:
    privacy = Privacy(0.5, 0.2, update_noise=3.0, loss_noise=4.0, seed=1)
    draws = [privacy.add_noise(np.zeros(200), np.zeros(200), step) for step in range(1, 101)]
    update, losses = (np.concatenate([d[i] for d in draws]) for i in (0, 1))
    assert update.std() == pytest.approx(1.5, rel=0.03)
    assert losses.std() == pytest.approx(0.8, rel=0.03)
    assert abs(np.corrcoef(update, losses)[0, 1]) < 0.04
    assert not np.array_equal(draws[0][0], draws[1][0])


def test_a_run_reports_its_price_and_both_players_see_the_noise() -> None:
    privacy = Privacy(1.0, 1.0, update_noise=5.0, loss_noise=5.0, delta=1e-3, seed=3)
    result = AgnosticStrategy(aggregation=privacy, **STEPS).start(grid_of("mixed"), num_rounds=3)
    assert result.epsilon == privacy.epsilon(3)
    assert result.epsilon > privacy.epsilon(2)
    clean = AgnosticStrategy(**STEPS).start(grid_of("mixed"), num_rounds=3)
    assert clean.epsilon is None
    assert not np.allclose(result.w, clean.w, atol=0.1)
    losses = np.full(3, np.log(2))  # at w = 0
    noisy = privacy.add_noise(np.zeros(3), losses, 1)[1]
    np.testing.assert_allclose(result.history[0]["domain_losses"], noisy)
    moved = np.array(result.history[1]["mixture"]) - 1 / 3
    np.testing.assert_allclose(moved, ax.Simplex(3).project(1 / 3 + 0.1 * noisy) - 1 / 3)
    again = AgnosticStrategy(aggregation=privacy, **STEPS).start(grid_of("mixed"), num_rounds=3)
    np.testing.assert_array_equal(again.w, result.w)


def test_without_a_seed_the_noise_is_new() -> None:
    privacy = Privacy(1.0, 1.0, update_noise=1.0, loss_noise=1.0)
    first, second = (privacy.add_noise(np.zeros(3), np.zeros(3), 1)[0] for _ in range(2))
    assert not np.array_equal(first, second)


def test_only_steps_cost() -> None:
    """A skipped round releases nothing."""
    privacy = Privacy(1.0, 1.0, update_noise=5.0, loss_noise=5.0, seed=0)
    grid = grid_of("parts")

    def nan(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
        arrays["update"] = np.nan * arrays["update"]

    grid.app = Tampered(grid.app, 2, nan)
    strategy = AgnosticStrategy(aggregation=privacy, patience=Patience("skip"), **STEPS)
    result = strategy.start(grid, num_rounds=3)
    assert result.epsilon == privacy.epsilon(2)


@pytest.mark.parametrize(
    "name", ["update_clip", "loss_clip", "update_noise", "loss_noise", "delta"]
)
@pytest.mark.parametrize("value", [0.0, -1.0, float("inf")])
def test_bad_numbers_are_named(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        quiet(**{name: value})


def test_nobody_stands_in_for_a_lost_client() -> None:
    """It would count for more than its clip: a private sum needs everyone that was asked."""
    A, given = np.full((3, 1), 1 / 3), Contribution(np.ones(2), np.ones(1))
    assert quiet().add_up({0: given, 1: given}, A, A, step=1) is None
    assert not quiet().enough(A, A, np.array([True, True, False]))
    sums = quiet().add_up({0: given, 1: given, 2: given}, A, A, step=1)
    assert sums is not None
    assert np.linalg.norm(sums[0]) == pytest.approx(3 * 0.05, abs=1e-7)
    assert sums[1] == pytest.approx([3 * 0.1], abs=1e-7)
