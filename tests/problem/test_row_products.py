"""Σ_i h_i x_i x_iᵀ from products made once, against the dense sum."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import anymix as ax
from anymix.problem import weighted as module
from anymix.problem.weighted import gram_of_products, products


@settings(max_examples=300)
@given(st.integers(0, 2**32 - 1), st.integers(0, 8), st.integers(1, 6), st.floats(0, 1))
def test_the_matrix_is_that_of_the_dense_rows(seed: int, n: int, d: int, density: float) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    h = rng.normal(size=n)
    made = products(sparse.csr_array(X))
    assert made is not None
    np.testing.assert_allclose(gram_of_products(made, h), X.T @ (h[:, None] * X), atol=1e-12)


def test_columns_in_no_order_are_read_right() -> None:
    X = sparse.csr_array((np.array([3.0, 2.0]), np.array([2, 0]), np.array([0, 2])), shape=(1, 3))
    assert not X.has_sorted_indices
    made = products(X)
    assert made is not None
    np.testing.assert_array_equal(
        gram_of_products(made, np.ones(1)), np.outer([2, 0, 3], [2, 0, 3])
    )


def test_dense_wide_and_long_rows_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert products(np.eye(3)) is None
    assert products(sparse.csr_array((2, module.WIDEST + 1))) is None
    monkeypatch.setattr(module, "MOST_PRODUCTS", 5)
    assert products(sparse.csr_array(np.ones((1, 2)))) is not None
    assert products(sparse.csr_array(np.ones((1, 3)))) is None


@pytest.mark.parametrize("classes", [2, 3])
def test_hessians_of_sparse_rows_are_those_of_dense_ones(classes: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)) * (rng.random((60, 4)) < 0.5)
    y, d = rng.integers(0, classes, 60), rng.integers(0, 3, 60)
    dense, few = ax.LinearDomains(X, y, d), ax.LinearDomains(sparse.csr_array(X), y, d)
    w, mixture = rng.normal(size=dense.n_parameters), np.array([0.9, 0.1, 0.0])
    for n_rows in (None, 20):
        exact = dense.at(w).hessian(mixture)
        np.testing.assert_allclose(few.at(w).hessian(mixture, n_rows), exact, atol=1e-12)
