"""`anymix bound`: what the rows of a table can promise for every mixture, and what it takes."""

from typing import Annotated

import typer

from anymix.cli.audit import Classes, Domain, Loss, Losses, Prediction, Target, class_names
from anymix.cli.files import check_inputs
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
from anymix.cli.output import print_result, steps
from anymix.errors import InputError

__all__ = ["bound_file"]

OPTIONS: Names = TABLE_NAMES | {
    "classes": ("--classes", None),
    "delta": ("--delta", None),
    "guarantee": ("--delta", None),
    "loss": ("--loss", None),
    "loss_bound": ("--loss-bound", None),
    "losses": ("--losses", None),
    "prediction": ("--prediction", None),
    "sensitive_features": ("--domain", None),
    "width": ("--width", None),
    "y_true": ("--target", None),
}

Delta = Annotated[
    float, typer.Option(help="How often a promise may fail: 0.05 is once in twenty tables.")
]
Width = Annotated[
    float,
    typer.Option(help="How far off each domain's mean loss may be, to count the rows to add."),
]
LossBound = Annotated[
    float | None,
    typer.Option(
        help="The largest loss there can be; larger log losses count as this.",
        show_default="that of the loss, or 1",
    ),
]


def bound_file(
    table: File,
    domain: Domain,
    target: Target = None,
    prediction: Prediction = None,
    classes: Classes = None,
    losses: Losses = None,
    loss: Loss = None,
    mixtures: Mixtures = "simplex",
    delta: Delta = 0.05,
    width: Width = 0.05,
    loss_bound: LossBound = None,
    encoding: Encoding = "utf-8",
    na: Na = None,
    decimal: Decimal = None,
    types: Types = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """What can be promised for every mixture of the domains? Needs rows that no training has seen.

    Of each domain: rows, share, skewness of its mixture, how far chance may move its mean loss, and
    how many more rows would narrow that down. With predictions or losses, also what is promised.

    Examples:

    - anymix bound table.csv --domain region --width 0.03

    - anymix bound preds.csv -d region --target y --prediction label
    """
    said = prediction or []
    if bool(target) != bool(said) or (losses and said):
        fix = "give --target and --prediction, or --losses alone, or none of them"
        raise InputError("", "it is not clear which losses to bound", fix)
    check_inputs([table], encoding, mixtures)
    shown = not (quiet or as_json)
    with steps(shown) as step, in_options(OPTIONS, [table]):
        step(f"reading {table}")
        from anymix.tables import bound_frame, read_table
        from anymix.tables.reading import odd_notes

        named = [*said, *(column for column in (target, losses) if column)]
        reading = {"encoding": encoding, **cells(na, decimal, types)}
        frame = read_table(table, keep=named, text=domain, only=[*named, *domain], **reading)
        found = bound_frame(
            frame,
            domain,
            target=target,
            prediction=said,
            losses=losses,
            loss=loss,
            mixtures=mixtures,
            delta=delta,
            width=width,
            loss_bound=loss_bound,
            classes=None if classes is None else class_names(classes),
        )
    notes = odd_notes(frame, named)
    print_result(found, files={}, notes=notes, training={}, shown=shown, as_json=as_json)
