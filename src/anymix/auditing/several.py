"""Several columns of labels (or values) at once: the loss of a row is the mean of its columns'.

    l_i = (1/q) Σ_c l(y_ic, z_ic)

For labels that is the share of wrong ones, the Hamming loss. Every column keeps its own metrics.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.auditing.domains import count
from anymix.auditing.predictions import Predictions, read_predictions
from anymix.errors import InputError

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

__all__ = ["columns_of", "n_rows", "read_columns"]


def columns_of(argument: str, values: Any) -> dict[str, Any] | None:
    """The columns by name, if there are several; None for a single one."""
    if isinstance(values, dict):
        if not values:
            raise InputError(argument, "has no columns", "give one or more by name")
        return {str(name): column for name, column in values.items()}
    if hasattr(values, "columns"):
        return {str(name): values[name] for name in values.columns}
    shape = values.shape if hasattr(values, "shape") else np.shape(_first(values))
    width = (shape[1:] if hasattr(values, "shape") else shape) or (1,)
    if len(width) > 1 or width[0] < 2:
        return None
    table = np.asarray(values, dtype=None if hasattr(values, "dtype") else object)
    return {f"column {c + 1}": np.asarray(table[:, c].tolist()) for c in range(width[0])}


def _first(values: Any) -> Any:
    """The first row; a string has none."""
    return values[0] if isinstance(values, list | tuple) and values else 0


def read_columns(
    y_true: dict[str, Any], y_pred: Any, loss: str | None, pooled: Rows, weights: Array | None
) -> Predictions:
    """All columns as one prediction."""
    said = columns_of("y_pred", y_pred)
    if said is None or len(said) != len(y_true):
        found = f"has {1 if said is None else len(said)} columns, but {len(y_true)} are true"
        raise InputError("y_pred", found, "give one for each, in the same order")
    if set(said) != set(y_true):  # by order
        said = dict(zip(y_true, said.values(), strict=True))
    each = {}
    for name, truth in y_true.items():
        try:
            each[name] = read_predictions(truth, said[name], loss, None, pooled, weights)
        except InputError as error:
            found = f"{error.found} (column {name!r})"
            raise InputError(error.argument, found, error.fix) from error
    return _together(each)


def _together(each: dict[str, Predictions]) -> Predictions:
    """One prediction of many; they must be of one kind."""
    kinds = {read.kind: name for name, read in each.items()}
    if len(kinds) > 1:
        found = "has columns of different kinds: " + ", ".join(
            f"{kind} ({name!r})" for kind, name in kinds.items()
        )
        raise InputError("y_pred", found, "give all as labels, as probabilities or as values")
    first = next(iter(each.values()))
    return Predictions(
        first.kind,
        "hamming" if first.loss == "zero_one" else first.loss,
        np.mean([read.row_losses for read in each.values()], axis=0),
        {f"{m} of {name}": x for name, read in each.items() for m, x in read.measures.items()},
        None,
        {f"{m} of {name}": x for name, read in each.items() for m, x in read.row_metrics.items()},
    )


def n_rows(values: Any) -> int:
    """How many rows there are, in one column or in several."""
    columns = values if isinstance(values, dict) else None
    return count(next(iter(columns.values()))) if columns else count(values)
