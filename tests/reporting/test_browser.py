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
from anymix.reporting.words import number
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
    context = browser.new_context(bypass_csp=True, has_touch=True)
    context.set_default_timeout(120_000)  # the machine may be busy
    complaints: list[str] = []
    requests: list[str] = []

    def open_page(path: Path, width: int = 1200, height: int = 900, scheme: str = "light") -> Any:
        page = context.new_page()
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": height})
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_function("charts.length && charts.every((c) => c.host.querySelector('svg'))")
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
    assert np.allclose(shown(page), losses, rtol=0, atol=5.1e-5)
    lower = list(audits)[int(np.argmin(losses))]
    said = page.locator("#verdict").inner_text()
    assert f"At this mixture {lower} has the lower log loss" in said
    accuracy = [100 * mixture @ a.metrics["accuracy"] for a in audits.values()]
    words = page.locator(".card").all_inner_texts()
    found = [re.search(r"accuracy ([\d.]+)%", text) for text in words]
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
        assert np.isclose(shown(page)[list(audits).index(name)], found.agnostic_loss, atol=5.1e-5)
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


def ends_of(page: Any) -> dict[str, float]:
    """Where the line of mixtures starts and ends on the screen: between its first and last tick."""
    page.locator("#map").scroll_into_view_if_needed()
    lines = page.locator("#map .gridline").evaluate_all(
        "(all) => all.map((e) => e.getBoundingClientRect().toJSON())"
    )
    upright = [box for box in lines if box["width"] < 2]
    return {"left": upright[0]["left"], "right": upright[-1]["left"], "y": upright[0]["top"] + 90}


def test_drag_along_the_line(tmp_path: Path, opened: Open) -> None:
    path, audits = two(tmp_path)
    for width in (1200, 390):
        page = opened(path, width)
        at = ends_of(page)

        def x(share: float, at: dict[str, float] = at) -> float:
            return at["left"] + share * (at["right"] - at["left"])

        page.mouse.move(x(0.9), at["y"])
        page.mouse.down()
        page.mouse.move(x(0.25), at["y"] - 20)
        t = page.evaluate("mixture[1]")
        assert t == pytest.approx(0.25, abs=0.01)
        assert_shows(page, audits, np.array([1 - t, t]))
        page.mouse.up()
        page.mouse.move(x(0.6), at["y"])
        assert page.evaluate("mixture[1]") == t
        you = page.locator("#map .you").bounding_box()
        assert you["x"] + you["width"] / 2 == pytest.approx(x(t), abs=2)


def test_a_finger_moves_the_mixture_sideways_and_the_page_up_and_down(
    tmp_path: Path, opened: Open
) -> None:
    """The browser scrolls by a vertical swipe and then cancels the pointer: nothing has moved."""
    for made in (two, three):
        page = opened(made(tmp_path)[0], 390, 740)
        page.locator("#map").scroll_into_view_if_needed()
        box = page.locator("#map svg").bounding_box()
        kinds = page.locator("#map, #map svg, .slider input").evaluate_all(
            "(all) => all.map((e) => getComputedStyle(e).touchAction)"
        )
        assert set(kinds) == {"pan-y"}
        before = page.evaluate("mixture")
        touch = """([kind, x, y]) => {
          const target = kind === "pointerdown" ? document.querySelector("#map") : window;
          const more = { clientX: x, clientY: y, pointerType: "touch", bubbles: true };
          target.dispatchEvent(new PointerEvent(kind, more));
        }"""
        x, y = box["x"] + 0.5 * box["width"], box["y"] + 0.5 * box["height"]
        page.evaluate(touch, ["pointerdown", x, y])
        page.evaluate(touch, ["pointercancel", x, y])
        assert page.evaluate("mixture") == before
        page.evaluate(touch, ["pointerdown", x, y])
        page.evaluate(touch, ["pointermove", x + 30, y])
        page.evaluate(touch, ["pointerup", x + 30, y])
        assert page.evaluate("mixture") != before


