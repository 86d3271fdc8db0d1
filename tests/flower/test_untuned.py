"""The strategy without any step size: units, convergence, which model is returned."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from flower.clients import Tampered, app_of, grid_of, spread, table
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

import anymix as ax
from anymix.errors import InputError
from anymix.flower import AgnosticStrategy, Judging, LocalGrid, Privacy, Steps, Work
from anymix.flower.coordinates import Coordinates, moments, wrong_moments
from anymix.solvers.optimizers import Adam
from anymix.solvers.samplers import PerDomain


def grid(X: Any, y: Any, domains: Any, **options: Any) -> LocalGrid:
    parts = np.array_split(np.random.default_rng(0).permutation(len(y)), 4)
    return LocalGrid(app_of(X, y, domains, parts, **options), 4)


def diabetes() -> tuple[Any, Any, Any]:
    data = load_diabetes(scaled=False)  # columns in their own units, targets up to 346
    return data.data, data.target, np.where(data.data[:, 1] > 1, "a", "b")


def digits() -> tuple[Any, Any, Any]:
    data = load_digits()
    return data.data, data.target, data.target % 3


def tumours() -> tuple[Any, Any, Any]:
    """Columns from 0.003 to 2500, of which some nearly repeat others: radius, perimeter, area."""
    data = load_breast_cancer()
    return data.data, data.target, data.data[:, 0] > np.median(data.data[:, 0])


def repeated() -> tuple[Any, Any, Any]:
    """Forty columns, and ten that are sums of them but for a hundredth."""
    rng = np.random.default_rng(0)
    X, domains = rng.normal(size=(600, 40)), rng.integers(0, 3, 600)
    sums = X @ rng.normal(size=(40, 10)) + 0.01 * rng.normal(size=(600, 10))
    y = X[:, 0] + domains * X[:, 1] + rng.logistic(size=600)
    return 100 * np.hstack([X, sums]) + 1e4, y, domains


@pytest.mark.parametrize(
    ("rows", "loss"),
    [
        (diabetes, ax.SquaredError()),
        (digits, None),
        (tumours, None),
        (repeated, ax.SquaredError()),
    ],
    ids=["diabetes", "digits", "tumours", "repeated"],
)
def test_reaches_a_hundredth_of_the_first_gap_in_any_units(rows: Any, loss: Any) -> None:
    X, y, domains = rows()
    whole = ax.LinearDomains(X, y, domains, loss)
    best = ax.solve(whole, gamma=1e-3)
    run = AgnosticStrategy(ax.Objective(gamma=1e-3)).start(
        grid(X, y, domains, loss=loss), num_rounds=200
    )

    def gap(w: Any) -> float:
        size = 0.5e-3 * float(np.sum((whole.penalized * w) ** 2))
        return float(whole.losses(w).max() + size - best.objective)

    assert -1e-6 <= gap(run.w_best) <= 0.01 * gap(np.zeros(whole.n_parameters))


@pytest.mark.parametrize("intercept", [True, False])
def test_other_units_are_the_same_run(intercept: bool) -> None:
    """Columns in other units (and, with an intercept, from other zeros): the same losses."""
    X, y, domains = table()
    shift = np.array([100.0, -3.0]) if intercept else 0.0
    other = X * [1e3, 1e-2] + shift
    a = AgnosticStrategy().start(grid(X, y, domains, intercept=intercept), num_rounds=30)
    b = AgnosticStrategy().start(grid(other, y, domains, intercept=intercept), num_rounds=30)
    for one, two in zip(a.history, b.history, strict=True):
        np.testing.assert_allclose(one["domain_losses"], two["domain_losses"], rtol=1e-6)
        np.testing.assert_allclose(one["mixture"], two["mixture"], atol=1e-6)


def test_targets_in_other_units_are_the_same_run() -> None:
    X, y, domains = diabetes()
    square: dict[str, Any] = {"loss": ax.SquaredError()}
    a = AgnosticStrategy().start(grid(X, y, domains, **square), num_rounds=30)
    b = AgnosticStrategy().start(grid(X, 1000 * y, domains, **square), num_rounds=30)
    np.testing.assert_allclose(1000 * a.w_best, b.w_best, rtol=1e-6)


@pytest.mark.parametrize("products", [True, False])
def test_coordinates_are_a_change_of_variables(products: bool) -> None:
    """⟨w, x⟩ stays, and the gradient is pulled back: against differences, by hand."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(50, 2)) * [5.0, 0.1] + [7.0, 3.0], np.ones(50)])
    new = Coordinates.of([moments(X[:20], products), moments(X[20:], products)], 3, gamma=0.02)
    np.testing.assert_allclose(new.mean[:2], X[:, :2].mean(axis=0))
    C = np.cov(X[:, :2].T, bias=True) if products else np.diag(X[:, :2].var(axis=0))
    H = np.zeros((3, 3))
    H[:2, :2], H[2, 2] = C / 16 + 0.02 * np.eye(2), 1 / 16  # the intercept is not penalised
    A = new.A if products else np.diag(new.A)
    np.testing.assert_allclose(A.T @ H @ A, np.eye(3), atol=1e-12)  # all directions look alike
    v = rng.normal(size=6)  # two blocks
    w = new.to_w(v)
    Z = np.column_stack([X[:, :2] - new.mean[:2], np.ones(50)]) @ A
    np.testing.assert_allclose(X @ w.reshape(2, 3).T, Z @ v.reshape(2, 3).T)
    np.testing.assert_allclose(new.to_v(w), v)
    g = rng.normal(size=6)
    jacobian = np.column_stack([new.to_w(e) for e in np.eye(6)])
    np.testing.assert_allclose(new.pull_back(g), jacobian.T @ g)


