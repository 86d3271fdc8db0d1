"""`anymix cluster`: a table with clients in, which domain each of them belongs to, out."""

from pathlib import Path
from typing import Annotated, Any

import typer

from anymix.cli.files import check_inputs, check_outputs, is_printed, to_stdout, write_output
from anymix.cli.options import (
    OTHER_ENCODING,
    Decimal,
    Encoding,
    File,
    Json,
    Na,
    Names,
    Quiet,
    Types,
    cells,
    in_options,
)
from anymix.cli.output import print_json, steps
from anymix.errors import InputError

__all__ = ["cluster_file"]

OPTIONS: Names = {
    "columns": ("--column", None),
    "decimal": ("--decimal", None),
    "divergence": ("--divergence", None),
    "encoding": ("--encoding", OTHER_ENCODING),
    "n_clusters": ("--n-domains", None),
    "types": ("--types", None),
}

Client = Annotated[str, typer.Option(help="Column that says which client a row is of.")]
Out = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False,
        callback=to_stdout,
        help="Write each client, its domain and its rows to this .csv; - prints them.",
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        "-c",
        help="Column to compare clients by; may be repeated.",
        show_default="all others",
    ),
]
NDomains = Annotated[
    str, typer.Option(help="How many domains to make; bound takes as many as promise most.")
]
How = Annotated[
    str, typer.Option(help="How the shares of values are compared: i_divergence, kl or euclidean.")
]


def cluster_file(
    table: File,
    client: Client,
    domains_out: Out = None,
    column: Columns = None,
    n_domains: NDomains = "bound",
    divergence: How = "i_divergence",
    seed: Annotated[int, typer.Option(help="A number that chooses where the search begins.")] = 0,
    encoding: Encoding = "utf-8",
    na: Na = None,
    decimal: Decimal = None,
    types: Types = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Too many clients to be domains? Put those whose rows are alike into one domain.

    Examples:

    - anymix cluster table.csv --client id --domains-out domains.csv

    - anymix cluster table.csv --client hospital --column diagnosis --column age --n-domains 4
    """
    check_outputs({"--domains-out": domains_out}, [table])
    check_inputs([table], encoding)
    shown = not (quiet or as_json or is_printed(domains_out))
    reading = {"encoding": encoding, **cells(na, decimal, types)}
    with steps(shown) as step, in_options(OPTIONS, [table]):
        step(f"reading {table}")
        found = _clustered(
            table, reading, client, column or [], _number(n_domains), divergence, seed
        )
    if domains_out is not None:
        write_output(domains_out, lambda path: found.frame.to_csv(path, index=False))
    if as_json:
        print_json(_as_json(found, domains_out))
    elif shown:
        _print_domains(found, domains_out)


def _clustered(
    table: Path,
    reading: dict[str, Any],
    client: str,
    columns: list[str],
    n_domains: int | str,
    divergence: str,
    seed: int,
) -> Any:
    from anymix.tables import read_table
    from anymix.tables.clustered import cluster_frame

    frame = read_table(table, keep=columns, text=[client], **reading)
    return cluster_frame(
        frame,
        client,
        columns=columns,
        n_clusters=n_domains,
        divergence=divergence,
        random_state=seed,
    )


def _number(text: str) -> int | str:
    if text == "bound":
        return text
    if not text.isdecimal() or int(text) < 1:
        raise InputError("--n-domains", f"is {text!r}", "give a whole number ≥ 1, or bound")
    return int(text)


def _as_json(found: Any, out: Path | None) -> dict[str, Any]:
    counts = found.frame["domain"].value_counts().sort_index()
    return {
        "domains": [
            {"domain": k, "clients": int(counts[k]), "rows": int(found.sizes[k])}
            for k in range(len(found.sizes))
        ],
        "clients": found.frame.to_dict("records"),
        "bounds": [float(b) for b in getattr(found.model, "bounds_", [])],
        "files": {"domains": str(out)} if out else {},
        "notes": found.notes,
    }


def _print_domains(found: Any, out: Path | None) -> None:
    from rich.console import Console
    from rich.table import Table

    result = _as_json(found, out)
    table = Table("domain", "clients", "rows", box=None, title=None)
    for row in result["domains"]:
        table.add_row(str(row["domain"]), f"{row['clients']:,}", f"{row['rows']:,}")
    console = Console(highlight=False)
    console.print(table)
    if result["bounds"]:
        console.print(_choice(len(result["domains"]), result["bounds"]), markup=False)
    for note in found.notes:
        console.print(f"Note: {note}", markup=False)
    if out is not None:
        console.print(f"Domains: {out}", soft_wrap=True, markup=False)


def _choice(n_domains: int, bounds: list[float]) -> str:
    """Why there are as many domains as there are."""
    if len(bounds) == 1:
        return "There is one client, and one domain has no mixture to protect against."
    if n_domains == 1:
        return (
            "No domains can be advised: by these columns the clients differ too little for the "
            "rows they have, and one domain has no mixture to protect against. Name other columns, "
            "or say how many with --n-domains."
        )
    return (
        f"Of 1 to {len(bounds)} domains, {n_domains} can be promised most: the bound adds "
        f"{min(bounds):.3g} to the loss of the worst one. The clients of a domain are not "
        "protected one by one."
    )
