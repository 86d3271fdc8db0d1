"""Where nobody can predict, or too few rows speak, the ordinary model is kept for all."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import anymix as ax
from anymix.estimators.guarding import HeldOut, NothingGained
from anymix.problem.losses import CrossEntropy, SquaredError
from anymix.problem.rows import Rows, constant_losses


@pytest.mark.parametrize("seed", range(3))
def test_a_domain_of_coin_flips_does_not_make_the_model_a_coin(seed: int) -> None:
    """800 rows that can be learnt, 100 that cannot: the agnostic model would be a coin for all."""
    rng = np.random.default_rng(seed)
    domains = np.repeat(["learnable", "noise"], [800, 100])
    X = rng.normal(size=(900, 4))
    y = np.where(domains == "noise", rng.normal(size=900), 2 * X[:, 0] + rng.logistic(size=900)) > 0
    with warnings.catch_warnings(action="ignore", category=NothingGained):
        chosen, least = (
            ax.AgnosticClassifierCV(rule=rule).fit(X, y, domains=domains)
            for rule in ("guard", "min")
        )
    worst_only, guarded = (model.score(X[:800], y[:800]) for model in (least, chosen))
    assert guarded > max(0.7, worst_only + 0.05)


def test_what_is_little_more_than_a_constant_is_not_taken() -> None:
    """Domain b is a coin: model 2 is one for all, model 1 keeps most of what is known of a."""
    losses = [np.repeat([a, b], 100) for a, b in ((0.4, 1.1), (0.45, 0.9), (0.68, 0.70))]
    average = sparse.csc_array(np.kron(np.eye(2), np.full((1, 100), 0.01)))
    known = np.array([0.69, 0.69])
    found = HeldOut(np.array(losses), average, ax.Simplex(2), np.zeros(2), np.array([0.9, 0.1]))
    assert found.choose("guard") == 2
    assert replace(found, constant=known).choose("guard") == 1
    assert replace(found, constant=known).choose("1se") == 1
    better = replace(found, constant=np.array([0.69, 0.75]))  # for b there is something to learn
    assert better.choose("guard") == 2


@pytest.mark.parametrize("seed", range(3))
def test_five_rows_do_not_steer_the_model_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    domains = np.repeat(["a", "b", "few"], [500, 200, 5])
    X = rng.normal(size=(705, 3))
    sign = np.where(domains == "few", -3.0, 1.0)  # surely different, and only five of them
    y = sign * X[:, 0] + 0.3 * rng.logistic(size=705) > 0
    with pytest.warns(NothingGained):
        model = ax.AgnosticClassifierCV().fit(X, y, domains=domains)
    assert model.robustness_ == 0


def test_the_constant_guess_by_hand() -> None:
    X, d = np.zeros((4, 1)), ["a", "a", "b", "b"]
    half = Rows.read(X, [0, 1, 1, 1], d, CrossEntropy(), sample_weight=[2.0, 1.0, 1.0, 0.0])
    np.testing.assert_allclose(constant_losses(half), np.full(4, np.log(2)))
    three = Rows.read(X, ["u", "v", "w", "w"], d, CrossEntropy())
    np.testing.assert_allclose(constant_losses(three), -np.log([0.25, 0.25, 0.5, 0.5]))
    numbers = Rows.read(X, [1.0, 2.0, 3.0, 6.0], d, SquaredError())
    np.testing.assert_allclose(constant_losses(numbers), [2.0, 0.5, 0.0, 4.5])
