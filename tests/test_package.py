import email
import importlib.metadata
import importlib.resources
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import anymix

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# tests/pytorch runs the same in short; whole they load PyTorch in a process of their own
LONG = {"data_mixture", "pytorch_ddp", "pytorch_loop"}

BLOCK_EXTRAS = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "flwr", "ray", "jinja2", "matplotlib"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
"""


def run_python(code: str) -> str:
    """What a fresh interpreter prints; its error output shows when it fails."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_public_name_works_without_the_extras() -> None:
    run_python(BLOCK_EXTRAS + "from anymix import *; import anymix.cli")


def test_the_block_used_above_blocks() -> None:
    with pytest.raises(AssertionError, match="No module named 'matplotlib'"):
        run_python(BLOCK_EXTRAS + "import matplotlib")


@pytest.mark.parametrize(
    ("package", "module", "extra"),
    [("flower", "flwr", "flower"), ("pytorch", "torch", "torch")],
)
def test_a_missing_extra_is_named(package: str, module: str, extra: str) -> None:
    code = f"""
import sys
sys.modules[{module!r}] = None
import anymix
for _ in range(2):
    try:
        import anymix.{package}
    except ModuleNotFoundError as error:
        print(error.name, error)
"""
    told = run_python(code).splitlines()
    assert [line.split()[0] for line in told] == [module, module]
    assert all(f"pip install 'anymix[{extra}]'" in line for line in told)


NAMES = [name for name in anymix.__all__ if not inspect.ismodule(getattr(anymix, name))]


def test_public_names_are_listed_once() -> None:
    assert len(set(anymix.__all__)) == len(anymix.__all__)
    assert set(anymix.__all__) <= set(dir(anymix))


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_explained_with_an_example(name: str) -> None:
    documentation = getattr(anymix, name).__doc__  # its own, not an inherited one
    assert documentation is not None
    assert ">>> " in documentation


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Simplexx"):
        getattr(anymix, "Simplexx")  # noqa: B009 - a plain access is a type error


def test_version_is_that_of_the_distribution() -> None:
    assert anymix.__version__ == importlib.metadata.version("anymix")


def test_types_are_shipped() -> None:
    assert importlib.resources.files("anymix").joinpath("py.typed").is_file()


@pytest.mark.parametrize(
    "script",
    [pytest.param(s, marks=pytest.mark.slow if s.stem in LONG else ()) for s in EXAMPLES],
    ids=lambda path: path.stem,
)
def test_example_runs(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYMIX_ALLOW_APT", "1")  # for Fashion-MNIST
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("repository", ["", "https://example.org/us/anymix"])
def test_nothing_is_dead_on_the_package_page(repository: str, tmp_path: Path) -> None:
    for name in ("README.md", "LICENSE", "hatch_build.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "src" / "anymix").mkdir(parents=True)
    assert anymix.__file__
    shutil.copy(anymix.__file__, tmp_path / "src" / "anymix")
    settings = (tmp_path / "pyproject.toml").read_text("utf-8")
    given = re.sub(r'^repository = ".*?"', f'repository = "{repository}"', settings, flags=re.M)
    (tmp_path / "pyproject.toml").write_text(given, "utf-8")
    code = 'import hatchling.build as b; print(b.prepare_metadata_for_build_wheel("."))'
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = email.message_from_string(
        (tmp_path / done.stdout.strip() / "METADATA").read_text("utf-8")
    )
    page, readme = found.get_payload(), (ROOT / "README.md").read_text("utf-8")
    assert isinstance(page, str)

    links, ours = (re.findall(r"\]\(([^)\s]+)\)", text) for text in (page, readme))
    assert [link for link in links if not link.startswith("https://")] == []
    prefix = f"^{re.escape(repository)}/(blob|raw)/HEAD/"
    expected = [link for link in ours if repository or link.startswith("https://")]
    assert [re.sub(prefix, "", link) for link in links] == expected
    assert len(expected) < len(ours) - 20 or repository
    assert len(found.get_all("Project-URL", [])) == (2 if repository else 0)
    blocks = [re.findall(r"```.*?```", text, flags=re.DOTALL) for text in (page, readme)]
    assert blocks[0] == blocks[1]
