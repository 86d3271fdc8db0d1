"""The `anymix` command: what people type, and what is printed. The work is done elsewhere."""

import csv
import json
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

import anymix as ax
from anymix import datasets

app = typer.Typer(
    name="anymix",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
data = typer.Typer(no_args_is_help=True, help="The data sets: which there are, and where.")
app.add_typer(data, name="data")

_Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
_File = Annotated[Path, typer.Argument(help="CSV, TSV or Parquet; CSV and TSV also as .gz.")]
_Encoding = Annotated[str, typer.Option(help="Of the text in the files.")]
_Report = Annotated[Path | None, typer.Option(dir_okay=False, help="Write this HTML page.")]
_Mixtures = Annotated[
    str,
    typer.Option(
        help="Mixtures to guard against: simplex (any), data (the table's own), chi2:2.0, "
        "cvar:0.3, tv:0.2, or a .json file of mixtures or limits."
    ),
]


def main() -> None:
    """Run the command; a user's error is one line and exit code 1, never a traceback."""
    try:
        app()
    except BrokenPipeError:  # the reader, say `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ValueError, OSError) as error:
        line = " ".join(str(error).split())
        typer.secho(f"error: {line}", fg="red", err=True)
        sys.exit(1)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"anymix {ax.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """One model that holds up on any mixture of your clients."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder for the report.")] = Path(
        "demo"
    ),
    quiet: _Quiet = False,
    as_json: _Json = False,
) -> None:
    """Adult: a model for the people as they are, and one for any mixture of two groups of them.

    Who earns more than 50,000 dollars a year? The groups are people with a doctorate and all
    others; 1 in 80 has one. The data are fetched when they are first needed.

    Examples:

    - anymix demo --out pages

    - anymix demo --json
    """
    from anymix.auditing import audit, compare

    shown = not (quiet or as_json)
    target = out / "report.html"
    _check_files({"--out": target})
    audits, models = {}, {}
    with _steps(shown) as step:
        step("fetching Adult")
        adult = datasets.load_adult(progress=False)
        for name, mixtures in (("uniform", _data_mixture), ("agnostic", None)):
            step(f"{name} model")
            models[name] = ax.AgnosticClassifierCV([1, 0.1, 0.01, 1e-3, 1e-4], mixtures=mixtures)
            models[name].fit(adult.X, adult.y, domains=adult.domains)
            said = models[name].predict_proba(adult.X_test)
            audits[name] = audit(adult.y_test, said, adult.domains_test)
    found = compare(audits["uniform"], audits["agnostic"], ("uniform", "agnostic"))
    best, notes = models["agnostic"], [f"Judged on the {len(adult.y_test):,} test rows of Adult."]
    page: str | None = None
    if find_spec("plotly"):  # without it the rest is still worth showing
        page = _write_report(target, audits, "Adult: doctorate or not", best, notes)
    training = _training(best, best.gamma_)
    _print(found, {"report": page}, notes, shown, as_json, training)


def _data_mixture(sizes: Any) -> ax.MixtureSet:
    """Λ of standard training: the mixture of the data."""
    return ax.Point(sizes / sizes.sum())


# Tables ----------------------------------------------------------------------------------------


class Task(StrEnum):
    """What `anymix fit` can learn."""

    AUTO = "auto"
    CLASSIFY = "classify"
    REGRESS = "regress"


