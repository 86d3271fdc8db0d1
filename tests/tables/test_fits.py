import json
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from people import shop
from sklearn.linear_model import LogisticRegression

import anymix as ax
from anymix.auditing.audits import audit
from anymix.mixtures.choosing import mixture_set
from anymix.tables import fits as tabular
from anymix.tables.columns import Features
from anymix.tables.fits import (
    audit_frame,
    domain_labels,
    fit_table,
    merge_small,
    predict_table,
    target_column,
)

# Domains, mixtures and targets ------------------------------------------------------------------


def test_domains_of_one_and_of_two_columns() -> None:
    frame = pd.DataFrame({"year": [10, 9, 9], "sex": ["F", None, "M"]})
    assert domain_labels(frame, ["year"]).tolist() == [10, 9, 9]
    assert domain_labels(frame, ["sex"]).tolist() == ["F", "(missing)", "M"]
    both = ["sex=F, year=10", "sex=(missing), year=9", "sex=M, year=9"]
    assert domain_labels(frame, ["sex", "year"]).tolist() == both


def test_nullable_columns_of_pandas_are_read_too() -> None:
    frame = shop(300).convert_dtypes().assign(year=pd.array([1, 2, None] * 100, dtype="Int64"))
    assert domain_labels(frame, ["year"]).tolist()[:3] == ["1", "2", "(missing)"]
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


def test_a_domain_column_of_measurements_is_refused() -> None:
    frame = pd.DataFrame({"x": np.random.default_rng(0).normal(size=2000)})
    with pytest.raises(ValueError, match=r"'x' has 2,000 different values; .* group its values"):
        domain_labels(frame, ["x"])


def test_small_domains_are_put_together() -> None:
    labels = np.array([1, 1, 2, 3, 3])
    assert merge_small(labels, 2)[0].tolist() == ["1", "1", "(other)", "3", "3"]
    assert merge_small(labels, 1)[0] is labels


NAMES, SIZES = ["north", "south", "west"], np.array([10, 30, 60])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("simplex", ax.Simplex(3)),
        ("data", ax.Point([0.1, 0.3, 0.6])),
        ("chi2:2.0", ax.Chi2Ball(SIZES, 2.0)),
        ("cvar:0.3", ax.cvar([0.1, 0.3, 0.6], 0.3)),
        ("tv:0.2", ax.TVBall([0.1, 0.3, 0.6], 0.2)),
    ],
)
def test_mixtures_by_name(text: str, expected: Any) -> None:
    assert mixture_set(text, NAMES, SIZES) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"north": 0.25, "west": 0.75}, ax.Point([0.25, 0, 0.75])),
        ([{"north": 1}, {"west": 0.5, "south": 0.5}], ax.Hull([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])),
        ({"lower": {"north": 0.2}}, ax.Box([0.2, 0, 0], [1, 1, 1])),
        ({"upper": {"south": 0.5}, "lower": {}}, ax.Box([0, 0, 0], [1, 0.5, 1])),
    ],
)
def test_mixtures_of_a_file(tmp_path: Path, content: Any, expected: Any) -> None:
    path = tmp_path / "mixtures.json"
    path.write_text(json.dumps(content))
    assert mixture_set(str(path), NAMES, SIZES) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "holds no mixture; write .*north"),
        ("3", "holds no mixture"),
        ("[1, 2]", "has '1'; write shares"),
        ('{"north": "all"}', "write shares"),
        ('{"east": 1}', "names the domain 'east', .* it has north, south, west"),
        ('{"north": 0.5}', "sum to 1"),
    ],
)
def test_bad_files_of_mixtures(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "mixtures.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        mixture_set(str(path), NAMES, SIZES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("all", "mixtures is 'all'; give simplex, data, chi2:2.0"),
        ("simplex:2", "mixtures is 'simplex:2'"),
        ("chi2", "give a number, as in chi2:2.0"),
        ("tv:x", "give a number, as in tv:0.2"),
        ("cvar:7", "alpha must be"),
        ("nowhere.json", "cannot be read as JSON"),
    ],
)
def test_mixtures_nobody_knows(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mixture_set(text, NAMES, SIZES)


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b", "a"], "classify"),
        ([0, 1, 1], "classify"),
        ([0.0, 1.0, 1.0], "classify"),
        ([0.5, 1.0, 1.0], "regress"),
        (list(range(11)), "regress"),
    ],
)
def test_what_is_learnt(values: list[Any], task: str) -> None:
    assert target_column(pd.DataFrame({"y": values}), "y", "auto")[1] == task


