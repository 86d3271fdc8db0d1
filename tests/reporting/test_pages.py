"""The page's data, words and file, and the pictures; tests/browser/ opens the page."""

import json
import math
import re
import tempfile
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audited import HOSTILE, two_models
from numpy.typing import NDArray

import anymix as ax
from anymix.auditing.audits import Audit, audit
from anymix.reporting import pages as reporting
from anymix.reporting.pages import picture, report

SETS = {
    "simplex": None,
    "point": lambda sizes: ax.Point(sizes / sizes.sum()),
    "cvar": lambda sizes: ax.cvar(sizes / sizes.sum(), 0.4),
    "chi2": lambda sizes: ax.Chi2Ball(sizes, 1.5),
    "tv": lambda sizes: ax.TVBall(sizes / sizes.sum(), 0.2),
    "hull": lambda sizes: ax.Hull([np.eye(len(sizes))[0], sizes / sizes.sum()]),
}


def data_of(page: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text())
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def words_of(page: Path) -> str:
    """The page without its programs: what a reader without JavaScript sees."""
    text = re.sub(r"<(script|style)\b.*?</\1>", "", page.read_text(), flags=re.DOTALL)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text)))


# The data --------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("mixtures", SETS.values(), ids=SETS)
@pytest.mark.parametrize("p", [2, 3, 6])
def test_limits_are_the_extreme_shares_in_the_set(p: int, mixtures: Any) -> None:
    found = two_models(p, mixtures)["plain"]
    limits = reporting._limits(reporting._checked(found))
    rng = np.random.default_rng(1)
    members = [found.mixtures.project(rng.normal(size=p)) for _ in range(200)]
    members += [found.mixtures.project(3 * s * e) for e in np.eye(p) for s in (-1, 1)]
    assert np.all(members >= limits[:, 0] - 1e-7)
    assert np.all(members <= limits[:, 1] + 1e-7)
    far = [found.mixtures.project(1e3 * e + 0.0)[k] for k, e in enumerate(np.eye(p))]
    assert np.allclose(far, limits[:, 1], atol=2e-3)  # a far target is projected on the extreme


def test_the_outline_is_the_border_of_the_set(tmp_path: Path) -> None:
    audits = two_models(3, lambda sizes: ax.Chi2Ball(sizes, 1.2))
    found = audits["plain"]
    border = np.array(data_of(report(audits, tmp_path / "report.html"))["outline"])
    m = found.sizes / found.sizes.sum()
    inner = border[np.all(border > 1e-6, axis=1)]
    assert len(inner) > 10
    assert np.allclose(np.sum(inner**2 / m, axis=1), 1.2)
    center = found.mixtures.center
    assert all(found.mixtures.contains(b, tol=1e-7) for b in border)
    assert not any(found.mixtures.contains(center + 1.01 * (b - center)) for b in inner)


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


# The training ----------------------------------------------------------------------------------


