"""The documentation speaks of names that exist."""

import ast
import doctest
import importlib
import inspect
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import anymix

DOCS = Path(__file__).parents[1] / "docs"
ADDRESS = re.compile(r"`(anymix[\w.]*):([\w.]+)(?:\((\w+)\))?`")  # `module:name` or (argument)


def table_rows(file: Path) -> Iterator[list[str]]:
    """The cells of every row of every table, headings and rules left out."""
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    for line, following in pairwise([*lines, ""]):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not set(line) <= set("|-: ") and not following.startswith("|--"):
            yield cells


def attribute(found: Any, name: str) -> Any:
    """found.name; for a class also what only its instances have, whose value is not known here."""
    if hasattr(found, name):
        return getattr(found, name)
    assert inspect.isclass(found), f"{found!r} has no {name!r}"
    if any(name in vars(c).get("__annotations__", {}) for c in found.__mro__):
        return None
    own = [c for c in found.__mro__ if c.__module__.startswith("anymix.")]
    set_by_itself = {
        node.attr
        for c in own
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(c))))
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    assert name in set_by_itself, f"{found!r} has no {name!r}"
    return None


def resolve(module: str, names: str, argument: str | None) -> None:
    found: Any = importlib.import_module(module)
    for name in names.split("."):
        found = attribute(found, name)
    if argument is not None:
        assert argument in inspect.signature(found).parameters


API = [
    module
    for page in sorted((DOCS / "api").glob("*.md"))
    for module in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
]
SYMBOLS = list(table_rows(DOCS / "symbols.md"))


def test_every_row_of_the_symbols_has_an_address() -> None:
    assert len(SYMBOLS) > 50
    for cells in SYMBOLS:
        assert len(cells) == 4, cells
        assert all(cells), cells
        assert ADDRESS.sub("", cells[3]).strip(", ") == "", f"no module:name in {cells[3]}"


@pytest.mark.parametrize("cells", SYMBOLS, ids=lambda cells: cells[3])
def test_a_symbol_leads_to_the_code(cells: list[str]) -> None:
    addresses = ADDRESS.findall(cells[3])
    assert addresses
    for module, names, argument in addresses:
        resolve(module, names, argument or None)


@pytest.mark.parametrize(
    "address",
    [
        "anymix.mixtures:Simplexx",
        "anymix.mixtures:MixtureSet.skew",
        "anymix.solvers:solve(beta)",
        "anymix.estimators:AgnosticClassifierCV.frontiers_",
    ],
)
def test_a_name_that_is_gone_is_noticed(address: str) -> None:
    found = ADDRESS.fullmatch(f"`{address}`")
    assert found is not None
    with pytest.raises(AssertionError):
        resolve(*found.groups())


@pytest.mark.parametrize("module", API)
def test_a_module_of_the_api_page_says_what_is_public(module: str) -> None:
    found = importlib.import_module(module)
    assert found.__doc__
    assert found.__all__


def test_the_api_page_has_every_public_name_once() -> None:
    assert len(API) == len(set(API))
    shown = {name for module in API for name in importlib.import_module(module).__all__}
    assert shown >= {n for n in anymix.__all__ if not inspect.ismodule(getattr(anymix, n))}


def test_the_api_page_has_every_folder_that_is_not_internal() -> None:
    folders = {f.parent.name for f in Path(anymix.__file__).parent.glob("*/__init__.py")}
    internal = {"cli", "tables"}  # behind the command
    assert {f"anymix.{folder}" for folder in folders - internal} <= set(API)


# Pages and links --------------------------------------------------------------------------------

ROOT = DOCS.parent
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """The names of the headings, as MkDocs and GitHub make them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    words = (re.sub(r"[^\w\s-]", "", head).strip().lower() for head in heads)
    return {re.sub(r"\s", "-", text) for text in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), f"{link} in {page.name}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{link} in {page.name}"


def test_every_page_is_in_the_navigation() -> None:
    named = set(re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    assert named == {str(page.relative_to(DOCS)) for page in PAGES[1:]}


def test_pictures_of_the_gallery_are_made_by_a_script() -> None:
    parts = (DOCS / "gallery.md").read_text(encoding="utf-8").split("\n## ")[1:]
    assert len(parts) > 5
    for part in parts:
        script = re.search(r"python (\S+\.py)", " ".join(part.split()))
        assert script, part
        assert (ROOT / script[1]).is_file(), script[1]


BLOCK = re.compile(r"^```(pycon|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TUTORIALS = [page for page in PAGES if page.parent.name == "tutorials" and page.stem != "index"]


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_works_to_its_end(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a reader does it: block by block, in an empty folder, with the output that is shown."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    names: dict[str, Any] = {}
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert blocks
    for language, block in blocks:
        if language == "pycon":
            example = doctest.DocTestParser().get_doctest(block, names, page.stem, str(page), 0)
            assert runner.run(example, clear_globs=False).failed == 0
            names = example.globs
            continue
        for part in block.removeprefix("$ ").split("\n$ "):
            command, *shown = part.splitlines()
            done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            assert [line for line in shown if line not in done.stdout] == []


def test_formulas_are_mathml_and_code_is_left_alone() -> None:
    sys.path.insert(0, str(DOCS))
    with_formulas = pytest.importorskip("formulas").with_formulas
    text = with_formulas("`$a$` $\\lambda_k$\n\n$$\n\\max_w x\n$$\n")
    assert text.startswith("`$a$` <math")
    assert text.count("<math") == 2
    assert 'display="block"' in text


def test_one_word_for_the_baseline() -> None:
    """People read `ordinary`; pooled, uniform and Û belong to formulas and the reproduction."""
    for page in (ROOT / "README.md", DOCS / "index.md", DOCS / "command.md", DOCS / "install.md"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"(pooled|uniform|baseline) model|Û", text), page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_has_a_hole_or_speaks_of_what_is_gone(page: Path) -> None:
    """A line of one word in capitals stands for what was to be put there."""
    text = page.read_text("utf-8")
    assert not re.findall(r"^[A-Z_]{4,}$", text, flags=re.MULTILINE)
    gone = r"\bsecure(d|ly)? (sum|aggregat)|\bmasked sum|`secured?\b"
    assert not re.findall(gone, text, flags=re.IGNORECASE)
