"""Full columns apart: the same products, Jacobians and proofs as with one sparse matrix."""

import numpy as np
import pytest
from scipy import sparse

import anymix as ax
from anymix.problem.weighted import split_columns


def rows_with_full_columns(n: int = 600, levels: int = 620) -> tuple[sparse.csr_array, np.ndarray]:
    """40 numbers, of which three are equal, and the places of five words in every row."""
    rng = np.random.default_rng(3)
    words = np.zeros((n, levels))
    words[np.arange(n)[:, None], rng.integers(levels, size=(n, 5))] = 1
    X = np.hstack([rng.normal(size=(n, 40)), words])
    X[:, [7, 39]] = X[:, [3]]
    y = (X[:, 0] - X[:, 41] + rng.logistic(size=n) > 0).astype(float)
    return sparse.csr_array(X), y


def test_the_parts_make_up_the_whole() -> None:
    X, _ = rows_with_full_columns()
    split = split_columns(X)
    assert split is not None
    assert split.places.tolist() == list(range(40))
    assert split.block.shape == (600, 38)
    w, v = np.random.default_rng(0).normal(size=(2, 700))
    dense = X.toarray()
    np.testing.assert_allclose(split.times(w[:660]), dense @ w[:660], rtol=0, atol=1e-12)
    np.testing.assert_allclose(split.pulled_back(v[:600]), dense.T @ v[:600], rtol=0, atol=1e-12)


@pytest.mark.parametrize("entries", [10, 10**7])
def test_too_few_or_too_many_entries_stay_together(entries: int) -> None:
    X, _ = rows_with_full_columns()
    assert split_columns(X, least=entries, most=entries + 1) is None


def test_losses_and_jacobian_are_those_of_dense_rows() -> None:
    X, y = rows_with_full_columns()
    names = np.sort(np.arange(600) % 3)  # one stretch of rows for each domain
    w = np.random.default_rng(1).normal(size=661) / 10
    apart, dense = (ax.LinearDomains(Z, y, names) for Z in (X, X.toarray()))
    apart.at(w).jacobian()  # from now on the full columns are apart
    assert apart._known_split is not None
    np.testing.assert_allclose(apart.at(w).jacobian(), dense.at(w).jacobian(), atol=1e-12)
    np.testing.assert_allclose(apart.at(w).losses, dense.at(w).losses, atol=1e-12)
    lam = np.array([0.2, 0.3, 0.5])
    for name in ("gradient", "hessian_diagonal"):
        np.testing.assert_allclose(
            getattr(apart.at(w), name)(lam), getattr(dense.at(w), name)(lam), atol=1e-12
        )
