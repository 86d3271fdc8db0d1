"""What a client's rows are like, in numbers: histograms or moments to cluster clients by."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError, finite_number
from anymix.problem.entries import encode

Array = NDArray[np.float64]

__all__ = ["Clients", "describe_clients"]


class Clients(NamedTuple):
    """The clients of a table and their statistics.

    Attributes
    ----------
    names : ndarray of shape (n,)
        The clients, sorted.
    statistics : ndarray of shape (n, d)
        A row for each client.
    sizes : ndarray of shape (n,)
        How many rows each has.
    columns : list of str
        What each entry of a row is.
    codes : ndarray of shape (rows,)
        The place among `names` of each row's client.

    Examples
    --------
    >>> describe_clients(["b", "a", "b"], labels=["u", "v", "v"]).names
    array(['a', 'b'], ...)
    """

    names: NDArray[Any]
    statistics: Array
    sizes: Array
    columns: list[str]
    codes: NDArray[np.intp]


def describe_clients(
    clients: Any,
    labels: Any = None,
    X: Any = None,
    *,
    kind: str = "histogram",
    bins: int = 10,
    smoothing: float = 0.0,
) -> Clients:
    """The statistics of each client's rows, for `BregmanClusters`.

    "histogram": the shares of the labels, and of each column of X in bins of equal numbers of
    rows. One histogram is for "kl"; where there are several side by side, "i_divergence" adds up
    their KL divergences, and "kl" takes the mean.
    "moments": means of the columns of X, and of their squares, in units of all rows' standard
    deviation: for "euclidean" and "mahalanobis".

    Parameters
    ----------
    clients : array-like of shape (rows,)
        The client of each row.
    labels : array-like of shape (rows,) or None
        The target, or any category; None leaves it out.
    X : array-like of shape (rows, d) or None
        Numbers; None leaves them out.
    kind : str
        "histogram" or "moments".
    bins : int
        Bins of each column of X, at most.
    smoothing : float
        Rows that are added to each client, distributed as those of all clients; small clients
        become more like the average, and no share is 0 that is not so everywhere.

    Returns
    -------
    Clients

    Examples
    --------
    >>> found = describe_clients(["b", "a", "b", "b"], labels=["u", "v", "v", "u"])
    >>> found.statistics.round(3), found.sizes, found.columns
    (array([[0.   , 1.   ],
           [0.667, 0.333]]), array([1., 3.]), ['label=u', 'label=v'])
    """
    names, codes = encode("clients", clients, len(clients))
    if labels is None and X is None:
        raise InputError("labels and X", "are both missing", "give one of them or both")
    if kind not in ("histogram", "moments"):
        raise InputError("kind", f"is {kind!r}", "give 'histogram' or 'moments'")
    extra = finite_number("smoothing", smoothing, "give a number ≥ 0", lambda x: x >= 0)
    parts = [] if labels is None else [_indicators(labels, len(codes))]
    if X is not None:
        numbers = _numbers(X, len(codes))
        make = _moments if kind == "moments" else _binned
        parts += [make(numbers[:, j], j, bins) for j in range(numbers.shape[1])]
    columns = [title for titles, _ in parts for title in titles]
    rows = np.hstack([values for _, values in parts])  # (rows, d)
    sizes = np.bincount(codes).astype(np.float64)
    sums = np.zeros((len(names), rows.shape[1]))
    np.add.at(sums, codes, rows)
    statistics = (sums + extra * rows.mean(axis=0)) / (sizes + extra)[:, None]
    return Clients(names, statistics, sizes, columns, codes)


Part = tuple[list[str], Array]  # titles, and a column for each


def _indicators(labels: Any, n: int) -> Part:
    levels, codes = encode("labels", labels, n)
    return [f"label={level}" for level in levels.tolist()], np.eye(len(levels))[codes]


def _numbers(X: Any, n: int) -> Array:
    numbers = np.asarray(X, dtype=np.float64)
    if numbers.ndim != 2 or len(numbers) != n:
        found = f"has shape {numbers.shape}, but there are {n} rows"
        raise InputError("X", found, f"give a table of ({n}, d) numbers")
    if not np.isfinite(numbers).all():
        raise InputError("X", "has entries that are missing or infinite", "fill them in")
    return numbers


def _binned(x: Array, j: int, bins: int) -> Part:
    """Indicators of bins between quantiles of all rows."""
    edges = np.unique(np.quantile(x, np.arange(1, bins) / bins))
    place = np.searchsorted(edges, x, side="right")
    return [f"x{j} bin {k}" for k in range(len(edges) + 1)], np.eye(len(edges) + 1)[place]


def _moments(x: Array, j: int, bins: int) -> Part:
    """z and (z² − 1)/√2 of the standardised column: both of variance 1 if x is normal."""
    z = (x - x.mean()) / (x.std() or 1.0)
    return [f"mean of x{j}", f"spread of x{j}"], np.column_stack([z, (z**2 - 1) / np.sqrt(2)])