@app.command()
def fit(
    table: _File,
    target: Annotated[str, typer.Option("--target", "-t", help="Column to predict.")],
    domain: Annotated[
        list[str],
        typer.Option(
            "--domain", "-d", help="Column of the domains; several make all their combinations."
        ),
    ],
    mixtures: _Mixtures = "simplex",
    gamma: Annotated[str, typer.Option(help="Weight of ½‖w‖²: a number, or auto.")] = "auto",
    task: Annotated[Task, typer.Option(help="By default, up to ten labels are classes.")] = (
        Task.AUTO
    ),
    drop: Annotated[list[str] | None, typer.Option(help="Column not to learn from.")] = None,
    min_rows: Annotated[int, typer.Option(min=1, help="Put domains with fewer rows together.")] = 1,
    folds: Annotated[
        int | None,
        typer.Option(help="Judge by so many folds.", show_default="5, up to 20,000 rows"),
    ] = None,
    holdout: Annotated[
        float | None,
        typer.Option(help="Judge on this share of the rows.", show_default="0.25, beyond"),
    ] = None,
    test: Annotated[Path | None, typer.Option(help="Judge on the rows of this file.")] = None,
    out: Annotated[Path | None, typer.Option(dir_okay=False, help="Save the model here.")] = None,
    report: _Report = None,
    encoding: _Encoding = "utf-8",
    quiet: _Quiet = False,
    as_json: _Json = False,
) -> None:
    """Fit the linear model that is best for the worst mixture of the domains of a table.

    An ordinary model is fitted beside it, and both are judged on rows they have not seen. Numbers
    are standardised, categories become 0/1 columns, missing values are marked. The model that is
    saved is fitted to all rows; its certificate proves that none of its kind is better.

    Examples:

    - anymix fit people.csv --target income --domain education --report report.html

    - anymix fit people.csv -t income -d sex -d race --min-rows 50 --mixtures chi2:2.0

    - anymix fit train.parquet -t price -d region --test test.parquet --out model.joblib --json
    """
    import joblib

    from anymix.tables import read_table
    from anymix.tabular import fit_table

    _check_files({"--out": out, "--report": report}, [table, test, Path(mixtures)])
    _check_one({"--folds": folds, "--holdout": holdout, "--test": test})
    shown = not (quiet or as_json)
    used: Any = {"keep": [target], "text": domain}
    with _steps(shown) as step, _options_named():
        step(f"reading {table}")
        read = [read_table(table, encoding=encoding, **used)]  # to be let go of when it is fitted
        if test is not None:
            levels = read[0].select_dtypes("category").columns  # 01 is none that turns into 1
            read.append(read_table(test, encoding=encoding, strings=levels, **used))
        found = fit_table(
            read.pop(0),
            target,
            domain,
            mixtures=mixtures,
            gamma=None if gamma == "auto" else _number("--gamma", gamma),
            task=task.value,
            drop=drop or (),
            min_rows=min_rows,
            folds=folds,
            holdout=holdout,
            test=read.pop() if read else None,
            progress=step,
        )
    notes = [f"Judged on {found.judged_on}.", *map(_in_options, found.notes)]
    estimator = found.model.estimator
    files: dict[str, str | None] = {}
    if out is not None:
        _write(out, lambda path: joblib.dump(found.model, path))
        files["model"] = str(out)
    if report is not None:
        title = f"{target} by {', '.join(domain)}"
        files["report"] = _write_report(report, found.audits, title, estimator, notes)
    _print(found.comparison, files, notes, shown, as_json, _training(estimator, found.gamma))


def _check_one(options: Mapping[str, object]) -> None:
    given = [option for option, value in options.items() if value is not None]
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} are ways to judge; give one of them")


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{option} is {text!r}; give a number or auto") from None


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="Model of `anymix fit`, from a source you trust.")],
    table: _File,
    out: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="Write this .csv, .tsv (each also as .gz) or .parquet; otherwise CSV is printed.",
        ),
    ] = None,
    keep: Annotated[list[str] | None, typer.Option(help="Column of the table to copy.")] = None,
    encoding: _Encoding = "utf-8",
    quiet: _Quiet = False,
) -> None:
    """Predict the rows of a table with a saved model.

    The columns are `prediction` and, for classes, `probability of ...` for each of them.

    Examples:

    - anymix predict model.joblib new.csv --out predictions.csv --keep id

    - anymix predict model.joblib new.csv | head
    """
    from anymix.features import Category
    from anymix.tables import read_table
    from anymix.tabular import predict_table

    _check_files({"--out": out}, [model, table])
    save = _saver(out)
    with _steps(not quiet) as step:
        step(f"reading {table}")
        fitted = _load(model)
        columns = fitted.features.columns
        levels = [c.name for c in columns if isinstance(c, Category)]
        features = [c.name for c in columns]
        copied = keep or []
        twice = bool(set(copied) & set(features))  # to be learnt from, and to be copied as written
        text = [] if twice else copied
        frame = read_table(table, encoding=encoding, keep=features, strings=levels, text=text)
        kept = read_table(table, encoding=encoding, text=copied) if twice else frame
        with _options_named():
            predictions, notes = predict_table(fitted, frame, copied, kept)
    for note in [] if quiet else notes:
        typer.echo(f"note: {note}", err=True)
    if out is None:
        save(predictions, sys.stdout)
    else:
        _write(out, lambda path: save(predictions, path))


