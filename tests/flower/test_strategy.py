from __future__ import annotations

from inspect import signature
from itertools import islice
from typing import Any

import numpy as np
import pytest
from flower.clients import app_of, grid_of, holdings_of, spread, table
from flwr.app import Array, ArrayRecord, ConfigRecord

import anymix as ax
from anymix import datasets
from anymix.errors import InputError
from anymix.flower import AgnosticStrategy, Judging, Limits, LocalGrid, Patience, Steps, Sum, Work
from anymix.flower.training_round import row_weights
from anymix.solvers.optimizers import Adam
from anymix.solvers.samplers import FullBatch, PerDomain, Weighted

SIZES: dict[str, Any] = {"step_w": 0.3, "step_mixture": 0.1}
STEPS: dict[str, Any] = {"steps": Steps(**SIZES)}


def problem(**options: Any) -> ax.LinearDomains:
    return ax.LinearDomains(*table(), **options)


@pytest.mark.parametrize("how", ["domain", "parts", "mixed"])
@pytest.mark.parametrize("optimistic", [False, True])
def test_follows_the_central_algorithm_however_the_rows_are_spread(
    how: str, optimistic: bool
) -> None:
    objective = ax.Objective(gamma=0.05, mu=0.02, w_radius=0.2)
    algorithm = ax.optimistic_afl if optimistic else ax.stochastic_afl
    options: dict[str, Any] = {"step_w": 0.3, "step_mixture": 0.1, "sampler": FullBatch()}
    central = list(islice(algorithm(problem(), objective, **options), 30))[-1]
    strategy = AgnosticStrategy(objective, steps=Steps(0.3, 0.1, optimistic=optimistic))
    result = strategy.start(grid_of(how), num_rounds=30)
    np.testing.assert_allclose(result.w, central.w, atol=1e-12)
    np.testing.assert_allclose(result.mixture, central.mixture, atol=1e-12)
    np.testing.assert_allclose(result.w_average, central.w_average, atol=1e-12)
    np.testing.assert_allclose(result.mixture_average, central.mixture_average, atol=1e-12)
    assert np.linalg.norm(central.w) == pytest.approx(0.2)  # the ball was felt
    assert np.ptp(central.mixture) > 0.05  # and λ moved


@pytest.mark.parametrize("loss", [ax.SquaredError(), ax.Huber(0.5), ax.CrossEntropy()])
def test_other_losses_optimizers_and_adversaries(loss: Any) -> None:
    X, y, domains = table()
    if isinstance(loss, ax.CrossEntropy):
        y = y + (X[:, 1] > 0.5)  # three classes
    parts = spread("mixed", domains)
    grid = LocalGrid(app_of(X, y, domains, parts, loss=loss), len(parts))
    central = ax.LinearDomains(X, y, domains, loss)
    options: dict[str, Any] = {"step_w": 0.3, "step_mixture": 0.1, "adversary": "entropic"}
    run = ax.stochastic_afl(central, sampler=FullBatch(), optimizer=Adam(), **options)
    last = next(islice(run, 19, None))
    result = AgnosticStrategy(steps=Steps(optimizer=Adam(), **options)).start(grid, num_rounds=20)
    np.testing.assert_allclose(result.w, last.w, atol=1e-9)
    np.testing.assert_allclose(result.mixture, last.mixture, atol=1e-9)


def test_memberships_put_a_row_into_several_domains() -> None:
    X, y, _ = table()
    S = np.random.default_rng(3).random((90, 2)) * (np.random.default_rng(4).random((90, 2)) < 0.7)
    parts = [np.arange(0, 40), np.arange(40, 90)]
    grid = LocalGrid(app_of(X, y, S, parts), 2)
    central = next(
        islice(ax.stochastic_afl(ax.LinearDomains(X, y, S), sampler=FullBatch(), **SIZES), 9, None)
    )
    result = AgnosticStrategy(**STEPS).start(grid, num_rounds=10)
    np.testing.assert_allclose(result.w, central.w, atol=1e-12)
    np.testing.assert_allclose(result.mixture, central.mixture, atol=1e-12)


@pytest.mark.parametrize("sampler", [PerDomain(2), Weighted(2)])
def test_same_seed_same_numbers_whatever_the_node_ids(sampler: Any) -> None:
    def run(node_seed: int, seed: int) -> Any:
        strategy = AgnosticStrategy(work=Work(sampler=sampler), seed=seed, **STEPS)
        return strategy.start(grid_of("parts", seed=node_seed), num_rounds=6)

    first, second, other = run(0, 7), run(99, 7), run(0, 8)
    assert first.w.tobytes() == second.w.tobytes()
    assert first.mixture.tobytes() == second.mixture.tobytes()
    assert not np.allclose(first.w, other.w)


