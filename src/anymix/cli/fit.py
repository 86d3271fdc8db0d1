"""`anymix fit`: a table in; a model, a judgement and a page out."""

import math
from collections.abc import Mapping
from contextlib import ExitStack
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from anymix.cli.files import check_inputs, check_outputs, is_printed, to_stdout, write_output
from anymix.cli.options import (
    TABLE_NAMES,
    Decimal,
    Encoding,
    File,
    Json,
    Memory,
    Mixtures,
    Na,
    Names,
    Quiet,
    Report,
    Types,
    cells,
    in_options,
)
from anymix.cli.output import as_training, print_advice, print_result, steps, write_report
from anymix.errors import InputError, finite_number

__all__ = ["fit_file"]

OPTIONS: Names = TABLE_NAMES | {
    "memory": ("--memory", None),
    "class_weight": ("--class-weight", None),
    "drop": ("--drop", None),
    "drop_missing_domain": ("--drop-missing-domain", None),
    "evaluation": ("--folds", None),
    "group": ("--group", None),
    "n_jobs": ("--jobs", None),
    "gamma": ("--gamma", None),
    "model": ("--model", None),
    "min_rows": ("--min-rows", None),
    "robustness": ("--robustness", None),
    "use_domain": ("--use-domain", None),
    "task": ("--task", None),
}
TOGETHER = "put small domains together"
FEW_ROWS = (
    "raise --gamma (auto chooses it), take a smaller set of --mixtures, or "
    f"{TOGETHER} with --min-rows"
)
MOST_CELLS = 2_000_000  # of a table for which auto is the default
ADVICE = {"GapWarning": "raise --gamma"}


class UseDomain(StrEnum):
    """How the domain may be a feature: its own intercept, or slopes as well."""

    INTERCEPT = "intercept"
    SLOPES = "slopes"


class Model(StrEnum):
    """What can be fitted."""

    AUTO = "auto"
    LINEAR = "linear"
    BOOSTED = "boosted"


class Task(StrEnum):
    """What can be learnt: classes, numbers, or whichever the target looks like."""

    AUTO = "auto"
    CLASSIFY = "classify"
    REGRESS = "regress"


Target = Annotated[
    str, typer.Option("--target", "-t", help="Column to predict: classes or numbers.")
]
Domain = Annotated[
    list[str],
    typer.Option(
        "--domain",
        "-d",
        help="Column that says which domain (group) a row belongs to; give it twice for the "
        "combinations of two columns.",
    ),
]
Gamma = Annotated[
    str,
    typer.Option(
        help="How strongly coefficients are pulled to 0 (γ of γ/2 ‖w‖²): a number, or auto."
    ),
]
ModelKind = Annotated[
    Model | None,
    typer.Option(
        "--model",
        show_default="auto; linear with --gamma, --robustness, --use-domain or a large table",
        help="auto recommends one of linear models, boosted trees and blends, for domains known "
        "and unknown; linear comes with a proof; boosted trees take longer.",
    ),
]
Robustness = Annotated[
    str,
    typer.Option(help="From 0 (the ordinary model) to 1 (only the worst mixture counts), or auto."),
]
Feature = Annotated[
    UseDomain | None,
    typer.Option(
        "--use-domain",
        help="Let the model use the domain, if it will be known for new rows: an intercept for "
        "each, or slopes too.",
    ),
]
Kind = Annotated[
    Task,
    typer.Option(help="What to learn: auto takes words and up to ten whole numbers for classes."),
]
Drop = Annotated[list[str] | None, typer.Option(help="Column not to learn from; may be repeated.")]
MinRows = Annotated[
    int, typer.Option(min=1, help="Put domains with fewer rows than this together.")
]
DropMissing = Annotated[
    bool, typer.Option("--drop-missing-domain", help="Leave out rows whose domain is empty.")
]
Group = Annotated[
    str | None,
    typer.Option(
        help="Column such as a patient's number: rows of one patient are never fitted and judged "
        "on at once."
    ),
]
ClassWeight = Annotated[
    str | None,
    typer.Option(
        help="Weights of the classes: balanced, or as in yes=3,no=1.", show_default="all alike"
    ),
]
Jobs = Annotated[
    int, typer.Option(min=1, help="How many processes to use; the numbers stay the same.")
]
Folds = Annotated[
    int | None,
    typer.Option(
        help="Judge by so many parts, each predicted by models of the others.",
        show_default="5, up to 20,000 rows",
    ),
]
Holdout = Annotated[
    float | None,
    typer.Option(
        help="Judge on this share of the rows, which are not fitted.",
        show_default="0.25, beyond 20,000 rows",
    ),
]
Test = Annotated[
    Path | None, typer.Option(help="Judge on the rows of this file, which are not fitted.")
]
Out = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False, callback=to_stdout, help="Save the model here, for `anymix predict`."
    ),
]


