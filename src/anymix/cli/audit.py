"""`anymix audit`: a table of predictions in; how bad its model can get, and a page, out."""

import csv
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from anymix.cli.audited_tables import Audited, audited_table
from anymix.cli.files import (
    check_inputs,
    check_outputs,
    is_printed,
    is_stream,
    to_stdout,
    write_output,
)
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
    Types,
    cells,
    in_options,
)
from anymix.cli.output import print_result, steps, write_report
from anymix.cli.segments import FindSegments
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
    "memory": ("--memory", None),
    "metrics": ("--metric", None),
    "weight": ("--weight", None),
    "prediction": ("--prediction", None),
    "sample_weight": ("--weight", None),
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
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        "-t",
        help="Column of the true answers; of several, give one --prediction for each.",
    ),
]
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
    list[str] | None,
    typer.Option(
        help="Column of another model's answers (or losses), to compare the two; may be repeated "
        "as --prediction may."
    ),
]
Metric = Annotated[
    list[str] | None,
    typer.Option(
        help="Measure also: rates (selection, true and false positives), or a scorer of "
        "scikit-learn such as f1 or r2; also several."
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        help="How much memory the audit may take, as in 2GB; only the columns that it needs are "
        "read, and refused if they take more.",
        show_default="half of what is free",
    ),
]
Weight = Annotated[str | None, typer.Option(help="Column of what each row counts.")]
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
Page = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False,
        callback=to_stdout,
        help="Write an HTML page here, and the numbers beside it, in a file of the same name that "
        "ends in .json (one that is there is replaced); - prints the page alone.",
    ),
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
    report: Page = None,
    encoding: Encoding = "utf-8",
    na: Na = None,
    decimal: Decimal = None,
    types: Types = None,
    memory: Memory = None,
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
    is_file = report is not None and not is_stream(report) and not is_printed(report)
    numbers = report.with_suffix(".json") if report is not None and is_file else None
    check_outputs(
        {"--report": report, "the JSON beside --report": numbers}, [table, Path(mixtures)]
    )
    true, said, others = target or [], prediction or [], against or []
    _check_columns(true, said, losses, classes, others)
    check_inputs([table], encoding, mixtures)
    shown = not (quiet or as_json or is_printed(report))
    conditions, guarantee = _conditions(fail_if or [], guarantee)
    what = {"target": true, "prediction": said, "losses": losses, "against": others}
    how: dict[str, Any] = {"loss": loss, "loss_bound": loss_bound, "confidence": confidence}
    how |= {"mixtures": mixtures, "guarantee": guarantee, "metrics": metric, "weight": weight}
    how |= {"classes": None if classes is None else class_names(classes)}
    reading = {"encoding": encoding, "memory": memory, **cells(na, decimal, types)}
    with steps(shown) as step, in_options(OPTIONS, [table]):
        done = audited_table(table, reading, domain, step, find_segments, **what, **how)
        model = list(done.audits.values())[-1]  # the one that is not only compared with
        failures = [words for asked in conditions if (words := asked.failure(model))]
    _show(done, report, numbers, f"Audit of {table.name}", shown, as_json)
    _end(failures)


def _show(
    done: Audited, report: Path | None, numbers: Path | None, title: str, shown: bool, as_json: bool
) -> None:
    """Write the page and the JSON beside it, if one is asked for, and print the rest."""
    files: dict[str, str | None] = {}
    if report is not None:
        files["report"] = write_report(report, done.audits, title, None, done.notes)
    if numbers is not None:
        found = done.found.to_dict() | done.more | {"notes": done.notes}
        text = json.dumps(found, indent=2, allow_nan=False)
        write_output(numbers, lambda part: part.write_text(text + "\n", encoding="utf-8"))
        files["numbers"] = str(numbers)
    options: dict[str, Any] = {"files": files, "notes": done.notes, "training": {}}
    print_result(done.found, shown=shown, as_json=as_json, more=done.more, **options)


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