def test_the_moments_of_a_client_are_those_of_its_table() -> None:
    from scipy import sparse

    from anymix.flower.client_rows import LinearRows

    X, y, domains = table()
    Z = np.column_stack([X, np.ones(len(X))])
    squares = np.concatenate([np.full(3, len(X)), Z.sum(axis=0), (Z * Z).sum(axis=0)])
    products = np.concatenate([squares[:6], (Z.T @ Z)[np.triu_indices(3)]])
    for rows in (X, sparse.csr_array(X)):
        linear = LinearRows(ax.LinearDomains(rows, y, domains))
        np.testing.assert_allclose(linear.moments(), squares)
        np.testing.assert_allclose(linear.moments(products=True), products)
        without = LinearRows(ax.LinearDomains(rows, y, domains, intercept=False))
        np.testing.assert_allclose(without.moments(), moments(X))


def test_coordinates_of_columns_that_tell_nothing_are_numbers() -> None:
    """Zeros, a constant, twice the same column, one that hardly moves, with no penalty at all."""
    rng = np.random.default_rng(0)
    x, n = rng.normal(size=50), np.ones(50)
    for X in ([0 * n, 5 * n, x, x, 1e8 + x, n], [x, 3 * x, 0 * n]):
        table = np.column_stack(X)
        for products in (True, False):
            new = Coordinates.of([moments(table, products)], table.shape[1])
            assert np.isfinite(new.A).all()
            spread = (table - new.mean) @ (new.A if products else np.diag(new.A))
            assert np.abs(spread).max() < 40  # nothing is blown up
            w = rng.normal(size=table.shape[1])
            np.testing.assert_allclose(table @ new.to_w(new.to_v(w)), table @ w, rtol=1e-6)


def test_sums_of_no_table_are_not_believed() -> None:
    good = moments(np.array([[1.0, 2.0], [3.0, 5.0]]), products=True)
    assert wrong_moments(good, 2) is None
    for place, number in ((0, 0.0), (4, -1.0), (6, -1.0), (5, 1e200)):
        bad = good.copy()
        bad[place] = number
        assert wrong_moments(bad, 2) is not None


def test_a_client_that_lies_about_its_columns_does_not_stop_the_others() -> None:
    X, y, domains = table()
    parts = spread("parts", domains)

    def lie(arrays: Any, settings: Any) -> None:
        arrays["moments"] = 1e300 * arrays["moments"]

    app = Tampered(app_of(X, y, domains, parts), 0, lie, "query.moments")
    run = AgnosticStrategy().start(LocalGrid(app, len(parts)), num_rounds=60)
    best = ax.solve(ax.LinearDomains(X, y, domains), gamma=0.0).objective
    assert run.history[-1]["agnostic_loss"] < best + 0.01