def fit_file(
    table: File,
    target: Target,
    domain: Domain,
    mixtures: Mixtures = "simplex",
    model: ModelKind = None,
    gamma: Gamma = "auto",
    robustness: Robustness = "auto",
    use_domain: Feature = None,
    task: Kind = Task.AUTO,
    drop: Drop = None,
    min_rows: MinRows = 1,
    drop_missing_domain: DropMissing = False,
    group: Group = None,
    class_weight: ClassWeight = None,
    folds: Folds = None,
    holdout: Holdout = None,
    test: Test = None,
    out: Out = None,
    report: Report = None,
    encoding: Encoding = "utf-8",
    na: Na = None,
    decimal: Decimal = None,
    types: Types = None,
    memory: Memory = None,
    jobs: Jobs = 1,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Fit the model to use where the domain of new rows is unknown, or known; judge it.

    The ordinary model is compared with the recommended one, which is better for the worst domain
    at a small price for all rows, and with one that is told the domain, on rows that none has
    seen. The first lines say for whom each is better or worse. Numbers are standardised,
    categories become 0/1 columns, missing values are marked. The model that is saved is fitted to
    all rows. With `--model linear` it is a linear one, ordinary or robust, with a proof that none
    of its kind is better there; a table that does not fit into memory is read in stretches, from
    columns that are put on disk.

    Examples:

    - anymix fit people.csv --target income --domain education --report report.html

    - anymix fit people.csv -t income -d sex -d race --min-rows 50 --mixtures chi2:2.0

    - anymix fit loans.csv -t repaid -d county --use-domain intercept

    - anymix fit visits.xlsx -t ill -d hospital --group patient --types zip=category --na refused

    - anymix fit train.parquet -t price -d region --test test.parquet --out model.joblib --json
    """
    check_outputs({"--out": out, "--report": report}, [table, test, Path(mixtures)])
    _check_one({"--folds": folds, "--holdout": holdout, "--test": test})
    _check_test(table, test)
    weight = None if gamma == "auto" else _number("--gamma", gamma, math.inf)
    t = None if robustness == "auto" else _number("--robustness", robustness, 1.0)
    check_inputs([table, test], encoding, mixtures)
    shown = not (quiet or as_json or is_printed(out, report))
    asked = {"mixtures": mixtures, "model": model, "gamma": weight, "robustness": t}
    kind = {"use_domain": use_domain and use_domain.value, "task": task.value, "drop": drop or ()}
    rows = {"min_rows": min_rows, "drop_missing_domain": drop_missing_domain, "group": group}
    judged = {"evaluation": holdout if folds is None else folds, "n_jobs": jobs}
    weights = {"class_weight": class_weights(class_weight)}
    reading = {"encoding": encoding, **cells(na, decimal, types)}
    way = "--folds" if folds is not None else "--holdout" if test is None else "--test"
    names = OPTIONS | {"evaluation": (way, None)}
    with steps(shown, ADVICE) as step, in_options(names, [table, test]):
        options = {**asked, **kind, **rows, **judged, **weights}
        found = _fitted(table, test, reading, memory, step, target, domain, **options)
    _show(found, f"{target} by {', '.join(domain)}", out, report, shown, as_json)


def _show(
    found: Any, title: str, out: Path | None, report: Path | None, shown: bool, as_json: bool
) -> None:
    """Write the model and the page, and print what was found."""
    notes = [f"Judged on {found.judged_on}.", *map(_advised, found.notes)]
    side_by_side = found.side_by_side
    if side_by_side is not None:
        choice = found.recommendation
        files = _written(found, out, report, title, notes)
        print_advice(side_by_side, choice, files, notes, shown, as_json)
        return
    print_result(
        found.comparison,
        files=_written(found, out, report, title, notes),
        notes=notes,
        training=as_training(
            *(found.robustness, found.gamma, found.choice.mixture),
            *(found.certificate, found.choice.frontier),
        ),
        shown=shown,
        as_json=as_json,
        verdict=_advised(found.verdict),
        beside=found.beside,
    )


def _check_one(options: Mapping[str, object]) -> None:
    given = [option for option, value in options.items() if value is not None]
    if len(given) > 1:
        raise InputError(" and ".join(given), "are ways to judge", "give one of them")


def _check_test(table: Path, test: Path | None) -> None:
    if test is not None and test.is_file() and table.is_file() and test.samefile(table):
        fix = "give rows that are not in it, or leave it out to judge by parts of the table"
        raise InputError("--test", f"is {str(test)!r}, the table that is fitted", fix)


def class_weights(text: str | None) -> str | dict[str, float] | None:
    """The weights of the classes, as `fit_table` takes them."""
    if text is None or text == "balanced":
        return text
    found = {}
    for pair in text.split(","):
        name, _, weight = pair.rpartition("=")
        try:
            found[name.strip()] = float(weight)
        except ValueError:
            fix = "give balanced, or weights as in yes=3,no=1"
            raise InputError("--class-weight", f"is {text!r}", fix) from None
    return found


def _number(option: str, text: str, most: float) -> float:
    """The number from 0 to `most` that an option is written as."""
    try:
        number = float(text)
    except ValueError:
        raise InputError(option, f"is {text!r}", "give a number or auto") from None
    limits = "a finite number ≥ 0" if most == math.inf else f"a number from 0 to {most:g}"
    return finite_number(option, number, f"give {limits}, or auto", lambda x: 0 <= x <= most)


def _fitted(
    table: Path,
    test: Path | None,
    reading: dict[str, Any],
    memory: str | None,
    step: Any,
    target: str,
    domain: list[str],
    **options: Any,
) -> Any:
    """The table, and the one to judge on, read and fitted; both are let go of on the way."""
    step("starting")
    from anymix.tables.files import opened_table, read_table
    from anymix.tables.fitting import Step, fit_table
    from anymix.tables.frames import pandas
    from anymix.tables.memory import bytes_of
    from anymix.tables.spooling import read_or_spool, spooled

    pandas()
    step(Step(f"reading {table}", 0.02))
    limit = None if memory is None else bytes_of(memory)
    grouped = [options["group"]] if options["group"] else []
    used: Any = {"keep": [target], "text": [*domain, *grouped], "drop": options["drop"], **reading}
    linear = options["model"] in (None, Model.LINEAR)  # others need all rows at once
    read = [read_or_spool(table, memory=limit, **used) if linear else read_table(table, **used)]
    with ExitStack() as spools:
        is_spool = hasattr(read[0], "close")
        options["model"] = (options["model"] or _default_model(read[0], is_spool, options)).value
        if test is not None:
            make = spooled if is_spool else read_table
            source = opened_table(test, reading["encoding"], options["drop"])
            asked = set(source.names) - set(used["text"])
            kinds = {k: v for k, v in _kinds(read[0]).items() if k in asked}
            read.append(make(test, **used | {"types": kinds, "source": source}))
        for spool in read if is_spool else ():
            spools.callback(spool.close)
        # Frames are given as functions that take them out of the list: a call holds its arguments
        # to its end, and a table that nobody holds can be let go of while models are fitted.
        given: list[Any] = read[:] if is_spool else [partial(read.pop, 0)] * len(read)
        if test is not None:
            options["evaluation"] = given[1]
        return fit_table(given[0], target, domain, progress=step, **options)


def _default_model(table: Any, on_disk: bool, options: Mapping[str, Any]) -> Model:
    """Linear where only that will do, or auto would take long and much memory."""
    given = any(options[name] is not None for name in ("gamma", "robustness", "use_domain"))
    if given or on_disk or table.shape[0] * table.shape[1] > MOST_CELLS:
        return Model.LINEAR
    return Model.AUTO


def _kinds(frame: Any) -> dict[str, str]:
    """What the columns of a frame, or of a table on disk, hold: 01 is not 1 where 0A is a level."""
    if hasattr(frame, "is_number"):
        dates = frame.attrs["dates"]
        found = {name: "number" if frame.is_number(name) else "category" for name in frame.columns}
        return found | dict.fromkeys(dates, "date")
    kinds = {"O": "category", "M": "date"}
    return {name: kinds.get(frame.dtypes[name].kind, "number") for name in frame.columns}


def _advised(note: str) -> str:
    """A note or verdict, and after one on few rows what can be done about it here."""
    said = note.replace(f"{TOGETHER}.", f"{TOGETHER}, as with --min-rows 30.")
    said = said.replace("let the model use it.", "let the model use it (--use-domain slopes).")
    return f"{said}. Here: {FEW_ROWS}" if "expect a larger loss on new rows" in note else said


def _written(
    found: Any, out: Path | None, report: Path | None, title: str, notes: list[str]
) -> dict[str, str | None]:
    """The model and the page, as far as they are asked for."""
    from anymix.tables import save_model

    files: dict[str, str | None] = {}
    if out is not None:
        write_output(out, lambda path: save_model(found.model, path))
        files["model"] = str(out)
    side_by_side = found.side_by_side
    if report is not None and side_by_side is not None:
        more = {"notes": notes, "recommendation": found.recommendation}
        files["report"] = write_report(report, side_by_side, title, **more)
    elif report is not None:
        said = {"verdict": _advised(found.verdict), "beside": found.beside}
        more = {"frontier": found.choice.frontier, **said}
        files["report"] = write_report(report, found.audits, title, found.solution, notes, **more)
    return files
