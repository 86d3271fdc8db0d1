"""Names of modules and scripts."""

import ast
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import anymix

SOURCE = Path(anymix.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

Function = ast.FunctionDef | ast.AsyncFunctionDef


def test_no_module_has_the_name_of_nothing() -> None:
    nothing = {"utils", "util", "base", "helper", "helpers", "manager", "registry", "common"}
    found = [str(f.relative_to(SOURCE)) for f in FILES if f.stem in nothing]
    assert not found, f"name what these files are about: {found}"


def test_no_module_has_the_name_of_what_it_exports() -> None:
    """`from anymix.audit import audit` would hide the module behind the function."""
    same = [
        str(file.relative_to(SOURCE))
        for file in FILES
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, Function | ast.ClassDef) and node.name == file.stem
    ]
    assert not same, f"a module and its function share a name: {same}"


def test_no_script_hides_a_package() -> None:
    """A script's folder comes first on the path, so a package of its name is not found."""
    scripts = {f.stem for f in Path(__file__).parents[1].glob("benchmarks/*.py")}
    optional = {"coverage"}  # Numba imports it if it is there
    assert scripts
    assert not scripts & {*packages_distributions(), *sys.stdlib_module_names, *optional}