def test_history_of_the_exact_solver(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    y, d = (X[:, 0] > 0).astype(int), np.where(X[:, 1] > 0, "a", "b")
    fitted = ax.solve(ax.LinearDomains(X, y, d))
    found = audit(y, (X @ fitted.w[:-1] + fitted.w[-1] > 0).astype(int), d)
    page = report(
        {"agnostic": found},
        tmp_path / "report.html",
        certificate=fitted.certificate,
        history=fitted.history,
        mixture=fitted.mixture,
    )
    data = data_of(page)
    assert data["mixture"] == fitted.mixture.tolist()
    values, shares = data["training"]["values"], data["training"]["shares"]
    assert shares["step"] == values["step"] == [r["iteration"] for r in fitted.history]
    assert values["upper"] == [r["upper"] for r in fitted.history]
    lower = [r["lower"] if math.isfinite(r["lower"]) else None for r in fitted.history]
    assert values["lower"] == lower
    assert f"{fitted.certificate.lower:.6g}" in words_of(page)


def test_many_steps_and_domains_are_thinned_and_summed(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.linspace(1, 5, 12), size=5000)
    history = [{"step": t, "mixture": lam} for t, lam in enumerate(shares)]
    data = data_of(report(two_models(12), tmp_path / "report.html", history=history))
    found = data["training"]["shares"]
    assert found["step"][0] == 0
    assert found["step"][-1] == 4999
    assert 300 < len(found["step"]) <= 400
    curves = {s["name"]: np.array(s["values"]) for s in found["series"]}
    assert len(curves) == 7
    assert np.allclose(sum(curves.values()), 1)
    top = two_models(12)["plain"].domain_names[int(np.argmax(shares[found["step"]].max(axis=0)))]
    k = list(two_models(12)["plain"].domain_names).index(top)
    assert np.array_equal(curves[top], shares[found["step"], k])


# Words -----------------------------------------------------------------------------------------


def test_the_words_say_worst_case_price_and_what_is_not_covered(tmp_path: Path) -> None:
    audits = two_models(3)
    words = words_of(report(audits, tmp_path / "report.html", notes=["No value <was> missing."]))
    plain, careful = audits.values()
    text = reporting._number
    assert f"plain: log loss {text(plain.pooled_loss)} on the rows as they are" in words
    assert f"but {text(plain.agnostic_loss)} on the worst mixture, 100.0% {HOSTILE}." in words
    gain = plain.agnostic_loss - careful.agnostic_loss
    assert gain > 0
    assert f"{text(gain)} less on the worst mixture" in words
    price = careful.pooled_loss - plain.pooled_loss
    assert price > 0
    assert f"against plain, careful has {text(price)} more log loss" in words
    assert "bias inside the data is not removed" in words
    assert "Fewer than 30 rows, so little is known of: " + HOSTILE in words
    assert "No value <was> missing." in words


def test_rows_in_several_domains_are_counted_once_and_mentioned(tmp_path: Path) -> None:
    member = np.array([[True, False], [True, True], [False, True]])
    page = report(audit([1, 0, 1], [1, 1, 0], member), tmp_path / "report.html")
    assert "on 3 rows in 2 domains" in words_of(page)
    assert "Some rows are in several domains" in words_of(page)
    page = report(two_models(2), tmp_path / "report.html")
    assert "in several domains" not in words_of(page)


def test_rows_in_no_domain_are_mentioned(tmp_path: Path) -> None:
    member = np.array([[True, False], [True, True], [False, True], [False, False]])
    words = words_of(report(audit([1, 0, 1, 1], [1, 1, 0, 0], member), tmp_path / "report.html"))
    assert "on 3 rows in 2 domains" in words
    assert "in none of the domains, and count nowhere here: 1." in words
    assert "none of the domains" not in words_of(report(two_models(2), tmp_path / "report.html"))


def test_the_words_name_the_set(tmp_path: Path) -> None:
    words = words_of(report(two_models(2), tmp_path / "report.html"))
    assert "The worst case is over all mixtures of these domains." in words
    found = two_models(2, lambda sizes: ax.Chi2Ball(sizes, 1.5))
    words = words_of(report(found, tmp_path / "report.html"))
    assert "over the mixtures in Λ = Chi2Ball(" in words
    assert "one outside of it may be worse" in words


def test_a_mixture_in_words_adds_up() -> None:
    found = two_models(6, lambda sizes: ax.cvar(sizes / sizes.sum(), 0.9))["plain"]
    lam = found.worst_mixture
    words = reporting._mixture_in_words(found, list(map(str, found.domain_names)))
    shares = [float(share) for share in re.findall(r"([\d.]+)%", words)]
    assert shares[:3] == pytest.approx(sorted(100 * lam, reverse=True)[:3], abs=0.0501)
    assert sum(shares) == pytest.approx(100, abs=0.2)
    assert words.endswith(" others")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5000"),
        (0.012345, "0.01235"),
        (12.3456, "12.35"),
        (12345.6, "12346"),
        (-3.21987, "-3.220"),
        (0.0, "0"),
        (1.5e-7, "1.500e-07"),
        (2.5e9, "2.500e+09"),
        (math.nan, "–"),
        (math.inf, "∞"),
    ],
)
def test_numbers_have_four_digits(value: float, text: str) -> None:
    assert reporting._number(value) == text


def test_the_table_has_every_domain_and_the_undefined(tmp_path: Path) -> None:
    y = [1, 1, 0, 1]
    found = audit(y, [0.9, 0.8, 0.3, 0.6], ["a", "a", "b", "b"])
    assert math.isnan(found.metrics["auc"][0])
    page = report(found, tmp_path / "report.html")
    rows = re.findall(r'<tr><th scope="row">([^<]*)</th><td>', page.read_text())
    assert rows == ["model", "a", "b"]
    assert data_of(page)["measures"][2]["models"][0]["values"][0] is None
    assert "– – to –" in words_of(page)


