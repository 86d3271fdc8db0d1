"""An audit of a table on disk has the numbers of the same table in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from audited import check_equal

from anymix.auditing import compare
from anymix.auditing.stretched import Run, Stretched
from anymix.errors import InputError
from anymix.tables import audit_frame, read_table
from anymix.tables.audit_on_disk import audit_spool, drawn_rows
from anymix.tables.spooling import spooled


@pytest.fixture(autouse=True)
def short_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anymix.tables.spooling.STRETCH", 1000)
    monkeypatch.setattr("anymix.auditing.stretched.STRETCH", 700)


def table(n: int = 7000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age, sex = rng.integers(20, 23, n), rng.choice(["F", "M"], n, p=[0.9, 0.1])
    age[sex == "M"] = 21
    z = rng.normal(size=n)
    y = rng.logistic(size=n) < z * np.where(sex == "F", 1.0, 0.3)
    q, r = 1 / (1 + np.exp(-z)), 1 / (1 + np.exp(-0.5 * z))
    three = rng.integers(3, size=n)
    P = rng.dirichlet([2.0, 1.0, 1.0], n)
    return pd.DataFrame(
        {
            "sex": sex,
            "age": age,
            "y": np.where(y, "yes", "no"),
            "label": np.where(q > 0.5, "yes", "no"),
            "other": np.where(r > 0.4, "yes", "no"),
            "q": q,
            "r": r,
            "three": three,
            **{f"p{k}": P[:, k] for k in range(3)},
            "number": 3 * z,
            "guess": z,
            "guess2": 0.5 * z,
            "nll": np.exp(z) - 1,
            "nll2": np.exp(0.9 * z) - 1,
        }
    )


CASES: dict[str, dict[str, Any]] = {
    "labels": {"target": "y", "prediction": ["label"], "against": "other", "guarantee": 0.05},
    "probabilities": {"target": "y", "prediction": ["q"], "against": "r", "guarantee": 0.1},
    "errors of probabilities": {"target": "y", "prediction": ["q"], "loss": "zero_one"},
    "cut": {"target": "y", "prediction": ["q"], "loss_bound": 2.0, "mixtures": "chi2:1.2"},
    "three": {"target": "three", "prediction": ["p0", "p1", "p2"], "classes": ["0", "1", "2"]},
    "values": {"target": "number", "prediction": ["guess"], "against": "guess2"},
    "absolute": {"target": "number", "prediction": ["guess"], "loss": "absolute"},
    "rates": {"target": "y", "prediction": ["label"], "against": "other", "metrics": "rates"},
    "one rate": {"target": "y", "prediction": ["q"], "metrics": ["false_positive_rate"]},
    "losses": {"losses": "nll", "against": "nll2", "mixtures": "chi2:1.01"},
    "the data's mixture": {"target": "y", "prediction": ["label"], "mixtures": "data"},
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_every_number_is_that_of_the_rows_in_memory(tmp_path: Path, options: Any) -> None:
    path = tmp_path / "a.csv"
    table().to_csv(path, index=False)
    domains = ["sex", "age"] if "target" in options else ["sex"]
    here = audit_frame(read_table(path, text=domains), domains, **options)
    spool = spooled(path, text=domains)
    found = audit_spool(spool, domains, **options)
    assert list(found.audits) == list(here)
    for name, audit in here.items():
        check_equal(found.audits[name].to_dict(), audit.to_dict())
        assert found.audits[name].summary() == audit.summary()
    if len(here) == 2:
        pairs = [compare(*_two(audits)) for audits in (found.audits, here)]
        check_equal(pairs[0].to_dict(), pairs[1].to_dict())
        assert pairs[0].summary() == pairs[1].summary()
    found.close()
    spool.close()
    assert not Path(found.folder.name).exists()


def test_auc_of_drawn_rows_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anymix.tables.audit_on_disk.DRAWN", 3000)
    path, options = tmp_path / "a.csv", dict[str, Any](target="y", prediction=["q"])
    table().to_csv(path, index=False)
    whole = audit_frame(read_table(path), ["sex"], **options)["q"]
    spool = spooled(path)
    found = audit_spool(spool, ["sex"], **options)
    audit = found.audits["q"]
    assert any("auc: where there are more than 3,000 rows" in note for note in found.notes)
    low, high = audit.metric_intervals["auc"].T
    assert np.all((low < whole.metrics["auc"]) & (whole.metrics["auc"] < high))
    assert audit.metrics["auc"][1] == whole.metrics["auc"][1]  # few rows: all of them
    assert audit.metrics["auc"][0] != whole.metrics["auc"][0]
    drawn = drawn_rows(spool, 500)
    assert 400 < len(drawn) <= 500
    assert list(drawn.columns) == list(table().columns)
    found.close()
    spool.close()


def test_what_is_refused_is_refused_in_the_same_words(tmp_path: Path) -> None:
    frame = table()
    frame.loc[6500, "q"] = np.nan
    frame.loc[6600, "p1"] = float(frame["p1"][6600]) + 0.5
    frame["id"] = np.arange(len(frame))
    path = tmp_path / "a.csv"
    frame.to_csv(path, index=False)
    spool = spooled(path)
    for options, message in (
        ({"target": "y", "prediction": ["q"]}, "column 'q' has 1 missing values"),
        ({"target": "y", "prediction": ["label"], "confidence": 2}, "confidence is 2"),
        ({"target": "y", "prediction": ["lable"]}, "did you mean 'label'"),
        ({"target": "y", "prediction": ["label"], "weight": "p0"}, "weight is given, but the"),
        ({"target": "y", "prediction": ["q"], "metrics": ["rates", "f1"]}, "ask for 'rates' only"),
        ({"target": ["y", "label"], "prediction": ["q", "p0"]}, "name one target only"),
        ({"target": "three", "prediction": ["p0", "p1", "p2"]}, "rows 6,000 to 7,000"),
    ):
        with pytest.raises(InputError, match=message):
            audit_spool(spool, ["sex"], **options)
    with pytest.raises(InputError, match="has over 1,000 different values"):
        audit_spool(spool, ["id"], target="y", prediction=["label"])
    spool.close()


def _two(audits: Any) -> tuple[Any, Any]:
    first, second = audits.values()
    return first, second


def _reader(values: Any) -> Any:
    return lambda start, stop: values[start:stop]


def test_stretched_numbers_are_like_an_array() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 3001))
    x, y = (Stretched(3001, _reader(v)) for v in (a, b))
    laws: Any = (
        lambda x, y: np.mean(2 * x - y / 3),
        lambda x, y: (1 - np.abs(x)).max() - np.ptp(-y),
        lambda x, y: x @ y + (x * y).sum() + a @ y,
        lambda x, y: np.mean(np.concatenate([x, a, y[10:2500]]) ** 2),
        lambda x, y: np.bincount((x > 0).astype(np.intp) * 1, y, 3),
        lambda x, y: np.sum((x > 0) & (y > 0)) + np.any(x != x) + len(x[np.arange(5)]),
        lambda x, y: x[(x != 0) & (y > 1)],
    )
    for f in laws:
        np.testing.assert_allclose(f(x, y), f(a, b), rtol=1e-13, atol=1e-13)
    assert isinstance(x[Run(0, 700)], np.ndarray)
    assert isinstance(x[Run(0, 701)], Stretched)
    np.testing.assert_array_equal(x[Run(5, 905)], a[5:905])
