"""LinearDomains against a plain loop over rows, differences, and the inequality of Fenchel."""

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit, logsumexp, softmax

from anymix.errors import InputError
from anymix.problem import linear, weighted
from anymix.problem.arrays import encode
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import CrossEntropy, Hinge, Huber, Loss, SquaredError

Array = NDArray[np.float64]

LOSSES: dict[str, Loss] = {
    "binary": CrossEntropy(),
    "multiclass": CrossEntropy(),
    "squared": SquaredError(),
    "huber": Huber(0.8),
    "hinge": Hinge(),
}
SMOOTH = [kind for kind in LOSSES if kind != "hinge"]
kinds = pytest.mark.parametrize("kind", LOSSES)
smooth_kinds = pytest.mark.parametrize("kind", SMOOTH)
seeds = st.integers(0, 2**32 - 1)


# -- the same thing, slowly --------------------------------------------------------------------


@dataclass
class Rows:
    """Rows as plain arrays: X (n, d), y (n,) codes or numbers, S (n, p) weights in the domains."""

    kind: str
    X: Array
    y: Array
    S: Array
    intercept: bool = True
    n_classes: int = 4

    @property
    def n_scores(self) -> int:
        return self.n_classes if self.kind == "multiclass" else 1

    @property
    def n_parameters(self) -> int:
        return self.n_scores * (int(self.X.shape[1]) + self.intercept)

    def problem(self, X: Any = None, domains: Any = None, **options: Any) -> LinearDomains:
        options = {"intercept": self.intercept, **options}
        if self.kind == "multiclass":
            options.setdefault("classes", np.arange(self.n_classes))
        elif self.kind in ("binary", "hinge"):
            options.setdefault("classes", [0, 1])
        y = self.y if self.kind in ("squared", "huber") else self.y.astype(np.int64)
        return LinearDomains(
            self.X if X is None else X,
            y,
            sparse.csr_array(self.S) if domains is None else domains,
            LOSSES[self.kind],
            **options,
        )


def row_terms(kind: str, z: Array, y: float) -> tuple[float, Array, Array]:
    """ℓ, its gradient (K,) and its Hessian (K, K) at the scores z (K,) of one row."""
    if kind == "multiclass":
        p = softmax(z)
        return (
            float(logsumexp(z) - z[int(y)]),
            p - np.eye(len(z))[int(y)],
            np.diag(p) - np.outer(p, p),
        )
    value, slope, curvature = one_score_terms(kind, float(z[0]), y)
    return value, np.array([slope]), np.array([[curvature]])


def one_score_terms(kind: str, z: float, y: float) -> tuple[float, float, float]:
    """ℓ, ℓ' and ℓ''."""
    r = z - y
    if kind == "binary":
        return float(np.logaddexp(0, z)) - y * z, float(expit(z)) - y, float(expit(z) * expit(-z))
    if kind == "hinge":
        s = 1.0 if y == 1 else -1.0
        return (1 - s * z, -s, 0.0) if s * z < 1 else (0.0, 0.0, 0.0)
    if kind == "squared" or abs(r) <= 0.8:
        return r * r / 2, r, 1.0
    return 0.8 * abs(r) - 0.32, 0.8 if r > 0 else -0.8, 0.0


def slowly(rows: Rows, w: Array) -> tuple[Array, Array, Array]:
    """Losses (p,), gradients (p, N) and Hessians (p, N, N) of the domains, row by row."""
    p, size = rows.S.shape[1], rows.n_parameters
    losses, gradients, hessians = np.zeros(p), np.zeros((p, size)), np.zeros((p, size, size))
    for x, y, weights in zip(rows.X, rows.y, rows.S, strict=True):
        x1 = np.append(x, 1.0) if rows.intercept else x
        value, slope, curvature = row_terms(rows.kind, w.reshape(rows.n_scores, -1) @ x1, y)
        for k in np.flatnonzero(weights):
            share = weights[k] / rows.S[:, k].sum()
            losses[k] += share * value
            gradients[k] += share * np.kron(slope, x1)
            hessians[k] += share * np.kron(curvature, np.outer(x1, x1))
    return losses, gradients, hessians


