"""The pictures of docs/reporting.md, by playwright and Chromium: python docs/report_pictures.py"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from scipy.special import expit

import anymix as ax
from anymix import datasets
from anymix.auditing import audit
from anymix.reporting import draw_frontier, picture, report

FOLDER = Path(__file__).parent / "img"


def adult(page: Path) -> None:
    """Adult, trained for the sample and for any mixture: a page, and docs/img/report_adult.png."""
    data = datasets.load_adult()
    problem = ax.LinearDomains(data.X, data.y, data.domains)
    ordinary = ax.solve(problem, ax.Point(problem.sizes / problem.sizes.sum()))
    robust = ax.solve(problem)
    audits = {
        name: audit(data.y_test, expit(data.X_test @ fit.w[:-1] + fit.w[-1]), data.domains_test)
        for name, fit in (("ordinary", ordinary), ("robust", robust))
    }
    report(
        audits,
        page,
        title="Adult: doctorates and the others",
        certificate=robust.certificate,
        history=robust.history,
        mixture=robust.mixture,
    )
    picture(audits, FOLDER / "report_adult.png", mixture=robust.mixture)


def frontier() -> None:
    """Models of Adult from ordinary to robust, on rows held out: docs/img/frontier_adult.png."""
    data = datasets.load_adult()
    fit = ax.AgnosticClassifierCV().fit(data.X, data.y, domains=data.domains)
    draw_frontier(fit.frontier_, FOLDER / "frontier_adult.png")


def fashion(page: Path) -> None:
    """Three classes of Fashion-MNIST, one domain each."""
    data = datasets.load_fashion(classes=("t-shirt/top", "pullover", "shirt"))
    audits = {}
    for name, mixtures in (("ordinary", ax.Point([1 / 3] * 3)), ("robust", ax.Simplex(3))):
        fit = ax.AgnosticClassifier(mixtures, gamma=1e-2, tol=1e-3)
        fit.fit(data.X[::10], data.y[::10], domains=data.domains[::10])
        said = fit.predict_proba(data.X_test)
        audits[name] = audit(data.y_test, said, data.domains_test, classes=fit.classes_)
    report(audits, page, title="Fashion-MNIST: three classes", mixture=fit.mixture_)


def shoot(browser: Any, page: Path, name: str) -> None:
    """The explorer as a reader sees it, half way to the worst mixture."""
    tab = browser.new_page(viewport={"width": 1000, "height": 900})
    tab.goto(page.as_uri())
    tab.evaluate("moveTo(mixture.map((share, k) => (share + models[0].worst_mixture[k]) / 2))")
    x, y, width, height = tab.locator("#explorer").evaluate(
        "(e) => { const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; }"
    )
    tab.screenshot(
        path=FOLDER / name,
        full_page=True,
        clip={"x": x - 12, "y": y + 2, "width": width + 24, "height": height + 4},
    )


if __name__ == "__main__":
    from playwright.sync_api import sync_playwright

    frontier()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for make in (adult, fashion):
            page = Path(folder) / f"{make.__name__}.html"
            make(page)
            shoot(browser, page, f"explorer_{make.__name__}.png")
        browser.close()
