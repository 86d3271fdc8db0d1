"""The strategy without any step size: units, convergence, which model is returned."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from flower.clients import app_of, grid_of, spread, table
from sklearn.datasets import load_diabetes, load_digits

import anymix as ax
from anymix.errors import InputError
from anymix.flower import AgnosticStrategy, LocalGrid, Privacy
from anymix.flower.coordinates import Coordinates, moments
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


@pytest.mark.parametrize(
    ("rows", "loss"), [(diabetes, ax.SquaredError()), (digits, None)], ids=["diabetes", "digits"]
)
def test_reaches_a_hundredth_of_the_first_gap_in_any_units(rows: Any, loss: Any) -> None:
    X, y, domains = rows()
    whole = ax.LinearDomains(X, y, domains, loss)
    best = ax.solve(whole, gamma=1e-3)
    run = AgnosticStrategy(gamma=1e-3).start(grid(X, y, domains, loss=loss), num_rounds=200)

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


def test_coordinates_are_a_change_of_variables() -> None:
    """⟨w, x⟩ stays, and the gradient is pulled back: against differences, by hand."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(50, 2)) * [5.0, 0.1] + [7.0, 3.0], np.ones(50)])
    new = Coordinates.of([moments(X[:20]), moments(X[20:])])
    np.testing.assert_allclose(new.mean[:2], X[:, :2].mean(axis=0))
    np.testing.assert_allclose(new.spread[:2], X[:, :2].std(axis=0))
    v = rng.normal(size=6)  # two blocks
    w = new.to_w(v)
    Z = np.column_stack([(X[:, :2] - new.mean[:2]) / new.spread[:2], np.ones(50)])
    np.testing.assert_allclose(X @ w.reshape(2, 3).T, Z @ v.reshape(2, 3).T)
    np.testing.assert_allclose(new.to_v(w), v)
    g = rng.normal(size=6)
    jacobian = np.column_stack([new.to_w(e) for e in np.eye(6)])
    np.testing.assert_allclose(new.pull_back(g), jacobian.T @ g)


def test_the_moments_of_a_client_are_those_of_its_table() -> None:
    from scipy import sparse

    from anymix.flower.client_rows import LinearRows

    X, y, domains = table()
    for rows in (X, sparse.csr_array(X)):
        found = LinearRows(ax.LinearDomains(rows, y, domains)).moments()
        np.testing.assert_allclose(found, moments(np.column_stack([X, np.ones(len(X))])))
        without = LinearRows(ax.LinearDomains(rows, y, domains, intercept=False)).moments()
        np.testing.assert_allclose(without, moments(X))


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
    run = AgnosticStrategy(step_w=15.0, step_mixture=0.3).start(
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
        strategy = AgnosticStrategy(step_w=15.0, step_mixture=0.3, output=output)
        other = strategy.start(LocalGrid(app, len(parts)), num_rounds=20)
        assert other.output == output
        expected = other.w if output == "last" else other.w_average
        np.testing.assert_array_equal(other.arrays["w"].numpy(), expected)


def test_the_best_model_is_that_of_the_whole_aim() -> None:
    """With γ the least loss alone is not the aim: the best has the least loss + γ/2 ‖w‖²."""
    X, y, domains = table()
    whole, models = ax.LinearDomains(X, y, domains), [np.zeros(3)]
    run = AgnosticStrategy(step_w=2.0, step_mixture=0.1, gamma=0.3).start(
        grid(X, y, domains), num_rounds=15, evaluate_fn=lambda t, a: models.append(a["w"].numpy())
    )

    def aim(w: Any) -> float:
        return float(whole.losses(w).max() + 0.15 * np.sum((whole.penalized * w) ** 2))

    assert aim(run.w_best) == pytest.approx(min(map(aim, [*models, run.w_average])))


def test_with_batches_the_last_model_and_the_average_are_judged_by_all_rows() -> None:
    X, y, domains = table()
    whole = ax.LinearDomains(X, y, domains)
    strategy = AgnosticStrategy(step_w=3.0, step_mixture=0.3, sampler=PerDomain(1))
    run = strategy.start(grid_of("parts"), num_rounds=30)
    worst = {
        name: whole.losses(w).max() for name, w in (("last", run.w), ("average", run.w_average))
    }
    assert run.output == min(worst, key=lambda name: worst[name])


def test_what_needs_a_step_says_so() -> None:
    with pytest.raises(InputError, match=r"server_optimizer .* without a step_w; give step_w too"):
        AgnosticStrategy(server_optimizer=Adam())
    with pytest.raises(InputError, match="local_steps is 3, without a step_w"):
        AgnosticStrategy(local_steps=3)
    with pytest.raises(InputError, match="output is 'first'"):
        AgnosticStrategy(output="first")  # type: ignore[arg-type]


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
        AgnosticStrategy(aggregation=aggregation, output="last").start(spy, num_rounds=2)
        assert heard.count("query.moments") == expected
