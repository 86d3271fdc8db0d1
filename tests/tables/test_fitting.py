from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from people import shop, small
from sklearn.linear_model import LogisticRegression

import anymix as ax
from anymix.auditing.audits import audit
from anymix.tables import fitting
from anymix.tables.columns import Features
from anymix.tables.fitting import fit_table
from anymix.tables.labels import domain_codes
from anymix.tables.predicting import predict_table


def test_nullable_columns_of_pandas_are_read_too() -> None:
    frame = shop(300).convert_dtypes().assign(year=pd.array([1, 2, None] * 100, dtype="Int64"))
    names, codes = domain_codes(frame, ["year"])
    assert names[codes].tolist()[:3] == ["1", "2", "(missing)"]
    found = fit_table(frame, "bought", ["region"], gamma=0.1, drop=["spent"])
    plain = fit_table(
        shop(300).assign(year=[1.0, 2.0, np.nan] * 100),
        "bought",
        ["region"],
        gamma=0.1,
        drop=["spent"],
    )
    np.testing.assert_allclose(
        found.audits["agnostic"].domain_losses, plain.audits["agnostic"].domain_losses
    )


@pytest.mark.filterwarnings("ignore::anymix.estimators.overfitting.OverfitWarning")
@pytest.mark.parametrize("target", ["bought", "spent"])
def test_the_model_is_that_of_the_estimators(target: str) -> None:
    frame = shop()
    found = fit_table(frame, target, ["region"], gamma=0.01, drop=["spent", "bought"])
    names = ["age", "city", "job", "x"]
    features, _ = Features.learn(frame, names)
    X = features.transform(frame)
    make: Any = ax.AgnosticClassifier if target == "bought" else ax.AgnosticRegressor
    expected = make(gamma=0.01).fit(X, frame[target], domains=frame["region"])
    fitted = found.model.estimator
    assert fitted.agnostic_loss_ == pytest.approx(expected.agnostic_loss_, abs=1e-5)
    np.testing.assert_allclose(fitted.domain_losses_, expected.domain_losses_, atol=1e-4)
    np.testing.assert_allclose(
        found.model.features.transform(frame).toarray(), X.toarray(), atol=1e-12
    )
    assert fitted.domain_names_.tolist() == ["north", "south"]
    assert found.gamma == 0.01
    assert found.certificate.gap < 1e-6
    assert found.certificate.upper == pytest.approx(expected.certificate_.upper, abs=2e-6)
    if target == "bought":
        np.testing.assert_allclose(
            found.model.predict_proba(frame), expected.predict_proba(X), atol=1e-2
        )
        assert found.model.predict(frame).tolist() == expected.predict(X).tolist()


def test_the_ordinary_model_beside_it_is_logistic_regression() -> None:
    train, test = shop(), shop(300, seed=1)
    names = ["age", "city", "x"]
    drop = ["job", "spent"]
    found = fit_table(train, "bought", ["region"], gamma=0.01, drop=drop, test=test)
    X = Features.learn(train, names)[0]
    theirs = LogisticRegression(C=1 / (0.01 * len(train)), tol=1e-8, max_iter=1000)
    theirs.fit(X.transform(train), train["bought"])
    said = theirs.predict_proba(X.transform(test))
    expected = audit(test["bought"], said, test["region"])
    np.testing.assert_allclose(
        found.audits["ordinary"].domain_losses, expected.domain_losses, rtol=1e-3
    )
    assert found.audits["ordinary"].domain_names == ("north", "south")
    assert found.audits["ordinary"].sizes.tolist() == expected.sizes.tolist()
    assert found.judged_on == "the rows of the test file"
    agnostic = audit(test["bought"], found.model.predict_proba(test), test["region"])
    np.testing.assert_allclose(
        found.audits["agnostic"].domain_losses, agnostic.domain_losses, rtol=1e-6
    )
    assert found.comparison.gain > 0.1


def test_gamma_is_chosen_for_the_worst_mixture() -> None:
    r = np.random.default_rng(0)
    n = 200
    frame = pd.DataFrame(r.normal(size=(n, 60)), columns=[f"x{j}" for j in range(60)])
    noise = r.logistic(size=n)
    frame = frame.assign(d=np.arange(n) % 2, y=np.where(frame["x0"] + noise > 0, "a", "b"))
    strong = fit_table(frame, "y", ["d"])
    weak = fit_table(frame, "y", ["d"], gamma=1e-5)
    assert strong.gamma in fitting.GAMMAS
    assert strong.audits["agnostic"].agnostic_loss < weak.audits["agnostic"].agnostic_loss