@pytest.mark.parametrize(
    ("sampler", "n"), [(FullBatch(), 7), (PerDomain(), 9), (Weighted(), 4), (Weighted(), None)]
)
def test_sampled_clients_are_unbiased_for_w_and_for_the_mixture(
    sampler: Any, n: int | None
) -> None:
    counts = np.array([[9.0, 0, 1], [1.0, 2, 0], [0, 6.0, 3], [5.0, 0, 0]])
    mixture = np.array([0.7, 0.3, 0.0])
    q = counts / counts.sum(axis=0)
    held = holdings_of(counts)
    drawn = [row_weights(held, mixture, sampler, n, [seed]) for seed in range(4000)]
    draws = np.array([[held.table(v * held.m) for v in pair] for pair in drawn])
    error = draws.std(axis=0) / np.sqrt(len(draws)) + 1e-12
    z = (draws.mean(axis=0) - np.array([mixture * q, q])) / error
    assert np.abs(z).max() < 4.5
    assert draws[:, 0, :, 2].max() == 0  # nobody is asked for gradients that λ does not weigh
    assert draws[:, 1, :, 2].max() > 0  # but for its loss


@pytest.mark.parametrize("sampler", [PerDomain(3), Weighted(2)])
def test_replies_are_unbiased(sampler: Any) -> None:
    """One round from w = 0 and λ_0, many seeds: the mean step is the full gradient's."""
    grid, w0 = grid_of("mixed"), np.array([0.3, -0.2, 0.1])
    start = ArrayRecord({"w": Array(w0)})
    steps = []
    for seed in range(250):
        strategy = AgnosticStrategy(
            ax.Box([0, 0, 0], [1, 1, 1]),
            steps=Steps(1.0, 1e-3),
            work=Work(sampler=sampler),
            seed=seed,
        )
        result = strategy.start(grid, start, num_rounds=1)
        steps.append(np.append(w0 - result.w, (result.mixture - 1 / 3) / 1e-3))
    full = problem().losses(w0)
    expected = np.append(problem().gradient(w0, np.full(3, 1 / 3)), full - full.mean())
    z = (np.mean(steps, axis=0) - expected) / (np.std(steps, axis=0) / np.sqrt(len(steps)))
    assert np.abs(z).max() < 4.5


def test_too_few_clients_for_the_domains() -> None:
    strategy = AgnosticStrategy(work=Work(clients_per_round=2), **STEPS)
    with pytest.raises(ValueError, match="clients_per_round is 2 for 3 domains"):
        strategy.start(grid_of(), num_rounds=1)


def test_a_point_is_standard_federated_learning() -> None:
    sizes = problem().sizes
    reference = sizes / sizes.sum()
    strategy = AgnosticStrategy(ax.Point(reference), steps=Steps(0.5, 1.0))
    result = strategy.start(grid_of(), num_rounds=200)
    pooled = ax.solve(problem(), ax.Point(reference), gamma=0.0)
    assert problem().losses(result.w) @ reference == pytest.approx(pooled.objective, abs=1e-6)


def test_mixtures_may_depend_on_the_sizes() -> None:
    strategy = AgnosticStrategy(lambda sizes: ax.Chi2Ball(sizes, 1.01), **STEPS)
    result = strategy.start(grid_of(), num_rounds=30)
    sizes = problem().sizes
    assert ax.Chi2Ball(sizes, 1.01).contains(result.mixture)
    assert not ax.Chi2Ball(sizes, 1.005).contains(result.mixture)


def test_history_is_a_frame_of_what_happened() -> None:
    grid = grid_of("mixed")
    result = AgnosticStrategy(**STEPS).start(grid, num_rounds=3)
    frame = result.history.to_frame()
    assert frame["round"].tolist() == [1, 2, 3]
    first = problem().losses(np.zeros(3))
    columns = [f"domain_losses[{name}]" for name in ("chat", "mail", "web")]
    np.testing.assert_allclose(frame.loc[0, columns].astype(float), first)
    assert frame["agnostic_loss"][0] == pytest.approx(first.max())
    assert frame["mixture[web]"][0] == pytest.approx(1 / 3)
    assert (frame[["missing", "failures", "rejected", "clipped"]].to_numpy() == 0).all()
    assert (frame["seconds"] > 0).all()
    sent = frame["bytes_sent"].sum() + frame["bytes_received"].sum()
    assert 0 < sent < grid.bytes
    assert result.train_metrics_clientapp[3]["agnostic_loss"] == frame["agnostic_loss"][2]


def test_averages_do_not_alias_the_iterate() -> None:
    results = [AgnosticStrategy(**STEPS).start(grid_of(), num_rounds=n) for n in (1, 2, 3)]
    np.testing.assert_allclose(results[2].w_average, np.mean([r.w for r in results], axis=0))
    np.testing.assert_allclose(
        results[2].mixture_average, np.mean([r.mixture for r in results], axis=0)
    )
    assert not np.allclose(results[2].w, results[2].w_average)


