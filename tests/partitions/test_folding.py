"""Folds by a hash, and the guard for rows that are not in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from partitions.tables_in_chunks import cut, table
from partitions.test_estimators import numbers
from partitions.test_parquet_files import people, write

import anymix as ax
from anymix.errors import InputError
from anymix.partitions import folds, from_batches, from_parquet


def test_folds_are_the_rows_dealt_out() -> None:
    X, y, domains = table("binary", n=900)
    problem = from_batches(cut((X, y, domains), range(100, 900, 100)))
    passes = problem.n_passes
    parts = folds(problem, 3)
    assert problem.n_passes == passes + 1
    held = sum(judged.sizes for _, judged in parts)
    np.testing.assert_allclose(held, problem.sizes)
    w = np.array([1.0, -0.5, 0.2, 0.1])
    total = np.zeros(3)
    for fit, judged in parts:
        np.testing.assert_allclose(fit.sizes + judged.sizes, problem.sizes)
        assert 0.2 < judged.n_rows / 900 < 0.47
        total += judged.sizes * judged.losses(w)
        both = fit.sizes * fit.losses(w) + judged.sizes * judged.losses(w)
        np.testing.assert_allclose(both, problem.sizes * problem.losses(w))
        assert ax.solve(fit).converged
    np.testing.assert_allclose(total, problem.sizes * problem.losses(w))
    other = folds(problem, 3, seed=1)[0][1]
    assert not np.allclose(other.losses(w), parts[0][1].losses(w))


@pytest.mark.parametrize("kind", ["numbers", "words"])
def test_all_rows_of_an_id_are_in_one_fold(kind: str) -> None:
    rng = np.random.default_rng(0)
    person = rng.integers(40, size=800)
    X, y, domains = table("binary", n=800)
    X = np.column_stack([X, person])  # so that a fold shows whom it has
    ids: Any = person if kind == "numbers" else np.array([f"person {i}" for i in person])

    def chunks() -> Iterator[Any]:
        for i in range(0, 800, 100):
            part = slice(i, i + 100)
            yield X[part], y[part], domains[part], None, ids[part]

    parts = folds(from_batches(chunks), 4)
    whom = [set(judged.sampled_rows.X[:, -1].tolist()) for _, judged in parts]
    assert sum(map(len, whom)) == len(set().union(*whom)) == 40
    assert all(whom)


def test_ids_of_a_file(tmp_path: Path) -> None:
    frame = people(900)
    frame["person"] = [f"p{i % 60}" for i in range(900)]
    path = write(frame, tmp_path / "a.parquet")
    problem = from_parquet(path, "bought", "region", ["income", "children"], id="person")
    assert problem.feature_names == ["income", "children"]
    for fit, judged in folds(problem, 2):
        assert judged.n_rows % 15 == 0  # whole persons
        assert fit.n_rows + judged.n_rows == 900


def test_a_fold_without_a_domain_is_refused() -> None:
    X, y, domains = table("binary", n=60)
    domains = np.where(np.arange(60) == 7, "rare", domains)
    problem = from_batches(cut((X, y, domains), [30]))
    with pytest.raises(InputError, match=r"domains has no row of 'rare' (in|outside of) fold"):
        folds(problem, 3)
    for count in (1, 2.5):
        with pytest.raises(InputError, match=f"count is {count}; give 2 to 60"):
            folds(problem, count)  # type: ignore[arg-type]


def test_the_guard_chooses_on_a_sample_and_fits_all_rows() -> None:
    X, y, region = numbers(6000)
    problem = from_batches(cut((X, y, region), range(1000, 6000, 1000)))
    far = ax.AgnosticClassifierCV().fit(problem)
    here = ax.AgnosticClassifierCV().fit(X, y, domains=region)
    assert min(far.robustness_, here.robustness_) > 0  # what matters depends on the region
    assert far.certificate_.gap <= 1e-6
    assert far.solution_.domain_losses.max() == pytest.approx(here.domain_losses_.max(), abs=0.01)
    assert far.frontier_.domain_names.tolist() == ["city", "rural"]
    np.testing.assert_allclose(far.predict_proba(X), here.predict_proba(X), atol=0.05)