def _saver(out: Path | None) -> Callable[[Any, Any], object]:
    """How to write a frame to a file (or stream): as the name of the file says."""
    name = "" if out is None else out.name.lower()
    zipped = {"method": "gzip", "mtime": 0} if name.endswith(".gz") else None
    kind = name.removesuffix(".gz").rpartition(".")[2]
    if kind in ("parquet", "pq") and not zipped:
        if not find_spec("pyarrow"):
            raise ValueError(f"{out} is to be Parquet, which needs pyarrow; pip install pyarrow")
        return lambda frame, path: frame.to_parquet(path, engine="pyarrow", index=False)
    if kind not in ("csv", "tsv", "tab"):
        if out is not None and not _is_stream(out):
            raise ValueError(
                f"--out is {str(out)!r}; give a name that ends in .csv, .tsv (each also with .gz) "
                "or .parquet"
            )
        kind, zipped = "csv", None
    mark = "," if kind == "csv" else "\t"
    return lambda frame, path: frame.to_csv(path, index=False, sep=mark, compression=zipped)


@app.command("audit")
def audit_table(
    table: _File,
    domain: Annotated[
        list[str],
        typer.Option("--domain", "-d", help="Column of the domains; several: combinations."),
    ],
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="Column of what was true.")
    ] = None,
    prediction: Annotated[
        list[str] | None,
        typer.Option(
            "--prediction",
            "-p",
            help="Column of labels, values or probabilities; one for each class, in the order of "
            "--classes, for several.",
        ),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            help="Classes in the order of the columns of probabilities, as in low,high; the last "
            "of two is the one of a single column.",
            show_default="sorted",
        ),
    ] = None,
    losses: Annotated[
        str | None, typer.Option(help="Column of each row's loss, instead of the two.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Prediction (or loss) column of another model to compare.")
    ] = None,
    loss: Annotated[
        str | None, typer.Option(help="zero_one, log, squared or absolute.", show_default="by kind")
    ] = None,
    mixtures: _Mixtures = "simplex",
    confidence: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    report: _Report = None,
    encoding: _Encoding = "utf-8",
    quiet: _Quiet = False,
    as_json: _Json = False,
) -> None:
    """How bad can a model get on some mixture of the domains? Needs its predictions only.

    Examples:

    - anymix audit preds.csv --target y --prediction p --domain region

    - anymix audit preds.csv -t y -p p_no -p p_yes -d sex -d race --report audit.html

    - anymix audit preds.csv --losses nll --against old -d language --mixtures cvar:0.3 --json
    """
    from anymix.auditing import compare
    from anymix.tables import read_table
    from anymix.tabular import audit_frame

    _check_files({"--report": report}, [table, Path(mixtures)])
    said = prediction or []
    if not (target and said) if losses is None else (target or said or classes):
        raise ValueError("give --target and --prediction (with --classes), or else --losses alone")
    if against is not None and [against] in (said, [losses]):
        raise ValueError(
            f"--against is {against!r}, which is to be compared with it; name the column of "
            "another model"
        )
    shown = not (quiet or as_json)
    named = [*said, *(c for c in (target, losses, against) if c)]
    with _steps(shown) as step, _options_named("--losses" if losses else "--prediction"):
        step(f"reading {table}")
        audits = audit_frame(
            read_table(table, encoding=encoding, keep=named, text=domain),
            domain,
            target=target,
            prediction=said,
            losses=losses,
            against=against,
            loss=loss,
            mixtures=mixtures,
            confidence=confidence,
            classes=None if classes is None else _classes(classes),
        )
        first, *second = audits
        found: Any = audits[first]
        if second:
            found = compare(found, audits[second[0]], (first, second[0]))
    files: dict[str, str | None] = {}
    if report is not None:
        files["report"] = _write_report(report, audits, f"Audit of {table.name}", None, [])
    _print(found, files, [], shown, as_json, {})


def _classes(text: str) -> list[str]:
    """The names between the commas; those with commas of their own in quotes."""
    names = next(csv.reader([text], skipinitialspace=True), [])
    if len(set(names)) != len(names) or "" in names:
        raise ValueError(f"--classes is {text!r}; give different names, as in low,high")
    return names


# What all of them print and write --------------------------------------------------------------


