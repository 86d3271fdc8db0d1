"""What the commands print: steps while they work, then tables and sentences or JSON; and pages."""

import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from anymix.cli.files import write_output

CONSTANT = "a constant guess"

__all__ = ["as_training", "print_advice", "print_json", "print_result", "steps", "write_report"]


@contextmanager
def steps(shown: bool, advice: Mapping[str, str] | None = None) -> Iterator[Callable[[str], None]]:
    """A bar with a percentage on the terminal, to be told what is next; warnings become notes."""
    console = Console(stderr=True)
    columns = (
        BarColumn(20),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    disable = not (shown and console.is_terminal)
    bars = Progress(*columns, console=console, transient=True, disable=disable)
    with warnings.catch_warnings(record=True) as caught, bars as bar:
        task = bar.add_task("", total=None)

        def step(description: str) -> None:
            share = getattr(description, "share", None)  # of a `Step`, which knows how far it is
            if share is not None:
                bar.update(task, total=1.0, completed=share)
            bar.update(task, description=str(description), refresh=True)

        yield step
    notes = {}
    for warning in caught:
        message: Any = warning.message
        fix = (advice or {}).get(warning.category.__name__)
        note = " ".join((f"{message.found}; {fix}" if fix else str(message)).split())
        notes[re.sub(r"[-+\d]", "", note)] = note  # numbers aside, the last of each
    for note in notes.values() if shown else ():
        typer.echo(f"note: {note}", err=True)


def print_json(result: Mapping[str, Any], *, allow_nan: bool = True) -> None:
    """Print a result for machines."""
    typer.echo(json.dumps(result, indent=2, ensure_ascii=False, allow_nan=allow_nan))


def print_result(
    found: Any,
    *,
    files: dict[str, str | None],
    notes: list[str],
    training: dict[str, Any],
    shown: bool,
    as_json: bool,
    verdict: str = "",
    beside: Mapping[str, Any] | None = None,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Print what a command found: tables and sentences, JSON, or nothing."""
    others = beside or {}
    if as_json:
        said: dict[str, Any] = {"verdict": verdict} if verdict else {}
        said |= {"beside": {k: v.to_dict() for k, v in others.items()}} if others else {}
        said |= more or {}
        result = found.to_dict() | training | said | {"files": files, "notes": notes}
        print_json(result, allow_nan=False)
    if shown:
        _print_sentences(found, files, notes, training, verdict, others)


def _print_sentences(
    found: Any,
    files: Mapping[str, str | None],
    notes: list[str],
    training: Mapping[str, Any],
    verdict: str,
    beside: Mapping[str, Any],
) -> None:
    console = Console(highlight=False)
    if verdict:
        console.print(verdict, style="bold", markup=False)
    console.print(found)
    console.print(found.summary(), markup=False)
    if beside:
        from anymix.auditing.verdicts import beside_in_words

        for name, audit in beside.items():
            console.print(beside_in_words(name, audit), markup=False)
    if training:
        console.print(_certificate_in_words(training), markup=False)
    _print_notes(console, notes, files)


def _print_notes(console: Console, notes: list[str], files: Mapping[str, str | None]) -> None:
    for note in notes:
        console.print(f"Note: {note}", markup=False)
    for name, path in files.items():
        shown_path = path or "pip install 'anymix[report]' to have one"
        console.print(f"{name.capitalize()}: {shown_path}", soft_wrap=True, markup=False)


def print_advice(
    found: Any,
    choice: Any,
    files: dict[str, str | None],
    notes: list[str],
    shown: bool,
    as_json: bool,
) -> None:
    """Print which model to use: the advice and a table, JSON, or nothing."""
    if as_json:
        said = {"verdict": found.advice(), "recommendation": choice.to_dict()}
        beside = {"beside": {CONSTANT: found.floor.to_dict()}}
        print_json(
            said | found.to_dict() | beside | {"files": files, "notes": notes}, allow_nan=False
        )
    if shown:
        from anymix.auditing.verdicts import beside_in_words

        console = Console(highlight=False)
        console.print(found.advice(), style="bold", markup=False)
        console.print(found)
        console.print(beside_in_words(CONSTANT, found.floor), markup=False)
        _print_notes(console, notes, files)


def _certificate_in_words(training: Mapping[str, Any]) -> str:
    """What is proved of a linear model; of others, what the candidates tell of each other."""
    t, gamma, proof = (training[name] for name in ("robustness", "gamma", "certificate"))
    if gamma is None:
        return f"Among the models fitted (robustness t = {t:.3g}): {training['proof']}."
    return (
        f"Certificate (robustness t = {t:.3g}, γ = {gamma:.3g}): on the rows fitted no model of "
        f"this kind has an objective below {proof['lower']:.6g}; this one has "
        f"{proof['upper']:.6g} (gap {proof['gap']:.1e})."
    )


def as_training(
    robustness: float, gamma: float | None, mixture: Any, proof: Any, frontier: Any
) -> dict[str, Any]:
    """What is said of a fitted model: t, γ (of linear ones), λ, the proof and the frontier."""
    points = frontier.to_frame().to_dict("records")
    return {
        "robustness": robustness,
        "gamma": gamma,
        "training_mixture": mixture.tolist(),
        "certificate": {"lower": proof.lower, "upper": proof.upper, "gap": proof.gap},
        "frontier": [{k: None if v != v else v for k, v in point.items()} for point in points],
        "proof": str(proof),
    }


def write_report(
    path: Path,
    found: Any,
    title: str,
    solution: Any = None,
    notes: list[str] | None = None,
    **more: Any,
) -> str:
    """Write the HTML page, and give its path as it is printed."""
    from anymix.auditing.side_by_side import RECOMMENDED, SideBySide
    from anymix.reporting import report

    training: dict[str, Any] = dict(more)
    if isinstance(found, SideBySide):  # the page compares the first model with the last
        audits = {k: v for k, v in found.audits.items() if k != RECOMMENDED}
        audits[RECOMMENDED] = found.audits[RECOMMENDED]
        training |= {"verdict": found.advice(), "beside": {CONSTANT: found.floor}}
    else:
        audits = found
    if solution is not None:
        training |= {
            "certificate": solution.certificate,
            "history": solution.history,
            "mixture": solution.mixture,
        }
    options: dict[str, Any] = {"title": title, "notes": notes or []}
    write_output(path, lambda part: report(audits, part, **options, **training))
    return str(path)
