"""Rows: checked and coded once; a part is the problem that the same rows alone would make."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import logsumexp

import anymix as ax
from anymix.errors import InputError
from anymix.problem import arrays, rows
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import CrossEntropy, Loss, SquaredError
from anymix.problem.rows import Rows, dense_if_small, take


def make(
    seed: int, n: int = 40, kind: str = "labels", n_classes: int = 2, weighted: bool = False
) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).round(1)
    if n_classes:
        y: Any = np.array(["no", "yes", "so"])[np.append(np.arange(3), rng.integers(0, 3, n - 3))]
        y = y if n_classes == 3 else np.where(y == "so", "no", y)
    else:
        y = rng.normal(size=n)
    labels = np.append([0, 1, 2], rng.integers(0, 3, n - 3))
    table = rng.random((n, 3)) < 0.5
    table[:3] = np.eye(3)
    domains: Any = np.array(["b", "c", "a"])[labels] if kind == "labels" else table
    weight = rng.integers(0, 3, n).astype(float) if weighted else None
    if weight is not None:
        weight[:3] = 1
    return {"X": X, "y": y, "domains": domains, "sample_weight": weight}


def read(data: dict[str, Any], X: Any = None) -> Rows:
    loss: Loss = SquaredError() if data["y"].dtype.kind == "f" else CrossEntropy()
    X = data["X"] if X is None else X
    return Rows.read(X, data["y"], data["domains"], loss, sample_weight=data["sample_weight"])


@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["labels", "table"]),
    n_classes=st.sampled_from([0, 2, 3]),
    weighted=st.booleans(),
    thin=st.booleans(),
)
def test_a_part_is_the_problem_of_its_rows(
    seed: int, kind: str, n_classes: int, weighted: bool, thin: bool
) -> None:
    data = make(seed, kind=kind, n_classes=n_classes, weighted=weighted)
    found = read(data, sparse.csr_array(data["X"]) if thin else None)
    rng = np.random.default_rng(seed)
    index = np.append(np.arange(3), rng.integers(0, 40, 30))  # some rows twice
    problem = found.to_fit(index)
    weight = data["sample_weight"]
    peer = LinearDomains(
        data["X"][index],
        data["y"][index],
        data["domains"][index],
        found.loss,
        sample_weight=None if weight is None else weight[index],
        classes=found.classes,
    )
    w = rng.normal(size=peer.n_parameters)
    mixture = rng.dirichlet(np.ones(3))
    np.testing.assert_allclose(problem.sizes, peer.sizes)
    np.testing.assert_allclose(problem.losses(w), peer.losses(w), rtol=1e-12)
    np.testing.assert_allclose(
        problem.gradient(w, mixture), peer.gradient(w, mixture), rtol=1e-10, atol=1e-12
    )
    np.testing.assert_allclose(
        problem.hessian(w, mixture), peer.hessian(w, mixture), rtol=1e-10, atol=1e-12
    )
    np.testing.assert_allclose(found.sizes(index), peer.sizes)
    again = found.take(index).to_fit()
    np.testing.assert_allclose(again.losses(w), peer.losses(w), rtol=1e-12)


def test_nothing_is_checked_or_coded_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    data = make(0, kind="table", weighted=True)
    found = read(data)
    for module, name in ((rows, "features"), (rows, "targets"), (rows, "weights")):
        monkeypatch.setattr(module, name, None)
    for name in ("encode", "floats", "numbers", "refuse_missing", "read_domains"):
        monkeypatch.setattr(arrays, name, None)
    monkeypatch.setattr(LinearDomains, "__init__", None)
    for part in (slice(None), slice(0, 30), np.arange(20)):
        found.to_fit(part)
        found.to_judge(part)


def test_a_part_to_judge_on_may_lack_a_domain() -> None:
    data = make(0)
    found = read(data)
    only = np.flatnonzero(data["domains"] == "b")
    problem = found.to_judge(only)
    losses = problem.losses(np.ones(4))
    assert problem.sizes.tolist() == [0, len(only), 0]
    assert losses[[0, 2]].tolist() == [0, 0]
    peer = LinearDomains(data["X"][only], data["y"][only], data["domains"][only])
    assert losses[1] == pytest.approx(peer.losses(np.ones(4))[0])
    with pytest.raises(InputError, match=r"domains .*no row .*'a' .*in a fold"):
        found.to_fit(only, "a fold")
    with pytest.raises(InputError, match=r"domains .*no row .*'a' .*in a fold"):
        found.check_domains(only, "a fold")


def test_a_stretch_of_sparse_rows_is_not_copied() -> None:
    X = sparse.random_array((50, 7), density=0.3, rng=np.random.default_rng(0), format="csr")
    for part in (slice(None), slice(0, 40), slice(13, 45)):
        found = take(X, part)
        np.testing.assert_array_equal(found.toarray(), X.toarray()[part])
        assert np.shares_memory(found.data, X.data)
    np.testing.assert_array_equal(take(X, slice(0, 50, 7)).toarray(), X.toarray()[::7])


def test_small_tables_are_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    X = sparse.csr_array(np.eye(3))
    assert isinstance(dense_if_small(X), np.ndarray)
    monkeypatch.setattr(rows, "SMALL_TABLE", 8)
    assert dense_if_small(X) is X


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_solver_finds_the_same(n_classes: int) -> None:
    data = make(1, n=200, n_classes=n_classes)
    ours = ax.solve(read(data).to_fit(), tol=1e-10)
    peer = ax.solve(LinearDomains(data["X"], data["y"], data["domains"]), tol=1e-10)
    assert ours.objective == pytest.approx(peer.objective, abs=1e-9)


@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["labels", "table"]),
    n_classes=st.sampled_from([0, 2, 3]),
    weighted=st.booleans(),
    thin=st.booleans(),
    intercept=st.booleans(),
)
@settings(max_examples=100)
def test_losses_row_by_row_have_the_means_of_the_problem(
    seed: int, kind: str, n_classes: int, weighted: bool, thin: bool, intercept: bool
) -> None:
    data = make(seed, kind=kind, n_classes=n_classes, weighted=weighted)
    X = sparse.csr_array(data["X"]) if thin else None
    found = replace(read(data, X), intercept=intercept)
    rng = np.random.default_rng(seed)
    part: Any = rng.permutation(40)[:25] if seed % 2 else slice(5, 30)
    size = found.n_scores * (3 + intercept)
    models = list(rng.normal(size=(4, size)))
    losses = found.row_losses(models, part)
    assert losses.shape == (4, 25)
    weight = None if found.weight is None else found.weight[part]
    sizes, average = found.domains.take(part).shares(3, weight)
    problem = found.to_judge(part)
    np.testing.assert_allclose(sizes, problem.sizes)
    for w, row in zip(models, losses, strict=True):
        np.testing.assert_allclose(average @ row, problem.losses(w), rtol=1e-10)
    i = int(np.arange(40)[part][7])  # and one row by hand
    blocks = models[2].reshape(found.n_scores, -1)
    z = blocks[:, :3] @ data["X"][i] + (blocks[:, 3] if intercept else 0.0)
    y = found.y[i]
    if n_classes == 0:
        by_hand = (z[0] - y) ** 2 / 2
    elif n_classes == 2:
        by_hand = np.logaddexp(0, z[0]) - y * z[0]
    else:
        by_hand = logsumexp(z) - z[y]
    assert losses[2, 7] == pytest.approx(by_hand, rel=1e-10)