def test_an_interval_without_end_is_shown_as_such(tmp_path: Path) -> None:
    found = audit(None, [0.3, 0.2, 0.4], ["a", "b", "b"])  # one row says nothing of its spread
    page = report(found, tmp_path / "report.html")
    assert data_of(page)["measures"][0]["models"][0]["high"][0] is None
    assert "−∞ to ∞" in words_of(page)


# The file --------------------------------------------------------------------------------------


def test_one_file_below_six_megabytes_that_asks_for_nothing(tmp_path: Path) -> None:
    page = report(two_models(200), tmp_path / "new" / "report.html")
    assert page == tmp_path / "new" / "report.html"
    assert [f.name for f in page.parent.iterdir()] == ["report.html"]
    assert page.stat().st_size < 6_000_000
    start = page.read_text().split('<script type="application/json"')[0]
    assert "default-src 'none'" in start
    assert not re.search(r"<(link|img|iframe|script)\b[^>]*(src|href)=", start)


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    audits = {f"<i>{HOSTILE}": a for a in two_models(3).values()}
    page = report(audits, tmp_path / "report.html", title=HOSTILE, notes=[HOSTILE])
    text = page.read_text()
    assert "<img" not in text.split("<script>")[0]
    assert text.count("</script>") == text.count("<script") == 3
    assert HOSTILE in data_of(page)["domains"]
    assert words_of(page).count(HOSTILE) >= 4


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


# Bad input -------------------------------------------------------------------------------------


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


def test_other_bad_input() -> None:
    with pytest.raises(ValueError, match="audits is empty"):
        report({}, "never.html")
    with pytest.raises(ValueError, match=r"history\[1\] has the keys \['step'\]"):
        report(two_models(2), "never.html", history=[{"step": 1, "upper": 1.0}, {"step": 2}])
    with pytest.raises(ValueError, match=r"path ends in '\.gif'"):
        picture(two_models(2), "never.gif")


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


# Pictures --------------------------------------------------------------------------------------


def zeros(p: int) -> dict[str, Audit]:
    return {"perfect": audit([1] * p, [1] * p, np.arange(p))}


def negative(p: int) -> dict[str, Audit]:
    losses: NDArray[np.float64] = -1 - np.arange(2.0 * p)
    return {"given": audit(None, losses, np.tile(np.arange(p), 2))}


@pytest.mark.parametrize("made", [two_models, zeros, negative])
@pytest.mark.parametrize("p", [1, 2, 3, 30])
def test_pictures_of_any_number_of_domains(tmp_path: Path, p: int, made: Any) -> None:
    audits = made(max(p, 2)) if made is two_models else made(p)
    p = len(next(iter(audits.values())).sizes)
    file = picture(audits, tmp_path / "losses.png", mixture=np.full(p, 1 / p), title="5 $ a_b $")
    assert file.read_bytes().startswith(b"\x89PNG")


def test_a_wide_interval_does_not_flatten_the_bars() -> None:
    found = audit(None, [0.3, 0.2, 0.4], ["a", "b", "b"])
    assert np.isinf(found.intervals[0]).all()
    left = reporting._figure(reporting._checked(found), None, None).axes[0]
    intervals = left.collections[0].get_segments()
    assert np.isfinite(intervals).all()  # an infinite one would not be drawn at all
    assert -0.61 < left.get_xlim()[0] <= 0 < 0.3 < left.get_xlim()[1] < 0.61


def test_a_picture_shows_the_names_and_losses_as_drawn(tmp_path: Path) -> None:
    audits = two_models(2)
    shown = reporting._checked(audits)
    left, right = reporting._figure(shown, np.array([0.25, 0.75]), None).axes[:2]
    widths = sorted(patch.get_width() for patch in left.patches)
    assert widths == sorted(np.concatenate([a.domain_losses for a in audits.values()]).tolist())
    lines = [line for line in right.lines if list(line.get_xdata()) == [0, 1]]
    assert [list(line.get_ydata()) for line in lines] == [
        a.domain_losses.tolist() for a in audits.values()
    ]
    file = picture(audits, tmp_path / "losses.svg", title="5 $ < 6 $")
    assert "<svg" in file.read_text()