@contextmanager
def _steps(shown: bool) -> Iterator[Callable[[str], None]]:
    """A bar on the terminal, to be told what is done next; warnings become notes below it."""
    console = Console(stderr=True)
    columns = (BarColumn(20), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    disable = not (shown and console.is_terminal)
    bars = Progress(*columns, console=console, transient=True, disable=disable)
    with warnings.catch_warnings(record=True) as caught, bars as bar:
        task = bar.add_task("", total=None)
        yield lambda description: bar.update(task, description=description)
    texts = [" ".join(str(warning.message).split()) for warning in caught]
    notes = {re.sub(r"[-+\d]", "", text): text for text in texts}  # numbers aside, the last of each
    for note in notes.values() if shown else ():
        typer.echo(f"note: {_in_options(note)}", err=True)


# What the library advises, and what can be done about it here.
_ADVICE = {
    r"raise max_iter or tol, centre or scale the columns, or raise gamma": "raise --gamma",
    r"Raise gamma, lower max_skewness or merge small domains; .*held out": "Raise --gamma (auto "
    "chooses it), take a smaller set of --mixtures, or put small domains together with --min-rows",
    r"'\(other\)'; name a domain column of two or more values": "'(other)', so many are small; "
    "lower --min-rows",
    r"^(gamma|folds|holdout|mixtures|encoding|loss|confidence|keep) is ": r"--\1 is ",
    r"^(?:r|alpha|rho) must be a number": "--mixtures must have a number",
    r"^a and b have": "the column of --against and the other have",
    r"y_true=None and the loss of each row as y_pred": "--losses for a column of losses",
    r"probabilities \(n, (\d+)\)": r"\1 columns of probabilities",
    r"values \(n,\)": "values",
    r"loss='(\w+)'": r"--loss \1",
    r"(?<![\w'])classes=": "--classes",
    r"^classes are": "--classes are",
    r"pass its encoding$": "pass its --encoding",
    r"(?<![\w'])y_true(?![\w'])": "--target",
    r"(?<![\w'])sensitive_features(?![\w'])": "--domain",
}


def _in_options(text: str, predicted: str = "--prediction") -> str:
    """A message of the library in terms of the options of `anymix fit` and `anymix audit`."""
    for said, meant in (_ADVICE | {r"(?<![\w'])y_pred(?![\w'])": predicted}).items():
        text = re.sub(said, meant, text)
    return text


@contextmanager
def _options_named(predicted: str = "--prediction") -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(_in_options(str(error), predicted)) from error


def _print(
    found: Any,  # Audit or Comparison
    files: dict[str, str | None],
    notes: list[str],
    shown: bool,
    as_json: bool,
    training: dict[str, Any],
) -> None:
    if as_json:
        result = found.to_dict() | training | {"files": files, "notes": notes}
        typer.echo(json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False))
    if not shown:
        return
    console = Console(highlight=False)
    console.print(found)
    console.print(found.summary(), markup=False)
    if training:
        proof = training["certificate"]
        console.print(
            f"Certificate (γ = {training['gamma']:.3g}): on the rows fitted no model of this kind "
            f"has an objective below {proof['lower']:.6f}; this one has {proof['upper']:.6f} "
            f"(gap {proof['gap']:.1e})."
        )
    for note in notes:
        console.print(f"Note: {note}", markup=False)
    for name, path in files.items():
        shown_path = path or "pip install 'anymix[report]' to have one"
        console.print(f"{name.capitalize()}: {shown_path}", soft_wrap=True, markup=False)


def _training(estimator: Any, gamma: float) -> dict[str, Any]:
    proof = estimator.certificate_
    return {
        "gamma": gamma,
        "training_mixture": estimator.mixture_.tolist(),
        "certificate": {"lower": proof.lower, "upper": proof.upper, "gap": proof.gap},
    }


def _write_report(path: Path, audits: Any, title: str, estimator: Any, notes: list[str]) -> str:
    from anymix.reporting import report

    training = {}
    if estimator is not None:
        training = {
            "certificate": estimator.certificate_,
            "history": estimator.history_,
            "mixture": estimator.mixture_,
        }
    _write(path, lambda part: report(audits, part, title=title, notes=notes, **training))
    return str(path)


def _check_files(outputs: Mapping[str, Path | None], inputs: Sequence[Path | None] = ()) -> None:
    """Refuse, before any work, paths that cannot be written, are read as well, or are the same."""
    taken = {path: "is also read" for path in inputs if path is not None and path.exists()}
    for option, path in outputs.items():
        if path is None:
            continue
        _check_output(option, path)
        for other, why in {} if _is_stream(path) else taken.items():
            if _same(path, other):
                raise ValueError(f"{option} is {str(path)!r}, which {why}; give another path")
        taken[path] = f"{option} names too"
    if outputs.get("--report") is not None and not find_spec("plotly"):
        raise ValueError("the report needs plotly; pip install 'anymix[report]'")


