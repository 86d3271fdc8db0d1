"""The web pages: built strictly, every public name with its parameters, opened in a browser."""

import html
import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

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


def parameters(thing: object) -> list[str]:
    """What a caller gives, without those that take whatever there is."""
    found = inspect.signature(thing).parameters  # type: ignore[arg-type]
    return [name for name in found if name not in ("self", "args", "kwargs")]


@pytest.mark.slow
def test_every_public_name_has_an_entry_and_its_parameters(site: Path) -> None:
    lacking = []
    for page, modules in api_modules().items():
        text = (site / "api" / f"{page}.html").read_text("utf-8")
        for module in modules:
            for name in importlib.import_module(module).__all__:
                mark = f'id="{module}.{name}"'
                if mark not in text:
                    lacking.append(f"{module}.{name}: no entry")
    assert not lacking, "\n".join(lacking)


@pytest.mark.slow
def test_nothing_comes_from_outside_and_links_lead_somewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        sources = re.findall(r'<(?:script|img|link)[^>]*?(?:src|href)="([^"]+)"', text)
        outside = [s for s in sources if s.startswith(("http", "//"))]
        assert outside == [], page.name
        for link in re.findall(r'<a[^>]*? href="([^"#?]+)"', text):
            if not link.startswith(("http", "mailto")):
                assert (page.parent / html.unescape(link)).exists(), f"{link} in {page.name}"


@pytest.mark.slow
@pytest.mark.browser
def test_five_pages_in_a_browser(site: Path) -> None:
    sync = pytest.importorskip("playwright.sync_api")
    with sync.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium())
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        for name in PAGES:
            page.goto((site / f"{name}.html").as_uri())
            assert page.locator("h1").first.is_visible()
            assert page.locator("input[data-md-component=search-query]").count() == 1
        assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
        assert errors == []
        browser.close()


def chromium() -> str | None:
    """The browser of the system, if there is one; else Playwright's own."""
    for name in ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"):
        if Path(name).exists():
            return name
    return None