def test_the_task_may_be_chosen() -> None:
    assert target_column(pd.DataFrame({"y": [0, 1, 2]}), "y", "regress")[0].dtype == np.float64
    assert target_column(pd.DataFrame({"y": range(20)}), "y", "classify")[1] == "classify"
    with pytest.raises(ValueError, match="strings such as 'a'; regression needs numbers"):
        target_column(pd.DataFrame({"y": ["a", "b"]}), "y", "regress")


# Fitting ----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::anymix.estimators.fitting.OverfitWarning")
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


def test_held_out_rows_are_not_fitted() -> None:
    """Labels by chance and a feature for every row: only rows seen before can be predicted."""
    r = np.random.default_rng(0)
    n = 120
    frame = pd.DataFrame(r.normal(size=(n, 100)), columns=[f"x{j}" for j in range(100)])
    frame = frame.assign(y=r.integers(0, 2, n), d=np.arange(n) % 2)
    for how in ({"folds": 4}, {"holdout": 0.4}, {}):
        found = fit_table(frame, "y", ["d"], gamma=1e-3, **how)
        for one in found.audits.values():
            assert one.pooled_metrics["accuracy"] < 0.7
        n_judged = 48 if "holdout" in how else n
        assert found.audits["agnostic"].n_rows == n_judged
    assert (found.model.predict(frame) == frame["y"]).mean() > 0.9


def test_gamma_is_chosen_for_the_worst_mixture() -> None:
    r = np.random.default_rng(0)
    n = 200
    frame = pd.DataFrame(r.normal(size=(n, 60)), columns=[f"x{j}" for j in range(60)])
    noise = r.logistic(size=n)
    frame = frame.assign(d=np.arange(n) % 2, y=np.where(frame["x0"] + noise > 0, "a", "b"))
    strong = fit_table(frame, "y", ["d"])
    weak = fit_table(frame, "y", ["d"], gamma=1e-5)
    assert strong.gamma in tabular.GAMMAS
    assert strong.audits["agnostic"].agnostic_loss < weak.audits["agnostic"].agnostic_loss