def test_arrays_keep_their_names_shapes_and_types() -> None:
    start = ArrayRecord(
        {"coef": Array(np.zeros((1, 2), dtype=np.float32)), "b": Array(np.zeros(1, np.float32))}
    )
    result = AgnosticStrategy(**STEPS).start(grid_of(), start, num_rounds=2)
    assert {k: (a.shape, a.dtype) for k, a in result.arrays.items()} == {
        "coef": ((1, 2), "float32"),
        "b": ((1,), "float32"),
    }
    np.testing.assert_allclose(result.arrays["coef"].numpy().ravel(), result.w[:2], rtol=1e-6)


def test_evaluate_fn_sees_every_round() -> None:
    seen: list[tuple[int, float]] = []

    def look(number: int, arrays: ArrayRecord) -> None:
        seen.append((number, float(np.linalg.norm(arrays["w"].numpy()))))

    AgnosticStrategy(**STEPS).start(grid_of(), num_rounds=3, evaluate_fn=look)
    assert [number for number, _ in seen] == [1, 2, 3]
    assert seen[0][1] != seen[1][1]


def test_a_loop_of_ones_own_makes_the_same_rounds() -> None:
    """By Flower's interface: configure_train, send, aggregate_train."""
    grid, strategy = grid_of("mixed"), AgnosticStrategy(**STEPS)
    arrays = strategy.start(grid, num_rounds=0).arrays
    for number in (1, 2, 3):
        messages = strategy.configure_train(number, arrays, ConfigRecord(), grid)
        arrays, found = strategy.aggregate_train(number, grid.send_and_receive(messages))
        assert found["round"] == number
    result = AgnosticStrategy(**STEPS).start(grid_of("mixed"), num_rounds=3)
    assert arrays["w"].numpy().tobytes() == result.w.tobytes()


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: AgnosticStrategy(ax.Objective(norm="plain")), "norm"),
        (lambda: AgnosticStrategy(ax.Objective(offsets=[0.1, 0.2, 0.3])), "offsets"),
        (lambda: AgnosticStrategy(ax.Objective(anchor=[0.1, 0.2])), "anchor"),
        (lambda: AgnosticStrategy(seed=-1), "seed"),
        (lambda: Work(clients_per_round=1.5), "clients_per_round"),  # type: ignore[arg-type]
        (lambda: Work(local_epochs=0), "local_epochs"),
        (lambda: Work(3), "sampler"),  # type: ignore[arg-type]
        (lambda: Steps(step_w=-1), "step_w"),
        (lambda: Judging(every=0), "every"),
    ],
)
def test_bad_arguments_are_named(make: Any, argument: str) -> None:
    with pytest.raises(InputError) as raised:
        make()
    assert raised.value.argument == argument


def test_the_strategy_has_ten_arguments() -> None:
    assert len(signature(AgnosticStrategy).parameters) == 10


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Limits(loss=-1), "loss is -1"),
        (lambda: Limits(rows=np.inf), "rows is inf"),
        (lambda: Patience("ignore"), "on_missing is 'ignore'"),  # type: ignore[arg-type]
        (lambda: Patience(max_failures=0), "max_failures is 0"),
        (lambda: Patience(deadline=-1), "deadline is -1"),
        (lambda: Sum(min_share=0), "min_share is 0"),
    ],
)
def test_bad_policies_are_named(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_data_and_set_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match=r"over 2 .*over the clients"):
        AgnosticStrategy(ax.Simplex(2), **STEPS).start(grid_of(), num_rounds=1)
    with pytest.raises(ValueError, match=r"initial_arrays has 5 .*3"):
        AgnosticStrategy(**STEPS).start(grid_of(), ArrayRecord([np.zeros(5)]), num_rounds=1)


@pytest.mark.slow
def test_reaches_the_certified_optimum_on_adult() -> None:
    """20 clients, two domains (doctorate or not), first order: within 1e-3 of the optimum."""
    adult = datasets.load_adult(progress=False)
    X, y, domains = adult.X, np.asarray(adult.y), np.asarray(adult.domains)
    whole = ax.LinearDomains(X, y, domains)
    parts = np.array_split(np.random.default_rng(0).permutation(len(y)), 20)
    grid = LocalGrid(app_of(X, y, domains, parts), 20)
    strategy = AgnosticStrategy(
        ax.Objective(gamma=1e-4), steps=Steps(0.1, 0.5, optimistic=True, optimizer=Adam())
    )
    result = strategy.start(grid, num_rounds=150)
    best = ax.solve(whole, gamma=1e-4).certificate
    found = ax.certify(whole, ax.Simplex(2), result.w, result.mixture, gamma=1e-4)
    assert best.upper - best.lower < 1e-6
    assert found.upper - best.lower < 1e-3
