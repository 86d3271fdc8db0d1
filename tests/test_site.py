"""The web pages: built strictly, every public name with its parameters, opened in a browser."""

import html
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ("index", "tutorials/table", "choosing", "api/estimators", "gallery")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material")
    pytest.importorskip("latex2mathml")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


def api_modules() -> dict[str, list[str]]:
    return {
        page.stem: re.findall(r"^::: (\S+)$", page.read_text("utf-8"), flags=re.MULTILINE)
        for page in (ROOT / "docs" / "api").glob("*.md")
    }


def undescribed(text: str) -> list[str]:
    """The parameters in the tables of a page that lack a description."""
    rows = re.findall(r'<tr class="doc-section-item">(.*?)</tr>', text, flags=re.DOTALL)
    cells = [re.findall(r"<td>(.*?)</td>", row, flags=re.DOTALL) for row in rows]
    plain = [[re.sub(r"<[^>]+>|\s+", " ", cell).strip() for cell in row] for row in cells]
    return [row[0] for row in plain if len(row) >= 3 and not row[2]]


@pytest.mark.slow
def test_every_public_name_has_an_entry_and_its_parameters(site: Path) -> None:
    """Each name of a module on the pages, and of anymix, has an entry there or where it is from."""
    texts = {page: (site / "api" / f"{page}.html").read_text("utf-8") for page in api_modules()}
    modules = [name for names in api_modules().values() for name in names]
    entries = {m: set(re.findall(rf'id="{m}\.(\w+)"', "".join(texts.values()))) for m in modules}
    shown = {(name, _identity(m, name)) for m, names in entries.items() for name in names}
    public = {m: importlib.import_module(m).__all__ for m in [*modules, "anymix"]}
    lacking = [
        f"{m}.{name}"
        for m, names in public.items()
        for name in names
        if (name, _identity(m, name)) not in shown and f"{m}.{name}" not in modules
    ]
    assert lacking == []
    assert [(page, name) for page, text in texts.items() for name in undescribed(text)] == []


def _identity(module: str, name: str) -> int | None:
    """Which object it is; None for entries of no public name."""
    found = getattr(importlib.import_module(module), name, None)
    return None if found is None else id(found)


@pytest.mark.slow
def test_nothing_comes_from_outside_and_links_lead_somewhere(site: Path) -> None:
    for page in set(site.rglob("*.html")) - {site / "404.html"}:
        text = page.read_text("utf-8")
        sources = re.findall(r'<(?:script|img|link)[^>]*?(?:src|href)="([^"]+)"', text)
        outside = [s for s in sources if s.startswith(("http", "//"))]
        assert outside == [], page.name
        for link in re.findall(r'<a[^>]*? href="([^"#?]+)"', text):
            if not link.startswith(("http", "mailto")):
                assert (page.parent / html.unescape(link)).exists(), f"{link} in {page.name}"


@pytest.fixture
def page() -> Iterator[Any]:
    """An empty page of a browser whose clipboard can be read."""
    sync = pytest.importorskip("playwright.sync_api")
    with sync.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium())
        allowed = ["clipboard-read", "clipboard-write"]
        yield browser.new_context(permissions=allowed).new_page()
        browser.close()


@pytest.mark.slow
@pytest.mark.browser
def test_five_pages_in_a_browser(site: Path, page: Any) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    for name in PAGES:
        page.goto((site / f"{name}.html").as_uri())
        assert page.locator("h1").first.is_visible()
    page.locator("input[data-md-component=search-query]").fill("certificate")
    page.locator(".md-search-result__item").first.wait_for(state="attached")
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert errors == []


@pytest.mark.slow
@pytest.mark.browser
def test_the_copy_button_takes_what_is_typed(site: Path, page: Any) -> None:
    page.goto((site / "tutorials" / "table.html").as_uri())
    page.locator(".md-code__button").first.wait_for()
    copied = []
    for button in page.locator(".md-code__button").all():
        page.evaluate("navigator.clipboard.writeText('')")
        button.click()
        copied.append(page.wait_for_function("navigator.clipboard.readText()").json_value())
    assert copied[1].startswith("anymix fit patients.csv")
    lines = "\n".join(copied).splitlines()
    assert not [line for line in lines if line.startswith((">>>", "...", "$", "city", "{'"))]


@pytest.mark.slow
@pytest.mark.browser
def test_formulas_are_not_cut_off(site: Path, page: Any) -> None:
    page.goto((site / "index.html").as_uri())
    formula = page.locator("math[display=block]").first
    assert formula.evaluate("m => m.scrollHeight - m.clientHeight") <= 0


def chromium() -> str | None:
    """The browser of the system, if there is one; else Playwright's own."""
    for name in ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"):
        if Path(name).exists():
            return name
    return None
