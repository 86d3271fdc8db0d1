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