def test_the_triangle_by_pointer_and_keys(tmp_path: Path, opened: Open) -> None:
    path, audits = three(tmp_path)
    for width in (1200, 390):
        page = opened(path, width)
        page.locator("#map").scroll_into_view_if_needed()
        page.mouse.click(*middle(page.locator("#map .star")))
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
    parts = page.evaluate("bestWhere()")
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
    assert_bars(page, audits, 10)
    page.locator("#all-bars").click()
    assert page.locator("#all-bars").inner_text() == "Show the 10 domains of highest loss"
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
    """The n domains of highest loss: lengths of bars and ends of intervals are in proportion."""
    highest = np.max([a.domain_losses for a in audits.values()], axis=0)
    order = np.argsort(-highest, kind="stable")[:n]
    chart = page.locator("#bars .chart").first
    drawn = "(all) => all.map((e) => [e.x, e.width].map((v) => v.baseVal.value))"
    bars = np.array(chart.locator(".bar").evaluate_all(drawn))  # (2 n, 2)
    losses = np.column_stack([a.domain_losses[order] for a in audits.values()]).ravel()
    unit = bars[0, 1] / losses[0]  # pixels for a loss of 1
    assert np.allclose(bars[:, 1], unit * losses, atol=0.01)
    ends = np.array(chart.locator(".whisker").evaluate_all(
        "(all) => all.map((e) => [e.x1, e.x2].map((v) => v.baseVal.value))"
    ))  # fmt: skip
    wanted = np.stack([a.intervals[order] for a in audits.values()], axis=1).reshape(-1, 2)
    limit = 2 * losses.max()  # wider ones end at the border of the picture
    assert np.allclose(ends, bars[:, :1] + unit * np.minimum(wanted, limit), atol=0.1)
    assert chart.locator(".whisker-tip").count() == np.sum(wanted > limit)  # arrows say so


def test_many_domains_have_names_and_signs_of_their_own(tmp_path: Path, opened: Open) -> None:
    """p > 3: every domain is a row by its name, and no sign hides another."""
    audits = two_models(60)
    page = opened(report(audits, tmp_path / "report.html"), 800)
    highest = np.max([a.domain_losses for a in audits.values()], axis=0)
    order = np.argsort(-highest, kind="stable")
    for n, button in ((10, None), (60, "#map-all")):
        if button is not None:
            page.locator(button).click()
        names = page.locator("#map .name:not(.bold)").evaluate_all(
            "(all) => all.map((e) => e.lastChild.textContent)"
        )
        assert names[1:n] == [str(audits["plain"].domain_names[k]) for k in order[1:n]]
        signs = page.locator("#map .sign:not(.total)").evaluate_all(
            "(all) => all.map((e) => e.getBoundingClientRect().toJSON())"
        )
        assert len(signs) == 2 * n
        mid = np.array([[s["x"] + s["width"] / 2, s["y"] + s["height"] / 2] for s in signs])
        apart = np.linalg.norm(mid[:, None] - mid[None], axis=2) + 99 * np.eye(len(mid))
        assert apart.min() > 10  # they are 9 wide
        width = page.locator("#map svg").bounding_box()["width"]
        assert np.ptp(mid[:, 0]) > 0.3 * width  # the axis uses its room
    page.locator("#standing-all").click()
    assert page.locator("#standing-chart .name:not(.bold)").count() == 60


def numbers(nodes: Any, *names: str) -> Array:
    read = "(all, names) => all.map((e) => names.map((n) => +e.getAttribute(n)))"
    return np.array(nodes.evaluate_all(read, list(names)))


def halo_boxes(chart: Any) -> list[dict[str, float]]:
    """The names in a picture as they stand there, without their halo."""
    return list(chart.locator(".halo").evaluate_all(
        "(all) => all.map((e) => e.getBoundingClientRect().toJSON())"
    ))  # fmt: skip


