"""The `anymix` command."""

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from scipy.special import expit

import anymix as ax
from anymix import datasets

app = typer.Typer(name="anymix", no_args_is_help=True, pretty_exceptions_enable=False)
data = typer.Typer(no_args_is_help=True, help="The data sets: which there are, and where.")
app.add_typer(data, name="data")

_Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]


def main() -> None:
    """Run the command; a user's error is one line and exit code 1, never a traceback."""
    try:
        app()
    except (ValueError, OSError) as error:
        Console(stderr=True).print(f"error: {error}", style="red", markup=False, highlight=False)
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
    out: Annotated[
        Path, typer.Option(file_okay=False, help="Folder for the picture.", show_default=True)
    ] = Path("demo"),
    quiet: _Quiet = False,
    as_json: _Json = False,
) -> None:
    """Solve the paper's Proposition 1 and compare the uniform with the agnostic model.

    Domain D1 has only label 1, D2 has both labels half and half.
    The model is one number: p0, the probability of label 0.

    Examples: `anymix demo`, `anymix demo --json`, `anymix demo --out pictures`.
    """
    problem = _proposition1()
    uniform = ax.solve(problem, ax.Point([0.5, 0.5]), gamma=0.0)
    agnostic = ax.solve(problem, ax.Simplex(2), gamma=0.0)
    picture = _draw(uniform, agnostic, out)
    if as_json:
        typer.echo(json.dumps(_as_dict(uniform, agnostic, picture), indent=2))
    elif not quiet:
        _print_demo(uniform, agnostic, picture)


def _proposition1() -> ax.LinearDomains:
    """D1(x, 1) = 1 and D2(x, 0) = D2(x, 1) = ½, equal sizes, no features but the intercept."""
    return ax.LinearDomains(np.zeros((4, 1)), y=[1, 1, 0, 1], domains=["D1", "D1", "D2", "D2"])


def _p0(solution: ax.Solution) -> float:
    return float(expit(-solution.w[-1]))


def _as_dict(uniform: ax.Solution, agnostic: ax.Solution, picture: Path | None) -> dict[str, Any]:
    def describe(solution: ax.Solution) -> dict[str, Any]:
        return {
            "p0": _p0(solution),
            "domain_losses": {"D1": solution.domain_losses[0], "D2": solution.domain_losses[1]},
            "average_loss": float(np.mean(solution.domain_losses)),
            "agnostic_loss": float(np.max(solution.domain_losses)),
            "mixture": solution.mixture.tolist(),
        }

    proof = agnostic.certificate
    return {
        "uniform": describe(uniform),
        "agnostic": describe(agnostic),
        "certificate": {"lower": proof.lower, "upper": proof.upper, "gap": proof.gap},
        "picture": None if picture is None else str(picture),
    }


def _print_demo(uniform: ax.Solution, agnostic: ax.Solution, picture: Path | None) -> None:
    table = Table(title="Proposition 1: D1 is always label 1, D2 is label 0 or 1, half and half")
    table.add_column("trained for")
    for heading in ("p0", "loss on D1", "loss on D2", "average", "worst mixture"):
        table.add_column(heading, justify="right")
    for name, solution in (("uniform mixture", uniform), ("any mixture", agnostic)):
        losses = solution.domain_losses  # (2,)
        numbers = (_p0(solution), *losses, losses.mean(), losses.max())
        table.add_row(name, *(f"{number:.4f}" for number in numbers))

    proof = agnostic.certificate
    gain = uniform.domain_losses.max() - agnostic.domain_losses.max()
    console = Console(highlight=False)
    console.print(table)
    console.print(
        f"The worst mixture costs the uniform model {gain:.4f} more (log(4/√3) against log 2).\n"
        f"Certificate: no model has a worst case below {proof.lower:.8f},\n"
        f"and this one reaches {proof.upper:.8f} (gap {proof.gap:.1e})."
    )
    if picture is None:
        console.print("For the picture: pip install 'anymix[report]'", markup=False)
    else:
        console.print(f"Picture: {picture}", soft_wrap=True)


def _draw(uniform: ax.Solution, agnostic: ax.Solution, folder: Path) -> Path | None:
    """Loss of both models along the line of mixtures λ = (1 − t, t); None without matplotlib."""
    try:
        from matplotlib.figure import Figure  # not pyplot: no window, no global state
    except ImportError:
        return None
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    lines = ((uniform, "uniform", "tab:orange"), (agnostic, "agnostic", "tab:blue"))
    for solution, name, color in lines:
        losses = solution.domain_losses  # at λ = (1, 0) and (0, 1); L(w, λ) is linear between
        label = f"{name} model, worst case {losses.max():.4f}"
        axes.plot([0, 1], losses, "o-", color=color, label=label, clip_on=False)
    axes.set(xlabel="share of D2 in the target mixture", ylabel="loss", xlim=(0, 1), ylim=(0, None))
    axes.set_title("Loss on every mixture of the two domains")
    axes.legend(loc="lower right", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "proposition1.png"
    figure.savefig(path, dpi=150)
    return path


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

    Examples: `anymix reproduce adult --fast`, `anymix reproduce all --out results`.
    """
    from anymix import reproduction  # takes scikit-learn along, which takes its time

    names = [w.value for w in What if w is not What.ALL] if what is What.ALL else [what.value]
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