def test_the_model_saved_has_the_gamma_chosen_on_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    choose, chosen = fitting._chosen, []

    def listed(rows: Any, part: Any, sets: Any) -> Any:
        found = choose(rows, part, sets)
        chosen.append((len(rows.y[part]), found["agnostic"][0]))
        return found

    monkeypatch.setattr(fitting, "_chosen", listed)
    r = np.random.default_rng(2)
    n = 60
    frame = pd.DataFrame(r.normal(size=(n, 6)), columns=[f"x{j}" for j in range(6)])
    noise = 1.5 * r.normal(size=n)
    frame = frame.assign(d=np.arange(n) % 2, y=frame["x0"] + frame["x1"] + noise)
    found = fit_table(frame, "y", ["d"], folds=2)
    of_parts, of_all = ([gamma for m, gamma in chosen if m == size] for size in (n // 2, n))
    assert of_all == [found.gamma]
    assert set(of_parts).isdisjoint(of_all)  # else the test would prove nothing
    assert found.model.estimator.gamma == found.gamma


def test_only_the_mixtures_asked_for_count() -> None:
    frame = shop()
    data = fit_table(frame, "bought", ["region"], gamma=0.01, drop=["spent"], mixtures="data")
    a, b = data.audits["ordinary"], data.audits["agnostic"]
    np.testing.assert_allclose(a.domain_losses, b.domain_losses)
    assert a.agnostic_loss == pytest.approx(a.pooled_loss)


def test_notes_say_what_was_done() -> None:
    frame = shop(300)
    frame.loc[:4, "bought"] = None
    frame.loc[7:9, "region"] = None
    frame.loc[20:24, "age"] = np.nan
    frame.attrs["left_out"] = ["name"]
    found = fit_table(frame, "bought", ["region"], gamma=0.1, drop=["spent"], min_rows=10)
    assert found.notes[:4] == [
        "'bought': 5 rows without it, left out",
        "'name': left out, too many values",
        "'age': 5 missing values, set to the median and marked",
        "domain '(missing)': too small, now in '(other)'",
    ]
    assert found.audits["agnostic"].n_rows == 295
    assert found.audits["agnostic"].domain_names == ("(other)", "north", "south")
    assert "few for" in found.notes[4]  # three rows: the warning of overfitting


ONE_B = ["b"] + ["a"] * 23


BAD_TABLES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "column": (small(), {"target": "z"}, "no column 'z'"),
    "drop": (small(), {"drop": ["xx"]}, "no column 'xx'; did you mean 'x'"),
    "constant": (small(y="n"), {}, r"'y' is constant \(n\): there is nothing to learn"),
    "empty": (small(y=None), {}, "'y' is empty"),
    "domain": (small(d="a"), {}, "one domain only, 'a'; name a domain column of two"),
    "small": (small(d="a"), {"min_rows": 99}, "one domain only, 'a'; name a domain column of two"),
    "small domains": (small(), {"min_rows": 100}, "^min_rows is 100, which leaves one.*; lower it"),
    "row": (small(d=ONE_B), {}, "^min_rows is too low: domain 'b' has too few rows.*; raise it"),
    "held": (small(d=ONE_B), {"holdout": 0.2}, "^min_rows is too low: domain 'b'"),
    "class": (
        small(y=["z"] + list("yn") * 11 + ["y"]),
        {},
        "^target has the class 'z' with",
    ),
    "test": (small(), {"test": small(d="c")}, "domain 'c' is only in the test file; add rows"),
    "none": (small(), {"test": small(d="a")}, "domain 'b' has no row in the test file; add some"),
    "kind": (small(), {"test": small(y="z")}, "class 'z' is only in the test file"),
    "both": (small(), {"folds": 3, "holdout": 0.2}, "folds is 3 and holdout 0.2; give one"),
    "folds": (small(), {"folds": 1}, "folds is 1; give 2 to 24"),
    "holdout": (small(), {"holdout": 1.5}, r"holdout is 1.5; give a share inside \(0, 1\)"),
    "features": (small(x=1), {}, "no column to learn from"),
    "gamma": (small(), {"gamma": -1.0}, "gamma"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_bad_tables_say_what_to_do_in_one_line(name: str) -> None:
    frame, options, message = BAD_TABLES[name]
    with pytest.raises(ValueError, match=message) as caught:
        fit_table(frame, **{"target": "y", "domains": ["d"]} | options)
    assert "\n" not in str(caught.value)


def test_a_column_without_a_name_is_noted() -> None:
    table = shop().rename(columns=lambda name: "Unnamed: 0" if name == "x" else name)
    assert "Unnamed: 0" in table.columns
    notes = fit_table(table, "bought", ["region"], gamma=0.01).notes
    assert any("'Unnamed: 0': a column without a name" in note for note in notes)


def test_frames_of_polars_are_read_too() -> None:
    frame = shop(300)
    theirs = pl.from_pandas(frame)
    found, peer = (
        fit_table(table, "bought", ["region"], gamma=0.1, drop=["spent"])
        for table in (theirs, frame)
    )
    np.testing.assert_allclose(
        found.audits["agnostic"].domain_losses, peer.audits["agnostic"].domain_losses
    )
    np.testing.assert_allclose(found.model.predict_proba(theirs), peer.model.predict_proba(frame))
    assert predict_table(found.model, theirs, keep=["city"])[0]["city"].tolist() == (
        frame["city"].tolist()
    )
    with pytest.raises(ValueError, match="frame is a list; give a frame of pandas or polars"):
        fit_table([[1]], "y", ["d"])


def test_a_set_of_mixtures_will_do_as_well_as_words() -> None:
    frame = shop(300)
    words, made = (
        fit_table(frame, "bought", ["region"], gamma=0.1, drop=["spent"], mixtures=mixtures)
        for mixtures in ("cvar:0.5", lambda sizes: ax.cvar(sizes / sizes.sum(), 0.5))
    )
    assert words.audits["agnostic"].mixtures == made.audits["agnostic"].mixtures
    np.testing.assert_array_equal(words.solution.w, made.solution.w)


def test_the_warning_of_few_rows_counts_equal_rows_one_by_one() -> None:
    """400 rows of two categories are merged into 4, which would be few."""
    i = np.arange(1200)
    frame = pd.DataFrame({"c": list("uv") * 600, "d": np.repeat(["a", "b", "coin"], 400)})
    y = np.where(frame["d"] == "coin", i % 4 < 2, (i % 2 > 0) ^ (i % 7 == 0))
    found = fit_table(frame.assign(y=y.astype(str)), "y", ["d"], gamma=1e-3)
    assert found.solution.mixture[2] > 0.9
    assert not any("few for" in note for note in found.notes)
