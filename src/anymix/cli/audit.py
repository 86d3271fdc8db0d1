"""`anymix audit`: a table of predictions in; how bad its model can get, and a page, out."""

import csv
from pathlib import Path
from typing import Annotated, Any

import typer

from anymix.cli.files import check_inputs, check_outputs
from anymix.cli.options import (
    TABLE_NAMES,
    Decimal,
    Encoding,
    File,
    Json,
    Mixtures,
    Na,
    Names,
    Quiet,
    Report,
    Types,
    cells,
    in_options,
)
from anymix.cli.output import print_result, steps, write_report
from anymix.cli.segments import FindSegments, segments_of
from anymix.cli.streams import is_printed
from anymix.errors import InputError

__all__ = ["audit_file"]

ANOTHER_LOSS = "give another: zero_one, log, squared or absolute, or --losses for a column of them"
OTHER_KIND = "give both as labels, both as probabilities, or both as values"
OPTIONS: Names = TABLE_NAMES | {
    "a": ("--against", OTHER_KIND),  # of compare: only their losses can differ here
    "against": ("--against", None),
    "classes": ("--classes", None),
    "condition": ("--fail-if", None),
    "confidence": ("--confidence", None),
    "guarantee": ("--guarantee", None),
    "loss": ("--loss", ANOTHER_LOSS),
    "loss_bound": ("--loss-bound", None),
    "losses": ("--losses", None),
    "prediction": ("--prediction", None),
    "sensitive_features": ("--domain", None),
    "y_true": ("--target", None),
}

Domain = Annotated[
    list[str],
    typer.Option(
        "--domain",
        "-d",
        help="Column that says which domain (group) a row belongs to; give it twice for the "
        "combinations of two columns.",
    ),
]
Target = Annotated[str | None, typer.Option("--target", "-t", help="Column of the true answers.")]
Prediction = Annotated[
    list[str] | None,
    typer.Option(
        "--prediction",
        "-p",
        help="Column of the model's answers: labels, numbers or probabilities. For several "
        "classes, give it once for the probability of each, in the order of --classes.",
    ),
]
Classes = Annotated[
    str | None,
    typer.Option(
        help="Names of the classes in the order of the probabilities, as in low,high. One column "
        "of probabilities is about the last of two classes.",
        show_default="sorted",
    ),
]
Losses = Annotated[
    str | None,
    typer.Option(help="Column of each row's loss, instead of --target and --prediction."),
]
Against = Annotated[
    str | None,
    typer.Option(help="Column of another model's answers (or losses), to compare the two."),
]
Loss = Annotated[
    str | None,
    typer.Option(
        help="How an answer is judged: zero_one, log, squared or absolute.",
        show_default="what fits the answers",
    ),
]
Confidence = Annotated[float, typer.Option(help="How sure the intervals are, from 0 to 1.")]
Guarantee = Annotated[
    float | None,
    typer.Option(
        help="Also say what holds for every mixture at once; it may fail with this probability.",
        show_default="0.05 if --fail-if asks for it",
    ),
]
LossBound = Annotated[
    float | None,
    typer.Option(help="The largest loss there can be; larger log losses count as this."),
]
FailIf = Annotated[
    list[str] | None,
    typer.Option(
        help="End with exit code 1 if this holds, as in 'worst accuracy < 0.7'; may be repeated."
    ),
]


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
    guarantee: Guarantee = None,
    loss_bound: LossBound = None,
    fail_if: FailIf = None,
    find_segments: FindSegments = False,
    report: Report = None,
    encoding: Encoding = "utf-8",
    na: Na = None,
    decimal: Decimal = None,
    types: Types = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """How bad can a model get on some mixture of the domains? Needs its predictions only.

    Examples:

    - anymix audit preds.csv --target y --prediction p --domain region

    - anymix audit preds.csv -t y -p p_no -p p_yes -d sex -d race --report audit.html

    - anymix audit preds.csv -t y -p p -d region --find-segments

    - anymix audit preds.csv --losses nll --against old -d language --mixtures cvar:0.3 --json

    - anymix audit preds.csv -t y -p label -d sex --fail-if 'guaranteed worst accuracy < 0.7'
    """
    check_outputs({"--report": report}, [table, Path(mixtures)])
    _check_columns(target, said := prediction or [], losses, classes, against)
    check_inputs([table], encoding, mixtures)
    shown = not (quiet or as_json or is_printed(report))
    conditions, promised = _conditions(fail_if or [], guarantee)
    what = {"target": target, "losses": losses, "against": against}
    how = {"loss": loss, "loss_bound": loss_bound, "guarantee": promised, "mixtures": mixtures}
    with steps(shown) as step, in_options(OPTIONS, [table]):
        step(f"reading {table}")
        frame, audits, found = _audited(
            table,
            {"encoding": encoding, **cells(na, decimal, types)},
            domain,
            find_segments,
            classes=None if classes is None else class_names(classes),
            confidence=confidence,
            prediction=said,
            **(what | how),
        )
        model = list(audits.values())[-1]  # the one that is not only compared with
        failures = [words for asked in conditions if (words := asked.failure(model))]
        notes, more = _notes(frame, target, said, classes, domain), dict[str, Any]()
        if find_segments:
            step("searching for segments")
            more["segments"], words = segments_of(frame, model, domain, [*what.values(), *said])
            notes += words
    _show(found, audits, report, f"Audit of {table.name}", notes, more, shown, as_json, failures)


