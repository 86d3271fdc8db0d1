"""`anymix demo`: two models of Adult, and what the second costs and gains."""

from pathlib import Path
from typing import Annotated, Any

import typer

from anymix.cli.files import check_outputs, is_installed
from anymix.cli.options import Json, Quiet
from anymix.cli.output import as_training, print_result, steps, write_report

__all__ = ["show_demo"]


def show_demo(
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder for the report.")] = Path(
        "demo"
    ),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Adult: a model for the people as they are, and one for any mixture of two groups of them.

    Who earns more than 50,000 dollars a year? The groups are people with a doctorate and all
    others; 1 in 80 has one. The data are fetched when they are first needed.

    Examples:

    - anymix demo --out pages

    - anymix demo --json
    """
    target = out / "report.html"
    check_outputs({"--out": target})
    from anymix import compare

    shown = not (quiet or as_json)
    with steps(shown) as step:
        audits, best, n = _fitted(step)
    found = compare(audits["uniform"], audits["agnostic"], ("uniform", "agnostic"))
    notes = [f"Judged on the {n:,} test rows of Adult."]
    page: str | None = None
    if is_installed("plotly"):  # without it the rest is still worth showing
        page = write_report(target, audits, "Adult: doctorate or not", best.solution_, notes)
    print_result(
        found,
        files={"report": page},
        notes=notes,
        training=as_training(best.solution_, best.gamma_),
        shown=shown,
        as_json=as_json,
    )


def _fitted(step: Any) -> tuple[dict[str, Any], Any, int]:
    """The audits of both models, the agnostic model, and the number of test rows."""
    import anymix as ax
    from anymix.datasets import load_adult

    step("fetching Adult")
    adult = load_adult(progress=False)
    audits, model = {}, None
    for name, mixtures in (("uniform", "data"), ("agnostic", "simplex")):
        step(f"{name} model")
        model = ax.AgnosticClassifierCV([1, 0.1, 0.01, 1e-3, 1e-4], mixtures=mixtures)
        model.fit(adult.X, adult.y, domains=adult.domains)
        said = model.predict_proba(adult.X_test)
        audits[name] = ax.audit(adult.y_test, said, adult.domains_test)
    return audits, model, len(adult.y_test)
