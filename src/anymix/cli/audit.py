"""`anymix audit`: a table of predictions in; how bad its model can get, and a page, out."""

import csv
import json
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from anymix.cli.files import check_inputs, check_outputs, is_stream, write_output
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
from anymix.cli.segments import FindSegments, segments_of
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
    "metrics": ("--metric", None),
    "weight": ("--weight", None),
    "prediction": ("--prediction", None),
    "sample_weight": ("--weight", None),
    "sensitive_features": ("--domain", None),
    "y_true": ("--target", None),
}

Domain = Annotated[
    list[str], typer.Option("--domain", "-d", help="Column of the domains; several: combinations.")
]
Target = Annotated[str | None, typer.Option("--target", "-t", help="Column of what was true.")]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target", "-t", help="Column of what was true; several: one --prediction for each."
    ),
]
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
    list[str] | None,
    typer.Option(help="Prediction (or loss) column of another model to compare; also several."),
]
Metric = Annotated[
    list[str] | None,
    typer.Option(
        help="Measure also: rates (selection, true and false positives), or a scorer of "
        "scikit-learn such as f1 or r2; also several."
    ),
]
Weight = Annotated[str | None, typer.Option(help="Column of what each row counts.")]
Loss = Annotated[
    str | None, typer.Option(help="zero_one, log, squared or absolute.", show_default="by kind")
]
Confidence = Annotated[float, typer.Option(help="Level of the intervals.")]
Guarantee = Annotated[
    float | None,
    typer.Option(
        help="Say also what is guaranteed for every mixture at once, but for this probability.",
        show_default="0.05 if --fail-if asks for it",
    ),
]
LossBound = Annotated[
    float | None, typer.Option(help="What no loss is above; log losses are cut there.")
]
FailIf = Annotated[
    list[str] | None,
    typer.Option(help="End with exit code 1 if so, as in 'worst accuracy < 0.7'; also several."),
]


def audit_file(
    table: File,
    domain: Domain,
    target: Targets = None,
    prediction: Prediction = None,
    classes: Classes = None,
    losses: Losses = None,
    against: Against = None,
    metric: Metric = None,
    weight: Weight = None,
    loss: Loss = None,
    mixtures: Mixtures = "simplex",
    confidence: Confidence = 0.95,
    guarantee: Guarantee = None,
    loss_bound: LossBound = None,
    fail_if: FailIf = None,
    find_segments: FindSegments = False,
    report: Report = None,
    encoding: Encoding = "utf-8",
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """How bad can a model get on some mixture of the domains? Needs its predictions only.

    Examples:

    - anymix audit preds.csv --target y --prediction p --domain region

    - anymix audit preds.csv -t y -p p_no -p p_yes -d sex -d race --report audit.html

    - anymix audit preds.csv -t y -p p -d region --metric rates --metric f1 --weight w

    - anymix audit preds.csv -t y -p p -d region --find-segments

    - anymix audit preds.csv --losses nll --against old -d language --mixtures cvar:0.3 --json

    - anymix audit preds.csv -t y -p label -d sex --fail-if 'guaranteed worst accuracy < 0.7'
    """
    numbers = None if report is None or is_stream(report) else report.with_suffix(".json")
    check_outputs({"--report": report, "the JSON beside it": numbers}, [table, Path(mixtures)])
    true, said, others = target or [], prediction or [], against or []
    _check_columns(true, said, losses, classes, others)
    check_inputs([table], encoding, mixtures)
    conditions, guarantee = _conditions(fail_if or [], guarantee)
    how: dict[str, Any] = {"loss": loss, "mixtures": mixtures, "confidence": confidence}
    how |= {"metrics": metric, "weight": weight, "loss_bound": loss_bound, "guarantee": guarantee}
    with steps(shown := not (quiet or as_json)) as step, in_options(OPTIONS, [table]):
        step(f"reading {table}")
        frame, audits, found = _audited(
            table,
            encoding,
            domain,
            find_segments,
            target=true,
            prediction=said,
            losses=losses,
            against=others,
            classes=None if classes is None else class_names(classes),
            **how,
        )
        model = list(audits.values())[-1]  # the one that is not only compared with
        failures = [words for asked in conditions if (words := asked.failure(model))]
        named = [*true, *said, losses, *others, weight]
        more, notes = _segments(step, frame, model, domain, named) if find_segments else ({}, [])
    _show(found, audits, report, numbers, f"Audit of {table.name}", notes, more, shown, as_json)
    _end(failures)


def _segments(
    step: Any, frame: Any, model: Any, domain: list[str], named: list[str | None]
) -> tuple[dict[str, Any], list[str]]:
    step("searching for segments")
    found, notes = segments_of(frame, model, domain, named)
    return {"segments": found}, notes


def _show(
    found: Any,
    audits: dict[str, Any],
    report: Path | None,
    numbers: Path | None,
    title: str,
    notes: list[str],
    more: dict[str, Any],
    shown: bool,
    as_json: bool,
) -> None:
    """Write the page and the JSON beside it, if one is asked for, and print the rest."""
    files: dict[str, str | None] = {}
    if report is not None:
        files["report"] = write_report(report, audits, title, None, notes)
    if numbers is not None:
        text = json.dumps(found.to_dict() | more | {"notes": notes}, indent=2, allow_nan=False)
        write_output(numbers, lambda part: part.write_text(text + "\n", encoding="utf-8"))
        files["numbers"] = str(numbers)
    options: dict[str, Any] = {"files": files, "notes": notes, "training": {}, "more": more}
    print_result(found, shown=shown, as_json=as_json, **options)


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
    table: Path, encoding: str, domain: list[str], whole: bool, **options: Any
) -> tuple[Any, dict[str, Any], Any]:
    """The table, its audits by column, and the only one of them or the comparison of the two."""
    from anymix.auditing import compare
    from anymix.tables import audit_frame, read_table

    one = (options[name] for name in ("losses", "weight"))
    several = (options[name] for name in ("target", "prediction", "against"))
    named = [*chain(*several), *(column for column in one if column)]
    only = None if whole else [*named, *domain]  # not all columns need fit into memory
    frame = read_table(table, encoding=encoding, keep=named, text=domain, only=only)
    audits = audit_frame(frame, domain, **options)
    first, *second = audits
    if not second:
        return frame, audits, audits[first]
    return frame, audits, compare(audits[first], audits[second[0]], (first, second[0]))


def _check_columns(
    target: list[str],
    said: list[str],
    losses: str | None,
    classes: str | None,
    against: list[str],
) -> None:
    """Either what was true and what was predicted, or losses; and another model than this one."""
    if not (target and said) if losses is None else (target or said or classes):
        fix = "give --target and --prediction (with --classes), or else --losses alone"
        raise InputError("", "it is not clear what to audit", fix)
    if len(target) > 1 and len(said) != len(target):
        found = f"names {len(said)} columns, but there are {len(target)} of --target"
        raise InputError("--prediction", found, "give one for each, in the same order")
    if against and against in (said, [losses]):
        found = f"is {', '.join(against)!r}, which is to be compared with it"
        raise InputError("--against", found, "name the column of another model")


def class_names(text: str) -> list[str]:
    """The names between the commas; those with commas of their own in quotes."""
    names = next(csv.reader([text], skipinitialspace=True), [])
    if len(set(names)) != len(names) or "" in names:
        raise InputError("--classes", f"is {text!r}", "give different names, as in low,high")
    return names
