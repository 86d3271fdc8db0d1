"""What a Flower user expects of a strategy, and what whoever runs one wants to be told."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from flower.clients import Tampered, app_of, grid_of, spread, table
from flower.test_local_training import grid as modules
from flwr.app import Context, Message

import anymix as ax
from anymix.errors import InputError
from anymix.flower import (
    AgnosticStrategy,
    Judging,
    LocalGrid,
    MissingClientsError,
    Patience,
    Steps,
    client_app,
)
from anymix.flower.results import numbers

TOLD = Patience(min_clients=6, deadline=20.0)


def test_mods_stand_around_every_answer() -> None:
    heard: list[str] = []

    def mod(message: Message, context: Context, answer: Any) -> Message:
        heard.append(message.metadata.message_type)
        reply: Message = answer(message, context)
        return reply

    X, y, domains = table()
    grid = LocalGrid(app_of(X, y, domains, [np.arange(90)], mods=[mod]), 1)
    AgnosticStrategy(steps=Steps(0.1, 0.1)).start(grid, num_rounds=1)
    assert heard[:2] == ["query", "train"]


@pytest.mark.filterwarnings("ignore::anymix.estimators.fitting.OverfitWarning")
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("intercept", [True, False])
def test_a_classifier_comes_out(n_classes: int, intercept: bool) -> None:
    X, y, domains = table()
    names = np.array(["no", "so", "yes"])[y + (X[:, 1] > 0.5) * (n_classes > 2)]
    app = app_of(X, names, domains, spread("mixed", domains), intercept=intercept)
    result = AgnosticStrategy(ax.Objective(gamma=0.01)).start(LocalGrid(app, 5), num_rounds=60)
    found = result.estimator()
    exact = ax.AgnosticClassifier(gamma=0.01, fit_intercept=intercept).fit(
        X, names, domains=domains
    )
    assert isinstance(found, ax.AgnosticClassifier)
    assert found.classes_.tolist() == exact.classes_.tolist()
    np.testing.assert_allclose(found.predict_proba(X), exact.predict_proba(X), atol=0.02)
    assert found.domain_names_.tolist() == ["chat", "mail", "web"]
    assert found.domain_losses_ == pytest.approx(exact.domain_losses_, abs=0.02)


@pytest.mark.parametrize("loss", [ax.SquaredError(), ax.Huber(0.7)])
def test_a_regressor_comes_out(loss: Any) -> None:
    X, y, domains = table()
    parts = spread("mixed", domains)
    grid = LocalGrid(app_of(X, 2.0 * y, domains, parts, loss=loss), 5)
    found = AgnosticStrategy().start(grid, num_rounds=60).estimator()
    assert isinstance(found, ax.AgnosticRegressor)
    whole = ax.LinearDomains(X, 2.0 * y, domains, loss)
    w = np.append(found.coef_, found.intercept_)
    assert whole.losses(w).max() < ax.solve(whole, gamma=0.0).domain_losses.max() + 0.01
    np.testing.assert_allclose(found.predict(X), X @ w[:2] + w[2])


@pytest.mark.parametrize("make", [modules, lambda: grid_of(loss=ax.Hinge())])
def test_no_estimator_fits_other_models(make: Any) -> None:
    with pytest.raises(InputError):
        AgnosticStrategy(steps=Steps(0.1, 0.1)).start(make(), num_rounds=1).estimator()


def test_every_round_is_told_and_its_losses_are_metrics() -> None:
    told: list[dict[str, Any]] = []
    result = AgnosticStrategy(patience=TOLD).start(
        grid_of("parts"), num_rounds=4, on_round=told.append
    )
    assert told == list(result.history)
    assert numbers(told[2])["domain_losses/web"] == told[2]["domain_losses"][2]
    metrics = result.evaluate_metrics_clientapp
    assert list(metrics) == [0, 1, 2, 3]  # of the model after so many rounds
    assert dict(metrics[0]) == pytest.approx(dict.fromkeys(["chat", "mail", "web"], np.log(2)))


def test_with_rows_held_out_these_are_the_metrics() -> None:
    strategy = AgnosticStrategy(judging=Judging(hold_out=0.3, every=2), patience=TOLD)
    result = strategy.start(grid_of("parts"), num_rounds=4)
    metrics = result.evaluate_metrics_clientapp
    assert list(metrics) == [2, 4]
    assert list(metrics[4].values()) == result.history[3]["held_out_losses"]


def failing(X: Any, y: Any, domains: Any) -> LocalGrid:
    parts = spread("parts", domains)

    def load(context: Context) -> Any:
        i = int(context.node_config["partition-id"])
        if i == 2:
            raise RuntimeError("ward database is down")
        return X[parts[i]], y[parts[i]], domains[parts[i]]

    return LocalGrid(client_app(load, classes=[0, 1]), len(parts))


def test_who_cannot_load_is_named_at_once() -> None:
    """It took the whole deadline, and told the id of a node."""
    began = time.monotonic()
    with pytest.raises(MissingClientsError, match=r"client '2'") as raised:
        AgnosticStrategy(patience=TOLD).start(failing(*table()), num_rounds=3)
    assert time.monotonic() - began < 5.0
    assert "[]" not in str(raised.value)


def test_a_client_that_is_there_later_may_fail_twice() -> None:
    """Each failure is asked about again, up to max_failures."""
    calls: list[int] = []

    def load(context: Context) -> Any:
        calls.append(1)
        if len(calls) < 3:
            raise RuntimeError("not yet")
        return [[0.0], [1.0]], [0, 1], ["a", "a"]

    grid = LocalGrid(client_app(load), 1)
    assert len(AgnosticStrategy().start(grid, num_rounds=2).history) == 2


def minus_ten(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
    arrays["update"] = -10.0 * arrays["update"]


def claims(arrays: dict[str, Any], settings: dict[str, Any]) -> None:
    n = len(settings["sums"]) // 2
    settings["sums"][:n] = 1e3


@pytest.mark.parametrize("lie", [minus_ten, claims])
@pytest.mark.parametrize("steps", [Steps(), Steps(0.3, 0.1)])
def test_a_liar_is_named_and_the_others_go_on(lie: Any, steps: Steps) -> None:
    """Losses are convex: what a client tells of two models must be above both tangents."""
    grid = grid_of("parts", n=300)
    grid.app = Tampered(grid.app, 3, lie)
    result = AgnosticStrategy(steps=steps, patience=TOLD).start(grid, num_rounds=30)
    assert list(result.excluded) == ["3"]
    assert "convex" in result.excluded["3"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("loss", [ax.SquaredError(), ax.Huber(0.3), ax.CrossEntropy()])
def test_nobody_honest_is_named(loss: Any, seed: int) -> None:
    """Whatever the units of the columns, and at the optimum, where only rounding is left."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3)) * 10.0 ** rng.integers(-4, 5, 3) + 100.0
    y, domains = rng.integers(0, 2, 60), np.arange(60) % 2
    parts = np.array_split(np.arange(60), 4)
    grid = LocalGrid(app_of(X, y, domains, parts, loss=loss), 4)
    result = AgnosticStrategy(patience=Patience(min_clients=4)).start(grid, num_rounds=150)
    assert result.excluded == {}


def test_without_steps_of_ones_own_the_client_is_named_that_made_a_run_diverge() -> None:
    grid = modules()
    grid.app = Tampered(grid.app, 3, minus_ten)
    with pytest.raises(InputError) as raised:
        AgnosticStrategy(patience=TOLD).start(grid, num_rounds=300)
    assert raised.value.argument == "client '3'"
