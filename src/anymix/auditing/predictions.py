"""What predictions are (labels, probabilities, values or losses), and what to measure of them.

| y_pred                         | is            | loss by default | other measures              |
|--------------------------------|---------------|-----------------|-----------------------------|
| strings, booleans, whole       | labels        | zero_one        | accuracy                    |
| (n, K), or fractions of [0, 1] | probabilities | log             | accuracy, AUC, calibration  |
| other numbers                  | values        | squared         | MAE, RMSE                   |
| anything, nothing being true   | losses        | what was given  | none                        |

Several columns of labels (or values) are one prediction: the loss of a row is the mean of theirs.

    l_i = (1/q) Σ_c l(y_ic, z_ic)

For labels that is the share of wrong ones, the Hamming loss. Every column keeps its own metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.auditing.domains import check_count, count
from anymix.auditing.measures import FLOOR, Measure, RootMeanSquare, Score, Share, loss_measure
from anymix.auditing.scores import auc, calibration, weighted_scores
from anymix.errors import InputError
from anymix.problem.arrays import encode, numbers
from anymix.problem.losses import named_losses, regression_loss

__all__ = ["Answers", "Predictions", "columns_of", "n_rows", "read_columns", "read_predictions"]

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


ROUNDING = 1e-6  # probabilities of a float32 softmax may be this much below 0 or above 1
KINDS = {"zero_one": "labels", "log": "probabilities", "squared": "values", "absolute": "values"}
KINDS |= dict.fromkeys(
    (name for name, of in named_losses(True).items() if not fields(of)), "values"
)
WORDS = "OUST"  # NumPy's kinds of columns with words


class Answers(NamedTuple):
    """What is true and what was said of each row, as numbers that any metric can take."""

    y: Array | NDArray[np.intp]  # (n,): places of the classes, or values
    said: Array | NDArray[np.intp]  # (n,): the same, as predicted
    P: Array | None = None  # (n, K): probabilities
    K: int = 0  # classes; 0 for values


class Predictions(NamedTuple):
    """What was predicted, as an audit needs it."""

    kind: str  # "labels", "probabilities", "values" or "losses"
    loss: str  # its name
    row_losses: Array  # (n,)
    measures: dict[str, Measure]  # what there is to measure besides the loss
    answers: Answers | None = None  # None for losses
    row_metrics: Mapping[str, Array] = MappingProxyType({})  # (n,) each: means of rows, as MAE


def read_predictions(
    y_true: Any,
    y_pred: Any,
    loss: str | None,
    classes: ArrayLike | None,
    pooled: Rows,
    weights: Array | None = None,
) -> Predictions:
    """What y_pred is, its loss row by row, and what else to measure."""
    n = count(y_pred)
    if y_true is None:
        return _given_losses(y_pred, loss, n)
    if loss is not None and loss not in KINDS:
        raise InputError(
            "loss",
            f"is {loss!r}",
            f"give one of {', '.join(map(repr, KINDS))}, or None as truth and the loss of each row "
            "as prediction",
        )
    check_count("y_true", y_true, n)
    kind = _kind(y_true, y_pred, loss)
    loss = loss or next(name for name, of in KINDS.items() if of == kind)
    if kind == "labels":
        return _of_labels(y_true, y_pred, classes, n, weights)
    if kind == "values":
        return _of_values(y_true, y_pred, loss, n, pooled, weights)
    return _of_probabilities(y_true, y_pred, loss, classes, weights)


def _given_losses(y_pred: Any, loss: str | None, n: int) -> Predictions:
    losses = numbers("y_pred", y_pred, n)
    loss = loss or ("zero_one" if np.asarray(y_pred).dtype == bool else "loss")
    other = losses[(losses != 0) & (losses != 1)]
    if loss == "zero_one" and len(other):
        found = f"has the loss {other[0]:.4g}, but errors ('zero_one') are 0 or 1"
        raise InputError("y_pred", found, "give 0 for right and 1 for wrong, or another name")
    return Predictions("losses", loss, losses, {})


def _kind(y_true: Any, y_pred: Any, loss: str | None) -> str:
    """Whether y_pred holds labels, probabilities or values."""
    if np.ndim(y_pred) == 2 and np.shape(y_pred)[1] > 1:
        if KINDS.get(loss or "") == "values":
            K = np.shape(y_pred)[1]
            found = f"is {loss!r}, of values, but there are {K} columns of probabilities"
            raise InputError("loss", found, "say 'log' or 'zero_one', or predict one column")
        return "probabilities"
    if loss is not None and loss != "zero_one":
        return KINDS[loss]
    pred, true = _fractions("y_pred", y_pred), _fractions("y_true", y_true)
    if pred is None:
        return "labels" if true is None or loss == "zero_one" else "values"
    names, _ = encode("y_true", y_true, count(y_true))
    K = len(names)
    if true is None and K <= 2 and _are_probabilities(pred):
        return "probabilities"
    if loss == "zero_one" and np.all(np.isin(pred, names)):
        return "labels"
    if loss == "zero_one" or (true is None and (K <= 2 or names.dtype.kind in WORDS)):
        found = f"has values from {_digits(pred.min())} to {_digits(pred.max())}, but"
        raise InputError(
            "y_pred",
            f"{found} what is true has {K} classes",
            f"give labels, {max(2, K)} columns of probabilities, or ask for the squared loss",
        )
    return "values"


def _are_probabilities(q: Array) -> bool:
    return bool(q.min() >= -ROUNDING and q.max() <= 1 + ROUNDING)


def _digits(value: float) -> str:
    """Enough of them to tell a number from 1 where rounding does not explain it."""
    return f"{value:.7g}"


def _fractions(name: str, values: Any) -> Array | None:
    """The numbers as an array if some are not whole, else None."""
    array = np.asarray(values)
    if array.dtype.kind == "O" and all(isinstance(v, float | int) for v in array.ravel()):
        array = array.astype(np.float64)
    if array.dtype.kind != "f" or not np.any(array != np.floor(array)):
        return None
    return numbers(name, array, len(array))


# Labels -----------------------------------------------------------------------------------------


def _of_labels(
    y_true: Any, y_pred: Any, classes: ArrayLike | None, n: int, weights: Array | None
) -> Predictions:
    (names, truth), (said, pred) = encode("y_true", y_true, n), encode("y_pred", y_pred, n)
    if (names.dtype.kind in WORDS) != (said.dtype.kind in WORDS):
        found = f"has labels such as {said.tolist()[0]!r}, the truth such as {names.tolist()[0]!r}"
        raise InputError("y_pred", found, "give both in the same form")
    known = names.tolist() if classes is None else np.ravel(classes).tolist()
    if len(known) > 1 and not set(said.tolist()) & set(known):
        found = f"has the labels {said.tolist()[:10]}, none of which is a true one ({known[:10]})"
        raise InputError("y_pred", found, "give both in the same form, or name all classes")
    hits = Share(names[truth] == said[pred], None, weights)
    place = {name: k for k, name in enumerate(known)}
    for name in [*names.tolist(), *said.tolist()]:  # what was only said comes last
        place.setdefault(name, len(place))
    y, z = (np.array([place[v] for v in of.tolist()]) for of in (names, said))
    answers = Answers(y[truth], z[pred], None, len(place))
    losses, rows = np.where(hits.hits, 0.0, 1.0), {"accuracy": hits.row_values()}
    return Predictions("labels", "zero_one", losses, {"accuracy": hits}, answers, rows)


# Probabilities ----------------------------------------------------------------------------------


def _of_probabilities(
    y_true: Any, y_pred: Any, loss: str, classes: ArrayLike | None, weights: Array | None
) -> Predictions:
    P = _probabilities(y_pred)  # (n, K)
    n, K = P.shape
    y = _codes(y_true, n, K, classes)
    likely = np.argmax(P, axis=1)
    hits = Share(likely == y, None, weights)
    measures: dict[str, Measure] = {"accuracy": hits}
    losses = np.where(likely == y, 0.0, 1.0)
    if loss == "log":
        losses = 0.0 - np.log(np.maximum(P[np.arange(n), y], FLOOR))  # not -0.0
    q, happened = (P[:, 1], y == 1) if K == 2 else (P.max(axis=1), likely == y)
    if K == 2:
        measures["auc"] = Score(auc, q, happened)
    measures["calibration_error"] = Score(calibration, q, happened)
    if weights is not None:
        measures |= weighted_scores(q, happened, weights, K)
    answers, rows = Answers(y, likely, P, K), {"accuracy": hits.row_values()}
    return Predictions("probabilities", loss, losses, measures, answers, rows)


def _probabilities(y_pred: Any) -> Array:
    """Of every class, (n, K); a single column is of the second of two."""
    pred = np.asarray(y_pred)
    P = np.column_stack([numbers("y_pred", c, len(pred)) for c in pred.reshape(len(pred), -1).T])
    if P.shape[1] == 1:
        P = np.column_stack([1 - P[:, 0], P[:, 0]])
    if not _are_probabilities(P):
        found = f"has values from {_digits(P.min())} to {_digits(P.max())}, which are no"
        raise InputError("y_pred", f"{found} probabilities", "give numbers in [0, 1]")
    P = np.clip(P, 0.0, 1.0)
    sums = P.sum(axis=1)
    i = int(np.argmax(np.abs(sums - 1)))
    if abs(sums[i] - 1) > 0.01:
        found = f"has a row that adds up to {sums[i]:.4g} (row {i})"
        fix = "the probabilities of the classes must add up to 1"
        raise InputError("y_pred", found, fix)
    return P


def _codes(y_true: Any, n: int, K: int, classes: ArrayLike | None) -> NDArray[np.intp]:
    """The column of y_pred that belongs to each row's class."""
    names, codes = encode("y_true", y_true, n)
    known = names.tolist() if classes is None else np.ravel(classes).tolist()
    if classes is None and len(known) < K and _counted_from_0(names, K):
        known = list(range(K))
    place = {name: k for k, name in enumerate(known)}
    if len(place) != K or any(name not in place for name in names.tolist()):
        said = "is needed" if classes is None else f"is {known[:10]}"
        found = f"{said}: those that are true are {names.tolist()[:10]}, but there are"
        raise InputError(
            "classes",
            f"{found} probabilities of {K}",
            f"name all {K}, in the order of the columns",
        )
    return np.array([place[name] for name in names.tolist()])[codes]


