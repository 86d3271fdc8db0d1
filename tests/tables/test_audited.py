from typing import Any

import numpy as np
import pandas as pd
import pytest
from people import small

import anymix as ax
from anymix.auditing.audits import audit
from anymix.tables.audited import audit_frame


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
