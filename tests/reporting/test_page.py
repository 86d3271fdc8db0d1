"""The page's data, tables and file; test_browser.py opens the page."""

import math
import re
import tempfile
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audited import HOSTILE, data_of, two_models, words_of

from anymix.auditing import audit
from anymix.reporting import report
from anymix.reporting.words import number


def test_the_page_holds_the_audits_numbers_exactly(tmp_path: Path) -> None:
    audits = two_models(4)
    data = data_of(report(audits, tmp_path / "report.html"))
    assert data["domains"] == [str(name) for name in audits["plain"].domain_names]
    assert data["sizes"] == audits["plain"].sizes.tolist()
    assert np.sum(data["sample"]) == pytest.approx(1, abs=1e-15)
    assert data["sample"][0] == audits["plain"].sizes[0] / audits["plain"].sizes.sum()
    for model, (name, found) in zip(data["models"], audits.items(), strict=True):
        assert model["name"] == name
        assert model["losses"] == found.domain_losses.tolist()
        assert model["worst"] == found.agnostic_loss
        assert model["worst_mixture"] == found.worst_mixture.tolist()
        assert model["accuracy"] == found.metrics["accuracy"].tolist()


def test_every_measure_comes_with_its_interval(tmp_path: Path) -> None:
    audits = two_models(4)
    data = data_of(report(audits, tmp_path / "report.html"))
    names = [m["name"] for m in data["measures"]]
    assert names == ["log loss", "accuracy", "AUC", "calibration error"]
    for measure, key in zip(data["measures"][1:], audits["plain"].metrics, strict=True):
        for found, model in zip(audits.values(), measure["models"], strict=True):
            for ours, theirs in (
                (model["values"], found.metrics[key]),
                (model["low"], found.metric_intervals[key][:, 0]),
                (model["high"], found.metric_intervals[key][:, 1]),
            ):
                assert np.array_equal(np.array(ours, dtype=float), theirs, equal_nan=True)


def test_a_whole_triangle_needs_no_outline(tmp_path: Path) -> None:
    assert data_of(report(two_models(3), tmp_path / "report.html"))["outline"] is None


def test_the_first_sliders_are_of_the_domains_that_matter(tmp_path: Path) -> None:
    audits = two_models(200)
    star = np.zeros(200)
    star[17] = 1.0
    data = data_of(report(audits, tmp_path / "report.html", mixture=star))
    worst = {int(np.argmax(a.worst_mixture)) for a in audits.values()}
    assert sorted(data["telling"]) == list(range(200))
    assert set(data["telling"][: len(worst) + 1]) == {17, *worst}
    losses = np.max([a.domain_losses for a in audits.values()], axis=0)
    rest = losses[data["telling"][len(worst) + 1 :]]
    assert np.all(np.diff(rest) <= 0)


def test_the_table_has_every_domain_and_the_undefined(tmp_path: Path) -> None:
    y = [1, 1, 0, 1]
    found = audit(y, [0.9, 0.8, 0.3, 0.6], ["a", "a", "b", "b"])
    assert math.isnan(found.metrics["auc"][0])
    page = report(found, tmp_path / "report.html")
    rows = re.findall(r'<tr><th scope="row">([^<]*)</th><td>', page.read_text())
    assert rows == [
        "model",
        *["b", "a"] * 4,
    ]  # the highest loss first, in the table of each measure
    assert data_of(page)["measures"][2]["models"][0]["values"][0] is None
    assert "– – to –" in words_of(page)


def test_an_interval_without_end_is_shown_as_such(tmp_path: Path) -> None:
    found = audit(None, [0.3, 0.2, 0.4], ["a", "b", "b"])  # one row says nothing of its spread
    page = report(found, tmp_path / "report.html")
    assert data_of(page)["measures"][0]["models"][0]["high"][0] is None
    assert "−∞ to ∞" in words_of(page)


