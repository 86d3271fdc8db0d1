"""`anymix demo`: which model to use for Adult."""

import html
import json
from pathlib import Path
from typing import Any

import pytest
from command_line import run

MODELS = ["ordinary", "recommended", "domain known", "50 unlabelled"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("demo")
    return json.loads(run("demo", "--json", "--out", folder)), folder


def test_demo_has_four_models_side_by_side(demo: Any) -> None:
    result, _ = demo
    assert list(result["audits"]) == MODELS
    for found in result["audits"].values():
        assert [row["domain"] for row in found["domains"]] == ["doctorate", "non-doctorate"]
        assert [row["rows"] for row in found["domains"]] == [181, 16_100]
    loss = {k: [row["loss"] for row in v["domains"]] for k, v in result["audits"].items()}
    ordinary = loss["ordinary"]
    assert ordinary == pytest.approx([0.618, 0.374], abs=0.002)  # 82.1 % in the paper
    assert loss["recommended"][0] < ordinary[0] - 0.05
    assert loss["recommended"][1] < 1.05 * ordinary[1]  # the price
    assert loss["domain known"][0] < loss["recommended"][0]
    assert loss["domain known"][1] < ordinary[1]
    assert loss["50 unlabelled"][0] < loss["recommended"][0]


def test_what_demo_says_first_is_what_the_intervals_say(demo: Any) -> None:
    result, _ = demo
    for name, change in result["changes"].items():
        _, low, high = change["worst_difference"]
        assert change["worst_mixture"] == (-1 if high < 0 else 1 if low > 0 else 0), name
    found = result["changes"]["recommended"]
    assert (found["worst_mixture"], found["all_rows"]) == (-1, 1)
    assert not found["worse_than_constant"]


def test_demo_tells_the_choice(demo: Any) -> None:
    choice = demo[0]["recommendation"]
    rows = {row["model"]: row for row in choice["candidates"]}
    assert choice["chosen"] in rows
    assert choice["with_domain"] == "blend with domain"
    chosen, reference = (rows[name]["pooled_loss"] for name in ("recommended", "reference"))
    assert chosen <= (1 + choice["price"]) * reference
    assert rows["recommended"]["gains"] == ["doctorate"]


def test_demo_writes_a_report(demo: Any) -> None:
    result, folder = demo
    assert result["files"] == {"report": str(folder / "report.html")}
    page = html.unescape((folder / "report.html").read_text(encoding="utf-8"))
    assert result["verdict"] in page
    assert 'id="choice"' in page
    assert page.count("data:image/svg+xml;base64,") == 1


def test_demo_prints_a_table_and_without_jinja2_says_what_to_install(
    demo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anymix.cli.files.find_spec", lambda name: None)
    shown = run("demo", "--out", tmp_path)
    lines = [line.split() for line in shown.splitlines()]
    losses = [audit["agnostic_loss"] for audit in demo[0]["audits"].values()]
    row = next(line for line in lines if line[:2] == ["worst", "mixture"])
    assert row[2:6] == [f"{loss:.4f}" for loss in losses]
    assert " ".join(shown.split()).startswith(demo[0]["verdict"])
    assert "Report: pip install 'anymix[report]'" in shown
    assert list(tmp_path.iterdir()) == []
