from pathlib import Path

import numpy as np
import pytest
from people import shop

from anymix.tables.fitting import fit_table
from anymix.tables.models import load_model, save_model
from anymix.tables.predicting import predict_table


def test_a_saved_model_predicts_the_same(tmp_path: Path) -> None:
    frame = shop()
    model = fit_table(frame, "bought", ["region"], gamma=0.1, drop=["spent"]).model
    save_model(model, tmp_path / "model.joblib")
    again = load_model(tmp_path / "model.joblib")
    predictions, notes = predict_table(again, frame.assign(city="Bonn"), keep=["region"])
    expected = model.predict_proba(frame.assign(city="Bonn"))
    assert predictions.columns.tolist() == [
        "region",
        "prediction",
        "probability of no",
        "probability of yes",
    ]
    np.testing.assert_array_equal(predictions.iloc[:, 2:], expected)
    assert predictions["prediction"].tolist() == again.predict(frame.assign(city="Bonn")).tolist()
    assert notes == ["'city': 1 level(s) that the training had not, such as 'Bonn'"]
    with pytest.raises(ValueError, match="no column 'age'"):
        predict_table(again, frame.drop(columns="age"))