def draw_rows(
    kind: str, seed: int, n: int = 40, d: int = 3, p: int = 3, intercept: bool = True, **more: Any
) -> Rows:
    """Random rows; a third of X is zero, every row is in one domain and every domain has one."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7), 2)
    n_classes = more.get("n_classes", 4)
    y = rng.normal(size=n)
    if kind in ("binary", "hinge", "multiclass"):
        y = rng.integers(0, n_classes if kind == "multiclass" else 2, n).astype(np.float64)
    k = rng.permutation(np.append(np.arange(p), rng.integers(0, p, n - p)))
    return Rows(kind, X, y, np.eye(p)[k], intercept, **more)


def overlapping(rows: Rows, seed: int, boolean: bool = False) -> Rows:
    """The same rows, each in no, one or several domains."""
    rng = np.random.default_rng(seed)
    weights = np.ones(rows.S.shape) if boolean else rng.uniform(0.1, 3, rows.S.shape)
    S: Array = np.where(rng.random(rows.S.shape) < 0.5, weights, 0.0)
    S[np.arange(S.shape[1]), np.arange(S.shape[1])] = 1.0
    return Rows(rows.kind, rows.X, rows.y, S, rows.intercept, rows.n_classes)


def labels(rows: Rows) -> NDArray[np.intp]:
    return np.nonzero(rows.S)[1]


def assert_same(problem: LinearDomains, rows: Rows, seed: int, rtol: float = 1e-12) -> None:
    """Every quantity of the problem is that of the loop, up to rounding."""
    rng = np.random.default_rng(seed)
    w, v = rng.normal(size=(2, rows.n_parameters))
    mixture = rng.dirichlet(np.ones(rows.S.shape[1]))
    mixture[rng.integers(len(mixture))] = 0.0  # domains with no weight take a shortcut
    losses, gradients, hessians = slowly(rows, w)
    here = problem.at(w)
    scale = 1 + np.abs(hessians).max(initial=0.0)
    for ours, theirs in [
        (problem.losses(w), losses),
        (here.losses, losses),
        (here.jacobian(), gradients),
        (here.gradient(mixture), mixture @ gradients),
        (problem.gradient(w, mixture), mixture @ gradients),
    ]:
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * scale)
    if problem.loss.is_smooth:
        hessian = np.tensordot(mixture, hessians, 1)
        for ours, theirs in [
            (here.hessian(mixture), hessian),
            (problem.hessian(w, mixture), hessian),
            (here.hessian(mixture, n_rows=10**6), hessian),
            (here.hessian_vector(mixture, v), hessian @ v),
            (here.hessian_diagonal(mixture), np.diag(hessian)),
            *zip(here.hessian_blocks(mixture, 10**6), diagonal_blocks(hessian, rows), strict=True),
        ]:
            np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * scale)


def diagonal_blocks(hessian: Array, rows: Rows) -> list[Array]:
    """The block of every score."""
    cuts = np.split(np.arange(rows.n_parameters), rows.n_scores)
    return [hessian[np.ix_(cut, cut)] for cut in cuts]


def wide_indices(X: Any) -> Any:
    """The same matrix with 64-bit indices, as very large ones have."""
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def stored_twice(X: Any) -> Any:
    """2X with every entry stored twice and columns unsorted, which CSR allows."""
    data, indices, indptr = [], [], [0]
    for row in range(X.shape[0]):
        part = slice(X.indptr[row], X.indptr[row + 1])
        data += [*X.data[part], *X.data[part][::-1]]
        indices += [*X.indices[part], *X.indices[part][::-1]]
        indptr.append(len(data))
    return sparse.csr_array((data, indices, indptr), shape=X.shape)


CONTAINERS: dict[str, Callable[[Array], Any]] = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "lists": lambda X: X.tolist(),
    "float32": lambda X: X.astype(np.float32),
    "int": lambda X: np.rint(10 * X).astype(np.int32),
    "bool": lambda X: X > 0,
    "csr": sparse.csr_array,
    "csr_matrix": sparse.csr_matrix,
    "csr_int64": lambda X: wide_indices(sparse.csr_array(X)),
    "csr_twice": lambda X: stored_twice(sparse.csr_array(X)),
    "csc": sparse.csc_array,
    "coo": sparse.coo_array,
    "csr_int": lambda X: sparse.csr_array(np.rint(10 * X).astype(np.int32)),
    "pandas": lambda X: pd.DataFrame(X),
    "pandas_mixed": lambda X: pd.DataFrame(X).assign(flag=X[:, 0] > 0, count=np.arange(len(X))),
    "polars": lambda X: pl.DataFrame(X),
}


@kinds
@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_of_features(kind: str, container: str) -> None:
    rows = draw_rows(kind, 0)
    X = CONTAINERS[container](rows.X)
    dense = X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
    rows.X = dense.astype(np.float64)
    problem = rows.problem(X=X, domains=labels(rows))
    assert (problem.n_rows, problem.n_features) == rows.X.shape
    assert problem.n_parameters == rows.n_parameters
    assert_same(problem, rows, 1)


MEMBERSHIPS: dict[str, Callable[[Array], Any]] = {
    "floats": lambda S: S,
    "lists": lambda S: S.tolist(),
    "objects": lambda S: S.astype(object),
    "csr": sparse.csr_array,
    "csc_matrix": sparse.csc_matrix,
    "pandas": lambda S: pd.DataFrame(S, columns=["old", "female", "abroad"]),
    "polars": lambda S: pl.DataFrame(S, schema=["old", "female", "abroad"]),
}


@kinds
@pytest.mark.parametrize("container", MEMBERSHIPS)
@pytest.mark.parametrize("features", [np.asarray, sparse.csr_array])
def test_domains_may_overlap(kind: str, container: str, features: Callable[..., Any]) -> None:
    rows = overlapping(draw_rows(kind, 2), 3)
    assert np.any(rows.S.sum(axis=1) == 0)
    problem = rows.problem(X=features(rows.X), domains=MEMBERSHIPS[container](rows.S))
    np.testing.assert_allclose(problem.sizes, rows.S.sum(axis=0), rtol=1e-14)
    named = ["old", "female", "abroad"] if container in ("pandas", "polars") else [0, 1, 2]
    assert problem.domain_names.tolist() == named  # columns keep their order
    assert_same(problem, rows, 4)


@pytest.mark.parametrize("container", [np.asarray, pd.DataFrame, pl.DataFrame, sparse.csr_array])
def test_boolean_memberships(container: Callable[..., Any]) -> None:
    rows = overlapping(draw_rows("binary", 5), 6, boolean=True)
    assert_same(rows.problem(domains=container(rows.S > 0)), rows, 7)


@kinds
@pytest.mark.parametrize("features", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_sample_weights(
    kind: str, features: Callable[..., Any], overlap: bool, intercept: bool
) -> None:
    rows = draw_rows(kind, 8, intercept=intercept)
    domains: Any = labels(rows)
    if overlap:
        rows = overlapping(rows, 9)
        domains = rows.S.copy()
    weight = np.random.default_rng(10).integers(0, 4, len(rows.y))
    rows.S = rows.S * weight[:, None]
    problem = rows.problem(X=features(rows.X), domains=domains, sample_weight=weight)
    np.testing.assert_allclose(problem.sizes, rows.S.sum(axis=0), rtol=1e-14)
    np.testing.assert_allclose(problem.reference.sum(), 1.0, rtol=1e-14)
    assert_same(problem, rows, 11)


@given(
    kind=st.sampled_from(sorted(LOSSES)),
    seed=seeds,
    n=st.integers(4, 12),
    d=st.integers(0, 3),
    p=st.integers(1, 4),
    overlap=st.booleans(),
    is_sparse=st.booleans(),
    intercept=st.booleans(),
    n_classes=st.integers(3, 5),
)
def test_any_problem_is_its_loop(
    kind: str,
    seed: int,
    n: int,
    d: int,
    p: int,
    overlap: bool,
    is_sparse: bool,
    intercept: bool,
    n_classes: int,
) -> None:
    rows = draw_rows(kind, seed, n, max(d, 1 - intercept), p, intercept, n_classes=n_classes)
    if overlap:
        rows = overlapping(rows, seed + 1)
    X: Any = sparse.csr_array(rows.X) if is_sparse else rows.X
    assert_same(rows.problem(X=X), rows, seed + 2, rtol=1e-11)


@smooth_kinds
@pytest.mark.parametrize("features", [np.asarray, sparse.csr_array])
def test_derivatives_are_differences(kind: str, features: Callable[..., Any]) -> None:
    rows = overlapping(draw_rows(kind, 12), 13)
    problem, rng, h = rows.problem(X=features(rows.X)), np.random.default_rng(14), 1e-5
    w = rng.normal(size=rows.n_parameters)
    here, mixture = problem.at(w), rng.dirichlet(np.ones(3))
    for e in np.eye(rows.n_parameters):
        difference = (problem.losses(w + h * e) - problem.losses(w - h * e)) / (2 * h)
        np.testing.assert_allclose(here.jacobian() @ e, difference, atol=1e-8)
        up, down = problem.gradient(w + h * e, mixture), problem.gradient(w - h * e, mixture)
        if kind != "huber":  # whose gradient has corners
            np.testing.assert_allclose(here.hessian(mixture) @ e, (up - down) / (2 * h), atol=1e-8)


def test_hessian_reads_large_and_signed_problems() -> None:
    """More rows than one chunk, some domains unweighted, and a mixture that is not ≥ 0."""
    rows = draw_rows("binary", 15, n=3000, d=2, p=4)
    problem, w = rows.problem(domains=labels(rows)), np.array([0.3, -0.7, 0.2])
    hessians = slowly(rows, w)[2]
    for mixture in ([0.0, 0.2, 0.8, 0.0], [0.25] * 4, [1.0, -0.5, 0.25, 0.0]):
        expected = np.tensordot(mixture, hessians, 1)
        np.testing.assert_allclose(problem.hessian(w, mixture), expected, atol=1e-13)


@smooth_kinds
@pytest.mark.parametrize("features", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("overlap", [False, True])
def test_hessian_from_some_of_the_rows(
    monkeypatch: pytest.MonkeyPatch, kind: str, features: Callable[..., Any], overlap: bool
) -> None:
    """About right from 1500 of 15 000 rows; domains without weight do not enter."""
    monkeypatch.setattr(weighted, "MOST_PRODUCTS", 0)  # with them, sparse rows are all taken
    rows = draw_rows(kind, 43, n=15_000)
    if overlap:
        rows = overlapping(rows, 44)
    rows.X[rows.S[:, 2] > 0] *= 3.0
    rng = np.random.default_rng(45)
    here = rows.problem(X=features(rows.X)).at(0.1 * rng.normal(size=rows.n_parameters))
    for mixture in np.array([[0.6, 0.4, 0.0], [0.1, 0.2, 0.7], [1.0, 0.0, 0.0]]):
        exact = here.hessian(mixture)
        some = here.hessian(mixture, n_rows=1500)
        assert 0 < np.linalg.norm(some - exact) < 0.3 * np.linalg.norm(exact)
        blocks = here.hessian_blocks(mixture, 1500)
        for ours, theirs in zip(blocks, diagonal_blocks(some, rows), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-12 * np.abs(some).max())


def test_unit_of_gaps() -> None:
    """1 for classes; else the worst loss of the best constant, if that is below 1."""
    rows = draw_rows("squared", 46)
    rows.y = 0.1 * rows.y
    loss = 0.5 * (rows.S / rows.S.sum(axis=0)).T @ (rows.y - rows.y.mean()) ** 2
    assert rows.problem().loss_scale == pytest.approx(loss.max())
    rows.y = 1e6 * rows.y
    assert rows.problem().loss_scale == 1.0
    assert draw_rows("multiclass", 47).problem().loss_scale == 1.0


# -- labels -----------------------------------------------------------------------------------


def some_labels(names: list[Any], seed: int = 0) -> list[Any]:
    """Every name a few times, the largest first: order of appearance is not sorted order."""
    rng = np.random.default_rng(seed)
    return [*names[::-1], *(names[i] for i in rng.integers(0, len(names), 20))]


def as_series_of_tuples(values: list[Any]) -> Any:
    return pd.Series(values, dtype=object)


LABELS: dict[str, tuple[list[Any], Callable[[list[Any]], Any]]] = {
    "ints": ([-5, 2, 10**15], list),
    "near ints": ([7, 8, 11], np.array),
    "int8": ([-128, 3, 127], lambda v: np.array(v, np.int8)),
    "uint64": ([2**63, 2**63 + 1, 2**64 - 1], lambda v: np.array(v, np.uint64)),
    "middle uint64": ([2**63 - 2, 2**63, 2**63 + 1], lambda v: np.array(v, np.uint64)),
    "near uint64": ([2**63, 2**63 + 1, 2**63 + 4], lambda v: np.array(v, np.uint64)),
    "floats": ([-0.5, 0.0, 1e300], list),
    "bools": ([False, True], list),
    "strings": (["", "a", "b\n"], list),
    "fixed strings": (["a", "bb", "ccc"], np.array),
    "variable strings": (["a", "bb", "ccc"], lambda v: np.array(v, np.dtypes.StringDType())),
    "bytes": ([b"a", b"b", b"c"], np.array),
    "objects": (["a", "bb", "ccc"], lambda v: np.array(v, dtype=object)),
    "numbers as objects": ([1, 2.5, 10], lambda v: np.array(v, dtype=object)),
    "column": (["a", "b", "c"], lambda v: np.array(v, dtype=object)[:, None]),
    "one column frame": (["a", "b", "c"], lambda v: pd.DataFrame({"region": v})),
    "pandas": (["a", "b", "c"], pd.Series),
    "pandas string": (["a", "b", "c"], lambda v: pd.array(v, dtype="string")),
    "pandas Int64": ([1, 2, 9], lambda v: pd.array(v, dtype="Int64")),
    "categorical": (["a", "b", "c"], lambda v: pd.Categorical(v, ["c", "b", "a", "unused"])),
    "intervals": (pd.interval_range(0, 3).tolist(), lambda v: pd.Series(pd.Categorical(v))),
    "dates": (
        [np.datetime64("2019-01-01"), np.datetime64("2024-02-29")],
        lambda v: np.array(v, dtype="M8[D]"),
    ),
    "tuples": ([("f", 1), ("f", 2), ("m", 1)], as_series_of_tuples),
    "polars": (["a", "b", "c"], pl.Series),
    "polars categorical": (["a", "b", "c"], lambda v: pl.Series(v, dtype=pl.Categorical)),
    "polars enum": (["a", "b", "c"], lambda v: pl.Series(v, dtype=pl.Enum(["c", "a", "b", "u"]))),
    "polars ints": ([1, 2, 9], pl.Series),
}
any_labels = pytest.mark.parametrize("type_of_label", LABELS)


@any_labels
def test_any_labels_of_domains(type_of_label: str) -> None:
    names, container = LABELS[type_of_label]
    values = some_labels(names)
    codes = np.array([names.index(v) for v in values])
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(len(codes), 2)), rng.normal(size=len(codes))
    problem = LinearDomains(X, y, container(values), SquaredError())
    assert problem.domain_names.tolist() == np.array(names, dtype=object).tolist() or (
        list(problem.domain_names) == names
    )
    assert problem.domain_names.ndim == 1
    coded = LinearDomains(X, y, codes, SquaredError())
    w = rng.normal(size=3)
    np.testing.assert_array_equal(problem.sizes, np.bincount(codes))
    np.testing.assert_array_equal(problem.at(w).jacobian(), coded.at(w).jacobian())


@any_labels
def test_any_labels_of_classes(type_of_label: str) -> None:
    names, container = LABELS[type_of_label]
    values = some_labels(names)
    codes = np.array([names.index(v) for v in values])
    rng = np.random.default_rng(2)
    X, k = rng.normal(size=(len(codes), 2)), np.arange(len(codes)) % 2
    problem = LinearDomains(X, container(values), k)
    assert problem.classes is not None
    assert list(problem.classes) == names
    coded = LinearDomains(X, codes, k)
    w = rng.normal(size=problem.n_parameters)
    np.testing.assert_array_equal(problem.at(w).jacobian(), coded.at(w).jacobian())


@given(st.lists(st.integers(-(2**62), 2**62) | st.integers(-20, 20), min_size=1, max_size=30))
def test_encode_is_unique(values: list[int]) -> None:
    names, codes = encode("domains", values, len(values))
    assert names.tolist() == sorted(set(values))
    assert names[codes].tolist() == values


@given(st.lists(st.text(max_size=3), min_size=1, max_size=30))
def test_encode_is_unique_for_text(values: list[str]) -> None:
    values = [v.rstrip("\0") for v in values]  # which NumPy strings do not keep
    names, codes = encode("domains", values, len(values))
    assert names.tolist() == sorted(set(values))
    assert names[codes].tolist() == values


def test_classes_that_the_labels_lack() -> None:
    X, domains = np.arange(8.0).reshape(4, 2), [0, 0, 1, 1]
    problem = LinearDomains(X, ["b", "d", "b", "d"], domains, classes=["d", "c", "b", "a"])
    assert problem.classes is not None
    assert problem.classes.tolist() == ["a", "b", "c", "d"]
    assert problem.n_parameters == 4 * 3
    coded = LinearDomains(X, [1, 3, 1, 3], domains, classes=range(4))
    w = np.random.default_rng(0).normal(size=12)
    np.testing.assert_array_equal(problem.losses(w), coded.losses(w))
    one_sided = LinearDomains(X, [True] * 4, domains, classes=[False, True])
    np.testing.assert_allclose(one_sided.losses([0.0, 0.0, 3.0]), [-np.log(expit(3.0))] * 2)
    mixed_numbers = LinearDomains(X, [0.0, 1.0, 1.0, 0.0], domains, classes=[0, 1, 2])
    assert mixed_numbers.n_scores == 3


def test_unpack_and_penalized_agree_on_the_intercepts() -> None:
    for kind in ("binary", "multiclass"):
        for intercept in (False, True):
            rows = draw_rows(kind, 16, intercept=intercept)
            problem = rows.problem()
            w = np.arange(float(rows.n_parameters))
            coef, shift = problem.unpack(w)
            assert coef.shape == (rows.n_scores, 3)
            assert shift.shape == (rows.n_scores,)
            np.testing.assert_array_equal(coef.ravel(), w[problem.penalized])
            if intercept:
                np.testing.assert_array_equal(shift, w[~problem.penalized])
            else:
                assert not shift.any()


# -- bugs of other implementations --------------------------------------------------------------


def test_mixture_follows_sorted_names_not_the_order_of_appearance() -> None:
    X = np.array([[1.0], [10.0], [100.0]])
    problem = LinearDomains(X, [0.0, 0.0, 0.0], ["z", "m", "a"], SquaredError(), intercept=False)
    assert problem.domain_names.tolist() == ["a", "m", "z"]
    assert problem.losses([1.0]).tolist() == [5000.0, 50.0, 0.5]
    assert problem.gradient([1.0], [1.0, 0.0, 0.0]).tolist() == [10000.0]
    assert problem.gradient([1.0], [0.0, 0.0, 1.0]).tolist() == [1.0]


@kinds
def test_gradient_depends_on_the_mixture(kind: str) -> None:
    rows = draw_rows(kind, 17)
    problem = rows.problem(domains=labels(rows))
    w = np.random.default_rng(18).normal(size=rows.n_parameters)
    here = problem.at(w)
    corners = [here.gradient(e) for e in np.eye(3)]
    np.testing.assert_allclose(corners, here.jacobian(), atol=1e-14)
    assert np.linalg.norm(corners[0] - corners[1]) > 1e-3
    mixture = np.array([0.2, 0.3, 0.5])
    np.testing.assert_allclose(here.gradient(mixture), mixture @ corners, atol=1e-14)


@kinds
def test_no_regulariser_hides_in_the_losses(kind: str) -> None:
    """With X = 0 nothing depends on the coefficients, however many rows and domains there are."""
    rows = draw_rows(kind, 19)
    rows.X = np.zeros_like(rows.X)
    for S in (rows.S, rows.S[:, :1] * 0 + 1):
        rows.S = S
        problem, w = rows.problem(), np.full(rows.n_parameters, 7.0)
        w[~problem.penalized] = 0.5
        still = np.where(problem.penalized, 0.0, w)
        np.testing.assert_allclose(problem.losses(w), problem.losses(still), rtol=1e-14)
        assert not problem.gradient(w, np.ones(S.shape[1]))[problem.penalized].any()


@kinds
def test_halves_add_up(kind: str) -> None:
    """Two parts of the rows, weighted by their sizes, give the whole: nothing is added per part."""
    rows = draw_rows(kind, 20, n=60)
    w = np.random.default_rng(21).normal(size=rows.n_parameters)
    whole, parts = rows.problem(), []
    for part in (slice(0, 30), slice(30, 60)):
        half = Rows(kind, rows.X[part], rows.y[part], rows.S[part])
        parts.append(half.problem())
    sizes = np.array([part.sizes for part in parts])  # (2, p)
    losses = sum(m * part.losses(w) for m, part in zip(sizes, parts, strict=True)) / sizes.sum(0)
    np.testing.assert_allclose(whole.losses(w), losses, rtol=1e-13)


# -- fewer rows ---------------------------------------------------------------------------------


def categorical_rows(kind: str, seed: int, n: int = 300, overlap: bool = False) -> Rows:
    """One-hot rows of two attributes, and few targets: about n/2 are repetitions."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 4, n), rng.integers(0, 3, n)
    rows = draw_rows(kind, seed, n)
    rows.X = np.hstack([np.eye(4)[a], np.eye(3)[b]])
    rows.y = np.round(rows.y)
    return overlapping(rows, seed, boolean=bool(seed % 2)) if overlap else rows


