"""The estimators take rows that are not in memory, and batches that are seen once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from partitions.tables_in_chunks import cut, table

import anymix as ax
from anymix.errors import InputError
from anymix.partitions import from_batches


def numbers(n: int = 3000) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    X, region = rng.normal(size=(n, 3)), rng.choice(["city", "rural"], n, p=[0.8, 0.2])
    z = np.where(region == "city", X[:, 0], X[:, 1]) + 0.5 * X[:, 2]
    return X, np.where(z + rng.logistic(size=n) > 0, "yes", "no"), region


@pytest.fixture(scope="module")
def here() -> Any:
    X, y, region = numbers()
    return ax.AgnosticClassifier(tol=1e-10).fit(X, y, domains=region)


def check_same(far: Any, here: Any) -> None:
    np.testing.assert_allclose(far.coef_, here.coef_, atol=1e-4)
    assert far.certificate_.upper == pytest.approx(here.certificate_.upper, abs=1e-9)
    assert far.domain_names_.tolist() == here.domain_names_.tolist()
    assert far.classes_.tolist() == here.classes_.tolist()
    X, y, _ = numbers()
    np.testing.assert_array_equal(far.predict(X), here.predict(X))
    assert far.score(X, y) == here.score(X, y)


def test_dask_arrays_and_frames(here: Any) -> None:
    X, y, region = numbers()
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y, region=region)
    lazy = dd.from_pandas(frame, npartitions=3)
    with dask.config.set(scheduler="synchronous"):
        model = ax.AgnosticClassifier(tol=1e-10)
        check_same(model.fit(da.from_array(X, chunks=(700, 3)), y, domains=region), here)
        series = lazy[["a", "b", "c"]], lazy["y"], lazy["region"]
        check_same(model.fit(series[0], series[1], domains=series[2]), here)
        found = ax.AgnosticClassifier(tol=1e-10).fit(lazy, "y", domains="region")
    assert found.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(found.predict(frame[["a", "b", "c"]]), here.predict(X))


def test_parquet_datasets_and_problems(here: Any, tmp_path: Path) -> None:
    X, y, region = numbers()
    columns = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y, "region": region}
    ds.write_dataset(pa.table(columns), tmp_path / "t", format="parquet", max_rows_per_group=500,
                     max_rows_per_file=1500)  # fmt: skip
    found = ax.AgnosticClassifier(tol=1e-10).fit(ds.dataset(tmp_path / "t"), "y", domains="region")
    assert found.coef_ == pytest.approx(here.coef_, abs=1e-4)
    problem = from_batches(cut((X, y, region), range(500, 3000, 500)))
    check_same(ax.AgnosticClassifier(tol=1e-10).fit(problem), here)
    with pytest.raises(InputError, match="column 'region' holds no numbers"):  # a feature then
        ax.AgnosticClassifier().fit(ds.dataset(tmp_path / "t"), "y")
    with pytest.raises(InputError, match="target is a ndarray; give the name of a column"):
        ax.AgnosticClassifier().fit(ds.dataset(tmp_path / "t"), y, domains="region")


def test_regression_settings_and_warm_starts() -> None:
    X, y, domains = table("squared", n=600)
    chunks = cut((X, y, domains), range(100, 600, 100))
    problem = from_batches(chunks, ax.SquaredError())
    for options in (
        {"robustness": 0.5},
        {"mixtures": "chi2:1.5"},
        {"baseline": "regret", "gamma": 0.1},
        {"anchor": [1.0, 0.0, 0.0]},
    ):
        here = ax.AgnosticRegressor(tol=1e-10, **options).fit(X, y, domains=domains)
        far = ax.AgnosticRegressor(tol=1e-10, **options).fit(problem)
        np.testing.assert_allclose(far.coef_, here.coef_, atol=1e-4)
        assert far.agnostic_loss_ == pytest.approx(here.agnostic_loss_, abs=1e-6)
    again = ax.AgnosticRegressor(warm_start=True).fit(problem)
    passes = problem.n_passes
    again.fit(problem)
    assert problem.n_passes - passes <= 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"domain_features": "slopes"}, "domain_features is 'slopes'"),
        ({"anchor": "ordinary"}, "anchor is 'ordinary', which needs rows in memory"),
    ],
)
def test_what_needs_rows_in_memory_says_so(options: Any, message: str) -> None:
    problem = from_batches(cut(table("binary"), [30]))
    with pytest.raises(InputError, match=message):
        ax.AgnosticClassifier(**options).fit(problem)


def test_a_problem_has_its_own_labels_and_loss() -> None:
    problem = from_batches(cut(table("binary"), [30]))
    with pytest.raises(InputError, match="y is given beside a problem"):
        ax.AgnosticClassifier().fit(problem, [1, 0])
    with pytest.raises(InputError, match="X is a problem with the loss CrossEntropy"):
        ax.AgnosticRegressor().fit(problem)
