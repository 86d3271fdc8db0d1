"""`anymix demo`: two models of Adult, and what the second costs and gains."""

from pathlib import Path
from typing import Annotated, Any

import typer

from anymix.cli.files import check_outputs, is_installed
from anymix.cli.options import Json, Quiet
from anymix.cli.output import as_training, print_result, steps, write_report

__all__ = ["show_demo"]

CONSTANT = "a constant guess"


def show_demo(
    out: Annotated[
        Path, typer.Option(file_okay=False, help="Folder to write report.html into.")
    ] = Path("demo"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Show on real data what a robust model gains for a small group, and what it costs the others.

    The table is Adult: who earns more than 50,000 dollars a year? One person in 80 has a
    doctorate. An ordinary and a robust model are trained and compared on rows that neither has
    seen, for people with a doctorate and for all others. The first run downloads the data.

    Examples:

    - anymix demo --out pages

    - anymix demo --json
    """
    target = out / "report.html"
    check_outputs({"--out": target})
    from anymix import compare
    from anymix.auditing.verdicts import verdict

    shown = not (quiet or as_json)
    with steps(shown) as step:
        audits, best, n = _fitted(step)
    floor = audits.pop(CONSTANT)
    found = compare(audits["ordinary"], audits["robust"], ("ordinary", "robust"))
    said = verdict(found, best.robustness_ == 0, floor)
    notes = [f"Judged on the {n:,} test rows of Adult."]
    title, page, more = "Adult: doctorate or not", None, {}
    if is_installed("jinja2"):  # without it the rest is still worth showing
        more = {"frontier": best.frontier_, "verdict": said, "beside": {CONSTANT: floor}}
        page = write_report(target, audits, title, best.solution_, notes, **more)
    print_result(
        found,
        files={"report": page},
        notes=notes,
        training=as_training(
            *(best.robustness_, best.gamma_, best.mixture_, best.certificate_, best.frontier_)
        ),
        shown=shown,
        as_json=as_json,
        verdict=said,
        beside={CONSTANT: floor},
    )


def _fitted(step: Any) -> tuple[dict[str, Any], Any, int]:
    """The audits of both models and a constant guess, the model chosen, and how many test rows."""
    import numpy as np

    import anymix as ax
    from anymix.datasets import load_adult

    step("fetching Adult")
    adult = load_adult(progress=False)
    step("ordinary and robust models, by rows held out")
    model = ax.AgnosticClassifierCV().fit(adult.X, adult.y, domains=adult.domains)
    shares = [np.mean(adult.y == name) for name in model.classes_]
    said = {
        "ordinary": model.ordinary_.predict_proba(adult.X_test),
        "robust": model.predict_proba(adult.X_test),
        CONSTANT: np.tile(shares, (len(adult.y_test), 1)),
    }
    audits = {k: ax.audit(adult.y_test, P, adult.domains_test) for k, P in said.items()}
    return audits, model, len(adult.y_test)