def _counted_from_0(names: NDArray[Any], K: int) -> bool:
    """Whether the classes are 0, …, K − 1 (or False and True): without a 0 they may start at 1."""
    if names.dtype.kind == "b":
        return K == 2
    return 0 in names.tolist() and set(names.tolist()) <= set(range(K))


# Values -----------------------------------------------------------------------------------------


def _of_values(
    y_true: Any, y_pred: Any, loss: str, n: int, pooled: Rows, weights: Array | None
) -> Predictions:
    said, y = numbers("y_pred", y_pred, n), numbers("y_true", y_true, n)
    error = said - y
    if np.abs(error).max() > 1e150:
        found = f"differs from what is true by up to {np.abs(error).max():.0e}, whose square is no"
        raise InputError("y_pred", f"{found} number", "divide both by it")
    absolute, half_squares = np.abs(error), error**2 / 2
    squares = loss_measure("values", "squared", half_squares, pooled, None, weights)
    measures: dict[str, Measure] = {
        "rmse": RootMeanSquare(squares),
        "mae": loss_measure("values", "absolute", absolute, pooled, None, weights),
    }
    losses = absolute if loss == "absolute" else regression_loss(loss).of_means(said, y)
    return Predictions("values", loss, losses, measures, Answers(y, said), {"mae": absolute})


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
