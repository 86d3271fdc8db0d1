"""Boosted trees of a table: judged, chosen, saved and asked as the linear models are."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from people import shop

from anymix.tables import boosting
from anymix.tables.fitting import fit_table
from anymix.tables.models import load_model, save_model


@pytest.fixture(autouse=True, scope="module")
def quick() -> Any:
    """Fewer trees."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(boosting.TREES, "max_iter", 20)
        yield


def curved(n: int = 900) -> pd.DataFrame:
    """What matters depends on the region, and not in straight lines."""
    r = np.random.default_rng(0)
    x, u = r.normal(size=(2, n))
    region = r.choice(["north", "south"], n, p=[0.85, 0.15])
    z = np.where(region == "north", 3 * np.abs(x) - 2, 3 * u)
    return pd.DataFrame({"x": x, "u": u, "region": region}).assign(
        bought=np.where(z + r.logistic(size=n) > 0, "yes", "no"), spent=z + r.normal(size=n)
    )


@pytest.mark.parametrize(("target", "other"), [("bought", "spent"), ("spent", "bought")])
def test_trees_are_judged_and_saved(target: str, other: str, tmp_path: Path) -> None:
    frame = curved()
    found = fit_table(frame, target, ["region"], drop=[other], model="boosted", evaluation=0.3)
    constant = found.beside["a constant guess"]
    assert found.audits["ordinary"].pooled_loss < constant.pooled_loss
    assert (found.gamma, found.solution) == (None, None)
    assert found.certificate.gap >= 0
    frontier = found.choice.frontier
    assert found.robustness == frontier.robustness[frontier.chosen]
    again = load_model(save_model(found.model, tmp_path / "model.joblib"))
    said = again.predict(frame)
    assert said.tolist() == found.model.predict(frame).tolist()
    if target == "bought":
        assert set(said) == {"no", "yes"}
        assert np.mean(said == frame[target]) > 0.7


def test_trees_may_use_the_domain() -> None:
    frame = curved()
    options: dict[str, Any] = {"drop": ["spent"], "model": "boosted", "evaluation": 0.3}
    found = fit_table(frame, "bought", ["region"], use_domain="intercept", **options)
    swapped = frame.assign(region=frame["region"].map({"north": "south", "south": "north"}))
    said, other = (found.model.predict_proba(table) for table in (frame, swapped))
    assert not np.allclose(said, other)
    new = found.model.predict_proba(frame.assign(region="elsewhere"))
    assert np.all((new >= 0) & (new <= 1))


def test_the_ordinary_trees_can_be_asked_for_and_robust_ones_stand_beside_them() -> None:
    options: dict[str, Any] = {"drop": ["spent"], "model": "boosted", "evaluation": 0.3}
    chosen = fit_table(curved(), "bought", ["region"], **options)
    assert not chosen.choice.is_ordinary
    plain = fit_table(curved(), "bought", ["region"], robustness=0.0, **options)
    assert plain.choice.is_ordinary
    assert plain.robustness == 0
    for name in ("ordinary", "robust"):
        found = plain.audits[name].domain_losses
        np.testing.assert_allclose(found, chosen.audits[name].domain_losses)


def test_where_ordinary_trees_are_kept_the_robust_ones_beside_them_are_others() -> None:
    frame = curved()
    same = 3 * np.abs(frame["x"]) - 2 + np.random.default_rng(1).logistic(size=900)
    frame["bought"] = np.where(same > 0, "yes", "no")  # in both regions
    found = fit_table(frame, "bought", ["region"], drop=["spent"], model="boosted", evaluation=0.3)
    assert found.choice.is_ordinary
    ordinary, robust = (found.audits[name].domain_losses for name in ("ordinary", "robust"))
    assert not np.allclose(ordinary, robust)


def test_trees_refuse_what_they_have_not() -> None:
    for options, message in (
        ({"gamma": 0.1}, "gamma is 0.1, but trees have none"),
        ({"robustness": 1.5}, "robustness is 1.5, with boosted trees"),
        ({"use_domain": "slopes"}, "use_domain is 'slopes', but trees have none"),
    ):
        with pytest.raises(ValueError, match=message):
            fit_table(shop(60), "bought", ["region"], model="boosted", **options)
    with pytest.raises(ValueError, match="model is 'forest'; give 'auto', 'linear' or 'boosted'"):
        fit_table(shop(60), "bought", ["region"], model="forest")
