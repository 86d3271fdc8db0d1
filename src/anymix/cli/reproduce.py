"""`anymix reproduce`: the paper's experiments, its numbers beside ours."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from anymix.cli.files import check_outputs
from anymix.cli.options import Json, Quiet
from anymix.cli.output import print_json

__all__ = ["run_experiments"]


class What(StrEnum):
    """What can be reproduced."""

    ADULT = "adult"
    FASHION = "fashion"
    LANGUAGE = "language"
    PROPOSITION1 = "proposition1"
    ALL = "all"


class Scale(StrEnum):
    """How large the language models are and how long they are trained."""

    SMALL = "small"
    MEDIUM = "medium"
    PAPER = "paper"


Experiment = Annotated[What, typer.Argument(help="Which experiment to run.", show_default=False)]
Runs = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="How often each row of a table is trained, with other seeds; 50 times in the paper.",
        show_default="50; 1 for language",
    ),
]
Fast = Annotated[bool, typer.Option("--fast", help="Train 5 times only, and try fewer γ.")]
Size = Annotated[
    Scale,
    typer.Option(
        help="How large the language models are. On two cores, small takes about 20 minutes, "
        "medium one to two hours, and paper half a day or more."
    ),
]
Jobs = Annotated[
    int,
    typer.Option(
        min=1,
        help="How many processes work at once; the numbers do not depend on it. For language, "
        "how many threads, which change the last digits.",
    ),
]
HalfPrecision = Annotated[
    bool,
    typer.Option(
        "--bf16",
        help="For language: train with products in half precision (bfloat16), twice as fast on a "
        "processor that has instructions for it. Perplexities are measured in full precision.",
    ),
]
Out = Annotated[
    Path,
    typer.Option(file_okay=False, help="Folder to write tables (JSON, CSV) and pictures into."),
]


def run_experiments(
    what: Experiment,
    runs: Runs = None,
    fast: Fast = False,
    scale: Size = Scale.SMALL,
    jobs: Jobs = 2,
    bf16: HalfPrecision = False,
    out: Out = Path("reproduction"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Repeat the experiments of the paper and print its numbers beside ours.

    `adult` is Table 1, `fashion` is Table 2, and `language` is Table 3, which needs PyTorch.
    `proposition1` checks an example of the paper. `all` runs the others but leaves out the language
    models, which take longest. The data are downloaded when they are first needed. Training of
    language models is saved in the folder `runs` inside --out: after a stop, the same command goes
    on from there and ends with the same numbers.

    Examples:

    - anymix reproduce adult --fast

    - anymix reproduce language --scale small

    - anymix reproduce all --out results
    """
    others = (What.ALL, What.LANGUAGE)
    names = [w.value for w in What if w not in others] if what is What.ALL else [what.value]
    for name in names:
        check_outputs({"--out": out / f"{name}.json"})
    shown = not (quiet or as_json)
    summaries = {}
    for name in names:
        if name == What.LANGUAGE:
            result = _language(scale, runs or 1, jobs, bf16, out / "runs", shown)
        else:
            result = _reproduced(name, runs or (5 if fast else 50), jobs, fast, shown)
        files = [str(file) for file in result.save(out)]
        summaries[name] = result.as_dict() | {"files": files}
        if shown:
            console = Console(highlight=False)
            console.print(result.grid())
            console.print("Files: " + ", ".join(files), soft_wrap=True, markup=False)
    if as_json:
        print_json(summaries)


def _reproduced(name: str, runs: int, jobs: int, fast: bool, shown: bool) -> Any:
    """The table of an experiment, or Proposition 1; `fast` tries every other γ."""
    from anymix import reproduction

    if name == What.PROPOSITION1:
        return reproduction.proposition1()
    experiment = reproduction.EXPERIMENTS[name]
    gammas = experiment.gammas[1::2] if fast else experiment.gammas
    return reproduction.reproduce(experiment, runs, jobs=jobs, gammas=gammas, progress=shown)


def _language(scale: Scale, runs: int, threads: int, bf16: bool, folder: Path, shown: bool) -> Any:
    """Table 3; a line about the progress now and then goes to standard error."""
    from anymix import reproduction

    console = Console(stderr=True, highlight=False, soft_wrap=True)

    def say(line: str) -> None:
        if shown:
            console.print(line, markup=False)

    return reproduction.reproduce_language(
        scale.value, runs, folder=folder, threads=threads, bf16=bf16, say=say
    )
