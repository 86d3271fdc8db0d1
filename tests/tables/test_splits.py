from typing import Any

import numpy as np
import pandas as pd
import pytest
from people import shop

from anymix.problem import dealing
from anymix.tables import splits as ways
from anymix.tables.fitting import fit_table


def test_held_out_rows_are_not_fitted() -> None:
    """Labels by chance and a feature for every row: only rows seen before can be predicted."""
    r = np.random.default_rng(0)
    n = 120
    frame = pd.DataFrame(r.normal(size=(n, 100)), columns=[f"x{j}" for j in range(100)])
    frame = frame.assign(y=r.integers(0, 2, n), d=np.arange(n) % 2)
    for how in ({"evaluation": 4}, {"evaluation": 0.4}, {}):
        found = fit_table(frame, "y", ["d"], gamma=1e-3, **how)
        for one in found.audits.values():
            assert one.pooled_metrics["accuracy"] < 0.7
        n_judged = 48 if how.get("evaluation") == 0.4 else n
        assert found.audits["robust"].n_rows == n_judged
    assert (found.model.predict(frame) == frame["y"]).mean() > 0.9


@pytest.mark.parametrize("rows_to_fold", [99, 10])
def test_rows_held_out_do_not_even_change_the_scale(
    rows_to_fold: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outlier in domain b moves the losses of a if and only if it is fitted."""
    monkeypatch.setattr(ways, "ROWS_TO_FOLD", rows_to_fold)
    r = np.random.default_rng(0)
    frame = pd.DataFrame({"x": r.normal(size=40), "d": ["b"] * 10 + ["a"] * 30})
    frame = frame.assign(y=np.where(frame["x"] + r.logistic(size=40) > 0, "yes", "no"))

    def losses(table: Any) -> tuple[Any, Any]:
        found = fit_table(table, "y", ["d"], gamma=0.1, evaluation=0.5)
        return [one.domain_losses[0] for one in found.audits.values()], found

    expected, found = losses(frame)
    n_held_out = 0
    for i in range(10):
        moved, with_outlier = losses(frame.assign(x=frame["x"].where(frame.index != i, 1e6)))
        if moved == pytest.approx(expected, rel=1e-9):
            n_held_out += 1
            mean = with_outlier.model.features.columns[0].mean
            assert (abs(mean) > 1e4) == (rows_to_fold > 40)  # of all rows, if that is affordable
    assert n_held_out == found.audits["robust"].sizes[1] == 5


def test_large_tables_are_judged_on_a_quarter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ways, "ROWS_TO_FOLD", 500)
    monkeypatch.setattr(dealing, "ROWS_TO_CHOOSE", 300)
    frame = shop(1001)
    steps: list[str] = []
    found = fit_table(frame, "bought", ["region"], drop=["spent"], progress=steps.append)
    assert found.audits["robust"].n_rows == 250
    assert found.judged_on == "250 rows that the models had not seen"
    shares = found.audits["robust"].sizes / 250
    np.testing.assert_allclose(shares, frame["region"].value_counts() / 1001, atol=0.005)
    assert steps[-1] == "the model of all rows"
