"""The report in a real browser: what it shows is what the library says, and nothing leaves it.

The tests run wherever Chromium is found (`chromium` on the path, or CHROMIUM names it).
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audited import HOSTILE, two_models
from numpy.typing import NDArray
from reporting.fronts import a_front
from scipy.special import expit

import anymix as ax
from anymix import datasets
from anymix.auditing import Audit, audit
from anymix.reporting import report
from anymix.solvers.frontier import FrontierLosses

playwright = pytest.importorskip("playwright.sync_api")
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]

Array = NDArray[np.float64]
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as play:
        quiet = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=list(quiet))
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Open]:
    """Open a page; when the test is over it must have asked for nothing and complained of nothing.

    The content-security policy is off, or it would stop requests before they are seen.
    """
    context = browser.new_context(bypass_csp=True)
    context.set_default_timeout(120_000)  # the machine may be busy
    complaints: list[str] = []
    requests: list[str] = []

    def open_page(path: Path, width: int = 1200, height: int = 900) -> Any:
        page = context.new_page()
        page.set_viewport_size({"width": width, "height": height})
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_function("charts.every((c) => c.querySelector('.main-svg'))")
        return page

    yield open_page
    context.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []


@cache
def adult() -> tuple[dict[str, Audit], ax.Solution]:
    data = datasets.load_adult(progress=False)
    problem = ax.LinearDomains(data.X, data.y, data.domains)
    sample = problem.sizes / problem.sizes.sum()
    fits = {"ordinary": ax.solve(problem, ax.Point(sample)), "robust": ax.solve(problem)}
    audits = {
        name: audit(data.y_test, expit(data.X_test @ s.w[:-1] + s.w[-1]), data.domains_test)
        for name, s in fits.items()
    }
    return audits, fits["robust"]


def two(folder: Path) -> tuple[Path, dict[str, Audit]]:
    audits, fit = adult()
    page = report(
        audits,
        folder / "report.html",
        title="Adult",
        certificate=fit.certificate,
        history=fit.history,
        mixture=fit.mixture,
    )
    return page, audits


def three(folder: Path) -> tuple[Path, dict[str, Audit]]:
    audits = two_models(3, lambda sizes: ax.Chi2Ball(sizes, 1.2))
    return report(audits, folder / "report.html", mixture=[0.5, 0.3, 0.2]), audits


def twelve(folder: Path) -> tuple[Path, dict[str, Audit]]:
    audits = two_models(12)
    history = [{"step": t, "mixture": np.full(12, 1 / 12)} for t in range(5)]
    front = a_front(20, audits["plain"].domain_names, chosen=7)
    page = report(
        audits,
        folder / "report.html",
        history=history,
        frontier=front,
        verdict="The robust model is better.",
        beside={"a guess": audits["plain"]},
    )
    return page, audits


def two_hundred(folder: Path) -> tuple[Path, dict[str, Audit]]:
    audits = two_models(200, lambda sizes: ax.cvar(sizes / sizes.sum(), 0.3))
    return report(audits, folder / "report.html"), audits


SIZES = [two, three, twelve, two_hundred]


def sample_of(audits: dict[str, Audit]) -> Array:
    sizes = next(iter(audits.values())).sizes
    return np.asarray(sizes / sizes.sum())


def shown(page: Any) -> list[float]:
    return [float(text) for text in page.locator(".card .loss").all_text_contents()]


def assert_shows(page: Any, audits: dict[str, Audit], mixture: Array) -> None:
    """The page is at the mixture and says Σ λ_k L_k of every model, to its four digits."""
    assert np.allclose(page.evaluate("mixture"), mixture, rtol=0, atol=1e-12)
    losses = [mixture @ a.domain_losses for a in audits.values()]
    assert np.allclose(shown(page), losses, rtol=6e-4)
    lower = list(audits)[int(np.argmin(losses))]
    assert f"At this mixture {lower} has the lower loss" in page.locator("#verdict").inner_text()
    accuracy = [100 * mixture @ a.metrics["accuracy"] for a in audits.values()]
    words = page.locator(".card").all_inner_texts()
    found = [re.search(r"accuracy here ([\d.]+)%", text) for text in words]
    assert np.allclose([float(f[1]) for f in found if f], accuracy, atol=0.0501)


@pytest.mark.parametrize("made", SIZES)
def test_the_explorer_shows_the_librarys_numbers(made: Any, tmp_path: Path, opened: Open) -> None:
    path, audits = made(tmp_path)
    page = opened(path)
    assert_shows(page, audits, sample_of(audits))
    use_presets(page, audits)
    assert_shows(page, audits, sample_of(audits))
    use_a_slider_by_keyboard(page, audits)


def use_presets(page: Any, audits: dict[str, Audit]) -> None:
    p, before = len(sample_of(audits)), shown(page)
    for name, found in audits.items():
        page.get_by_role("button", name=f"Worst for {name}", exact=True).click()
        assert_shows(page, audits, found.worst_mixture)
        assert np.isclose(shown(page)[list(audits).index(name)], found.agnostic_loss, rtol=6e-4)
        assert page.locator("#outside").is_hidden()
        assert shown(page) != before
    page.get_by_role("button", name="All equal").click()
    assert_shows(page, audits, np.full(p, 1 / p))
    page.get_by_label("Only one domain").select_option(index=p)
    assert_shows(page, audits, np.eye(p)[-1])
    inside = found.mixtures.contains(np.eye(p)[-1])
    assert page.locator("#outside").is_hidden() == inside
    page.get_by_role("button", name="As sampled").click()
    assert page.get_by_label("Only one domain").input_value() == ""


def use_a_slider_by_keyboard(page: Any, audits: dict[str, Audit]) -> None:
    """Domain k gets the share t; the others keep their proportions."""
    slider = page.locator(".slider input").first
    k = int(slider.get_attribute("id").removeprefix("share-"))
    slider.focus()
    for key in ("ArrowLeft", "PageDown", "ArrowRight", "Home", "ArrowRight", "PageUp", "End"):
        before = np.array(page.evaluate("mixture"))
        page.keyboard.press(key)
        t = float(slider.input_value())
        proportions = before if before[k] < 1 - 1e-12 else sample_of(audits)
        wanted = (1 - t) * proportions / (1 - proportions[k])
        wanted[k] = t
        assert not np.allclose(before, wanted, atol=1e-9)
        assert_shows(page, audits, wanted)
        assert page.locator(f"output[for=share-{k}]").inner_text() == f"{100 * t:.1f}%"
        assert slider.get_attribute("aria-valuetext") == f"{100 * t:.1f}%"


def test_drag_along_the_line(tmp_path: Path, opened: Open) -> None:
    path, audits = two(tmp_path)
    for width in (1200, 390):
        page = opened(path, width)
        page.locator("#map").scroll_into_view_if_needed()
        box = page.locator("#map .nsewdrag").bounding_box()  # the plotting area, by Plotly itself
        page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 0.5 * box["height"])
        page.mouse.down()
        page.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 0.4 * box["height"])
        t = page.evaluate("mixture[1]")
        assert t == pytest.approx(0.25, abs=0.01)
        assert_shows(page, audits, np.array([1 - t, t]))
        page.mouse.up()
        page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.4 * box["height"])
        assert page.evaluate("mixture[1]") == t
        drawn = page.evaluate("$('#map').data[$('#map').data.length - 1]")
        assert np.allclose(drawn["x"], t)
        assert np.allclose(drawn["y"], [[1 - t, t] @ a.domain_losses for a in audits.values()])


def test_the_triangle_by_pointer_and_keys(tmp_path: Path, opened: Open) -> None:
    path, audits = three(tmp_path)
    for width in (1200, 390):
        page = opened(path, width)
        page.locator("#map").scroll_into_view_if_needed()
        marks = page.locator("#map .scatterlayer .trace .points path")  # sample, λ*, worst, you
        star = marks.nth(1).bounding_box()
        at = star["x"] + star["width"] / 2, star["y"] + star["height"] / 2
        page.mouse.click(*at)
        lam = np.array(page.evaluate("mixture"))
        assert np.allclose(lam, [0.5, 0.3, 0.2], atol=0.02)
        assert_shows(page, audits, lam)
        page.keyboard.press("ArrowRight")  # the click has given the triangle the focus
        assert_shows(page, audits, lam + np.array([-0.01, 0.01, 0]))
        page.keyboard.press("Shift+ArrowUp")
        up = 0.1 / np.sqrt(0.75)
        assert_shows(page, audits, lam + np.array([-0.01 - up / 2, 0.01 - up / 2, up]))
        for _ in range(20):
            page.keyboard.press("Shift+ArrowRight")
        assert_shows(page, audits, np.eye(3)[1])  # not beyond the corner


def test_the_triangle_is_coloured_by_the_best_model(tmp_path: Path, opened: Open) -> None:
    path, audits = three(tmp_path)
    page = opened(path)
    parts = page.evaluate(
        "models.map((m) => models.reduce((part, o) =>"
        " clip(part, m.losses.map((l, k) => l - o.losses[k])), CORNERS))"
    )
    assert min(map(len, parts)) >= 3  # each is best somewhere
    rng = np.random.default_rng(0)
    for part, mine in zip(parts, audits.values(), strict=True):
        inside = rng.dirichlet(np.ones(len(part)), size=200) @ np.array(part)
        best = np.min([inside @ a.domain_losses for a in audits.values()], axis=0)
        assert np.allclose(inside @ mine.domain_losses, best)
    areas = [page.evaluate("(q) => q.map(xy)", part) for part in parts]
    assert sum(map(area, areas)) == pytest.approx(np.sqrt(0.75) / 2)


def area(corners: list[list[float]]) -> float:
    x, y = np.array(corners).T
    return abs(float(x @ np.roll(y, 1) - y @ np.roll(x, 1))) / 2


@pytest.mark.parametrize(
    "mixtures",
    [
        lambda sizes: ax.Chi2Ball(sizes, 1.2),
        lambda sizes: ax.Hull([[0.2, 0.3, 0.5], [0.6, 0.2, 0.2], [0.3, 0.4, 0.3]]),
    ],
)
def test_outside_is_outside_the_set(mixtures: Any, tmp_path: Path, opened: Open) -> None:
    audits = two_models(3, mixtures)
    target = audits["plain"].mixtures
    page = opened(report(audits, tmp_path / "report.html"))
    rng = np.random.default_rng(0)
    points = rng.dirichlet([1, 1, 1], size=500)
    clear = np.array([np.abs(target.project(x) - x).max() for x in points])
    inside = np.array([target.contains(x) for x in points])
    said = np.array(page.evaluate("(points) => points.map(isOutside)", points.tolist()))
    assert inside.any()
    assert not said[inside].any()
    assert said[clear > 2e-3].all()
    page.get_by_label("Only one domain").select_option(index=3)
    assert page.locator("#outside").is_visible()


def test_two_hundred_domains_are_shown_and_found(tmp_path: Path, opened: Open) -> None:
    path, audits = two_hundred(tmp_path)
    page = opened(path)
    assert_bars(page, audits, 24)
    page.get_by_role("button", name="Show all 200 domains").click()
    assert_bars(page, audits, 200)
    names = [str(name) for name in audits["plain"].domain_names]
    assert page.locator(".slider").count() == 12
    k = max(k for k in range(200) if page.locator(f"#share-{k}").count() == 0 and k < 199)
    page.get_by_label("Find a domain").fill(names[k].upper())
    page.keyboard.press("Enter")
    assert page.locator(".slider").count() == 13
    assert page.evaluate("document.activeElement.id") == f"share-{k}"
    page.keyboard.press("End")
    assert page.evaluate(f"mixture[{k}]") == pytest.approx(
        min(1.0, 3 * audits["plain"].mixtures.maximize(np.eye(200)[k])[k])
    )
    own = page.locator(".slider input").evaluate_all("(all) => all.map((e) => +e.id.slice(6))")
    rest = 1 - np.array(page.evaluate("mixture"))[own].sum()
    assert f"The other 187 domains: {100 * rest:.1f}%" in page.locator("#rest").inner_text()
    page.get_by_label("Find a domain").fill("atlantis")
    page.keyboard.press("Enter")
    assert page.get_by_text("No such domain.").is_visible()
    assert page.locator(".slider").count() == 13


def assert_bars(page: Any, audits: dict[str, Audit], n: int) -> None:
    """The n domains of highest loss, with intervals."""
    highest = np.max([a.domain_losses for a in audits.values()], axis=0)
    order = np.argsort(-highest, kind="stable")[:n]
    bars = page.locator("#bars .chart").first
    read = bars.evaluate("(c) => c.data.map((t) => [t.x, t.error_x.array, t.error_x.arrayminus])")
    for (x, up, down), found in zip(read, audits.values(), strict=True):
        assert np.array_equal(x, found.domain_losses[order])
        assert np.allclose(np.add(x, up), found.intervals[order, 1])
        assert np.allclose(np.subtract(x, down), found.intervals[order, 0])


@pytest.mark.parametrize("width", [1200, 360])
def test_the_frontier_is_drawn_and_named(width: int, tmp_path: Path, opened: Open) -> None:
    audits = two_models(3)
    front = a_front(5, audits["plain"].domain_names, chosen=2)
    held = front.held_out
    assert held is not None
    path = report(audits, tmp_path / "report.html", frontier=front, verdict=HOSTILE)
    page = opened(path, width)
    chart = page.locator("#frontier .chart")
    fitted, shown = chart.evaluate("(c) => c.data.slice(0, 2)")
    assert (shown["x"], shown["y"]) == (held.pooled.tolist(), held.worst.tolist())
    assert shown["error_x"]["array"] == [0.005] * 5
    assert shown["error_y"]["array"] == [0.02] * 5
    assert (fitted["x"], fitted["y"]) == (front.fitted.pooled.tolist(), front.fitted.worst.tolist())
    assert chart.locator(".scatterlayer .trace").nth(1).locator("path.point").count() == 5
    square, ring = (chart.locator(".scatterlayer .trace").nth(k) for k in (2, 3))
    points = chart.locator(".scatterlayer .trace").nth(1).locator("path.point")
    for mark, place in ((square, 0), (ring, 2)):
        assert np.allclose(middle(mark.locator("path.point")), middle(points.nth(place)), atol=1)
    names = chart.locator(".annotation").all_text_contents()
    assert [n.replace("\xa0", " ") for n in names] == ["ordinary", "robust, takent = 0.5"]
    inside = page.locator("#frontier .chart .nsewdrag").bounding_box()
    for i in range(2):  # the names are in the picture, and do not hide the points
        box = chart.locator(".annotation .bg").nth(i).bounding_box()
        assert inside["x"] <= box["x"] <= box["x"] + box["width"] <= inside["x"] + inside["width"]
        assert not any(covers(box, middle(points.nth(k))) for k in range(5))
    points.nth(2).scroll_into_view_if_needed()
    page.mouse.move(*middle(points.nth(2)))
    hover = chart.locator(".hoverlayer").text_content().replace("\xa0", " ")
    assert "t = 0.5, taken; γ = 0.01" in hover
    assert "all rows 0.3525 ± 0.005" in hover
    assert "worst mixture 0.5532 ± 0.02" in hover


@pytest.mark.parametrize("chosen", [1, 3, 4])
def test_names_hide_no_point_on_a_phone(chosen: int, tmp_path: Path, opened: Open) -> None:
    """Points on a steep line, as in the choice between an ordinary model and a reversed one."""
    audits = two_models(3)
    front = a_front(5, audits["plain"].domain_names, chosen=chosen)
    steep = FrontierLosses(
        front.fitted.domains,
        np.array([1.04, 0.85, 0.73, 0.694, 0.6939]),
        np.array([0.578, 0.616, 0.651, 0.6672, 0.6673]),
    )
    front = replace(front, held_out=steep)
    page = opened(report(audits, tmp_path / "report.html", frontier=front), 390)
    chart = page.locator("#frontier .chart").first
    points = chart.locator("path.point")
    picture = chart.locator(".nsewdrag").bounding_box()
    boxes = [chart.locator(".annotation .bg").nth(i).bounding_box() for i in range(2)]
    for box in boxes:
        assert not any(covers(box, middle(points.nth(k))) for k in range(points.count()))
        corners = [
            (box["x"] + u, box["y"] + v) for u in (0, box["width"]) for v in (0, box["height"])
        ]
        assert all(covers(picture, corner) for corner in corners)
        other = boxes[1 - boxes.index(box)]
        assert not any(covers(other, corner) for corner in corners)


def middle(mark: Any) -> tuple[float, float]:
    box = mark.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def covers(box: dict[str, float], at: tuple[float, float]) -> bool:
    left, top = box["x"], box["y"]
    return left < at[0] < left + box["width"] and top < at[1] < top + box["height"]


def test_frontiers_far_from_the_rows_fitted_have_two_pictures(tmp_path: Path, opened: Open) -> None:
    audits = two_models(3)
    front = a_front(20, audits["plain"].domain_names, chosen=0, apart=3.0, error=50.0)
    page = opened(report(audits, tmp_path / "report.html", frontier=front), 360)
    charts = page.locator("#frontier .chart")
    assert charts.count() == 2
    assert page.locator("#frontier h3").all_inner_texts() == [
        "Losses on rows held out",
        "Losses on rows fitted",
    ]
    for i in range(2):
        assert charts.nth(i).locator("path.point").count() == 20 + 2
        assert charts.nth(i).locator(".errorbar path").count() == 0
        assert charts.nth(i).locator(".annotation").all_text_contents() == ["ordinary,taken"]
    assert "too wide to be drawn" in page.locator("#frontier figcaption").first.inner_text()


def test_the_verdict_is_read_first(tmp_path: Path, opened: Open) -> None:
    page = opened(report(two_models(2), tmp_path / "report.html", verdict=HOSTILE))
    verdict = page.locator("header .verdict")
    assert verdict.inner_text() == HOSTILE
    sizes = page.locator("header p").evaluate_all(
        "(all) => all.map((e) => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert sizes[0] > sizes[1]
    others = page.locator("main p, main td").evaluate_all(
        "(all) => Math.max(...all.map((e) => parseFloat(getComputedStyle(e).fontSize)))"
    )
    assert sizes[0] > others


def test_the_training_is_drawn(tmp_path: Path, opened: Open) -> None:
    path, _ = two(tmp_path)
    fit = adult()[1]
    page = opened(path)
    upper, lower = page.evaluate("document.querySelector('#training .chart').data.map((t) => t.y)")
    assert upper == [r["upper"] for r in fit.history]
    assert lower[-1] == fit.history[-1]["lower"]
    assert page.locator("#training .chart").count() == 2  # the values, and λ
    page.wait_for_function(
        "[...document.querySelectorAll('#training .chart')].every("
        "(c) => c.querySelector('svg').getBoundingClientRect().width <= c.clientWidth + 1)",
        timeout=10_000,
    )
    path, _ = twelve(tmp_path)
    page = opened(path)
    curves = page.evaluate("document.querySelector('#training .chart').data.map((t) => t.y)")
    assert np.allclose(curves[0], 1 / 12)
    assert np.allclose(np.sum(curves, axis=0), 1)


def test_hostile_names_are_text(tmp_path: Path, opened: Open) -> None:
    audits = {f"{HOSTILE} {i}": a for i, a in enumerate(two_models(3).values())}
    page = opened(report(audits, tmp_path / "report.html", title=HOSTILE, notes=[HOSTILE]))
    assert page.title() == HOSTILE
    assert page.locator("img").count() == 0
    assert page.locator("h1").inner_text() == HOSTILE
    assert page.locator(".slider label").last.inner_text() == f"share of {HOSTILE}"
    corner = page.locator("#map .annotation-text").last.text_content()
    assert corner == HOSTILE[:19] + "…"


def test_tags_and_entities_in_names_are_text_in_the_charts(tmp_path: Path, opened: Open) -> None:
    names = ["<b>bold</b>", "<i>a</i> &lt; b", "AT&T <sub>2</sub>"]  # Plotly would read all of it
    found = audit([1, 0, 1] * 4, [1, 0, 0] * 4, names * 4)
    page = opened(report({"<b>m</b>": found, "&lt;": found}, tmp_path / "report.html"))
    corners = page.locator("#map .annotation-text").all_text_contents()
    ticks = page.locator("#bars .chart").first.locator(".ytick text").all_text_contents()
    legend = page.locator("#bars .chart").first.locator(".legendtext").all_text_contents()
    assert sorted(corners) == sorted(ticks) == sorted(names)
    assert legend == ["<b>m</b>", "&lt;"]


CONTRAST = """() => {
  const light = (c) => c.map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const color = (text) => text.match(/[\\d.]+/g).map(Number);
  const behind = (e) => { // the nearest background that is not transparent
    for (; e; e = e.parentElement) {
      const c = color(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0) return c.slice(0, 3);
    }
    return [255, 255, 255];
  };
  const own = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  return [...document.querySelectorAll("body *:not(script, style, noscript, [aria-hidden])")]
    .filter((e) => own(e) && !e.closest("svg") && e.checkVisibility())
    .map((e) => {
      const [a, b] = [light(color(getComputedStyle(e).color).slice(0, 3)), light(behind(e))];
      return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.outerHTML.slice(0, 80)];
    })
    .filter(([contrast]) => contrast < 4.5);
}"""


@pytest.mark.parametrize("made", SIZES)
def test_accessible_and_readable_on_a_phone(made: Any, tmp_path: Path, opened: Open) -> None:
    page = opened(made(tmp_path)[0], width=360, height=740)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate(CONTRAST) == []
    nameless = (
        "(all) => all.filter((e) => !e.labels?.length && !e.ariaLabel).map((e) => e.outerHTML)"
    )
    assert page.locator("input, select").evaluate_all(nameless) == []
    assert page.locator(".chart").evaluate_all(nameless) == []
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map((h) => +h.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert max(np.diff(levels)) <= 1
    sizes = page.evaluate(
        "[...document.querySelectorAll('button, select, .slider input')]"
        ".filter((e) => e.checkVisibility()).map((e) => e.getBoundingClientRect().height)"
    )
    assert min(sizes) >= 24  # WCAG 2.2, target size


def test_print_has_the_numbers_and_no_controls(tmp_path: Path, opened: Open) -> None:
    path, audits = twelve(tmp_path)
    page = opened(path)
    page.get_by_role("button", name="Worst for plain").click()
    page.set_viewport_size({"width": 720, "height": 1000})
    page.emulate_media(media="print")
    assert page.locator(".presets, .controls").evaluate_all(
        "(all) => all.every((e) => !e.checkVisibility())"
    )
    assert page.locator("#mixture").is_visible()
    assert np.isclose(shown(page)[0], audits["plain"].agnostic_loss, rtol=6e-4)
    page.wait_for_function("document.documentElement.scrollWidth <= 720")  # charts shrink, too
    assert page.pdf().startswith(b"%PDF")


def test_one_model_and_one_domain(tmp_path: Path, opened: Open) -> None:
    found = audit([1, 0, 1], [1, 1, 1], ["only", "only", "only"])
    page = opened(report(found, tmp_path / "report.html"))
    assert page.locator("#explorer").is_hidden()
    assert page.locator("#bars .chart").count() == 2
    page = opened(report(two_models(2)["plain"], tmp_path / "report.html"))
    page.get_by_role("button", name="Worst for model").click()
    assert page.locator("#verdict").inner_text() == ""


def test_the_policy_of_the_page_forbids_requests(tmp_path: Path, browser: Any) -> None:
    """With the policy on, even a program put into the page cannot reach out."""
    page = browser.new_page()
    page.goto(report(two_models(2), tmp_path / "report.html").as_uri())
    blocked = page.evaluate(
        """Promise.race([
          new Promise((tell) => {
            const said = (event) => tell(event.effectiveDirective);
            document.addEventListener("securitypolicyviolation", said);
          }),
          fetch("http://127.0.0.1:9/").catch(() => new Promise(() => 0)),
          new Promise((tell) => setTimeout(() => tell("nothing"), 20000)),
        ])"""
    )
    assert blocked == "connect-src"
    page.close()