def test_a_resumed_run_takes_the_same_steps(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    AgnosticStrategy(checkpoint=path).start(grid_of(), num_rounds=3)
    resumed = AgnosticStrategy(checkpoint=path).start(grid_of(), num_rounds=7)
    calm = AgnosticStrategy().start(grid_of(), num_rounds=7)
    assert resumed.w.tobytes() == calm.w.tobytes()
    assert resumed.w_best.tobytes() == calm.w_best.tobytes()
    assert resumed.mixture.tobytes() == calm.mixture.tobytes()


def test_the_result_is_the_best_of_the_models() -> None:
    """With a step that jumps about, the least of all worst-domain losses is what comes back."""
    X, y, domains = table()
    whole, models = ax.LinearDomains(X, y, domains), []
    parts = spread("parts", domains)
    app = app_of(X, y, domains, parts)
    run = AgnosticStrategy(steps=Steps(15.0, 0.3)).start(
        LocalGrid(app, len(parts)),
        num_rounds=20,
        evaluate_fn=lambda t, arrays: models.append(arrays["w"].numpy()),
    )
    worst = [whole.losses(w).max() for w in [np.zeros(3), *models, run.w_average]]
    assert whole.losses(run.w_best).max() == pytest.approx(min(worst))
    assert whole.losses(run.w).max() > min(worst) + 1e-3
    np.testing.assert_array_equal(run.arrays["w"].numpy(), run.w_best)
    outputs: tuple[Literal["last", "average"], ...] = ("last", "average")
    for output in outputs:
        strategy = AgnosticStrategy(steps=Steps(15.0, 0.3), judging=Judging(output=output))
        other = strategy.start(LocalGrid(app, len(parts)), num_rounds=20)
        assert other.output == output
        expected = other.w if output == "last" else other.w_average
        np.testing.assert_array_equal(other.arrays["w"].numpy(), expected)


def test_the_best_model_is_that_of_the_whole_aim() -> None:
    """With γ the least loss alone is not the aim: the best has the least loss + γ/2 ‖w‖²."""
    X, y, domains = table()
    whole, models = ax.LinearDomains(X, y, domains), [np.zeros(3)]
    run = AgnosticStrategy(ax.Objective(gamma=0.3), steps=Steps(2.0, 0.1)).start(
        grid(X, y, domains), num_rounds=15, evaluate_fn=lambda t, a: models.append(a["w"].numpy())
    )

    def aim(w: Any) -> float:
        return float(whole.losses(w).max() + 0.15 * np.sum((whole.penalized * w) ** 2))

    assert aim(run.w_best) == pytest.approx(min(map(aim, [*models, run.w_average])))


def test_with_batches_the_last_model_and_the_average_are_judged_by_all_rows() -> None:
    X, y, domains = table()
    whole = ax.LinearDomains(X, y, domains)
    strategy = AgnosticStrategy(steps=Steps(3.0, 0.3), work=Work(sampler=PerDomain(1)))
    run = strategy.start(grid_of("parts"), num_rounds=30)
    worst = {
        name: whole.losses(w).max() for name, w in (("last", run.w), ("average", run.w_average))
    }
    assert run.output == min(worst, key=lambda name: worst[name])


def test_what_needs_a_step_says_so() -> None:
    with pytest.raises(InputError, match=r"optimizer .* without a step_w; give step_w too"):
        AgnosticStrategy(steps=Steps(optimizer=Adam()))
    with pytest.raises(InputError, match="local_epochs is 3, without a step_w"):
        AgnosticStrategy(work=Work(local_epochs=3))
    with pytest.raises(InputError, match="output is 'first'"):
        AgnosticStrategy(judging=Judging(output="first"))  # type: ignore[arg-type]


def test_with_a_promise_of_privacy_no_columns_are_asked_for() -> None:
    heard: list[str] = []

    class Spy(LocalGrid):
        def _push(self, message: Any) -> str:
            heard.append(message.metadata.message_type)
            return super()._push(message)

    X, y, domains = table()
    parts = spread("parts", domains)
    private = Privacy(0.1, 0.1, update_noise=1.0, loss_noise=1.0, seed=0)
    for aggregation, expected in ((private, 0), (None, 6)):
        heard.clear()
        spy = Spy(app_of(X, y, domains, parts), len(parts))
        AgnosticStrategy(judging=Judging(output="last"), aggregation=aggregation).start(
            spy, num_rounds=2
        )
        assert heard.count("query.moments") == expected
