from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anymix.flower import Limits, Sum
from anymix.flower.aggregation import Contribution, rebalance


@given(st.integers(0, 2**32 - 1))
def test_rebalanced_masses_are_those_asked_for(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(2, 8)), int(rng.integers(1, 4))
    A = rng.random((n, p)) * (rng.random((n, p)) < 0.6)
    here = rng.random(n) < 0.7
    f = rebalance(A, here)
    if f is not None:
        assert (f >= 0).all()
        np.testing.assert_allclose(f @ A[here], A.sum(axis=0), rtol=1e-8, atol=1e-11)
    if np.all((A[here] > 0).sum(axis=1) <= 1) and np.all(A[here].sum(axis=0) > 0):
        share = A[here].sum(axis=0) / A.sum(axis=0)  # clients of one domain: always possible
        assert f is not None
        owner = A[here].argmax(axis=1)
        busy = A[here].sum(axis=1) > 0
        np.testing.assert_allclose(f[busy], 1 / share[owner[busy]], rtol=1e-8)


def test_a_domain_without_any_answer_is_never_rebalanced() -> None:
    A = np.array([[0.5, 0.0], [0.0, 0.5]])
    given = {0: Contribution(np.ones(2), np.array([1.0, 0.0]))}
    assert Sum(min_share=0.01).add_up(given, A, 2 * A, step=1) is None
    assert rebalance(A, np.array([True, False])) is None


def test_sums_do_not_depend_on_the_order_of_the_answers() -> None:
    rng = np.random.default_rng(0)
    A = np.full((6, 2), 0.1)
    given = {i: Contribution(rng.normal(size=3), rng.random(2)) for i in range(6)}
    turned = {i: given[i] for i in (3, 0, 5, 1, 4, 2)}
    for one, two in zip(
        Sum().add_up(given, A, A, 1) or (), Sum().add_up(turned, A, A, 1) or (), strict=True
    ):
        assert one.tobytes() == two.tobytes()


def test_limits_cut_by_mass_and_leave_the_rest_alone() -> None:
    given = Contribution(np.array([3.0, 4.0]), np.array([0.5, -0.1, 0.2]))
    A, B = np.array([0.2, 0.1, 0.2]), np.array([0.2, 0.5, 0.5])
    assert Limits().cut(given, A, B, 1) is given
    assert Limits(update=10.0).cut(given, A, B, 1) is given  # 10 · 0.5 is its length
    cut = Limits(loss=1.0, update=1.0).cut(given, A, B)
    np.testing.assert_allclose(cut.losses, [0.2, 0.0, 0.2])
    np.testing.assert_allclose(cut.update, [0.3, 0.4])
    two = Contribution(np.array([3.0, 4.0, 0.0, 0.1]), given.losses)  # with the gradients of epochs
    cut = Limits(update=1.0).cut(two, A, B, vectors=2)
    np.testing.assert_allclose(cut.update, [0.3, 0.4, 0.0, 0.1])
