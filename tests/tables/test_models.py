from pathlib import Path

import joblib
import numpy as np
import pytest
from people import shop
from sklearn.base import clone

from anymix.errors import InputError
from anymix.tables import models
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
    assert notes == ["'city': 1 level that the training had not, such as 'Bonn'"]
    with pytest.raises(ValueError, match="no column 'age'"):
        predict_table(again, frame.drop(columns="age"))


def test_a_model_of_a_later_format_names_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = fit_table(shop(100), "bought", ["region"], gamma=0.1, drop=["spent"]).model
    monkeypatch.setattr(models, "FORMAT", 3)
    monkeypatch.setattr(models, "__version__", "9.9")
    save_model(model, tmp_path / "new.joblib")
    monkeypatch.undo()
    with pytest.raises(InputError, match=r"new.joblib was saved by anymix 9\.9; fit it again"):
        load_model(tmp_path / "new.joblib")


def test_files_that_are_no_models(tmp_path: Path) -> None:
    (tmp_path / "text.joblib").write_text("hello")
    joblib.dump({"a": 1}, tmp_path / "dict.joblib")
    for name, message in (
        ("none.joblib", "is not there"),
        ("text.joblib", "is no model that anymix has saved"),
        ("dict.joblib", "holds a dict; give a model"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            load_model(tmp_path / name)
        assert "\n" not in str(caught.value)
        assert "--" not in str(caught.value)


@pytest.mark.filterwarnings("ignore::anymix.estimators.fitting.OverfitWarning")
@pytest.mark.parametrize("target", ["bought", "spent"])
def test_the_estimator_of_a_model_says_the_same(target: str) -> None:
    frame = shop()
    model = fit_table(frame, target, ["region"], gamma=0.1, drop=["spent", "bought"]).model
    X = model.features.transform(frame)
    estimator = model.estimator
    np.testing.assert_array_equal(estimator.predict(X), model.predict(frame))
    assert estimator.get_params()["gamma"] == 0.1
    assert estimator.certificate_ == model.fit.solution.certificate
    again = clone(estimator).fit(X, frame[target], domains=frame["region"])
    assert again.certificate_.upper == pytest.approx(estimator.certificate_.upper, abs=2e-6)
    assert set(vars(again)) == set(vars(estimator))
