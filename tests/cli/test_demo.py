"""`anymix demo`: two models of Adult."""

import html
import json
from pathlib import Path
from typing import Any

import pytest
from command_line import run


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("demo")
    return json.loads(run("demo", "--json", "--out", folder)), folder


def test_demo_is_better_on_the_worst_mixture_and_says_what_it_costs(demo: Any) -> None:
    result, _ = demo
    ordinary, robust = result["audits"]["ordinary"], result["audits"]["robust"]
    assert [row["domain"] for row in ordinary["domains"]] == ["doctorate", "non-doctorate"]
    assert [row["rows"] for row in ordinary["domains"]] == [181, 16_100]
    assert result["gain"] == pytest.approx(ordinary["agnostic_loss"] - robust["agnostic_loss"])
    assert result["gain"] > 0.03
    assert 0 < result["price"] < 0.04  # a quarter of what the purely agnostic model costs
    assert result["verdict"].startswith("The robust model is better where the ordinary one is")
    assert result["worst_difference"][2] < 0
    t = [point["robustness"] for point in result["frontier"] if point["chosen"]]
    assert t == [result["robustness"]]
    accuracy = [audit["domains"][0]["accuracy"] for audit in (ordinary, robust)]
    assert accuracy[1] > accuracy[0]
    assert 0.80 < ordinary["pooled_metrics"]["accuracy"] < 0.84  # 82.1 % in the paper


def test_demo_proves_its_model(demo: Any) -> None:
    proof = demo[0]["certificate"]
    assert 0 <= proof["gap"] <= 1e-6
    assert proof["lower"] <= proof["upper"] + 1e-12


def test_demo_writes_a_report(demo: Any) -> None:
    result, folder = demo
    assert result["files"] == {"report": str(folder / "report.html")}
    page = html.unescape((folder / "report.html").read_text(encoding="utf-8"))
    assert "non-doctorate" in page
    assert result["verdict"] in page
    assert "What robustness buys and costs" in page


def test_demo_prints_a_table_and_without_jinja2_says_what_to_install(
    demo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anymix.cli.files.find_spec", lambda name: None)
    shown = run("demo", "--out", tmp_path)
    lines = [line.split() for line in shown.splitlines()]
    losses = [audit["agnostic_loss"] for audit in demo[0]["audits"].values()]
    row = next(line for line in lines if line[:2] == ["worst", "mixture"])
    assert row[2:4] == [f"{loss:.4f}" for loss in losses]
    assert " ".join(shown.split()).startswith(demo[0]["verdict"])
    assert ["doctorate", "181"] in [line[:2] for line in lines]
    assert "Certificate (robustness t = " in shown
    assert "Report: pip install 'anymix[report]'" in shown
    assert list(tmp_path.iterdir()) == []