@pytest.mark.parametrize("width", [1200, 360])
def test_the_frontier_is_drawn_and_named(width: int, tmp_path: Path, opened: Open) -> None:
    audits = two_models(3)
    front = a_front(5, audits["plain"].domain_names, chosen=2)
    held = front.held_out
    assert held is not None
    path = report(audits, tmp_path / "report.html", frontier=front, verdict=HOSTILE)
    page = opened(path, width)
    chart = page.locator("#frontier .chart")
    shown, fitted = (
        numbers(chart.locator(f"circle.{name}"), "cx", "cy")
        for name in ("front-point", "faint-point")
    )
    every = np.vstack([shown, fitted])
    losses = np.vstack([
        np.column_stack([s.pooled, s.worst]) for s in (held, front.fitted)
    ])  # fmt: skip
    for axis, direction in ((0, 1), (1, -1)):  # pixels are a linear function of losses
        slope, start = np.polyfit(losses[:, axis], every[:, axis], 1)
        assert np.allclose(every[:, axis], start + slope * losses[:, axis], atol=0.05)
        assert np.sign(slope) == direction
    errors = numbers(chart.locator(".error"), "x1", "x2", "y1", "y2")
    assert len(errors) == 10
    across = errors[errors[:, 2] == errors[:, 3]]
    unit = np.polyfit(losses[:, 0], every[:, 0], 1)[0]
    assert np.allclose(across[:, 1] - across[:, 0], 2 * 0.005 * unit, atol=0.05)
    points = chart.locator("circle.front-point")
    for mark, place in ((".mark-ordinary", 0), (".mark-chosen", 2)):
        assert np.allclose(middle(chart.locator(mark)), middle(points.nth(place)), atol=1)
    names = chart.locator(".halo").all_text_contents()
    assert [n.replace("\xa0", " ") for n in names] == ["ordinary", "robust, takent = 0.5"]
    picture = chart.bounding_box()
    for box in halo_boxes(chart):  # the names are in the picture, and do not hide the points
        assert picture["x"] <= box["x"] <= box["right"] <= picture["x"] + picture["width"]
        assert not any(covers(box, middle(points.nth(k))) for k in range(5))
    hover = points.nth(2).locator("title").text_content().replace("\xa0", " ")
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
    points = chart.locator("circle.front-point")
    picture = chart.locator("svg").bounding_box()
    boxes = halo_boxes(chart)
    assert len(boxes) == 2
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
    for i, name in enumerate(("front-point", "faint-point")):
        assert charts.nth(i).locator(f"circle.{name}").count() == 20
        assert charts.nth(i).locator(".error").count() == 0
        assert charts.nth(i).locator(".halo").all_text_contents() == ["ordinary,taken"]
    assert "too wide to be drawn" in page.locator("#frontier figcaption").first.inner_text()


