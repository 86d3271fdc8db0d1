"""AnyMix on a table: what is judged, saved and predicted, and what is not recommended."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from people import shop

from anymix.auditing import audit
from anymix.errors import InputError
from anymix.tables import fit_table, load_model, predict_table, save_model
from anymix.tables.fitting import _speaks_against


@pytest.fixture(scope="module")
def found() -> Any:
    return fit_table(shop(600), "bought", ["region"], model="auto", drop=["spent"])


def test_three_models_are_judged_on_all_rows(found: Any) -> None:
    assert list(found.audits) == ["ordinary", "recommended", "domain known"]
    assert list(found.beside) == ["a constant guess"]
    assert {a.n_rows for a in found.audits.values()} == {600}
    losses = {name: a.agnostic_loss for name, a in found.audits.items()}
    assert losses["domain known"] < losses["ordinary"]
    assert found.recommendation.domain_names.tolist() == list(found.audits["ordinary"].domain_names)
    assert found.comparison.names == ("ordinary", "recommended")


def test_the_domain_is_looked_at_where_it_is_there(found: Any, tmp_path: Path) -> None:
    model = load_model(save_model(found.model, tmp_path / "m.joblib"))
    frame = shop(600)
    known, notes = predict_table(model, frame)
    assert notes == []
    unknown, notes = predict_table(model, frame.drop(columns="region"))
    assert notes == []
    new, notes = predict_table(model, frame.assign(region="nowhere"))
    assert len(notes) == 1
    assert "600 rows" in notes[0]
    pd.testing.assert_frame_equal(new, unknown)
    assert not np.allclose(known.iloc[:, 1], unknown.iloc[:, 1])
    X = model.features.transform(frame)
    said = model.estimator.predict_proba(X, domains=frame["region"])
    np.testing.assert_allclose(known.iloc[:, 1:], said)


def test_numbers_groups_weights_and_a_test_table() -> None:
    train, test = shop(400), shop(200)
    options: dict[str, Any] = {"model": "auto", "drop": ["bought"], "evaluation": test}
    found = fit_table(train, "spent", ["region"], **options)
    assert found.audits["recommended"].unit_title == "RMSE"
    assert found.audits["recommended"].n_rows == 200
    group = np.arange(400) // 2
    options = {"model": "auto", "drop": ["spent"], "group": "who", "class_weight": "balanced"}
    found = fit_table(train.assign(who=group), "bought", ["region"], evaluation=2, **options)
    assert found.audits["ordinary"].n_rows == 400


def test_the_estimator_has_the_domains_in_the_order_of_the_table() -> None:
    """Λ goes by places, also where numbers and small domains were put together."""
    rng = np.random.default_rng(0)
    region = np.repeat([2, 10, 77, 78], [300, 288, 6, 6])
    frame = pd.DataFrame({"x": rng.normal(size=600), "region": region})
    frame["y"] = np.where(frame["x"] + rng.logistic(size=600) > 0, "yes", "no")
    found = fit_table(frame, "y", ["region"], model="auto", min_rows=10)
    assert found.model.estimator.domain_names_.tolist() == ["(other)", "10", "2"]
    assert found.audits["ordinary"].domain_names == ("(other)", "10", "2")
    assert found.choice.is_ordinary
    np.testing.assert_allclose(found.choice.mixture, found.audits["ordinary"].sizes / 600)


@pytest.mark.parametrize(
    ("name", "value"), [("gamma", 0.1), ("robustness", 0.5), ("use_domain", "slopes")]
)
def test_what_auto_has_not_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        fit_table(shop(60), "bought", ["region"], model="auto", drop=["spent"], **{name: value})
    assert caught.value.argument == name


@pytest.mark.parametrize(
    ("chosen", "guess", "linear", "auto"),
    [
        (0.5, 0.6, False, False),
        (0.5, 0.4, True, False),  # by the rule, as the reference is worse than the guess, too
        (0.8, 0.9, True, True),
        (0.7, 0.9, True, True),
    ],
)
def test_nothing_worse_than_a_constant_guess_is_taken(
    chosen: float, guess: float, linear: bool, auto: bool
) -> None:
    """In 'b', where the reference loses 0.7."""
    for names, against in ((("chosen", "ordinary"), linear), (("recommended", "reference"), auto)):
        losses = {names[0]: chosen, names[1]: 0.7, "a constant guess": guess}
        audits = {k: audit(None, [0.1, v], ["a", "b"]) for k, v in losses.items()}
        assert _speaks_against(audits) == against
