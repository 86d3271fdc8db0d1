"""The house is tidy: every file tells one story, every function fits on a screen."""

import ast
import statistics
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import anymix

SOURCE = Path(anymix.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
MOST_LINES, MEDIAN_LINES, MOST_IN_FUNCTION = 450, 170, 50

Function = ast.FunctionDef | ast.AsyncFunctionDef


def n_lines(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


def functions(tree: ast.AST) -> Iterator[Function]:
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node


def length(function: Function) -> int:
    """Lines from `def` to the end, its docstring aside."""
    assert function.end_lineno is not None
    total = function.end_lineno - function.lineno + 1
    first = function.body[0]
    is_docstring = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
    if is_docstring:
        assert first.end_lineno is not None
        total -= first.end_lineno - first.lineno + 1
    return total


def test_the_length_of_a_function_is_that_without_its_docstring() -> None:
    lines = ["def f(x):", "    'One.'", "    def g():", "        pass", "    return g()"]
    tree = ast.parse("\n".join(lines))
    assert [length(f) for f in functions(tree)] == [4, 2]


def test_no_file_is_long() -> None:
    long = {str(f.relative_to(SOURCE)): n_lines(f) for f in FILES if n_lines(f) > MOST_LINES}
    assert not long, f"above {MOST_LINES} lines: {long}"


def test_files_are_short_at_the_median() -> None:
    lengths = [n for file in FILES if (n := n_lines(file)) > 0]
    assert statistics.median(lengths) <= MEDIAN_LINES


def test_no_function_is_long() -> None:
    long = {
        f"{file.relative_to(SOURCE)}:{function.lineno} {function.name}": length(function)
        for file in FILES
        for function in functions(ast.parse(file.read_text(encoding="utf-8")))
        if length(function) > MOST_IN_FUNCTION
    }
    assert not long, f"above {MOST_IN_FUNCTION} lines: {long}"


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
