"""How often bounds fail on generated data whose truth is known, and how wide they are.

Each quick test has a slow one with more sizes, which goes through the public function for every
data set. Run with -s to see the widths.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anymix as ax
from anymix.auditing.bounded import Bounded
from anymix.bounds import Complexity, finite_rademacher, generalization, held_out, tightest

Array = NDArray[np.float64]
DELTA, SETS = 0.1, 500
ALLOWED = DELTA + 2.5 * math.sqrt(DELTA * (1 - DELTA) / SETS)

# (rng, shape, domain) -> losses in [0, 1], and the mean of each domain
SHAPES: dict[str, tuple[Callable[..., Array], list[float]]] = {
    "0-1, rare": (lambda r, n, k: (r.random(n) < 0.01 + 0.02 * k) * 1.0, [0.01, 0.03, 0.05]),
    "skewed": (lambda r, n, k: r.beta(0.5, 9.5 - k, n), [0.5 / (10 - k) for k in range(3)]),
    "bimodal": (lambda r, n, k: r.beta(0.1, 0.1 * (k + 1), n), [1 / 2, 1 / 3, 1 / 4]),
    "uniform": (lambda r, n, k: r.random(n) * (1 - 0.2 * k), [0.5, 0.4, 0.3]),
}


def lambdas(sizes: Array) -> dict[str, ax.MixtureSet]:
    return {
        "simplex": ax.Simplex(3),
        "box": ax.Box([0.1, 0.1, 0.1], [0.6, 0.6, 0.8]),
        "chi2": ax.Chi2Ball(sizes, 1.3),
    }


def hoeffding_and_union(means: Array, sizes: Array, target: ax.MixtureSet) -> float:
    high = np.minimum(means + np.sqrt(math.log(len(sizes) / DELTA) / (2 * sizes)), 1)
    return float(target.maximize(high) @ high)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_value_covers_where_the_worst_domain_is_small(shape: str) -> None:
    """What `held_out` gives, without reading the losses anew for each data set."""
    draw, truth = SHAPES[shape]
    rng, failed, low_failed, ours, theirs = np.random.default_rng(1), 0, 0, [], []
    sizes = np.array([150.0, 120.0, 60.0])
    for i in range(SETS):
        parts = tuple(draw(rng, int(n), k) for k, n in enumerate(sizes))
        found = Bounded(parts, 1.0, False, True).agnostic(ax.Simplex(3), DELTA)
        failed += found.high < max(truth)
        low_failed += found.low > max(truth)
        means = np.array([x.mean() for x in parts])
        ours.append(found.high - means.max())
        theirs.append(hoeffding_and_union(means, sizes, ax.Simplex(3)) - means.max())
        if i < 3:
            d = np.repeat(np.arange(3), sizes.astype(int))
            assert held_out(np.concatenate(parts), d, delta=DELTA).value == found.high
    assert max(failed, low_failed) / SETS <= ALLOWED
    print(f"\n{shape}: width {np.mean(ours):.4f}, Hoeffding and union {np.mean(theirs):.4f}")
    assert np.mean(ours) < (0.75 if shape in ("skewed", "0-1, rare") else 0.95) * np.mean(theirs)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simplex", "box", "chi2"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("sizes", [(2000, 400, 5), (150, 100, 120)], ids=str)
def test_held_out_covers(shape: str, name: str, sizes: tuple[int, ...]) -> None:
    draw, truth = SHAPES[shape]
    m, rng = np.array(sizes, dtype=np.float64), np.random.default_rng(2)
    target, d = lambdas(m)[name], np.repeat(np.arange(3), sizes)
    agnostic = float(target.maximize(truth) @ np.array(truth))
    failed, low_failed, ours, theirs = 0, 0, [], []
    for _ in range(SETS):
        parts = [draw(rng, n, k) for k, n in enumerate(sizes)]
        found = held_out(np.concatenate(parts), d, target, DELTA)
        failed += found.value < agnostic
        low_failed += found.low > agnostic
        wide = hoeffding_and_union(found.domain_losses, m, target)
        ours.append(found.value - found.agnostic_loss)
        theirs.append(wide - found.agnostic_loss)
    print(
        f"\n{shape}, {name} ({found.way}), {sizes}: fails {failed / SETS:.3f} above, "
        f"{low_failed / SETS:.3f} below; width {np.mean(ours):.4f}, Hoeffding {np.mean(theirs):.4f}"
    )
    assert max(failed, low_failed) / SETS <= ALLOWED
    if shape == "skewed" and min(sizes) >= 100:
        assert np.mean(ours) <= 0.7 * np.mean(theirs)


def test_direct_bounds_of_small_sets_cover() -> None:
    """Corners and centre, on which the union has no say."""
    rng, n = np.random.default_rng(3), 12
    sizes = np.full(12, float(n))
    truth = np.linspace(0.05, 0.25, 12)
    d = np.repeat(np.arange(12), n)
    for target, way in (
        (ax.Point(np.repeat([0.15, 0.05, 0.05], 4) / 1.0), "corners"),
        (ax.Chi2Ball(sizes, 1.02), "center"),
    ):
        agnostic = float(target.maximize(truth) @ truth)
        found = [held_out(rng.beta(0.5, 0.5 / truth[d] - 0.5), d, target, DELTA) for _ in range(40)]
        assert {f.way for f in found} == {way}
        assert np.mean([f.value < agnostic for f in found]) <= DELTA
        assert np.mean([f.low > agnostic for f in found]) <= DELTA


THETAS, NOISE = np.array([0.3, 0.5, 0.6]), np.array([0.05, 0.1, 0.2])
GRID = np.linspace(0, 1, 21)  # the models: 1{x > t}, whose losses are known


def wrong(rng: np.random.Generator, n: int, k: int, n_sets: int) -> NDArray[np.bool_]:
    """Whether each model errs on each of n rows of domain k, (sets, 21, n)."""
    x = rng.random((n_sets, n))
    y = (x > THETAS[k]) ^ (rng.random((n_sets, n)) < NOISE[k])
    return np.stack([(x > t) != y for t in GRID], axis=1)


def thresholds(rng: np.random.Generator, n: int, k: int, n_sets: int) -> Array:
    """The mean 0-1 loss of every model, (sets, 21)."""
    return np.asarray(wrong(rng, n, k, n_sets).mean(axis=2))


@pytest.mark.parametrize("name", ["simplex", "box", "chi2"])
def test_generalization_holds_for_every_model_at_once(name: str) -> None:
    """21 thresholds: a finite class, and one of VC dimension 1. The worst of them is checked."""
    sizes, rng = np.array([400.0, 100.0, 30.0]), np.random.default_rng(4)
    target = lambdas(sizes)[name]
    losses = np.stack([thresholds(rng, int(n), k, SETS) for k, n in enumerate(sizes)], axis=2)
    truth = NOISE + (1 - 2 * NOISE) * np.abs(GRID[:, None] - THETAS)  # (21, p)
    agnostic = np.array([target.maximize(row) @ row for row in truth])
    for c in (Complexity.finite(21, sizes), Complexity.vc(1, sizes, spread=1.0)):
        failed, values = 0, list[float]()
        for table in losses[:: 1 if name != "chi2" else 25]:  # balls take longer
            h = int(np.argmax(agnostic - np.max(table, axis=1)))  # what the rows flatter most
            found = (
                generalization(table[h], sizes, c, target, DELTA)
                if len(values) % 5
                else tightest(table[h], sizes, c, target, DELTA)
            )
            failed += found.value < agnostic[h]
            values.append(found.value)
        print(f"\n{name}: fails {failed / len(values):.3f}, mean bound {np.mean(values):.3f}")
        assert failed / len(values) <= ALLOWED


def test_generalization_holds_with_a_complexity_of_the_rows() -> None:
    """Few rows and draws and δ = ½, so that the bound is below 1 and may fail."""
    sizes, rng, delta, n_sets = (60, 40, 20), np.random.default_rng(7), 0.5, 200
    rows = [wrong(rng, n, k, n_sets) for k, n in enumerate(sizes)]
    d, target = np.repeat(np.arange(3), sizes), ax.Point([0.5, 0.3, 0.2])
    truth = (NOISE + (1 - 2 * NOISE) * np.abs(GRID[:, None] - THETAS)) @ target.center  # (21,)
    failed, values = 0, list[float]()
    for table in zip(*rows, strict=True):
        c = finite_rademacher(np.concatenate(table, axis=1), d, n_draws=100, seed=rng)
        means = np.array([part.mean(axis=1) for part in table]).T  # (21, p)
        h = int(np.argmax(truth - means @ target.center))  # what the rows flatter most
        found = generalization(means[h], sizes, c, target, delta)
        failed += found.value < truth[h]
        values.append(found.value)
    print(f"\nfails {failed / n_sets:.3f}, mean bound {np.mean(values):.3f}")
    assert np.mean(values) < 0.9
    assert failed / n_sets <= delta


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simplex", "box", "chi2"])
def test_generalization_with_n_from_5_to_2000(name: str) -> None:
    sizes, rng = np.array([2000.0, 100.0, 5.0]), np.random.default_rng(5)
    target = lambdas(sizes)[name]
    losses = np.stack([thresholds(rng, int(n), k, SETS) for k, n in enumerate(sizes)], axis=2)
    truth = NOISE + (1 - 2 * NOISE) * np.abs(GRID[:, None] - THETAS)
    agnostic = np.array([target.maximize(row) @ row for row in truth])
    c: Any = Complexity.finite(21, sizes)
    failed = 0
    for table in losses:
        h = int(np.argmax(agnostic - np.max(table, axis=1)))
        failed += generalization(table[h], sizes, c, target, DELTA).value < agnostic[h]
    print(f"\n{name}: fails {failed / SETS:.3f}")
    assert failed / SETS <= ALLOWED