def test_the_verdict_is_read_first(tmp_path: Path, opened: Open) -> None:
    page = opened(report(two_models(2), tmp_path / "report.html", verdict=HOSTILE))
    verdict = page.locator("header .verdict")
    assert verdict.inner_text() == HOSTILE
    sizes = page.locator("header p").evaluate_all(
        "(all) => all.map((e) => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert sizes[0] > sizes[1]
    assert page.locator("#standing-chart").bounding_box()["y"] < 900  # on the first screen
    others = page.locator("main p, main td").evaluate_all(
        "(all) => Math.max(...all.map((e) => parseFloat(getComputedStyle(e).fontSize)))"
    )
    assert sizes[0] > others


def test_the_training_is_drawn(tmp_path: Path, opened: Open) -> None:
    path, _ = two(tmp_path)
    fit = adult()[1]
    page = opened(path)
    charts = page.locator("#training .chart")
    assert charts.count() == 2  # the values, and λ
    heights = [numbers(charts.first.locator(f"circle.run-{i}"), "cx", "cy")[:, 1] for i in (0, 1)]
    drawn = np.concatenate(heights)
    found = [r[k] for k in ("upper", "lower") for r in fit.history]
    values = np.array([v for v in found if np.isfinite(v)])
    slope, start = np.polyfit(values, drawn, 1)
    assert slope < 0
    assert np.allclose(drawn, start + slope * values, atol=0.1)
    widths = page.locator("#training .chart svg").evaluate_all(
        "(all) => all.map((e) => e.getBoundingClientRect().width - e.parentElement.clientWidth)"
    )
    assert max(widths) <= 1
    path, _ = twelve(tmp_path)
    page = opened(path)
    first = numbers(page.locator("#training .chart circle.run-0"), "cy")
    assert len(first) == 5
    assert np.ptp(first) == 0  # 1/12 all the time


def test_a_training_of_one_step_is_told_in_words(tmp_path: Path, opened: Open) -> None:
    history = [{"step": 1, "upper": 0.75, "lower": 0.5, "mixture": [0.2, 0.3, 0.5]}]
    page = opened(report(two_models(3), tmp_path / "report.html", history=history))
    assert page.locator("#training svg").count() == 0
    assert "one step was enough: this model reaches 0.7500, and no model is below 0.5000" in (
        page.locator("#training").inner_text()
    )


def test_a_training_of_two_steps_has_its_ticks_on_the_chart(tmp_path: Path, opened: Open) -> None:
    ends = {"upper": 3913802116.0008, "lower": 3913802116.0}
    history = [{"step": step, **ends} for step in (1, 2)]
    page = opened(report(two_models(3), tmp_path / "report.html", history=history))
    chart = page.locator("#training .chart svg").first
    ticks = chart.locator("text.tick")
    assert {"1", "2"} <= set(ticks.all_text_contents())  # whole steps
    assert len(set(ticks.all_text_contents())) == ticks.count() > 4
    box = chart.bounding_box()
    heights = ticks.evaluate_all("(all) => all.map((e) => e.getBoundingClientRect().y)")
    assert box["y"] <= min(heights) <= max(heights) <= box["y"] + box["height"]


def test_hostile_names_are_text(tmp_path: Path, opened: Open) -> None:
    audits = {f"{HOSTILE} {i}": a for i, a in enumerate(two_models(3).values())}
    page = opened(report(audits, tmp_path / "report.html", title=HOSTILE, notes=[HOSTILE]))
    assert page.title() == HOSTILE
    assert page.locator("img").count() == 0
    assert page.locator("h1").inner_text() == HOSTILE
    assert page.locator(".slider label").last.inner_text() == f"share of {HOSTILE}"
    corner = page.locator("#map .corner").last
    assert corner.locator("title").count() == 0 or corner.locator("title").text_content() == HOSTILE
    assert HOSTILE.startswith(corner.evaluate("(e) => e.lastChild.textContent").rstrip("…"))


def test_tags_and_entities_in_names_are_text_in_the_charts(tmp_path: Path, opened: Open) -> None:
    names = ["<b>bold</b>", "<i>a</i> &lt; b", "AT&T <sub>2</sub>"]
    found = audit([1, 0, 1] * 4, [1, 0, 0] * 4, names * 4)
    page = opened(report({"<b>m</b>": found, "&lt;": found}, tmp_path / "report.html"))
    corners = page.locator("#map .corner").all_text_contents()
    ticks = page.locator("#bars .chart").first.locator(".name").all_text_contents()
    legend = page.locator("#bars-legend li").all_text_contents()
    assert sorted(corners) == sorted(ticks) == sorted(names)
    assert [text.strip() for text in legend] == ["<b>m</b>", "&lt;"]


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
    return null; // the page has a background of its own
  };
  const own = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  return [...document.querySelectorAll("body *:not(script, style, noscript)")]
    .filter((e) => own(e) && e.tagName !== "title" && e.checkVisibility())
    .map((e) => {
      const ink = e.closest("svg") ? getComputedStyle(e).fill : getComputedStyle(e).color;
      const [a, b] = [light(color(ink).slice(0, 3)), light(behind(e))];
      return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.outerHTML.slice(0, 80)];
    })
    .filter(([contrast]) => contrast < 4.5);
}"""


@pytest.mark.parametrize("made", SIZES)
def test_accessible_and_readable_on_a_phone(made: Any, tmp_path: Path, opened: Open) -> None:
    path = made(tmp_path)[0]
    page = opened(path, width=360, height=740, scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 27)"
    assert page.evaluate(CONTRAST) == []
    page = opened(path, width=360, height=740)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
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
    assert np.isclose(shown(page)[0], audits["plain"].agnostic_loss, atol=5.1e-5)
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


COLOURS = """() => {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  return ["--paper", "--soft", "--model-0", "--model-1", "--model-2", "--model-3", "--model-4",
    "--edge", "--star"].map(read);
}"""


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = "".join(2 * c for c in digits) if len(digits) == 3 else digits
    v = np.array([int(digits[i : i + 2], 16) for i in (0, 2, 4)]) / 255
    linear = np.where(v <= 0.03928, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_models_differ_by_contrast_and_by_pattern(
    scheme: str, tmp_path: Path, opened: Open
) -> None:
    page = opened(report(two_models(3), tmp_path / "report.html"), scheme=scheme)
    paper, soft, ordinary, robust, *others = page.evaluate(COLOURS)
    assert contrast(ordinary, robust) >= 3
    for colour in (ordinary, robust, *others):
        assert contrast(colour, paper) >= 3
    assert contrast(ordinary, soft) >= 3 or scheme == "dark"
    looks = (
        page.locator("#bars .chart")
        .first.locator(".bar")
        .evaluate_all("(all) => [...new Set(all.map((e) => getComputedStyle(e).fill))]")
    )
    assert len(looks) == 2
    assert all("pattern" in look for look in looks)


def test_the_verdict_stays_in_view_while_sliders_move(tmp_path: Path, opened: Open) -> None:
    path, _ = twelve(tmp_path)
    page = opened(path, 390, 740)
    last = page.locator(".slider input").last
    last.scroll_into_view_if_needed()
    before = page.locator("#verdict").inner_text()
    last.focus()
    page.keyboard.press("End")
    box = page.locator("#verdict").bounding_box()
    assert 0 <= box["y"] <= box["y"] + box["height"] <= 740
    assert page.locator("#verdict").inner_text() != before
    assert page.locator(".now").bounding_box()["height"] < 740 / 3


def test_who_gains_and_who_pays_is_drawn_from_the_paired_differences(
    tmp_path: Path, opened: Open
) -> None:
    audits = two_models(6)
    page = opened(report(audits, tmp_path / "report.html"))
    pair = ax.compare(audits["plain"], audits["careful"])
    highest = np.max([a.domain_losses for a in audits.values()], axis=0)
    order = np.argsort(-highest, kind="stable")
    for measure, sense in (("accuracy", 1), ("log loss", -1)):
        page.locator("#scales").get_by_role("button", name=measure, exact=True).click()
        found = pair.difference_of("accuracy" if measure == "accuracy" else "loss", joint=True)
        intervals = page.locator("#standing-chart line.interval").evaluate_all(
            "(all) => all.map((e) => [e.x1, e.x2, e.y1, e.y2].map((v) => v.baseVal.value))"
            ".filter(([, , a, b]) => a === b).map((v) => v.slice(0, 2))"
        )
        zero = numbers(page.locator("#standing-chart line.zero"), "x1")[0, 0]
        wanted = sense * found.intervals[order]
        wanted.sort(axis=1)
        drawn = np.array(intervals) - zero
        inside = np.abs(drawn) < np.abs(drawn).max() - 1  # others end at the border
        unit = np.median(drawn[inside] / wanted[inside])
        assert unit > 0
        assert np.allclose(drawn[inside], unit * wanted[inside], atol=0.1)
        sure = (found.intervals[:, 0] > 0) | (found.intervals[:, 1] < 0)
        assert page.locator("#standing-chart .sign").count() == sure.sum()
        assert page.locator("#standing-chart .unsure").count() == (~sure).sum()


def test_regression_is_shown_in_the_unit_of_the_target(tmp_path: Path, opened: Open) -> None:
    rng = np.random.default_rng(0)
    d = rng.choice(["a", "b", "c", "d"], 800)
    y = 1e6 + 2e5 * rng.normal(size=800)
    audits = {
        name: audit(y, y + size * rng.normal(size=800) * np.where(d == "a", 2, 1), d)
        for name, size in (("ordinary", 50_000.0), ("robust", 40_000.0))
    }
    page = opened(report(audits, tmp_path / "report.html"))
    shown_values = [
        float(t.replace(",", "")) for t in page.locator(".card .loss").all_text_contents()
    ]
    wanted = [a.pooled_metrics["rmse"] for a in audits.values()]
    assert shown_values == pytest.approx(wanted, abs=0.51)
    text = page.locator("body").inner_text()
    assert "half squared" not in text
    assert re.search(r"RMSE \d{2},\d{3}", text)
    assert not re.search(r"\d{5}", text)  # thousands are apart
    page.get_by_label("Only one domain").select_option(index=1)
    worst = [float(t.replace(",", "")) for t in page.locator(".card .loss").all_text_contents()]
    assert worst == pytest.approx([a.metrics["rmse"][0] for a in audits.values()], abs=0.51)
    texts = page.locator(".card .more").all_inner_texts()
    maes = [float(re.search(r"MAE ([\d,]+)", t)[1].replace(",", "")) for t in texts]  # type: ignore[index]
    assert maes == pytest.approx([a.metrics["mae"][0] for a in audits.values()], abs=0.51)


def test_numbers_are_written_as_in_python(tmp_path: Path, opened: Open) -> None:
    rng = np.random.default_rng(0)
    values = [0.0, 999.5, 9.99999, 0.00005, 1e15, 999.95, -1234.4]
    values += (rng.normal(size=300) * 10.0 ** rng.uniform(-7, 12, 300)).tolist()
    page = opened(report(two_models(2), tmp_path / "report.html"))
    assert page.evaluate("(all) => all.map(number)", values) == [number(v) for v in values]


def test_no_table_is_cut_off_and_no_tick_has_a_neighbour_on_it(
    tmp_path: Path, opened: Open
) -> None:
    for made in (two, twelve):
        page = opened(made(tmp_path)[0], 390, 740)
        page.evaluate("document.querySelectorAll('details').forEach((d) => (d.open = true))")
        overflow = page.locator(".wide").evaluate_all(
            "(all) => all.map((e) => e.scrollWidth - e.clientWidth)"
        )
        assert max(overflow) <= 0
        clashes = page.locator(".chart svg").evaluate_all(
            """(all) => all.map((chart) => {
              const boxes = [...chart.querySelectorAll(".tick")]
                .map((e) => e.getBoundingClientRect());
              return boxes.filter((a, i) => boxes.some((b, j) => j < i && a.left < b.right
                && b.left < a.right && a.top + 3 < b.bottom && b.top + 3 < a.bottom)).length;
            })"""
        )
        assert max(clashes) == 0
