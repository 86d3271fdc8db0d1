from typing import Any

import numpy as np
import pandas as pd
import pytest
from people import shop

from anymix.tables.fitting import fit_table
from anymix.tables.predicting import predict_table


def test_values_are_predicted_too() -> None:
    frame = shop()
    model = fit_table(frame, "spent", ["region"], gamma=0.1, drop=["bought"]).model
    predictions, _ = predict_table(model, frame)
    assert predictions.columns.tolist() == ["prediction"]
    assert np.corrcoef(predictions["prediction"], frame["spent"])[0, 1] > 0.2


def test_kept_columns_may_come_from_another_frame() -> None:
    table = shop()
    model = fit_table(table, "bought", ["region"], gamma=0.01).model
    written = pd.DataFrame({"x": [f"0{k}" for k in range(len(table))]})
    found, _ = predict_table(model, table, ["x"], written)
    assert found["x"].tolist() == written["x"].tolist()
    assert found["prediction"].tolist() == model.predict(table).tolist()


@pytest.mark.parametrize("name", ["prediction", "probability of yes"])
def test_no_kept_column_is_lost(name: str) -> None:
    table = shop(100)
    model = fit_table(table, "bought", ["region"], gamma=0.01).model
    with pytest.raises(ValueError, match=f"keep is '{name}', but a column of that name is made"):
        predict_table(model, table.assign(**{name: 1}), [name])


@pytest.mark.parametrize("model", ["linear", "boosted"])
def test_domains_that_are_numbers_are_told_apart_too(model: str) -> None:
    """The answers are those for the same domains with names; domains not fitted are noted."""
    r = np.random.default_rng(0)
    frame = pd.DataFrame({"x": r.normal(size=400), "g": r.choice([1, 2], 400)})
    z = np.where(frame["g"] == 1, 2.0, -2.0) + frame["x"]
    frame = frame.assign(y=np.where(z + r.logistic(size=400) > 0, "yes", "no"))
    options: Any = {"model": model, "use_domain": "intercept", "evaluation": 0.3}
    named = frame.assign(g=frame["g"].map({1: "one", 2: "two"}))
    numbers, names = (fit_table(t, "y", ["g"], **options).model for t in (frame, named))
    new = pd.DataFrame({"x": [0.0, 0.0, 0.0], "g": [1, 2, 77]})
    said, notes = predict_table(numbers, new)
    same, _ = predict_table(names, new.assign(g=["one", "two", "none"]))
    np.testing.assert_allclose(said["probability of yes"], same["probability of yes"])
    assert said["probability of yes"][0] > said["probability of yes"][1] + 0.3
    assert notes == ["1 row of domains that were not fitted, served as if it were not known"]
    assert numbers.unseen_domains(new.assign(g=77))[0].startswith("3 rows of domains")
