"""What a reader of the source pays: files entered by six walks, parameters, lines by folder.

    python benchmarks/reader_cost.py

Each walk runs twice; of the second run, in which nothing is loaded any more, every file of the
package in which a function is called counts (sys.setprofile). It prints one table in Markdown,
which stands in CONTRIBUTING.md.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import pkgutil
import sys
import tempfile
import threading
import tokenize
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

import anymix as ax

SOURCE = Path(ax.__file__ or "").parent
FILES = sorted(SOURCE.rglob("*.py"))


def rows(n: int = 1000) -> tuple[Any, Any, Any]:
    """Features, labels and domains that differ."""
    rng = np.random.default_rng(0)
    X, domains = rng.normal(size=(n, 3)), rng.choice(["north", "south"], size=n, p=[0.8, 0.2])
    y = np.where(domains == "north", X[:, 0], X[:, 1]) + rng.logistic(size=n) > 0
    return X, y, domains


def fit_command() -> Callable[[], object]:
    """`anymix fit t.csv --target y --domain d --report r.html`."""
    from anymix.cli import app

    folder = Path(tempfile.mkdtemp())
    X, y, domains = rows(600)
    lines = [f"{a},{b},{c},{d},{int(e)}" for (a, b, c), d, e in zip(X, domains, y, strict=True)]
    (folder / "t.csv").write_text("\n".join(["a,b,c,d,y", *lines]))
    words = ["fit", str(folder / "t.csv"), "--target", "y", "--domain", "d"]
    words += ["--out", str(folder / "m.joblib"), "--report", str(folder / "r.html")]
    return lambda: app(words, standalone_mode=False)


def classifier_cv() -> Callable[[], object]:
    """AgnosticClassifierCV().fit."""
    X, y, domains = rows()
    return lambda: ax.AgnosticClassifierCV().fit(X, y, domains=domains)


def solve() -> Callable[[], object]:
    """ax.solve of a problem that is there."""
    problem = ax.LinearDomains(*rows())
    return lambda: ax.solve(problem, ax.Simplex(2))


def federated_round() -> Callable[[], object]:
    """One round of AgnosticStrategy over five clients."""
    from anymix.flower import AgnosticStrategy, LocalGrid, client_app

    grid = LocalGrid(client_app(lambda context: rows(), classes=[False, True]), nodes=5)
    return lambda: AgnosticStrategy().start(grid, num_rounds=1)


def torch_step() -> Callable[[], object]:
    """Losses, backward and both steps of a training loop."""
    import torch

    from anymix.pytorch import AgnosticLoss

    X, y, domains = rows(64)
    inputs, target = torch.tensor(X), torch.tensor(y, dtype=torch.float64)
    ids = torch.tensor((domains == "south").astype(int))
    model = torch.nn.Linear(3, 1).double()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    criterion = AgnosticLoss(ax.Simplex(2), 0.01)

    def step() -> None:
        losses = torch.nn.functional.binary_cross_entropy_with_logits(
            model(inputs)[:, 0], target, reduction="none"
        )
        optimizer.zero_grad()
        criterion(losses, ids).backward()
        optimizer.step()
        criterion.step()

    return step


def audit() -> Callable[[], object]:
    """ax.audit of 1000 predictions."""
    X, y, domains = rows()
    return lambda: ax.audit(y, X[:, 0] > 0, domains)


WALKS = {
    "`anymix fit` with a report": fit_command,
    "`AgnosticClassifierCV().fit`": classifier_cv,
    "`ax.solve`": solve,
    "one federated round": federated_round,
    "a PyTorch step": torch_step,
    "`ax.audit`": audit,
}


def entered(walk: Callable[[], object]) -> int:
    """Files of the package in which the walk calls a function, on any thread."""
    found: set[str] = set()

    def look(frame: Any, event: str, _: object) -> None:
        if event == "call":
            found.add(frame.f_code.co_filename)

    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        walk()  # loads and compiles
        threading.setprofile(look)
        sys.setprofile(look)
        try:
            walk()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return len({file for file in found if Path(file).is_relative_to(SOURCE)})


def parameters() -> list[tuple[int, str]]:
    """How many parameters each public name has, most first."""
    found = {}
    for package in pkgutil.iter_modules([str(SOURCE)], "anymix."):
        if package.ispkg and package.name != "anymix.cli":
            module = importlib.import_module(package.name)
            for name in getattr(module, "__all__", ()):
                thing = getattr(module, name)
                is_error = inspect.isclass(thing) and issubclass(thing, Exception)
                if callable(thing) and not is_error:
                    found[name] = len(inspect.signature(thing).parameters)
    return sorted(((n, name) for name, n in found.items()), reverse=True)


def importers() -> Counter[str]:
    """For each module of the package, how many other modules import it."""
    names = {".".join(f.relative_to(SOURCE.parent).with_suffix("").parts): f for f in FILES}
    found: Counter[str] = Counter()
    for name, file in names.items():
        wanted = set()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                wanted |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                wanted |= {alias.name for alias in node.names}
        found.update((wanted & names.keys()) - {name})
    return found


def docstring_lines(tree: ast.AST) -> Iterator[int]:
    """The numbers of the lines that docstrings take."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        value = first.value if isinstance(first, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield from range(value.lineno, (value.end_lineno or value.lineno) + 1)


def lines_of(file: Path) -> Counter[str]:
    """Lines of code, docstring and comment; comments at the end of a line of code count as well."""
    text = file.read_text(encoding="utf-8")
    in_docstring = set(docstring_lines(ast.parse(text)))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [t for t in tokens if t.type == tokenize.COMMENT]
    alone = {t.start[0] for t in comments if t.line.strip().startswith("#")}
    filled = {i for i, line in enumerate(text.splitlines(), start=1) if line.strip()}
    return Counter(
        {
            "files": 1,
            "lines": len(text.splitlines()),
            "code": len(filled - in_docstring - alone),
            "docstring": len(in_docstring),
            "comment": len(comments),
        }
    )


def table() -> Iterator[str]:
    """The lines of the table."""
    yield "| what a reader pays | |"
    yield "|---|---|"
    for name, walk in WALKS.items():
        yield f"| files entered by {name} | {entered(walk())} |"
    most = ", ".join(f"`{name}` {n}" for n, name in parameters()[:5])
    yield f"| most parameters of a public name | {most} |"
    single = sum(n == 1 for n in importers().values())
    yield f"| modules with exactly one importer | {single} |"
    folders: dict[str, Counter[str]] = {}
    for file in FILES:
        folder = file.relative_to(SOURCE).parts[0] if file.parent != SOURCE else "(root)"
        folders.setdefault(folder, Counter()).update(lines_of(file))
    folders["all"] = sum(folders.values(), Counter())
    for folder, n in folders.items():
        yield (
            f"| {folder} | {n['files']} files, {n['lines']} lines: {n['code']} code, "
            f"{n['docstring']} docstring, {n['comment']} comment |"
        )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print("\n".join(table()))
