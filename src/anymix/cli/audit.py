"""`anymix audit`: a table of predictions in; how bad its model can get, and a page, out."""

import csv
from pathlib import Path
from typing import Annotated, Any

import typer

from anymix.cli.files import check_inputs, check_outputs
from anymix.cli.options import (
    TABLE_NAMES,
    Encoding,
    File,
    Json,
    Mixtures,
    Names,
    Quiet,
    Report,
    in_options,
)
from anymix.cli.output import print_result, steps, write_report
from anymix.errors import InputError

__all__ = ["audit_file"]

ANOTHER_LOSS = "give another: zero_one, log, squared or absolute, or --losses for a column of them"
OTHER_KIND = "give both as labels, both as probabilities, or both as values"
OPTIONS: Names = TABLE_NAMES | {
    "a": ("--against", OTHER_KIND),  # of compare: only their losses can differ here
    "against": ("--against", None),
    "classes": ("--classes", None),
    "confidence": ("--confidence", None),
    "loss": ("--loss", ANOTHER_LOSS),
    "losses": ("--losses", None),
    "prediction": ("--prediction", None),
    "sensitive_features": ("--domain", None),
    "y_true": ("--target", None),
}

Domain = Annotated[
    list[str], typer.Option("--domain", "-d", help="Column of the domains; several: combinations.")
]
Target = Annotated[str | None, typer.Option("--target", "-t", help="Column of what was true.")]
Prediction = Annotated[
    list[str] | None,
    typer.Option(
        "--prediction",
        "-p",
        help="Column of labels, values or probabilities; one for each class, in the order of "
        "--classes, for several.",
    ),
]
Classes = Annotated[
    str | None,
    typer.Option(
        help="Classes in the order of the columns of probabilities, as in low,high; the last "
        "of two is the one of a single column.",
        show_default="sorted",
    ),
]
Losses = Annotated[str | None, typer.Option(help="Column of each row's loss, instead of the two.")]
Against = Annotated[
    str | None, typer.Option(help="Prediction (or loss) column of another model to compare.")
]
Loss = Annotated[
    str | None, typer.Option(help="zero_one, log, squared or absolute.", show_default="by kind")
]
Confidence = Annotated[float, typer.Option(help="Level of the intervals.")]


def audit_file(
    table: File,
    domain: Domain,
    target: Target = None,
    prediction: Prediction = None,
    classes: Classes = None,
    losses: Losses = None,
    against: Against = None,
    loss: Loss = None,
    mixtures: Mixtures = "simplex",
    confidence: Confidence = 0.95,
    report: Report = None,
    encoding: Encoding = "utf-8",
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """How bad can a model get on some mixture of the domains? Needs its predictions only.

    Examples:

    - anymix audit preds.csv --target y --prediction p --domain region

    - anymix audit preds.csv -t y -p p_no -p p_yes -d sex -d race --report audit.html

    - anymix audit preds.csv --losses nll --against old -d language --mixtures cvar:0.3 --json
    """
    check_outputs({"--report": report}, [table, Path(mixtures)])
    said = prediction or []
    _check_columns(target, said, losses, classes, against)
    check_inputs([table], encoding, mixtures)
    shown = not (quiet or as_json)
    with steps(shown) as step, in_options(OPTIONS, [table]):
        step(f"reading {table}")
        audits, found = _audited(
            table,
            encoding,
            domain,
            target=target,
            prediction=said,
            losses=losses,
            against=against,
            loss=loss,
            mixtures=mixtures,
            confidence=confidence,
            classes=None if classes is None else _names(classes),
        )
    files: dict[str, str | None] = {}
    if report is not None:
        files["report"] = write_report(report, audits, f"Audit of {table.name}", None, [])
    print_result(found, files=files, notes=[], training={}, shown=shown, as_json=as_json)


def _audited(
    table: Path, encoding: str, domain: list[str], **options: Any
) -> tuple[dict[str, Any], Any]:
    """The audits by column, and the only one of them or the comparison of the two."""
    from anymix.auditing import compare
    from anymix.tables import audit_frame, read_table

    one = (options[name] for name in ("target", "losses", "against"))
    named = [*options["prediction"], *(column for column in one if column)]
    only = [*named, *domain]  # a table of many columns need not fit into memory
    frame = read_table(table, encoding=encoding, keep=named, text=domain, only=only)
    audits = audit_frame(frame, domain, **options)
    first, *second = audits
    if not second:
        return audits, audits[first]
    return audits, compare(audits[first], audits[second[0]], (first, second[0]))


def _check_columns(
    target: str | None,
    said: list[str],
    losses: str | None,
    classes: str | None,
    against: str | None,
) -> None:
    """Either what was true and what was predicted, or losses; and another model than this one."""
    if not (target and said) if losses is None else (target or said or classes):
        fix = "give --target and --prediction (with --classes), or else --losses alone"
        raise InputError("", "it is not clear what to audit", fix)
    if against is not None and [against] in (said, [losses]):
        found = f"is {against!r}, which is to be compared with it"
        raise InputError("--against", found, "name the column of another model")


def _names(text: str) -> list[str]:
    """The names between the commas; those with commas of their own in quotes."""
    names = next(csv.reader([text], skipinitialspace=True), [])
    if len(set(names)) != len(names) or "" in names:
        raise InputError("--classes", f"is {text!r}", "give different names, as in low,high")
    return names