def test_one_small_file_that_asks_for_nothing(tmp_path: Path) -> None:
    page = report(two_models(200), tmp_path / "new" / "report.html")
    assert page == tmp_path / "new" / "report.html"
    assert [f.name for f in page.parent.iterdir()] == ["report.html"]
    assert page.stat().st_size <= 400_000
    start = page.read_text().split('<script type="application/json"')[0]
    assert "default-src 'none'" in start
    assert not re.search(r"<(link|img|iframe|script)\b[^>]*(src|href)=", start)


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    audits = {f"<i>{HOSTILE}": a for a in two_models(3).values()}
    page = report(audits, tmp_path / "report.html", title=HOSTILE, notes=[HOSTILE])
    text = page.read_text()
    assert "<img" not in text.split("<script>")[0]
    assert text.count("</script>") == text.count("<script") == 2
    assert HOSTILE in data_of(page)["domains"]
    assert words_of(page).count(HOSTILE) >= 4


def test_the_verdict_is_the_first_sentence(tmp_path: Path) -> None:
    page = report(two_models(2), tmp_path / "report.html", title="Shop", verdict=HOSTILE)
    header = page.read_text().split("<header>")[1].split("</header>")[0]
    assert [unescape(text) for text in re.findall(r"<(?:h1|p)[^>]*>(.*?)</", header)][:2] == [
        "Shop",
        HOSTILE,
    ]


def test_models_beside_have_a_line_at_a_glance_and_nothing_else(tmp_path: Path) -> None:
    y, d = [1, 0, 1, 1, 0], ["a", "a", "b", "b", "b"]
    audits = {"ordinary": audit(y, [1, 0, 0, 1, 0], d), "robust": audit(y, [1, 1, 1, 1, 0], d)}
    guess = audit(y, [1, 1, 1, 1, 1], d)
    page = report(audits, tmp_path / "report.html", beside={"a <poor> guess": guess})
    glance = words_of(page).split("At a glance")[1].split("Every domain, with intervals")[0]
    assert "a <poor> guess" in glance
    line = glance.split("a <poor> guess")[1]
    assert line.split()[0] == number(guess.pooled_loss) == "0.4000"
    assert f" {number(guess.agnostic_loss)} " in line
    assert "100.0% a" in line
    assert words_of(page).count("a <poor> guess") == 1
    assert [m["name"] for m in data_of(page)["models"]] == list(audits)


def test_an_old_report_stays_if_the_new_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "report.html"
    page.write_text("old")

    def full_disk(self: Path, *args: Any, **kwargs: Any) -> int:
        with self.open("w") as file:
            file.write("<html>")
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "write_text", full_disk)
    with pytest.raises(OSError, match="No space"):
        report(two_models(2), page)
    assert page.read_text() == "old"
    assert list(tmp_path.iterdir()) == [page]


def test_the_new_file_is_made_beside_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere may be another disk, from which no file is renamed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    assert report(two_models(2), tmp_path / "report.html").exists()


def test_reports_replace_each_other(tmp_path: Path) -> None:
    page = report(two_models(2), tmp_path / "report.html", title="first")
    report(two_models(2), str(page), title="second")
    assert "<h1>second</h1>" in page.read_text()


def test_an_interval_that_says_nothing_is_not_shown_and_a_promise_is(tmp_path: Path) -> None:
    r = np.random.default_rng(0)
    q, d = r.uniform(0.1, 0.9, 24), np.repeat(["a", "b"], 12)
    y = (r.random(24) < q).astype(int)
    found = audit(y, q, d, guarantee=0.1)
    page = words_of(report(found, tmp_path / "few.html"))
    assert page.count("interval too wide") == 4  # both domains, all rows, the worst mixture
    assert f"{number(found.agnostic_interval[1])}" not in page
    assert f"at most {number(found.guarantees['loss'].value)}" in page
    assert "guaranteed: With a probability of 0.9, the log loss is at most" in page
    cut = audit(y, q, d, loss_bound=1.0)
    assert "interval too wide" not in words_of(report(cut, tmp_path / "cut.html"))
