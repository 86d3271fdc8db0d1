from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, RecordDict

from anymix.flower.apps import read_overrides, save_result


def test_results_are_json_for_any_reader(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    found = {"w": [0.1, float("nan")], "deep": {"x": (float("inf"), 1)}, "n": 3}
    save_result(Context(1, 0, {}, RecordDict(), {"out": str(out)}), found)
    expected = {"w": [0.1, None], "deep": {"x": [None, 1]}, "n": 3}
    assert json.loads(out.read_text(), parse_constant=pytest.fail) == expected


def test_save_result_without_a_file() -> None:
    save_result(Context(1, 0, {}, RecordDict(), {"out": ""}), {"w": [1.0]})


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["a=1"], {"a": 1}),
        (["a=1 b=2.5", 'c-d = "x y=z"'], {"a": 1, "b": 2.5, "c-d": "x y=z"}),
        (
            ['out="/tmp/some folder/x.json"  on=true'],
            {"out": "/tmp/some folder/x.json", "on": True},
        ),
        ([], {}),
    ],
)
def test_overrides_are_toml_pairs(texts: list[str], values: dict[str, Any]) -> None:
    assert read_overrides(texts) == values


@pytest.mark.parametrize("text", ["a", "a=", "=1", "a=1 a=2", "a=x"])
def test_overrides_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="run-config is"):
        read_overrides([text])
