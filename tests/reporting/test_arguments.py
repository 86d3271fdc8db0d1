"""What cannot be shown is refused before anything is written."""

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audited import two_models

import anymix as ax
from anymix.auditing import audit
from anymix.errors import InputError
from anymix.reporting import picture, report


def test_audits_that_do_not_belong_together() -> None:
    y, d = [1, 0, 1, 1], np.array(["a", "a", "b", "b"])
    first = audit(y, [1, 0, 0, 1], d)
    for other, wrong in (
        (audit(y, [1, 0, 0, 1], np.array(["a", "c", "c", "c"])), "different domains"),
        (audit(y, [1, 0, 0, 1], np.array(["a", "b", "b", "b"])), "different sizes"),
        (audit(y, [0.9, 0.2, 0.3, 0.8], d), "different losses"),
        (audit(y, [1, 0, 0, 1], d, mixtures=ax.Point([0.5, 0.5])), "different mixtures"),
    ):
        with pytest.raises(ValueError, match=rf"audits\['b'\] .* audits\['a'\].*{wrong}"):
            report({"a": first, "b": other}, "never.html")


@pytest.mark.parametrize(
    ("mixture", "found"),
    [
        ([0.5, 0.6], "sum 1"),
        ([1.5, -0.5], "≥ 0"),
        ([1.0], r"shape \(1,\)"),
        ([math.nan, 1.0], "nan"),
        ([math.inf, 0.0], "inf"),
    ],
)
def test_mixtures_that_are_none(mixture: list[float], found: str) -> None:
    with pytest.raises(ValueError, match=f"mixture is .*{found}"):
        report(two_models(2), "never.html", mixture=mixture)


def test_no_audit_at_all() -> None:
    with pytest.raises(ValueError, match="audits is empty"):
        report({}, "never.html")


@pytest.mark.parametrize(
    ("audits", "message"),
    [
        (list(two_models(2).values()), r"audits is a list; give what audit\(\) returned"),
        (3, "audits is a int; give"),
        ({"a": 3}, r"audits\['a'\] .* 3; give what audit\(\) returned"),
        ({"a": two_models(2)["plain"], "b": None}, r"audits\['b'\] .* None; give what"),
    ],
)
def test_what_is_no_audit(audits: Any, message: str) -> None:
    for made in (report, picture):
        with pytest.raises(ValueError, match=message):
            made(audits, "never.png")


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"certificate": 3}, "certificate is 3; give that of a Solution"),
        ({"notes": "One."}, r"notes is one string, 'One\.'; give a list"),
        ({"verdict": 3}, "verdict is 3; give a sentence, or None"),
        ({"verdict": " "}, "verdict is ' '; give a sentence"),
        ({"beside": 3}, "beside is a int; give audits by name"),
        ({"beside": two_models(2)["plain"]}, "beside is a Audit; give audits by name"),
        ({"beside": {"c": 3}}, r"beside\['c'\] cannot stand beside audits\['plain'\]: .* is 3"),
        ({"beside": two_models(3)}, r"beside\['plain'\] cannot .* different domains"),
        ({"history": 3}, "history is 3; give records"),
        ({"history": "ab"}, r"history\[0\] is 'a'; give records"),
    ],
)
def test_arguments_of_another_kind(argument: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        report(two_models(2), "never.html", **argument)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    folder = tmp_path / "a.png"
    folder.mkdir()
    makers: list[Any] = [report, picture]
    for made in makers:
        with pytest.raises(ValueError, match=r"path is the folder '.*a\.png'; name a file in it"):
            made(two_models(2), folder)
        with pytest.raises(ValueError, match="path is None; give the name of a file"):
            made(two_models(2), None)
    assert [f.name for f in tmp_path.rglob("*")] == ["a.png"]


@pytest.mark.parametrize(
    ("made", "file", "missing", "message"),
    [
        (report, "a.html", "jinja2", "the report needs jinja2; pip install 'anymix"),
        (picture, "a.png", "matplotlib", "a picture needs matplotlib; pip install 'anymix"),
    ],
)
def test_a_missing_extra_is_named_with_its_remedy(
    made: Any, file: str, missing: str, message: str, tmp_path: Path, monkeypatch: Any
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == missing]:
        monkeypatch.setitem(sys.modules, name, None)  # None: as if it were not installed
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(InputError, match=message):
        made(two_models(2), tmp_path / file)
    assert not any(tmp_path.iterdir())
