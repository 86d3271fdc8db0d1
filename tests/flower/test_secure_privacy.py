"""Noise that the clients add, its price in every record, and domains too small to speak of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flower.clients import app_of, spread, table
from flower.secure import secure_grid
from flower.test_privacy import gaussian_epsilon

from anymix.errors import InputError
from anymix.flower import (
    AgnosticStrategy,
    LocalGrid,
    MissingClientsError,
    Patience,
    Privacy,
    Secure,
    client_app,
    without_small_domains,
)
from anymix.flower.aggregation import Contribution
from anymix.flower.secure_answers import _within
from anymix.flower.secure_wire import Call

STEPS: dict[str, Any] = {"step_w": 1.0, "step_mixture": 0.1}
NOISE = Privacy(0.5, 0.2, update_noise=30.0, loss_noise=40.0, delta=1e-3)


def call(threshold: int, privacy: Privacy) -> Call:
    return Call(1, [], [], threshold, [], 2.0**-50, 2.0**30, limits=Secure(privacy).limits)


def test_the_parts_of_threshold_clients_make_up_the_noise_promised() -> None:
    nothing, n = Contribution(np.zeros(4000), np.zeros(4000)), 6
    sums = [_within(nothing, np.zeros((2, 1)), call(n, NOISE), 1) for _ in range(n)]
    update, losses = sum(s.update for s in sums), sum(s.losses for s in sums)
    assert np.std(update) == pytest.approx(30.0 * 0.5, rel=0.1)  # 9 standard errors
    assert np.std(losses) == pytest.approx(40.0 * 0.2, rel=0.1)
    assert abs(np.corrcoef(sums[0].update, sums[1].update)[0, 1]) < 0.1


def test_a_client_cuts_what_it_sends_to_its_clip() -> None:
    quiet = Privacy(0.5, 0.2, update_noise=1e-9, loss_noise=1e-9)
    loud = Contribution(np.full(3, 1e6), np.array([1e6, 1e6]))
    sent = _within(loud, np.ones((2, 2)), call(4, quiet), 1)
    assert np.linalg.norm(sent.update) == pytest.approx(0.5, abs=1e-6)
    assert np.linalg.norm(sent.losses) == pytest.approx(0.2, abs=1e-6)


def test_every_record_tells_what_was_spent_and_the_noise_is_felt() -> None:
    strategy = AgnosticStrategy(**STEPS, aggregation=Secure(NOISE))
    result = strategy.start(secure_grid(privacy=NOISE), num_rounds=3)
    z = (30.0**-2 + 40.0**-2) ** -0.5
    spent = [record["epsilon"] for record in result.history]
    np.testing.assert_allclose(spent, [gaussian_epsilon(z, t, 1e-3) for t in (1, 2, 3)], rtol=1e-6)
    assert result.epsilon == pytest.approx(spent[-1], rel=1e-2)
    assert result.output == "average"  # nothing without noise chose it
    assert np.abs(result.w).max() > 3  # of steps of noise of standard deviation above 15


def test_noisy_losses_do_not_pass_for_a_run_that_diverges() -> None:
    """Noise made the first losses 0 now and then, so that all later ones seemed to have grown."""
    for _ in range(8):
        strategy = AgnosticStrategy(**STEPS, aggregation=Secure(NOISE))
        assert len(strategy.start(secure_grid(privacy=NOISE), num_rounds=3).history) == 3


def test_the_central_noise_has_its_price_in_every_record_too() -> None:
    X, y, domains = table()
    grid = LocalGrid(app_of(X, y, domains, spread("mixed", domains)), 5)
    result = AgnosticStrategy(**STEPS, aggregation=NOISE).start(grid, num_rounds=2)
    assert 0 < result.history[0]["epsilon"] < result.history[1]["epsilon"]
    assert result.output == "average"


@pytest.mark.parametrize(("z", "delta"), [(0.05, 1e-5), (1.0, 1e-6), (500.0, 1e-5), (1e-9, 1e-5)])
def test_the_closed_form_is_a_root(z: float, delta: float) -> None:
    from scipy.special import log_ndtr

    from anymix.flower.privacy import gaussian_epsilon as ours

    epsilon = ours(z, delta)
    a, b = log_ndtr(1 / (2 * z) - epsilon * z), epsilon + log_ndtr(-1 / (2 * z) - epsilon * z)
    if z > 1e-6:
        assert np.exp(a) - np.exp(b) == pytest.approx(delta, rel=1e-6)
    assert np.isfinite(epsilon)


def test_a_client_that_insists_on_noise_gives_nothing_without() -> None:
    for weaker in (None, Privacy(0.5, 0.2, update_noise=1.0, loss_noise=40.0)):
        secure = Secure() if weaker is None else Secure(weaker)
        strategy = AgnosticStrategy(**STEPS, aggregation=secure, patience=Patience("stop"))
        with pytest.raises(MissingClientsError, match="the Privacy of the clients"):
            strategy.start(secure_grid(privacy=NOISE), num_rounds=1)


# -- small domains -------------------------------------------------------------------------------


def few_of_one(context: Any) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(int(context.node_config["partition-id"]))
    return rng.normal(size=(30, 2)), rng.integers(0, 2, 30), ["a"] * 20 + ["b"] * 8 + ["c"] * 2


@pytest.mark.parametrize(
    ("rows", "into", "expected"),
    [
        (5, None, {"a": 60.0, "b": 24.0}),
        (10, "rest", {"a": 60.0, "rest": 30.0}),
        (15, "rest", {"a": 60.0}),  # even together they are too few
        (1, None, {"a": 60.0, "b": 24.0, "c": 6.0}),
    ],
)
def test_a_domain_of_few_rows_is_merged_or_kept_back(
    rows: int, into: str | None, expected: dict[str, float]
) -> None:
    load = without_small_domains(few_of_one, rows, into)
    from anymix.flower.members import Members

    roster = Members(LocalGrid(client_app(load, classes=[0, 1]), 3)).look()
    assert dict(zip(roster.domains, roster.sizes.tolist(), strict=True)) == expected


def test_parts_of_rows_cannot_be_counted() -> None:
    load = without_small_domains(lambda context: (np.eye(2), [0, 1], np.eye(2)), 2)
    with pytest.raises(InputError, match=r"domains has the shape \(2, 2\)"):
        load(None)  # type: ignore[arg-type]