def _check_output(option: str, path: Path) -> None:
    """Refuse what is no file, and folders that are none or that nothing can be written to."""
    if path.is_dir():
        raise ValueError(f"{option} is {str(path)!r}, which is a folder; name a file")
    effective = os.access in os.supports_effective_ids
    if path.exists() and not os.access(path, os.W_OK, effective_ids=effective):
        raise ValueError(f"{option} is {str(path)!r}, which is read-only; give another path")
    if _is_stream(path):
        return
    folder = Path(os.path.realpath(path)).parent
    while not os.path.lexists(folder):  # it will be made
        folder = folder.parent
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        reason = "it is a file" if folder.is_file() else error.strerror
        raise ValueError(
            f"{option} is {str(path)!r}, but nothing can be written to {str(folder)!r} ({reason}); "
            "give another folder"
        ) from None


def _is_stream(path: Path) -> bool:
    """Whether to write into what is there: a pipe, a device, or where the output goes anyway."""
    if not path.exists():
        return False
    return not path.is_file() or any(_same(path, Path(f"/dev/std{end}")) for end in ("out", "err"))


def _same(a: Path, b: Path) -> bool:
    """Whether two paths are of one file, be it there or not."""
    if a.exists() and b.exists():
        return a.samefile(b)
    return os.path.realpath(a) == os.path.realpath(b)