def _notes(
    frame: Any, target: str | None, said: list[str], classes: str | None, domain: list[str]
) -> list[str]:
    """What to say of odd cells, and of the class that a column of probabilities is about."""
    from anymix.tables.audited import class_meant
    from anymix.tables.reading import odd_notes

    notes = odd_notes(frame, set(frame.columns) - set(domain))
    if target is not None and len(said) == 1 and classes is None:
        notes += class_meant(frame, target, said[0]).notes
    return notes


def _show(
    found: Any,
    audits: dict[str, Any],
    report: Path | None,
    title: str,
    notes: list[str],
    more: dict[str, Any],
    shown: bool,
    as_json: bool,
    failures: list[str],
) -> None:
    """Write the page, if one is asked for, and print the rest; fail if a condition was met."""
    files: dict[str, str | None] = {}
    if report is not None:
        files["report"] = write_report(report, audits, title, None, notes)
    options: dict[str, Any] = {"files": files, "notes": notes, "training": {}, "more": more}
    print_result(found, shown=shown, as_json=as_json, **options)
    _end(failures)


def _end(failures: list[str]) -> None:
    """One line and exit code 1 if a condition was met."""
    if failures:
        typer.secho(f"failed: {'; '.join(failures)}", fg="red", err=True)
        raise typer.Exit(1)


def _conditions(texts: list[str], guarantee: float | None) -> tuple[list[Any], float | None]:
    """What to fail on, read before any work is done; some of it asks for a guarantee."""
    if not texts:
        return [], guarantee
    from anymix.auditing.conditions import condition

    with in_options(OPTIONS):
        found = [condition(text) for text in texts]
    asked = guarantee is None and any(each.is_guaranteed for each in found)
    return found, 0.05 if asked else guarantee


def _audited(
    table: Path, reading: dict[str, Any], domain: list[str], whole: bool, **options: Any
) -> tuple[Any, dict[str, Any], Any]:
    """The table, its audits by column, and the only one of them or the comparison of the two."""
    from anymix.auditing import compare
    from anymix.tables import audit_frame, read_table

    one = (options[name] for name in ("target", "losses", "against"))
    named = [*options["prediction"], *(column for column in one if column)]
    only = None if whole else [*named, *domain]  # not all columns need fit into memory
    frame = read_table(table, keep=named, text=domain, only=only, **reading)
    audits = audit_frame(frame, domain, **options)
    first, *second = audits
    if not second:
        return frame, audits, audits[first]
    return frame, audits, compare(audits[first], audits[second[0]], (first, second[0]))


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


def class_names(text: str) -> list[str]:
    """The names between the commas; those with commas of their own in quotes."""
    names = next(csv.reader([text], skipinitialspace=True), [])
    if len(set(names)) != len(names) or "" in names:
        raise InputError("--classes", f"is {text!r}", "give different names, as in low,high")
    return names
