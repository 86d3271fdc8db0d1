"""Tables that are read in stretches give the model that the same rows give in memory."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from anymix.errors import InputError
from anymix.tables import fit_table, read_table
from anymix.tables.memory import available, bytes_of
from anymix.tables.spooling import read_or_spool, spooled

USED: Any = {"keep": ["y"], "text": ["region"]}


def people(n: int, seed: int = 0, task: str = "classify") -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    region = rng.choice(["north", "south", "west"], n, p=[0.6, 0.3, 0.1])
    z = x[:, 0] * np.where(region == "west", -1, 1) + x[:, 1] + rng.logistic(size=n)
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    frame.loc[rng.random(n) < 0.05, "c"] = np.nan
    frame["city"] = rng.choice(["Oslo", "Rome", "Lima"], n)
    frame["code"] = rng.choice(["007", "12", "x"], n)
    frame["count"] = rng.integers(0, 9, n)
    frame["region"] = region
    frame["y"] = np.where(z > 0, "yes", "no") if task == "classify" else z
    frame.loc[3, "y"] = None
    return frame


def both(path: Path, **options: Any) -> tuple[Any, Any]:
    here = fit_table(read_table(path, **USED), "y", ["region"], **options)
    spool = spooled(path, **USED)
    there = fit_table(spool, "y", ["region"], **options)
    spool.close()
    return here, there


def check_same(here: Any, there: Any, atol: float) -> None:
    assert there.robustness == here.robustness
    assert there.gamma == here.gamma
    assert there.judged_on == here.judged_on
    assert there.model.features.titles == here.model.features.titles
    for ours, theirs in zip(there.model.features.columns, here.model.features.columns, strict=True):
        for name, value in vars(theirs).items():
            same = pytest.approx(value, rel=1e-12, abs=1e-15) if isinstance(value, float) else value
            assert getattr(ours, name) == same
    for a, b in ((there.model.fit.model, here.model.fit.model),):
        np.testing.assert_allclose(a.coef, b.coef, atol=atol)
    for name, audit in here.audits.items():
        assert there.audits[name].agnostic_loss == pytest.approx(audit.agnostic_loss, abs=atol)
    assert there.certificate.gap <= 1e-6
    assert any("read in stretches" in note for note in there.notes)
    assert set(here.notes) <= set(there.notes)


@pytest.fixture(autouse=True)
def short_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anymix.tables.spooling.STRETCH", 1000)


@pytest.mark.parametrize(
    "options",
    [
        {"gamma": 1e-2, "evaluation": 0.25, "use_domain": "intercept"},
        {"gamma": 1e-2, "evaluation": 2, "min_rows": 200},
    ],
    ids=["the domain is a feature", "folds and small domains"],
)
def test_the_model_is_that_of_the_rows_in_memory(tmp_path: Path, options: Any) -> None:
    people(1000).to_csv(tmp_path / "a.csv", index=False)
    check_same(*both(tmp_path / "a.csv", **options), atol=2e-3)


@pytest.mark.slow
def test_what_is_chosen_is_chosen_alike(tmp_path: Path) -> None:
    people(4000).to_parquet(tmp_path / "a.parquet")
    same = both(tmp_path / "a.parquet", evaluation=0.25)
    check_same(*same, atol=1e-2)  # R pulls to the ordinary model, known to a gap of 1e-6


def test_regression_and_a_test_file(tmp_path: Path) -> None:
    for seed, name in enumerate(("a.csv", "b.csv")):
        people(2000, seed, "regress").to_csv(tmp_path / name, index=False)
    options: Any = {"gamma": 0.1, "robustness": 0.5}
    here = fit_table(
        read_table(tmp_path / "a.csv", **USED),
        "y",
        ["region"],
        evaluation=read_table(tmp_path / "b.csv", strings=["city", "code"], **USED),
        **options,
    )
    one, two = (spooled(tmp_path / name, **USED) for name in ("a.csv", "b.csv"))
    there = fit_table(one, "y", ["region"], evaluation=two, **options)
    check_same(here, there, atol=2e-3)
    for spool in (one, two):
        spool.close()


def test_every_cell_is_what_it_is_in_memory(tmp_path: Path) -> None:
    """Types that change on the way: late gaps, late words, digits that are words, empty columns."""
    n = 45_000  # more than two chunks
    frame = pd.DataFrame({"whole": np.arange(n), "late": np.arange(n), "words": "a", "none": ""})
    frame["words"] = np.where(np.arange(n) % 3 == 0, "b", "7")
    frame["digits"] = np.where(np.arange(n) % 2 == 0, "12", "5")
    frame["mixed"] = np.where(np.arange(n) < 30_000, "1", "x")
    frame["late"] = np.where(np.arange(n) == 44_000, "", np.arange(n).astype(str))
    frame["first"] = np.where(np.arange(n) < 25_000, "", "0.5")
    frame["id"] = [f"row{i}" for i in range(n)]
    path = tmp_path / "a.csv"
    frame.to_csv(path, index=False)
    here, spool = read_table(path), spooled(path)
    assert spool.columns == here.columns.tolist()
    assert spool.attrs["left_out"] == here.attrs["left_out"] == ["id"]
    there = pd.concat([spool.frame(spool.columns, rows) for rows in spool.stretches()])
    for name in here:
        assert spool.is_number(name) == (here[name].dtype != "category")
        left, right = here[name], there[name].reset_index(drop=True)
        if here[name].dtype == "category":
            assert left.cat.categories.tolist() == spool.frame([name])[name].cat.categories.tolist()
            left, right = left.astype(object), right.astype(object)
        pd.testing.assert_series_equal(left, right, check_dtype=False)
    assert len(spool) == n
    spool.close()


def test_the_files_are_gone_at_the_end_and_after_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    people(500).to_csv(tmp_path / "a.csv", index=False)
    room = tmp_path / "room"
    room.mkdir()
    spool = spooled(tmp_path / "a.csv", folder=room)
    assert len(list(room.glob("*/*.column"))) == 8
    spool.close()
    assert list(room.iterdir()) == []

    def full(*arguments: Any, **options: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("anymix.tables.spooling._Column._write", full)
    with pytest.raises(InputError, match="has no room left for the columns of the table"):
        spooled(tmp_path / "a.csv", folder=room)
    assert list(room.iterdir()) == []


def test_memory_decides(tmp_path: Path) -> None:
    people(500).to_csv(tmp_path / "a.csv", index=False)
    assert isinstance(read_or_spool(tmp_path / "a.csv"), pd.DataFrame)
    spool = read_or_spool(tmp_path / "a.csv", memory=100_000)
    assert len(spool) == 500
    spool.close()
    assert available() > 10**6
    with pytest.raises(InputError, match="memory is 'much'; give bytes, as in 700MB or 2GB"):
        bytes_of("much")