def contents(problem: LinearDomains) -> dict[tuple[float, ...], Array]:
    """The shares (p,) of every distinct (row, target)."""
    X = problem.X.toarray() if sparse.issparse(problem.X) else problem.X
    found: dict[tuple[float, ...], Array] = {}
    for x, y, shares in zip(X, problem.y, problem.average.T.toarray(), strict=True):
        key = (*x.tolist(), float(y))
        found[key] = found.get(key, np.zeros(len(shares))) + shares
    return found


def n_distinct(problem: LinearDomains) -> int:
    """Distinct (row, target, set of domains)."""
    X = problem.X.toarray() if sparse.issparse(problem.X) else problem.X
    sets = problem.average.T.toarray() != 0
    return len(np.unique(np.column_stack([X + 0.0, problem.y, sets]), axis=0))


@kinds
@pytest.mark.parametrize("features", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_merged_is_the_same_problem(
    kind: str, features: Callable[..., Any], overlap: bool, weighted: bool
) -> None:
    rows = categorical_rows(kind, 22, overlap=overlap)
    rng = np.random.default_rng(23)
    weight = rng.uniform(0.5, 2, len(rows.y)) if weighted else None
    problem = rows.problem(X=features(rows.X), sample_weight=weight)
    merged = problem.merged()
    assert merged.n_rows == n_distinct(problem) < problem.n_rows
    np.testing.assert_array_equal(merged.sizes, problem.sizes)
    assert merged.domain_names is problem.domain_names
    w, v = rng.normal(size=(2, problem.n_parameters))
    mixture = rng.dirichlet(np.ones(3))
    before, after = problem.at(w), merged.at(w)
    pairs = [
        (before.losses, after.losses),
        (before.jacobian(), after.jacobian()),
        (before.gradient(mixture), after.gradient(mixture)),
    ]
    if problem.loss.is_smooth:
        pairs += [
            (before.hessian(mixture), after.hessian(mixture)),
            (before.hessian_vector(mixture, v), after.hessian_vector(mixture, v)),
            (np.array(before.dual(mixture)[0]), np.array(after.dual(mixture)[0])),
        ]
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


NASTY = [0.0, -0.0, 1.0, -1.0, 1e-300, 5e-324, 1e16, 1e16 + 2, 1e300, -1e300, 1 + 2**-52]


@given(
    seed=seeds,
    n=st.integers(1, 40),
    values=st.lists(st.sampled_from(NASTY), min_size=1, max_size=4),
    d=st.integers(1, 4),
    is_sparse=st.booleans(),
    overlap=st.booleans(),
    kind=st.sampled_from(["squared", "multiclass"]),
)
def test_different_rows_never_merge(
    seed: int, n: int, values: list[float], d: int, is_sparse: bool, overlap: bool, kind: str
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.choice(values, size=(n, d))
    y = rng.choice([0.0, 1e-16, 1.0], size=n) if kind == "squared" else rng.integers(0, 3, n)
    S = (rng.random((n, 3)) < 0.4) * rng.uniform(0.5, 2, (n, 3)) if overlap else np.zeros((n, 3))
    S[np.arange(n), rng.integers(0, 3, n)] = 1.0
    S = S[:, S.any(axis=0)]
    options: dict[str, Any] = {} if kind == "squared" else {"classes": [0, 1, 2]}
    features: Any = sparse.csr_array(X) if is_sparse else X
    problem = LinearDomains(features, y, sparse.csr_array(S), LOSSES[kind], **options)
    merged = problem.merged()
    assert n_distinct(problem) <= merged.n_rows <= problem.n_rows
    before, after = contents(problem), contents(merged)
    assert before.keys() == after.keys()
    for key, shares in before.items():
        np.testing.assert_allclose(after[key], shares, rtol=1e-12)


def test_rows_whose_keys_collide_by_rounding_stay_apart() -> None:
    """Next to 1e17 the second column is below the rounding of any weighted sum of the two."""
    X = np.column_stack([np.full(400, 1e17), np.tile([1.0, 2.0, 3.0, 4.0], 100)])
    problem = LinearDomains(X, np.zeros(400), np.zeros(400), SquaredError())
    merged = problem.merged()
    w = np.array([0.0, 1.0, 0.5])
    np.testing.assert_allclose(merged.losses(w), problem.losses(w), rtol=1e-14)


def test_signed_zeros_are_equal() -> None:
    X = np.tile([[0.0, 1.0], [-0.0, 1.0]], (100, 1))
    for features in (X, sparse.csr_array(X)):
        problem = LinearDomains(features, np.zeros(200), np.zeros(200), SquaredError())
        assert problem.merged().n_rows == 1


@pytest.mark.parametrize("d", [2, 17, 64, 131])
@pytest.mark.parametrize("features", [np.asarray, sparse.csr_array])
def test_all_equal_rows_merge_wherever_they_stand(d: int, features: Callable[..., Any]) -> None:
    """But for a few at the edges of a matrix product, which rounds differently there."""
    rng = np.random.default_rng(d)
    patterns = rng.normal(size=(37, d)) * (rng.random((37, d)) < 0.5)
    pick = rng.integers(0, 37, 5003)
    problem = LinearDomains(features(patterns[pick]), pick % 2, np.zeros(5003))
    assert n_distinct(problem) <= problem.merged().n_rows <= n_distinct(problem) + 20


def test_nothing_to_merge_is_no_copy() -> None:
    rows = draw_rows("squared", 24, n=200)
    problem = rows.problem()
    assert problem.merged() is problem


def test_a_merged_problem_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    repeated = LinearDomains(np.zeros((500, 1)), np.arange(500) % 2, np.zeros(500)).merged()
    different = draw_rows("squared", 24, n=200).problem().merged()
    monkeypatch.setattr(linear, "merge", None)  # not to be called
    assert repeated.merged() is repeated
    assert different.merged() is different
    assert repeated.n_rows == 2


def test_rows_coded_already_are_taken_as_they_are() -> None:
    problem = draw_rows("multiclass", 24, n=200).problem()
    names, sizes, loss = problem.domain_names, problem.sizes, problem.loss

    def coded(y: Any = problem.y, sizes: Any = sizes, average: Any = problem.average) -> Any:
        return LinearDomains.coded(problem.X, y, problem.classes, names, sizes, average, loss)

    w = np.random.default_rng(0).normal(size=problem.n_parameters)
    assert coded().X is problem.X
    np.testing.assert_array_equal(coded().losses(w), problem.losses(w))
    for wrong, words in (
        ({"y": problem.y[:-1]}, r"y has shape \(199,\); give \(200,\)"),
        ({"sizes": sizes[:-1]}, r"sizes has shape \(2,\); give \(3,\)"),
        ({"average": problem.average[:, 1:]}, r"average has shape \(3, 199\); give \(3, 200\)"),
    ):
        with pytest.raises(InputError, match=words):
            coded(**wrong)


@kinds
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("features", [np.asarray, sparse.csr_array])
def test_sample_keeps_sizes_and_shares(
    kind: str, overlap: bool, features: Callable[..., Any]
) -> None:
    rows = draw_rows(kind, 25, n=600)
    if overlap:
        rows = overlapping(rows, 26)
    rng = np.random.default_rng(27)
    problem = rows.problem(X=features(rows.X), sample_weight=rng.uniform(0, 2, 600))
    part = problem.sample(0.2)
    assert 60 <= part.n_rows < 600
    np.testing.assert_array_equal(part.sizes, problem.sizes)
    np.testing.assert_allclose(part.average.sum(axis=1), 1.0, rtol=1e-13)
    kept = np.diff(part.average.tocsr().indptr)
    everything = np.diff(problem.average.tocsr().indptr)
    assert np.all(kept >= np.minimum(np.maximum(30, 0.2 * everything), everything))
    assert contents(part).keys() <= contents(problem).keys()
    w = rng.normal(size=problem.n_parameters)
    np.testing.assert_allclose(part.losses(w), problem.losses(w), rtol=0.5)
    np.testing.assert_allclose(problem.sample(1.0).losses(w), problem.losses(w), rtol=1e-12)
    assert part.at(w).jacobian().shape == (3, problem.n_parameters)
    assert np.all(np.diff(problem.sample(1e-6).average.tocsr().indptr) >= 30)


def test_sample_of_rows_with_no_weight() -> None:
    """Evenly spaced rows may all have weight zero; those with weight must be found."""
    weight = np.zeros(1000)
    weight[[501, 503]] = 1.0
    problem = LinearDomains(
        np.arange(1000.0)[:, None],
        np.arange(1000) % 3,
        np.zeros(1000),
        SquaredError(),
        sample_weight=weight,
    )
    w = np.array([0.1, 0.2])
    np.testing.assert_allclose(problem.sample(0.1).losses(w), problem.losses(w), rtol=1e-12)


@pytest.mark.parametrize("fraction", [0.0, -1.0, 1.5, np.nan])
def test_sample_takes_a_fraction(fraction: float) -> None:
    with pytest.raises(ValueError, match=rf"fraction is {fraction}; give a number in \(0, 1\]"):
        draw_rows("binary", 28).problem().sample(fraction)


# -- along a step -------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("features", [np.asarray, sparse.csr_array])
def test_moved_is_at(kind: str, features: Callable[..., Any]) -> None:
    rows = draw_rows(kind, 29)
    problem, rng = rows.problem(X=features(rows.X)), np.random.default_rng(30)
    w, *steps = rng.normal(size=(4, rows.n_parameters))
    here, mixture = problem.at(w), rng.dirichlet(np.ones(3))
    for step in (*steps, *steps):  # more steps than are kept, and again
        for t in (1.0, 0.5, -2.0):
            there, expected = here.moved(step, t), problem.at(w + t * step)
            np.testing.assert_allclose(there.w, expected.w, rtol=1e-14)
            np.testing.assert_allclose(there.losses, expected.losses, rtol=1e-12)
            np.testing.assert_allclose(
                there.gradient(mixture), expected.gradient(mixture), atol=1e-12
            )
            np.testing.assert_allclose(there.jacobian(), expected.jacobian(), atol=1e-12)
            if problem.loss.is_smooth:
                np.testing.assert_allclose(
                    there.hessian(mixture), expected.hessian(mixture), atol=1e-12
                )


def test_a_step_changed_in_place_is_another_step() -> None:
    problem = draw_rows("binary", 31).problem()
    here, step = problem.at(np.zeros(4)), np.ones(4)
    here.moved(step)
    step *= 2
    np.testing.assert_allclose(here.moved(step).losses, problem.losses(2 * np.ones(4)), rtol=1e-14)


# -- the dual -----------------------------------------------------------------------------------


@given(
    kind=st.sampled_from(sorted(LOSSES)),
    seed=seeds,
    overlap=st.booleans(),
    intercept=st.booleans(),
    size=st.sampled_from([0.0, 0.3, 3.0, 30.0]),
    stride=st.sampled_from([None, 1e-3, 1.0, 100.0]),
    scale=st.sampled_from([1.0, 0.7, 0.0]),
)
def test_dual_is_a_lower_bound_everywhere(
    kind: str,
    seed: int,
    overlap: bool,
    intercept: bool,
    size: float,
    stride: float | None,
    scale: float,
) -> None:
    """value + ⟨v, w'⟩ ≤ Σ λ_k L_k(w') for every w', whatever w, step and scale."""
    rows = draw_rows(kind, seed, n=12, d=2, intercept=intercept, n_classes=3)
    if overlap:
        rows = overlapping(rows, seed + 1)
    problem, rng = rows.problem(), np.random.default_rng(seed + 2)
    mixture = rng.dirichlet(np.full(3, 0.5)) * (rng.random(3) < 0.8)
    w = size * rng.normal(size=rows.n_parameters)
    step = None if stride is None else stride * rng.normal(size=rows.n_parameters)
    value, v, _ = problem.at(w).dual(mixture, step, scale)
    assert np.isfinite(value)
    for far in (0.01, 1.0, 10.0, 1000.0):
        for other in (far * rng.normal(size=rows.n_parameters), w + far * v, w - far * v):
            loss = mixture @ problem.losses(other)
            assert value + v @ other <= loss + 1e-12 * (1 + abs(value) + np.abs(v) @ np.abs(other))


@given(
    kind=st.sampled_from(sorted(LOSSES)),
    seed=seeds,
    overlap=st.booleans(),
    size=st.sampled_from([0.0, 0.3, 3.0, 30.0, 1e4]),
    outlier=st.sampled_from([1.0, 1e8]),
    concentrated=st.booleans(),
)
@example(  # every softmax is 0 or 1 exactly, so no curvature shows the way
    kind="multiclass", seed=387, overlap=False, size=1e4, outlier=1.0, concentrated=True
)
def test_recentred_dual_leaves_the_intercepts_free(
    kind: str, seed: int, overlap: bool, size: float, outlier: float, concentrated: bool
) -> None:
    """Nothing penalises an intercept, so a useful v is zero there, also far from any optimum."""
    rows = draw_rows(kind, seed, n=12, d=2, n_classes=3)
    rows.X[0] *= outlier
    if overlap:
        rows = overlapping(rows, seed + 1)
    problem, rng = rows.problem(), np.random.default_rng(seed + 2)
    mixture = np.eye(3)[seed % 3] if concentrated else rng.dirichlet(np.ones(3))
    w = size * rng.normal(size=rows.n_parameters)
    value, v, _ = problem.at(w).dual(mixture)
    residual = np.abs(v[~problem.penalized]).max()
    spread = 1.0 if kind != "squared" else 1 + np.abs(problem.scores(w)).max()
    assert residual <= 1e-14 * spread
    assert np.isfinite(value)


@kinds
@pytest.mark.parametrize("size", [0.0, 0.3, 3.0])
def test_recentred_dual_is_tight_at_the_best_intercept(kind: str, size: float) -> None:
    """Young's equality: value + ⟨v, w⟩ is the loss of w with its best intercepts."""
    rows = draw_rows(kind, 40, n=60)
    problem, rng = rows.problem(), np.random.default_rng(41)
    mixture, w = rng.dirichlet(np.ones(3)), size * rng.normal(size=rows.n_parameters)

    def loss(intercepts: Array) -> float:
        moved = w.copy()
        moved[~problem.penalized] = intercepts
        return float(mixture @ problem.losses(moved))

    best = minimize(loss, np.zeros(rows.n_scores), method="Powell", tol=1e-12).fun
    value, v, _ = problem.at(w).dual(mixture)
    assert value + v @ w == pytest.approx(best, abs=1e-9)


def newton(problem: LinearDomains, w: Array, mixture: Array, gamma: float) -> Array:
    """The step to the minimum of the quadratic model of Σ λ_k L_k + γ/2 ‖w‖² without intercept."""
    here, ridge = problem.at(w), gamma * problem.penalized
    hessian, gradient = here.hessian(mixture) + np.diag(ridge), here.gradient(mixture) + ridge * w
    return -np.asarray(np.linalg.lstsq(hessian, gradient)[0], dtype=np.float64)


@smooth_kinds
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_dual_is_tight_at_the_optimum(kind: str, overlap: bool, intercept: bool) -> None:
    gamma, rows = 0.1, draw_rows(kind, 32, n=80, intercept=intercept)
    if overlap:
        rows = overlapping(rows, 33)
    problem, mixture = rows.problem(), np.array([0.5, 0.2, 0.3])
    w, gaps = np.zeros(rows.n_parameters), []
    for _ in range(12):
        step = newton(problem, w, mixture, gamma)
        here = problem.at(w)
        upper = mixture @ here.losses + gamma / 2 * np.sum(w[problem.penalized] ** 2)
        for s in (None, step):
            value, v, _ = here.dual(mixture, s)
            assert np.abs(v[~problem.penalized]).max(initial=0.0) <= 1e-12
            lower = value - np.sum(v[problem.penalized] ** 2) / (2 * gamma)
            assert lower <= upper + 1e-13
        gaps.append(upper - lower)
        w = w + step
    assert gaps[-1] <= 1e-13
    assert gaps[0] > 1e-4 or kind == "squared"


def test_dual_after_a_newton_step_is_better_than_without() -> None:
    """For a quadratic the step leads to the optimum, so its dual value is exact from anywhere."""
    rows, mixture, gamma = draw_rows("squared", 34), np.array([0.5, 0.2, 0.3]), 0.1
    problem = rows.problem()
    w = 5 * np.random.default_rng(35).normal(size=rows.n_parameters)
    step = newton(problem, w, mixture, gamma)
    best = w + step
    optimum = mixture @ problem.losses(best) + gamma / 2 * np.sum(best[problem.penalized] ** 2)

    def lower(s: Array | None) -> float:
        value, v, _ = problem.at(w).dual(mixture, s)
        return float(value - np.sum(v[problem.penalized] ** 2) / (2 * gamma))

    assert lower(step) == pytest.approx(optimum, rel=1e-12)
    assert lower(None) < optimum - 1


def test_dual_ignores_rows_without_weight() -> None:
    """Their α may lie where ℓ* is infinite, and 0 · ∞ must be 0."""
    rows = draw_rows("binary", 36)
    problem, mixture = rows.problem(domains=labels(rows)), np.array([1.0, 0.0, 0.0])
    step = np.zeros(4)
    here = problem.at(np.zeros(4))
    rows.X[labels(rows) > 0] *= 1e3
    there = rows.problem(domains=labels(rows)).at(np.zeros(4))
    step[:3] = 0.01
    assert there.dual(mixture, step)[0] == pytest.approx(here.dual(mixture, step)[0], rel=1e-14)


@kinds
def test_dual_of_no_weight_is_nothing(kind: str) -> None:
    problem = draw_rows(kind, 42).problem()
    value, v, _ = problem.at(np.ones(problem.n_parameters)).dual(np.zeros(3))
    assert value == 0
    assert not v.any()


@kinds
def test_hinge_has_a_dual_but_no_curvature(kind: str) -> None:
    problem = draw_rows(kind, 37).problem()
    here, mixture = problem.at(np.zeros(problem.n_parameters)), np.full(3, 1 / 3)
    assert np.isfinite(here.dual(mixture)[0])
    if not problem.loss.is_smooth:
        for ask in (here.hessian, lambda m: here.hessian_vector(m, np.zeros(4))):
            with pytest.raises(ValueError, match="no curvature; use CrossEntropy"):
                ask(mixture)


# -- memory -------------------------------------------------------------------------------------


def build(X: Any, n_classes: int) -> tuple[LinearDomains, int]:
    """The problem over rows in no order, and the most memory it took to make it."""
    n = X.shape[0]
    y, domains = np.arange(n) % n_classes, np.arange(n) % 5
    tracemalloc.start()
    problem = LinearDomains(X, y, domains)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return problem, peak


def test_rows_are_not_copied_for_two_classes() -> None:
    X = np.random.default_rng(0).normal(size=(5000, 200))
    problem, peak = build(X, 2)
    assert np.shares_memory(problem.X, X)
    assert peak < 0.2 * X.nbytes
    table = sparse.csr_array(X)
    assert np.shares_memory(build(table, 2)[0].X.data, table.data)
    regression = LinearDomains(X, X[:, 0], np.arange(5000) % 5, SquaredError())
    assert np.shares_memory(regression.X, X)


def test_rows_are_reordered_once_for_more_classes() -> None:
    X = np.random.default_rng(0).normal(size=(5000, 200))
    before = X.copy()
    peak = build(X, 3)[1]
    assert X.nbytes <= peak < 1.3 * X.nbytes
    np.testing.assert_array_equal(X, before)
    in_order = LinearDomains(X, np.arange(5000) % 3, np.arange(5000) // 1000)
    assert np.shares_memory(in_order.X, X)


STRETCHES = {  # domains of 40,000 rows, and whether sparse rows are read stretch by stretch
    "sorted": (np.arange(40_000) // 15_000, True),
    "two runs": (np.arange(40_000) % 20_000 // 7_000, True),
    "of unlike length": (np.arange(40_000) // 39_900, True),
    "mixed": (np.arange(40_000) % 3, False),
}


@pytest.mark.parametrize("order", STRETCHES)
def test_sparse_gradients_whatever_the_order_of_the_rows(order: str) -> None:
    domains, by_stretches = STRETCHES[order]
    rng = np.random.default_rng(5)
    X = rng.normal(size=(40_000, 6)) * (rng.uniform(size=(40_000, 6)) < 0.6)
    y, weight = rng.integers(0, 2, 40_000), rng.uniform(size=40_000)
    problem = LinearDomains(sparse.csr_array(X), y, domains, sample_weight=weight)
    w = rng.normal(size=7)
    found = problem.at(w).jacobian()
    slope = expit(X @ w[:-1] + w[-1]) - y
    for k in range(problem.n_domains):
        here = domains == k
        share = weight[here] / weight[here].sum()
        expected = (share * slope[here]) @ np.column_stack([X[here], np.ones(here.sum())])
        np.testing.assert_allclose(found[k], expected, rtol=1e-11, atol=1e-14)
    assert (problem._runs is not None) == by_stretches


def test_a_matrix_given_keeps_its_stored_entries() -> None:
    X = stored_twice(sparse.csr_array(draw_rows("binary", 48).X))
    kept = [v.copy() for v in (X.data, X.indices, X.indptr)]
    problem = LinearDomains(X, np.arange(40) % 2, np.arange(40) % 3)
    problem.at(np.ones(4)).hessian(np.ones(3))
    for now, then in zip((X.data, X.indices, X.indptr), kept, strict=True):
        np.testing.assert_array_equal(now, then)


def test_nothing_given_is_changed() -> None:
    X, y = np.arange(12.0).reshape(6, 2), np.array([2, 0, 1, 0, 1, 2])
    S = sparse.csr_array(np.eye(3)[[2, 1, 0, 0, 1, 2]])
    S.data[0] = 0.0  # stored, but zero
    weight, w = np.ones(6), np.ones(9)
    kept = [v.copy() for v in (X, y, S.data, S.indices, S.indptr, weight, w)]
    problem = LinearDomains(X, y, S, sample_weight=weight)
    here = problem.at(w)
    here.jacobian(), here.dual(np.ones(3) / 3), problem.merged(), problem.sample(0.5)
    for now, then in zip((X, y, S.data, S.indices, S.indptr, weight, w), kept, strict=True):
        np.testing.assert_array_equal(now, then)


# -- bad input ----------------------------------------------------------------------------------

GOOD: dict[str, Any] = {
    "X": np.arange(8.0).reshape(4, 2),
    "y": [0, 1, 0, 1],
    "domains": ["a", "a", "b", "b"],
}


def table(value: Any) -> NDArray[np.object_]:
    """A 4 by 2 table of numbers with one entry replaced."""
    X: NDArray[np.object_] = GOOD["X"].astype(object)
    X[2, 1] = value
    return X


def column(value: Any, good: tuple[Any, ...] = (0, 1, 0, 1)) -> list[Any]:
    return [good[0], value, *good[2:]]


NUMBERS = "has 1 missing or infinite entries, the first of them"
BAD: list[tuple[dict[str, Any], str]] = [
    ({"X": table(np.nan).astype(float)}, f"X {NUMBERS} nan; impute"),
    ({"X": table(-np.inf).astype(float)}, f"X {NUMBERS} -inf; impute"),
    ({"X": np.array([[np.inf, -np.inf]] * 4)}, "X has 8.*missing or infinite"),
    ({"X": sparse.csr_array(table(np.nan).astype(float))}, f"X {NUMBERS} nan; impute"),
    ({"X": table(None)}, f"X {NUMBERS} nan; impute"),
    ({"X": pd.DataFrame(table(pd.NA))}, "X.*not numbers.*NAType"),
    ({"X": pl.DataFrame({"a": [1.0, None, 2.0, 3.0]})}, f"X {NUMBERS} nan; impute"),
    ({"X": table("red")}, "X.*not numbers.*'red'"),
    ({"X": GOOD["X"].astype(str)}, "X.*not numbers.*<U"),
    ({"X": pd.DataFrame({"c": list("abab")})}, "X.*not numbers"),
    ({"X": pl.DataFrame({"c": list("abab")})}, "X.*not numbers"),
    ({"X": pd.DataFrame({"c": list("abab")}, dtype="category")}, "X .* not numbers .*'a'"),
    ({"X": GOOD["X"] + 1j}, "X.*not numbers.*complex"),
    ({"X": pd.DataFrame({"day": pd.date_range("2020", periods=4)})}, "X .* not numbers .*datetime"),
    ({"X": sparse.csr_array(GOOD["X"] + 1j)}, "X.*not numbers.*complex"),
    ({"X": [[1.0, 2.0], [1.0], [2.0], [3.0]]}, "X.*not numbers"),
    ({"X": np.arange(4.0)}, r"X has shape \(4,\); give a table"),
    ({"X": np.zeros((4, 2, 2))}, r"X has shape \(4, 2, 2\); give a table"),
    ({"X": None}, "X has shape"),
    ({"X": np.zeros((4, 0)), "intercept": False}, "X has no columns.*intercept"),
    ({"X": np.zeros((0, 2)), "y": [], "domains": []}, "X has no rows"),
    ({"X": sparse.csr_array((0, 2)), "y": [], "domains": []}, "X has no rows"),
    ({"y": [0, 1, 0]}, r"y.*shape.*\(3,\).*4"),
    ({"y": np.zeros((4, 2))}, r"y.*shape.*\(4, 2\).*4"),
    ({"y": [[0], [1, 2], [0], [1]]}, "y is not a column"),
    ({"y": column(np.nan)}, f"y {NUMBERS} nan; drop"),
    ({"y": column(np.inf)}, f"y {NUMBERS} inf; drop"),
    ({"y": column(None)}, r"y has missing entries \(None\)"),
    ({"y": column(np.nan, ("n", "y", "n", "y"))}, r"y has missing entries \(nan\)"),
    ({"y": pd.Series(column(pd.NA))}, r"y has missing entries \(<NA>\)"),
    ({"y": column("yes")}, "y mixes int and str"),
    ({"y": np.array(column("yes"), dtype=object)}, "y mixes int and str"),
    ({"y": [1, 1, 1, 1]}, r"y has one class.*\(1\).*classes="),
    ({"y": ["no"] * 4}, r"y.*one class.*\('no'\)"),
    ({"loss": "squared"}, "loss is 'squared'"),
    ({"y": [0, 1, 2, 0], "loss": Hinge()}, "y has 3 classes"),
    ({"y": column(np.nan), "loss": SquaredError()}, f"y {NUMBERS} nan; drop"),
    ({"y": column(None), "loss": Huber()}, f"y {NUMBERS} nan; drop"),
    ({"y": column("1e"), "loss": SquaredError()}, "y.*not numbers.*'1e'"),
    ({"y": np.array(["1"] * 4), "loss": SquaredError()}, "y.*not numbers"),
    (
        {"y": pd.date_range("2020", periods=4), "loss": SquaredError()},
        "y.*not numbers.*datetime",
    ),
    ({"classes": [1, 2]}, r"y.*0.*\[1, 2\]"),
    ({"classes": ["0", "1"]}, r"y.*0.*\['0', '1'\]"),
    ({"classes": [0, 1, np.nan]}, f"classes {NUMBERS} nan"),
    ({"classes": [0, 1, "x"]}, "classes mixes int and str"),
    ({"classes": [0, None]}, r"classes.*missing entries.*\(None\)"),
    ({"domains": ["a"] * 3}, r"domains.*shape.*\(3,\).*4"),
    ({"domains": None}, r"domains.*shape.*\(\).*4"),
    ({"domains": column(np.nan)}, f"domains {NUMBERS} nan; drop"),
    ({"domains": column(-np.inf)}, f"domains {NUMBERS} -inf; drop"),
    ({"domains": column(None, ("a", "a", "b", "b"))}, r"domains.*missing entries.*\(None\)"),
    ({"domains": column(np.nan, ("a", "a", "b", "b"))}, r"domains.*missing entries.*\(nan\)"),
    ({"domains": pd.Series(["a", None, "b", "b"])}, r"domains.*missing entries.*\((nan|None)\)"),
    ({"domains": pd.array(["a", None, "b", "b"], dtype="string")}, r"missing entries \(<NA>\)"),
    ({"domains": pl.Series(["a", None, "b", "b"])}, r"domains.*missing entries.*\(None\)"),
    ({"domains": np.array(["2020", "NaT"] * 2, "M8[D]")}, f"domains {NUMBERS[:4]}2.* NaT; drop"),
    ({"domains": pd.Categorical(["a", None, "b", "b"])}, r"domains.*missing entries.*\(nan\)"),
    ({"domains": column(7, ("a", "a", "b", "b"))}, "domains mixes int and str"),
    ({"domains": pd.Series([[1], [2], [1], [2]])}, "domains.*unhashable.*'list'"),
    ({"domains": [[1], [2], [1], [2]]}, r"domains.*shape.*\(4, 1\).*\(4,\)"),
    ({"domains": np.ones((4, 1), dtype=bool)}, r"domains.*shape.*\(4, 1\).*sample_weight"),
    ({"domains": np.ones((3, 2))}, "domains has 3.*4"),
    ({"domains": np.ones((4, 0))}, r"domains has the columns \[\]"),
    ({"domains": np.ones((4, 2, 2))}, r"domains.*shape.*\(4, 2, 2\).*4"),
    ({"domains": [["a", "x"]] * 4}, "domains.*not numbers.*join label"),
    ({"domains": np.array([[1, np.nan]] * 4)}, "domains has 4.*missing or infinite"),
    ({"domains": np.array([[1, np.inf]] * 4)}, "domains has 4.*missing or infinite"),
    ({"domains": np.array([[1, -0.5]] * 4)}, "domains has the membership -0.5"),
    ({"domains": sparse.csr_array([[1, -0.5]] * 4)}, "domains has the membership -0.5"),
    ({"domains": np.array([[1, 0]] * 4)}, "domains.*no rows.*1"),
    (
        {"domains": pd.DataFrame({"old": [1, 1, 0, 1], "new": [0, 0, 0, 0]})},
        "domains.*no rows.*'new'",
    ),
    ({"domains": pd.DataFrame(np.ones((4, 2)), columns=["u", "u"])}, r"columns \['u', 'u'\]"),
    ({"sample_weight": [1, 1, 0, 0]}, "domains.*no rows.*'b'.*sample_weight.*0"),
    ({"sample_weight": [1, -2, 1, 1]}, "sample_weight.*negative entry.*-2.0"),
    ({"sample_weight": column(np.nan)}, f"sample_weight {NUMBERS} nan"),
    ({"sample_weight": column(None)}, f"sample_weight {NUMBERS} nan"),
    ({"sample_weight": column(np.inf)}, f"sample_weight {NUMBERS} inf"),
    ({"sample_weight": column("x")}, "sample_weight.*not numbers.*'x'"),
    ({"sample_weight": [1, 1, 1]}, r"sample_weight.*shape.*\(3,\).*4"),
    ({"sample_weight": 1.0}, r"sample_weight.*shape.*\(\).*4"),
    ({"sample_weight": [1e308] * 4}, "sample_weight.*adds up to inf"),
]


@pytest.mark.parametrize(("changed", "message"), BAD, ids=[message[:50] for _, message in BAD])
def test_bad_input(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LinearDomains(**{**GOOD, **changed})


def test_good_input_is_good() -> None:
    assert LinearDomains(**GOOD).n_domains == 2


@pytest.mark.parametrize(
    ("w", "message"),
    [
        ([1.0, 2.0], r"w has shape \(2,\); expected \(3,\)"),
        ([[1.0, 2.0, 3.0]], r"w has shape \(1, 3\)"),
        ([1.0, np.nan, 0.0], f"w {NUMBERS} nan"),
        ([1.0, 0.0, np.inf], f"w {NUMBERS} inf"),
    ],
)
def test_bad_parameters(w: Any, message: str) -> None:
    problem = LinearDomains(**GOOD)
    for ask in (problem.at, problem.losses, problem.unpack, lambda w: problem.gradient(w, [1, 0])):
        with pytest.raises(ValueError, match=message):
            ask(w)


def test_expected_length_of_w_explains_itself() -> None:
    plain = LinearDomains(**GOOD, intercept=False)
    with pytest.raises(ValueError, match=r"expected \(2,\) = \(2 features \(intercept=False\)\)"):
        plain.losses([1.0])
    three = LinearDomains(**{**GOOD, "y": [0, 1, 2, 0]})
    with pytest.raises(ValueError, match=r"expected \(9,\) = 3 x \(2 features \+ intercept\)"):
        three.losses([1.0])


@pytest.mark.parametrize(
    ("mixture", "message"),
    [
        ([1.0], r"mixture has shape \(1,\); give \(2,\)"),
        ([0.2, 0.3, 0.5], r"mixture has shape \(3,\); give \(2,\)"),
        ([[0.5, 0.5]], r"mixture has shape \(1, 2\)"),
        ([np.nan, 1.0], f"mixture {NUMBERS} nan"),
    ],
)
def test_bad_mixtures(mixture: Any, message: str) -> None:
    problem = LinearDomains(**GOOD)
    for ask in (problem.gradient, problem.hessian):
        with pytest.raises(ValueError, match=message):
            ask([0.0, 0.0, 0.0], mixture)


# -- scales -------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_features_of_any_scale(kind: str, scale: float) -> None:
    rows = draw_rows(kind, 38)
    w = np.random.default_rng(39).normal(size=rows.n_parameters)
    problem = rows.problem()
    scaled = np.where(problem.penalized, w / scale, w)
    rows.X = rows.X * scale
    np.testing.assert_allclose(rows.problem().losses(scaled), problem.losses(w), rtol=1e-12)


def test_intercept_only() -> None:
    """No features at all: the model of Proposition 1, whose agnostic optimum is log 2 at 0."""
    for X in (np.zeros((4, 0)), sparse.csr_array((4, 0))):
        problem = LinearDomains(X, [1, 1, 0, 1], ["a", "a", "b", "b"])
        np.testing.assert_allclose(problem.losses([0.0]), [np.log(2)] * 2, rtol=1e-15)
        np.testing.assert_allclose(problem.losses([np.log(3)]), [np.log(4 / 3), np.log(4 / 3**0.5)])
        assert problem.at([0.0]).jacobian().tolist() == [[-0.5], [0.0]]
        assert problem.merged().losses([0.3]) == pytest.approx(problem.losses([0.3]))


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_targets_whose_squares_are_no_numbers_are_refused(size: float) -> None:
    y = size * np.arange(4.0)
    with pytest.raises(ValueError, match=r"y.*3e[-+]\d+.*squares.*divide"):
        LinearDomains(np.ones((4, 1)), y, [0, 0, 1, 1], SquaredError())


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (1023, 2), (5000, 70), (40, 1500), (9, 0)])
def test_reach_is_the_largest_entry_of_each_column(shape: tuple[int, int]) -> None:
    X = np.random.default_rng(0).normal(size=shape)
    X[-1:] -= 9  # the last row counts, and so does the sign
    reach = LinearDomains(X, np.arange(len(X), dtype=float), np.zeros(len(X)), SquaredError()).reach
    assert np.array_equal(reach, np.append(np.abs(X).max(axis=0), 1.0))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("intercept", [True, False])
def test_one_pass_gives_the_sums_and_the_reach(n_classes: int, intercept: bool) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5001, 30)), np.arange(5001) % n_classes
    once, twice = (LinearDomains(X, y, y, intercept=intercept) for _ in range(2))
    v = rng.normal(size=(5001,) if n_classes == 2 else (5001, 3))
    assert once.pull_back_for_proof(v) == pytest.approx(twice.pull_back(v), rel=1e-12, abs=1e-10)
    assert "reach" in vars(once)
    assert np.array_equal(once.reach, twice.reach)
    assert np.array_equal(once.pull_back_for_proof(v), twice.pull_back(v))  # reach is known now
