"""What a page says and holds of a frontier; test_browser.py looks at the picture."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audited import data_of, two_models, words_of
from reporting.fronts import a_front

import anymix as ax
from anymix.auditing import audit
from anymix.errors import InputError
from anymix.reporting import report
from anymix.reporting.frontiers import Front, checked_frontier
from anymix.reporting.panels import axis_of, marks_of, panels_of
from anymix.solvers.frontier import Frontier, FrontierLosses

AUDITS = {
    "ordinary": audit(None, [0.2, 0.6], ["a", "b"]),
    "robust": audit(None, [0.3, 0.5], ["a", "b"]),
}


def plain(text: str | None) -> str:
    return "" if text is None else text.replace("\N{NO-BREAK SPACE}", " ")


def table_of(page: Path) -> list[list[str]]:
    """The rows of the frontier's table, as text."""
    section = page.read_text().split("The points as a table")[1].split("</details>")[0]
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", section.split("<tbody>")[1], flags=re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]
    return [[plain(re.sub(r"<[^>]*>", " ", cell)).strip() for cell in row] for row in cells]


@pytest.mark.parametrize("T", [1, 5, 20])
def test_the_table_has_every_number(T: int, tmp_path: Path) -> None:
    front = a_front(T, chosen=T // 2)
    held = front.held_out
    assert held is not None
    page = report(AUDITS, tmp_path / "report.html", frontier=front)
    rows = table_of(page)
    assert [float(row[0].split()[2].strip(",")) for row in rows] == pytest.approx(
        front.robustness, rel=1e-3
    )
    assert [float(row[1]) for row in rows] == front.gammas.tolist()
    shown = np.array([[float(cell.split()[0]) for cell in row[2:]] for row in rows])
    wanted = [held.pooled, held.worst, front.fitted.pooled, front.fitted.worst]
    assert np.allclose(shown.T, wanted, rtol=6e-4)
    assert [row[3].split(" ± ")[1] for row in rows] == ["0.02"] * T
    assert "ordinary" in rows[0][0]
    assert [i for i, row in enumerate(rows) if "taken" in row[0]] == [T // 2]
    assert "NaN" not in page.read_text().split('id="data">')[1].split("</script>")[0]


def test_a_long_table_is_folded(tmp_path: Path) -> None:
    for T, opened in ((12, True), (13, False)):
        page = report(AUDITS, tmp_path / "report.html", frontier=a_front(T)).read_text()
        assert ("<details open>\n<summary>The points as a table" in page) == opened


def test_a_page_without_a_frontier_has_no_such_section(tmp_path: Path) -> None:
    page = report(AUDITS, tmp_path / "report.html")
    assert "What robustness buys" not in words_of(page)
    assert data_of(page)["frontier"] is None


def test_the_words_say_what_was_taken_and_what_it_costs() -> None:
    found = checked_frontier(a_front(5, chosen=2))
    assert plain(found.finding()) == (
        "The robust model with t = 0.5 was taken: beside the ordinary one its loss is 0.1768 less "
        "on the worst mixture and 0.0375 more on all rows (rows held out)."
    )
    assert checked_frontier(a_front(5, chosen=0)).finding() == "The ordinary model was taken."
    assert checked_frontier(a_front(5)).finding() is None
    from_half = replace(a_front(3, chosen=1), robustness=np.array([0.5, 0.75, 1.0]))
    without = checked_frontier(from_half)
    assert plain(without.finding()) == "The robust model with t = 0.75 was taken."
    assert "ordinary" not in without.reading()
    assert "Each point is a model." in found.reading()
    assert "The line joins them from left to right." in found.reading()
    assert "line" not in checked_frontier(a_front(1)).reading()


@pytest.mark.filterwarnings("ignore::anymix.estimators.NothingGained")
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_a_frontier_of_regression_names_the_loss_that_was_trained(
    loss: Any, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    X, d = rng.normal(size=(60, 1)), np.arange(60) % 2
    y = X[:, 0] * (1 + d) + rng.normal(size=60)
    model = ax.AgnosticRegressorCV(loss=loss, gammas=[0.1], robustness=[1.0], price=np.inf)
    model.fit(X, y, domains=d)
    found = {"robust": audit(y, model.predict(X), d)}
    page = report(
        found, tmp_path / "report.html", frontier=model.frontier_, history=model.solution_.history
    )
    words = words_of(page)
    is_squared = loss == "squared"
    assert ("half squared errors" in words) == is_squared
    assert ("half the squared errors" in words) == is_squared
    assert ("was trained, Huber(delta=1.0), and not an RMSE" in words) != is_squared
    assert data_of(page)["frontierLoss"] == ("RMSE" if is_squared else "loss")


def test_rows_fitted_alone_are_called_so(tmp_path: Path) -> None:
    front = checked_frontier(a_front(4, error=None))
    assert [s.rows for s in front.series] == ["rows fitted"]
    assert "These are the rows fitted" in front.note()
    page = report(AUDITS, tmp_path / "report.html", frontier=a_front(4, error=None))
    section = words_of(page).split("What robustness buys and costs")[1].split("Mixture explorer")[0]
    assert "±" not in section
    assert "held out" not in section


def test_models_without_gamma_or_solutions_are_shown(tmp_path: Path) -> None:
    """Ensembles have neither, and may have the same t twice."""
    t = np.array([0.0, 0.5, 0.5, 1.0, 1.0])
    front = replace(a_front(5, chosen=2, gamma=math.nan), robustness=t)
    assert front.solutions == ()
    page = report(AUDITS, tmp_path / "report.html", frontier=front)
    rows = table_of(page)
    assert [row[0] for row in rows] == ["t = 0, ordinary", "t = 0.5", "t = 0.5, taken"] + [
        "t = 1"
    ] * 2
    assert {len(row) for row in rows} == {5}
    assert "γ" not in " ".join(data_of(page)["frontier"][0]["series"][0]["hover"])


def test_the_points_are_in_the_order_of_t() -> None:
    front = a_front(4, chosen=1)
    order = np.array([2, 0, 3, 1])
    fitted = front.fitted
    mixed = FrontierLosses(fitted.domains, fitted.worst[order], fitted.pooled[order])
    found = checked_frontier(
        replace(front, robustness=front.robustness[order], fitted=mixed, held_out=None, chosen=3)
    )
    assert found.robustness.tolist() == front.robustness.tolist()
    assert found.series[0].worst.tolist() == fitted.worst.tolist()
    assert found.chosen == 1


def test_hovering_tells_t_gamma_and_losses_with_errors() -> None:
    found = checked_frontier(a_front(5, chosen=4, gamma=0.001))
    held, fitted = found.series
    assert plain(found.hover(held)[4]) == (
        "t = 1, taken; γ = 0.001\nall rows 0.4650 ± 0.005\nworst mixture 0.4800 ± 0.02"
    )
    assert plain(found.hover(fitted)[0]) == (
        "t = 0, ordinary; γ = 0.001\nall rows 0.3000\nworst mixture 0.7000"
    )


def test_series_share_a_picture_where_both_can_be_read() -> None:
    near, far = (checked_frontier(a_front(5, apart=apart)) for apart in (0.03, 3.0))
    assert [len(panel.series) for panel in panels_of(near)] == [2]
    assert [[s.rows for s in panel.series] for panel in panels_of(far)] == [
        ["rows held out"],
        ["rows fitted"],
    ]


@pytest.mark.parametrize("T", [1, 2, 5, 20])
@pytest.mark.parametrize("error", [None, 0.0, 0.02, 0.2, 50.0, math.inf])
@pytest.mark.parametrize("apart", [0.0, 0.03, 3.0])
def test_all_points_are_well_inside_the_picture(T: int, error: float, apart: float) -> None:
    found = checked_frontier(a_front(T, error=error, apart=apart, chosen=T - 1))
    for panel in panels_of(found):
        for series in panel.series:
            for values, axis in ((series.pooled, panel.x), (series.worst, panel.y)):
                place = (values - axis.ends[0]) / (axis.ends[1] - axis.ends[0])
                assert 0.05 < place.min() <= place.max() < 0.95
        assert {mark.place for mark in marks_of(found, panel)} == {0, T - 1}


def test_errors_too_wide_to_be_drawn_are_said() -> None:
    drawn, wide = (panels_of(checked_frontier(a_front(5, error=e)))[0] for e in (0.02, 50.0))
    assert drawn.caption.startswith("Thin lines reach one standard error")
    assert [e.max() for e in drawn.errors(drawn.series[0])] == [0.005, 0.02]
    assert wide.caption.startswith(
        "One standard error is about ± 12 for all rows and ± 50 for the worst mixture: too wide"
    )
    assert [e.max() for e in wide.errors(wide.series[0])] == [0, 0]
    assert wide.y.ends[1] - wide.y.ends[0] < 1


def test_a_bar_ends_in_the_picture_or_leaves_it() -> None:
    ends = axis_of(np.array([1.0, 2.0, 1.5]), np.array([0.5, 0.1, math.inf])).ends
    assert ends[0] < 0.5
    assert ends[1] > 3
    assert np.isfinite(ends).all()


def test_names_stand_apart() -> None:
    """Near each other, one is above its point and the other below; else both are above."""
    for chosen, above in ((1, [True, False]), (4, [True, True])):
        found = checked_frontier(a_front(5, chosen=chosen))
        marks = marks_of(found, panels_of(found)[0])
        assert [plain(" ".join(m.lines)) for m in marks] == [
            "ordinary",
            f"robust, taken t = {chosen / 4:g}",
        ]
        assert [m.above for m in marks] == above
    kept = checked_frontier(a_front(5, chosen=0))
    assert [m.lines for m in marks_of(kept, panels_of(kept)[0])] == [["ordinary,", "taken"]]


def test_a_real_choice(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, d = rng.normal(size=(300, 2)), np.repeat(["a", "b"], [240, 60])
    y = np.where(d == "a", X[:, 0], -X[:, 0]) + X[:, 1] + rng.normal(size=300) > 0
    fit = ax.AgnosticClassifierCV(robustness=(0.5, 1.0), gammas=(1.0, 0.01), cv=3)
    front = fit.fit(X, y, domains=d).frontier_
    assert front.held_out is not None
    audits = {
        name: audit(y, model.predict_proba(X), d)
        for name, model in (("ordinary", fit.ordinary_), ("robust", fit))
    }
    page = report(audits, tmp_path / "report.html", frontier=front)
    panel = data_of(page)["frontier"][0]
    assert panel["chosen"] == front.chosen
    assert panel["series"][0]["worst"] == front.held_out.worst.tolist()
    assert panel["series"][0]["pooled"] == front.held_out.pooled.tolist()


@pytest.mark.parametrize(
    ("frontier", "message"),
    [
        (3, "frontier is a int; give the frontier_ of an estimator"),
        ([a_front()], "frontier is a list; give the frontier_"),
        (a_front(names=("a", "c")), "frontier has different domains, 'a', 'c' and not 'a', 'b'"),
        (a_front(names=("a", "b", "c")), "different domains"),
        (a_front(chosen=5), r"frontier\.chosen is 5; give a place below 5"),
        (a_front(chosen=-1), r"frontier\.chosen is -1"),
        (a_front(0), "frontier has no model"),
        (
            replace(a_front(), fitted=replace(a_front().fitted, worst=np.full(5, np.nan))),
            r"frontier\.fitted\.worst has the entry nan",
        ),
        (
            replace(a_front(), fitted=replace(a_front().fitted, pooled=np.zeros(4))),
            r"frontier\.fitted\.pooled has shape \(4,\)",
        ),
        (
            replace(a_front(), fitted=replace(a_front().fitted, worst_error=np.zeros(4))),
            r"frontier\.fitted\.worst_error is .*; give 5 numbers ≥ 0",
        ),
    ],
)
def test_what_is_no_frontier_of_these_domains(frontier: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        report(AUDITS, tmp_path / "never.html", frontier=frontier)
    assert not any(tmp_path.iterdir())


def test_domains_may_come_in_another_order_and_as_numbers() -> None:
    front: Frontier = replace(a_front(), domain_names=np.array([2, 1]))
    assert isinstance(checked_frontier(front, ["1", "2"]), Front)


def test_hostile_domains_are_no_other_domains(tmp_path: Path) -> None:
    audits = two_models(3)
    front = a_front(names=audits["plain"].domain_names)
    assert report(audits, tmp_path / "report.html", frontier=front).exists()
