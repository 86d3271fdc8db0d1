from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from audited import check_equal
from people import small

import anymix as ax
from anymix.auditing.audits import audit
from anymix.tables.audited import audit_frame
from anymix.tables.files import read_table

NAMES = ("target", "prediction", "losses", "against", "weight")


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


def test_the_classes_of_an_audit_are_named_as_text() -> None:
    frame = pd.DataFrame({"y": [1, 2, 1, 2], "a": 0.8, "b": 0.1, "c": 0.1, "g": list("uuvv")})
    found = audit_frame(
        frame, ["g"], target="y", prediction=["a", "b", "c"], loss="log", classes=["1", "2", "3"]
    )["a, b, c"]
    np.testing.assert_allclose(found.domain_losses, -0.5 * np.log(0.8 * 0.1))
    with pytest.raises(ValueError, match=r"classes are .*low.*, but the target's numbers"):
        audit_frame(frame, ["g"], target="y", prediction=["a", "b"], classes=["low", "high"])


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


def predictions(n: int = 3000) -> pd.DataFrame:
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
    "weights": {"target": "y", "prediction": ["q"], "weight": "p0", "guarantee": 0.05},
    "any metric": {"target": "y", "prediction": ["label"], "metrics": ["rates", "f1"]},
    "two targets": {"target": ["y", "other"], "prediction": ["label", "label"]},
    "the data's mixture": {"target": "y", "prediction": ["label"], "mixtures": "data"},
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_columns_read_in_chunks_have_the_numbers_of_the_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    monkeypatch.setattr("anymix.tables.files.CHUNK", 700)
    predictions().to_csv(tmp_path / "a.csv", index=False)
    domains = ["sex", "age"] if "target" in options else ["sex"]
    named = (v for k, v in options.items() if k in NAMES)
    only = [*domains, *(n for v in named for n in ([v] if isinstance(v, str) else v))]
    frame = read_table(tmp_path / "a.csv", text=domains, only=only)
    assert set(frame.columns) == set(only)
    found = audit_frame(frame, domains, **options)
    for name, here in audit_frame(predictions(), domains, **options).items():
        check_equal(found[name].to_dict(), here.to_dict())
