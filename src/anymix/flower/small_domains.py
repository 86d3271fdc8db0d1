"""Domains of which a client has only a few rows: merged with others, or not told at all.

The gradient of a domain of which a client has a single row *is* that row, scaled. A client with few
rows of a domain can count them to another one, or keep them. Neither is a promise of privacy: sums
over many rows can tell rows too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flwr.app import Context

from anymix.errors import InputError
from anymix.flower.client_data import Load
from anymix.flower.held_out import take
from anymix.flower.policy import count

__all__ = ["without_small_domains"]


def without_small_domains(load: Load, rows: int, merge_into: str | None = None) -> Load:
    """What a client loads, without domains of fewer than `rows` rows.

    Parameters
    ----------
    load : function
        load(context) gives (X, y, domains) of the client, as for `client_app`.
    rows : int
        The fewest rows of a domain that the client speaks of.
    merge_into : str, optional
        The domain that rows of smaller ones are counted to, the same at all clients. None, or if
        even all of them together are fewer than `rows`: they are kept back, and the client takes
        no part with them.

    Returns
    -------
    function
        To be given to `client_app`. A `describe` of yours must agree with it.

    Examples
    --------
    >>> def load(context):
    ...     return np.eye(5), [0, 1, 0, 1, 1], ["a", "a", "b", "c", "a"]
    >>> X, y, domains = without_small_domains(load, 2)(None)
    >>> X.shape, y, domains.tolist()
    ((3, 5), [0, 1, 1], ['a', 'a', 'a'])
    >>> without_small_domains(load, 2, merge_into="other")(None)[2].tolist()
    ['a', 'a', 'other', 'other', 'a']
    """
    count("rows", rows)

    def enough(context: Context) -> tuple[Any, Any, Any]:
        X, y, domains = load(context)
        labels = np.asarray(domains)
        if labels.ndim != 1:
            fix = "give one domain for each row: parts of a row cannot be counted"
            raise InputError("domains", f"has the shape {labels.shape}", fix)
        labels = _merged(labels.astype(str), rows, merge_into)
        kept = np.flatnonzero(np.isin(labels, _large(labels, rows)))
        if len(kept) == len(labels):
            return X, y, labels
        return take(X, kept), _like(y, kept), labels[kept]

    return enough


def _large(labels: Any, rows: int) -> Any:
    names, counts = np.unique(labels, return_counts=True)
    return names[counts >= rows]


def _merged(labels: Any, rows: int, merge_into: str | None) -> Any:
    """The labels, those of small domains replaced."""
    if merge_into is None:
        return labels
    small = ~np.isin(labels, _large(labels, rows))
    return np.where(small, merge_into, labels)


def _like(y: Any, kept: Any) -> Any:
    """Some targets, a list where they were one."""
    return [y[i] for i in kept] if isinstance(y, list) else take(y, kept)
