"""`anymix demo`: which model to use for Adult, of whose rows one in 80 is of a small group."""

from pathlib import Path
from typing import Annotated, Any

import typer

from anymix.cli.files import check_outputs, is_installed
from anymix.cli.options import Json, Quiet
from anymix.cli.output import print_advice, steps, write_report

__all__ = ["show_demo"]

ADAPTED = "50 unlabelled"
UNLABELLED = 50


def show_demo(
    out: Annotated[
        Path, typer.Option(file_okay=False, help="Folder to write report.html into.")
    ] = Path("demo"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Show on real data which model to use for a small group, and what it costs the others.

    The table is Adult: who earns more than 50,000 dollars a year? One person in 80 has a
    doctorate. The ordinary model, the one recommended where nobody says who has a doctorate, the
    one that is told, and the one adapted to 50 unlabelled people with a doctorate are compared on
    rows that none has seen. The first run downloads the data.

    Examples:

    - anymix demo --out pages

    - anymix demo --json
    """
    target = out / "report.html"
    check_outputs({"--out": target})
    shown = not (quiet or as_json)
    with steps(shown) as step:
        found, choice, n = _fitted(step)
    notes = [
        f"Judged on the {n:,} test rows of Adult.",
        f"'recommended' is {choice.chosen}, 'domain known' is {choice.with_domain}.",
        f"{ADAPTED!r} is adapted to {UNLABELLED} of the test rows of doctorates, without their "
        "targets: a model for a place like that, not for all others.",
    ]
    page = None
    if is_installed("jinja2"):  # without it the rest is still worth showing
        title = "Adult: doctorate or not"
        page = write_report(target, found, title, notes=notes, recommendation=choice)
    print_advice(found, choice, {"report": page}, notes, shown, as_json)


def _fitted(step: Any) -> tuple[Any, Any, int]:
    """The models side by side, the recommendation, and how many test rows there are."""
    import numpy as np

    import anymix as ax
    from anymix.auditing.side_by_side import KNOWN, ORDINARY, RECOMMENDED, SideBySide
    from anymix.datasets import load_adult

    step("fetching Adult")
    adult = load_adult(progress=False)
    step("models without and with the domain, judged on held-out rows")
    model = ax.AnyMixClassifier().fit(adult.X, adult.y, domains=adult.domains)
    choice = model.recommendation_
    X, d = adult.X_test, adult.domains_test
    assert choice.with_domain is not None  # Adult has two domains
    every = model.candidate_predictions(X, d)
    place = np.flatnonzero(d == "doctorate")[:UNLABELLED]
    said = {
        ORDINARY: every[choice.names[0]],
        RECOMMENDED: every[choice.chosen],
        KNOWN: every[choice.with_domain],
        ADAPTED: model.adapted(X[place]).predict_proba(X),
    }
    audits = {name: ax.audit(adult.y_test, P, d) for name, P in said.items()}
    shares = [np.mean(adult.y == name) for name in model.classes_]
    floor = ax.audit(adult.y_test, np.tile(shares, (len(d), 1)), d)
    return SideBySide(audits, floor), choice, len(d)