def test_the_model_saved_has_the_gamma_chosen_on_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    choose, chosen = tabular._choose_gamma, []

    def listed(rows: Any, mixtures: Any, part: Any) -> float:
        chosen.append((len(rows.y[part]), choose(rows, mixtures, part)))
        return chosen[-1][1]

    monkeypatch.setattr(tabular, "_choose_gamma", listed)
    r = np.random.default_rng(2)
    n = 60
    frame = pd.DataFrame(r.normal(size=(n, 6)), columns=[f"x{j}" for j in range(6)])
    noise = 1.5 * r.normal(size=n)
    frame = frame.assign(d=np.arange(n) % 2, y=frame["x0"] + frame["x1"] + noise)
    found = fit_table(frame, "y", ["d"], folds=2)
    of_parts, of_all = ([gamma for m, gamma in chosen if m == size] for size in (n // 2, n))
    assert of_all == [found.gamma]
    assert {of_parts[1], of_parts[3]}.isdisjoint(of_all)  # else the test would prove nothing
    assert found.model.estimator.gamma == found.gamma


@pytest.mark.parametrize("rows_to_fold", [99, 10])
def test_rows_held_out_do_not_even_change_the_scale(
    rows_to_fold: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outlier in domain b moves the losses of a if and only if it is fitted."""
    monkeypatch.setattr(tabular, "ROWS_TO_FOLD", rows_to_fold)
    r = np.random.default_rng(0)
    frame = pd.DataFrame({"x": r.normal(size=40), "d": ["b"] * 10 + ["a"] * 30})
    frame = frame.assign(y=np.where(frame["x"] + r.logistic(size=40) > 0, "yes", "no"))

    def losses(table: Any) -> tuple[Any, Any]:
        found = fit_table(table, "y", ["d"], gamma=0.1, holdout=0.5)
        return [one.domain_losses[0] for one in found.audits.values()], found

    expected, found = losses(frame)
    n_held_out = 0
    for i in range(10):
        moved, with_outlier = losses(frame.assign(x=frame["x"].where(frame.index != i, 1e6)))
        if moved == pytest.approx(expected, rel=1e-9):
            n_held_out += 1
            mean = with_outlier.model.features.columns[0].mean
            assert (abs(mean) > 1e4) == (rows_to_fold > 40)  # of all rows, if that is affordable
    assert n_held_out == found.audits["agnostic"].sizes[1] == 5


def test_large_tables_are_judged_on_a_quarter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabular, "ROWS_TO_FOLD", 500)
    monkeypatch.setattr(tabular, "ROWS_TO_CHOOSE", 300)
    frame = shop(1001)
    steps: list[str] = []
    found = fit_table(frame, "bought", ["region"], drop=["spent"], progress=steps.append)
    assert found.audits["agnostic"].n_rows == 250
    assert found.judged_on == "250 rows that the models had not seen"
    shares = found.audits["agnostic"].sizes / 250
    np.testing.assert_allclose(shares, frame["region"].value_counts() / 1001, atol=0.005)
    assert steps[-1] == "agnostic model, all rows"


def test_a_sample_for_choosing_is_even_and_has_small_domains_and_classes_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tabular, "ROWS_TO_CHOOSE", 1000)
    d = np.repeat([0, 1], [9950, 50]).astype(np.int32)
    y = (np.arange(10_000) % 5 == 0).astype(np.int32)
    y[[3000, 3001, 5002]] = 2
    names, classes = np.array(["u", "v"]), np.array(["a", "b", "rare"])
    rows = tabular._Rows(None, y, d, classes, names)
    picked = tabular._sample(rows, slice(None))
    assert len(set(picked.tolist())) == len(picked)
    assert {3000, 3001, 5002} <= set(picked.tolist())
    assert np.sum(d[picked] == 1) == 50
    assert 1045 <= len(picked) <= 1045 + 203  # 100 more of each class at most
    assert np.mean(y[picked] == 1) == pytest.approx(0.2, abs=0.07)


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


def small(**columns: Any) -> Any:
    n = 24
    frame = pd.DataFrame({"x": np.arange(n) % 7, "d": list("ab") * 12, "y": list("yyn") * 8})
    return frame.assign(**columns)


ONE_B = ["b"] + ["a"] * 23
BAD_TABLES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "column": (small(), {"target": "z"}, "no column 'z'"),
    "drop": (small(), {"drop": ["xx"]}, "no column 'xx'; did you mean 'x'"),
    "constant": (small(y="n"), {}, r"'y' is constant \(n\): there is nothing to learn"),
    "empty": (small(y=None), {}, "'y' is empty"),
    "domain": (small(d="a"), {}, "one domain only, 'a'; name a domain column of two"),
    "row": (small(d=ONE_B), {}, "domain 'b' has too few rows .* --min-rows 30"),
    "held": (small(d=ONE_B), {"holdout": 0.2}, "domain 'b' has too few rows"),
    "class": (small(y=["z"] + list("yn") * 11 + ["y"]), {}, "class 'z' has too few rows"),
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


def test_a_saved_model_predicts_the_same(tmp_path: Path) -> None:
    frame = shop()
    model = fit_table(frame, "bought", ["region"], gamma=0.1, drop=["spent"]).model
    joblib.dump(model, tmp_path / "model.joblib")
    again = joblib.load(tmp_path / "model.joblib")
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


def test_values_are_predicted_too() -> None:
    frame = shop()
    model = fit_table(frame, "spent", ["region"], gamma=0.1, drop=["bought"]).model
    predictions, _ = predict_table(model, frame)
    assert predictions.columns.tolist() == ["prediction"]
    assert np.corrcoef(predictions["prediction"], frame["spent"])[0, 1] > 0.2


# Auditing ---------------------------------------------------------------------------------------


def test_a_table_of_predictions_is_audited() -> None:
    r = np.random.default_rng(0)
    n = 200
    frame = pd.DataFrame(
        {
            "y": r.choice(["no", "yes"], n),
            "p": r.random(n),
            "old": r.random(n),
            "loss": r.exponential(size=n),
            "sex": r.choice(["F", "M"], n),
            "age": r.integers(1, 3, n),
        }
    ).assign(q=lambda f: 1 - f["p"])
    one = audit_frame(frame, ["sex"], target="y", prediction=["p"])["p"]
    assert one.to_dict() == audit(frame["y"], frame["p"], frame["sex"]).to_dict()
    two = audit_frame(frame, ["sex"], target="y", prediction=["q", "p"])["q, p"]
    np.testing.assert_allclose(two.domain_losses, one.domain_losses)
    cells = audit_frame(frame, ["sex", "age"], losses="loss", mixtures="cvar:0.5", confidence=0.8)[
        "loss"
    ]
    expected = audit(
        None,
        frame["loss"],
        sensitive_features=frame[["sex", "age"]],
        mixtures=lambda sizes: ax.cvar(sizes / sizes.sum(), 0.5),
        confidence=0.8,
    )
    assert cells.to_dict() == expected.to_dict()
    pair = audit_frame(frame, ["sex"], target="y", prediction=["p"], against="old")
    assert list(pair) == ["old", "p"]
    assert pair["old"].to_dict() == audit(frame["y"], frame["old"], frame["sex"]).to_dict()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give a target and a prediction, or else losses"),
        ({"target": "y"}, "give a target and a prediction"),
        ({"target": "y", "prediction": ["x"], "losses": "x"}, "give a target and a prediction"),
        ({"target": "y", "prediction": ["gap"]}, "column 'gap' has 24 missing values"),
        ({"losses": "nothing"}, "no column 'nothing'"),
    ],
)
def test_bad_audits_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        audit_frame(small(gap=np.nan), ["d"], **options)


def test_domains_are_as_written_but_for_whole_numbers() -> None:
    frame = pd.DataFrame({"d": ["7", "7.0", "01", "1"], "k": [3, 1, 2, 10], "x": [7.0, None, 1, 2]})
    assert domain_labels(frame, ["d"]).tolist() == ["7", "7.0", "01", "1"]
    large = frame.assign(u=np.array([2**63, 1, 2, 3], dtype=np.uint64))
    assert domain_labels(large, ["u"]).tolist() == [str(2**63), "1", "2", "3"]
    assert domain_labels(frame, ["k"]).tolist() == [3, 1, 2, 10]
    assert domain_labels(frame, ["x"]).tolist() == ["7", "(missing)", "1", "2"]


@pytest.mark.parametrize("make", [int, str])
def test_too_many_domains_whatever_they_are(make: Any) -> None:
    frame = pd.DataFrame({"d": [make(k) for k in range(1500)]})
    with pytest.raises(ValueError, match=r"'d' has 1,500 different values; .* at most 1,000"):
        domain_labels(frame, ["d"])


def test_a_column_without_a_name_is_noted() -> None:
    table = shop().rename(columns=lambda name: "Unnamed: 0" if name == "x" else name)
    assert "Unnamed: 0" in table.columns
    notes = fit_table(table, "bought", ["region"], gamma=0.01).notes
    assert any("'Unnamed: 0': a column without a name" in note for note in notes)


def test_kept_columns_may_come_from_another_frame() -> None:
    table = shop()
    model = fit_table(table, "bought", ["region"], gamma=0.01).model
    written = pd.DataFrame({"x": [f"0{k}" for k in range(len(table))]})
    found, _ = predict_table(model, table, ["x"], written)
    assert found["x"].tolist() == written["x"].tolist()
    assert found["prediction"].tolist() == model.predict(table).tolist()


def test_the_classes_of_an_audit_are_named_as_text() -> None:
    frame = pd.DataFrame({"y": [1, 2, 1, 2], "a": 0.8, "b": 0.1, "c": 0.1, "g": list("uuvv")})
    found = audit_frame(
        frame, ["g"], target="y", prediction=["a", "b", "c"], loss="log", classes=["1", "2", "3"]
    )["a, b, c"]
    np.testing.assert_allclose(found.domain_losses, -0.5 * np.log(0.8 * 0.1))
    with pytest.raises(ValueError, match=r"classes are .*low.*, but the target's numbers"):
        audit_frame(frame, ["g"], target="y", prediction=["a", "b"], classes=["low", "high"])


@pytest.mark.parametrize("name", ["prediction", "probability of yes"])
def test_no_kept_column_is_lost(name: str) -> None:
    table = shop(100)
    model = fit_table(table, "bought", ["region"], gamma=0.01).model
    with pytest.raises(ValueError, match=f"keep is '{name}', but a column of that name is made"):
        predict_table(model, table.assign(**{name: 1}), [name])


def test_a_fault_of_a_file_of_mixtures_names_it(tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_text('{"north": 0.3, "south": 0.3}')
    with pytest.raises(ValueError, match=r"m\.json: .*sum"):
        mixture_set(str(file), ["north", "south"], [1, 2])


def test_labels_and_probabilities_beside_words() -> None:
    frame = pd.DataFrame({"y": ["s", "m", "l", "m"], "l": 0, "m": 0, "s": 0, "g": list("aabb")})
    for name in "lms":
        frame[name] = (frame["y"] == name).astype(int)
    found = audit_frame(frame, ["g"], target="y", prediction=["l", "m", "s"])["l, m, s"]
    assert (found.kind, found.domain_losses.tolist()) == ("probabilities", [0.0, 0.0])
    numbers = pd.DataFrame(
        {"y": np.array([1, 2, 1, 2], object), "p": [1, 2, 1, 1], "g": frame["g"]}
    )
    found = audit_frame(numbers, ["g"], target="y", prediction=["p"])["p"]
    assert found.domain_losses.tolist() == [0.0, 0.5]