def _write(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file beside the path, then put it there: never half a file. Links are followed."""
    target, streamed = Path(os.path.realpath(path)), _is_stream(path)
    if not streamed:
        target.parent.mkdir(parents=True, exist_ok=True)
    place = None if streamed else target.parent
    with tempfile.TemporaryDirectory(prefix=".anymix-", dir=place) as folder:
        part = Path(folder) / path.name
        write(part)
        if streamed:
            with part.open("rb") as source, path.open("ab") as sink:
                shutil.copyfileobj(source, sink)
            return
        if target.exists():
            shutil.copymode(target, part)
        part.replace(target)


def _load(path: Path) -> Any:
    import joblib

    from anymix.tabular import TableModel

    try:
        model = joblib.load(path)
    except FileNotFoundError:
        raise ValueError(
            f"{path} is not there; give a model that `anymix fit --out` saved"
        ) from None
    except Exception as error:  # whatever a file of another kind makes of the reader
        reason = str(error)[:80] or type(error).__name__
        raise ValueError(
            f"{path} is no saved model, or one of another version ({reason}); give a file that "
            "`anymix fit --out` of this version wrote"
        ) from None
    if not isinstance(model, TableModel):
        raise ValueError(
            f"{path} holds a {type(model).__name__}; give a model of `anymix fit --out`"
        )
    return model


# Clients ---------------------------------------------------------------------------------------


class Where(StrEnum):
    """Where `anymix federate` runs the clients."""

    LOCAL = "local"
    RAY = "ray"
    DEPLOYMENT = "deployment"


@app.command()
def federate(
    folder: Annotated[
        Path, typer.Option("--app", help="Folder of the Flower app.", show_default=False)
    ],
    engine: Annotated[
        Where, typer.Option(help="In this process, in Ray workers, or as real processes.")
    ] = Where.LOCAL,
    run_config: Annotated[
        list[str] | None,
        typer.Option("--run-config", "-c", help="Overrides of the app's run config, as pairs."),
    ] = None,
    quiet: _Quiet = False,
    as_json: _Json = False,
) -> None:
    """Run a Flower app over clients that keep their data; the numbers are the same on each engine.

    Examples:

    - anymix federate --app examples/federated_keyboard

    - anymix federate --app examples/federated_adult --engine ray -c 'num-clients=4' --json
    """
    try:
        from anymix.flower.attendance import MissingClientsError
        from anymix.flower.running import federate as run_app
        from anymix.flower.running import read_overrides
    except ModuleNotFoundError:
        raise ValueError("federate needs Flower; pip install 'anymix[flower]'") from None
    shown = not (quiet or as_json)
    with _steps(shown) as step:
        step(f"{folder.name} on {engine}")
        try:
            result = run_app(
                folder,
                engine.value,
                read_overrides(run_config or []),
                show=lambda line: step(line[:100]) if line else None,
            )
        except MissingClientsError as error:
            raise ValueError(str(error)) from error
    if as_json:
        typer.echo(json.dumps(result, indent=2, ensure_ascii=False))
    if shown:
        _print_run(result)


def _print_run(result: dict[str, Any]) -> None:
    """What the app saved: the domains as a table, numbers and words as lines, no long vectors."""
    console = Console(highlight=False)
    names = result.get("domains", [])
    columns = {k: v for k, v in result.items() if k != "domains" and _one_each(v, len(names))}
    if columns:
        table = Table("domain", *columns)
        for name, *values in zip(names, *columns.values(), strict=True):
            table.add_row(Text(str(name)), *(f"{value:.6f}" for value in values))
        console.print(table)
    for key, value in result.items():
        if isinstance(value, int | float | str):
            console.print(f"{key}: {value}", markup=False)


def _one_each(value: Any, p: int) -> bool:
    """Whether the value is one number for each of p domains."""
    numbers = isinstance(value, list) and all(isinstance(v, float) for v in value)
    return numbers and len(value) == p > 0


# The paper's tables ----------------------------------------------------------------------------


class What(StrEnum):
    """What `anymix reproduce` knows."""

    ADULT = "adult"
    FASHION = "fashion"
    PROPOSITION1 = "proposition1"
    ALL = "all"


@app.command()
def reproduce(
    what: Annotated[What, typer.Argument(help="The experiment.", show_default=False)],
    runs: Annotated[
        int | None,
        typer.Option(min=1, help="Runs of each row; 50 in the paper.", show_default="50"),
    ] = None,
    fast: Annotated[
        bool, typer.Option("--fast", help="5 runs, and fewer γ to choose from.")
    ] = False,
    jobs: Annotated[
        int, typer.Option(min=1, help="Processes; the numbers do not depend on it.")
    ] = 2,
    out: Annotated[
        Path, typer.Option(file_okay=False, help="Folder for JSON, CSV and PNG.")
    ] = Path("reproduction"),
    quiet: _Quiet = False,
    as_json: _Json = False,
) -> None:
    """Run the experiments of the paper and print its numbers beside ours.

    Adult is Table 1, Fashion is Table 2. The data are fetched when they are first needed.

    Examples:

    - anymix reproduce adult --fast

    - anymix reproduce all --out results
    """
    from anymix import reproduction  # takes scikit-learn along, which takes its time

    names = [w.value for w in What if w is not What.ALL] if what is What.ALL else [what.value]
    for name in names:
        _check_files({"--out": out / f"{name}.json"})
    summaries = {}
    for name in names:
        result: reproduction.Table | reproduction.Proposition1
        if name == What.PROPOSITION1:
            result = reproduction.proposition1()
        else:
            experiment = reproduction.EXPERIMENTS[name]
            result = reproduction.reproduce(
                experiment,
                runs or (5 if fast else 50),
                jobs=jobs,
                gammas=experiment.gammas[1::2] if fast else experiment.gammas,
                progress=not (quiet or as_json),
            )
        files = [str(file) for file in result.save(out)]
        summaries[name] = result.as_dict() | {"files": files}
        if not (quiet or as_json):
            console = Console(highlight=False)
            console.print(result.grid())
            console.print("Files: " + ", ".join(files), soft_wrap=True, markup=False)
    if as_json:
        typer.echo(json.dumps(summaries, indent=2, ensure_ascii=False))


# The data --------------------------------------------------------------------------------------

_Names = Annotated[list[str] | None, typer.Argument(help="Data sets; all by default.")]


@data.command("list")
def list_data(as_json: _Json = False) -> None:
    """Which data sets there are, and whether the cache holds them.

    Example: `anymix data list --json`.
    """
    found = {name: datasets.fetched(name) for name in datasets.available()}
    if as_json:
        rows = {n: {"fetched": here, "path": str(datasets.path(n))} for n, here in found.items()}
        typer.echo(json.dumps(rows, indent=2))
        return
    for name, here in found.items():
        typer.echo(f"{name:10} {'fetched' if here else 'not fetched':12} {datasets.path(name)}")


@data.command("fetch")
def fetch_data(names: _Names = None, quiet: _Quiet = False) -> None:
    """Fetch data sets into the cache and verify them.

    Examples: `anymix data fetch`, `anymix data fetch adult`.
    """
    for name in names or datasets.available():
        folder = datasets.fetch(name, progress=not quiet)
        if not quiet:
            typer.echo(f"{name}: {folder}")


@data.command("path")
def data_path(name: Annotated[str, typer.Argument(help="The data set.")]) -> None:
    """Print the folder that holds a data set, or would.

    Example: `ls $(anymix data path adult)`.
    """
    typer.echo(datasets.path(name))
