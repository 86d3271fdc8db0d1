"""What an audit found: every domain's loss and metrics, the worst mixture, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.auditing.guarantees import Guarantee
from anymix.auditing.intervals import Estimate
from anymix.auditing.measures import limits
from anymix.auditing.words import (
    LOSS_TITLES,
    TerminalTable,
    few_rows,
    html_table,
    level,
    metric_title,
    mixture_in_words,
    narrow,
    plain,
    short,
    span,
)
from anymix.mixtures import MixtureSet

Array = NDArray[np.float64]

__all__ = ["Audit"]

SURENESS = ("exact", "guaranteed", "approximate")  # kinds of intervals, the surest first


@dataclass(frozen=True, eq=False)
class Audit:
    """What `audit` found, domain by domain and for the worst mixture; p domains.

    Attributes
    ----------
    domain_names : tuple
        Labels of the domains, sorted.
    sizes : ndarray of int, shape (p,)
        Rows of each domain.
    n_rows : int
        Rows of all domains, each counted once.
    loss : str
        The name of the loss; `loss_title` is for people.
    kind : str
        What was audited: "labels", "probabilities", "values" or "losses".
    domain_losses : ndarray of shape (p,)
        The mean loss L_k of each domain.
    intervals : ndarray of shape (p, 2)
        Confidence intervals of these, each about one domain alone.
    row_losses : tuple of ndarray
        The loss of each row, domain by domain.
    metrics : dict of str to ndarray of shape (p,)
        Other measures of each domain; NaN where one is undefined.
    metric_intervals : dict of str to ndarray of shape (p, 2)
        Their confidence intervals.
    pooled_loss : float
        The mean loss of all rows together.
    pooled_interval : tuple of float
        Its confidence interval.
    pooled_metrics : dict of str to float
        The metrics of all rows together.
    mixtures : MixtureSet
        Λ, the mixtures that were asked about.
    worst_mixture : ndarray of shape (p,)
        The λ ∈ Λ of largest loss.
    agnostic_interval : tuple of float
        Confidence interval of `agnostic_loss`, max_{λ∈Λ} Σ λ_k L_k, about all domains at once.
    confidence : float
        The level of all intervals.
    interval_kinds : dict of str to str
        For "loss", "pooled_loss", "agnostic_loss" and each metric: "exact" or "guaranteed", which
        cover at the level or above, or "approximate".
    n_empty_cells : int
        Combinations of `sensitive_features` without a row: nothing is known of them.
    n_outside : int
        Rows in no domain, which count in none of the numbers.
    loss_bound : float
        What no loss can be above; infinite if that is not known.
    guarantees : dict of str to Guarantee
        With `guarantee=δ`, what holds for every mixture at once with probability 1 − δ: for "loss",
        and for "accuracy" by the share of errors.

    disparities : dict of str to Estimate
        With metrics="rates": "demographic_parity_difference", "equal_opportunity_difference" and
        "equalized_odds_difference", the largest differences between domains, as (value, low, high).
    row_metrics : dict of str to tuple of ndarray
        For metrics that are means, what they are the means of, row by row in each domain; NaN for
        rows that do not count.
    row_weights : tuple of ndarray or None
        With `sample_weight`, what each row counts, domain by domain.
    replicates : dict of str to ndarray of shape (p, 20)
        Of metrics without a formula for their interval, the numbers without a twentieth of rows.

    Examples
    --------
    >>> from anymix import audit
    >>> found = audit([1, 0, 1, 1], [1, 1, 1, 0], ["a", "a", "b", "b"])
    >>> found.sizes, found.pooled_loss, found.metrics["accuracy"]
    (array([2, 2]), 0.5, array([0.5, 0.5]))
    """

    domain_names: tuple[Any, ...]
    sizes: NDArray[np.int64]
    n_rows: int
    loss: str
    kind: str
    domain_losses: Array
    intervals: Array
    row_losses: tuple[Array, ...]
    metrics: dict[str, Array]
    metric_intervals: dict[str, Array]
    pooled_loss: float
    pooled_interval: tuple[float, float]
    pooled_metrics: dict[str, float]
    mixtures: MixtureSet
    worst_mixture: Array
    agnostic_interval: tuple[float, float]
    confidence: float
    interval_kinds: dict[str, str]
    n_empty_cells: int
    n_outside: int
    loss_bound: float = math.inf
    guarantees: dict[str, Guarantee] = field(default_factory=dict)
    disparities: dict[str, Estimate] = field(default_factory=dict)
    row_metrics: dict[str, tuple[Array, ...]] = field(default_factory=dict)
    row_weights: tuple[Array, ...] | None = None
    replicates: dict[str, Array] = field(default_factory=dict)

    @property
    def masses(self) -> Array:
        """What each domain counts in all: its rows, or the sum of their weights, (p,)."""
        if self.row_weights is None:
            return np.asarray(self.sizes, dtype=np.float64)
        return np.array([w.sum() for w in self.row_weights])

    @property
    def agnostic_loss(self) -> float:
        """max_{λ∈Λ} Σ_k λ_k L_k, the loss at `worst_mixture`."""
        return float(self.worst_mixture @ self.domain_losses)

    @property
    def worst_domain(self) -> int | None:
        """The place of the domain that is the worst mixture by itself; None if several make it."""
        k = int(np.argmax(self.worst_mixture))
        return k if self.worst_mixture[k] > 1 - 1e-9 else None

    @property
    def loss_title(self) -> str:
        """The loss's name, for people."""
        return LOSS_TITLES.get(self.loss, self.loss)

    @property
    def is_rooted(self) -> bool:
        """Whether the loss is half a square of errors, which people read as RMSE = √(2 L)."""
        return self.kind == "values" and self.loss == "squared"

    @property
    def unit_title(self) -> str:
        """The name of the loss in the unit that people read: RMSE for half squared errors."""
        return "RMSE" if self.is_rooted else self.loss_title

    def in_unit(self, loss: Any) -> Any:
        """Losses in the unit that people read: half squared errors in the target's, √(2 L).

        Parameters
        ----------
        loss : float or array-like
            Losses, or ends of their intervals.

        Returns
        -------
        float or ndarray

        Examples
        --------
        >>> from anymix import audit
        >>> found = audit([1.5, 2.0], [1.0, 2.5])
        >>> found.pooled_loss, found.in_unit(found.pooled_loss), found.unit_title
        (0.125, 0.5, 'RMSE')
        """
        if not self.is_rooted:
            return loss
        root = np.sqrt(2 * np.maximum(np.asarray(loss, dtype=np.float64), 0.0))
        return float(root) if root.ndim == 0 else root

    def tells(self, value: float, ends: Iterable[float], name: str = "loss") -> bool:
        """Whether an interval says something; a guaranteed one may be too wide for that.

        It does if it is at most three times as wide as the number itself is large, or has at most
        a quarter of the width that losses can have, or of 1 if that is less.

        Parameters
        ----------
        value : float
            The number.
        ends : tuple of float
            Its interval.
        name : str
            Of what: a key of `interval_kinds`.

        Returns
        -------
        bool
        """
        if self.interval_kinds[name] != "guaranteed":
            return True
        low, high = ends
        return high - low <= max(3 * value, min(self.loss_bound, 1.0) / 4)

    def summary(self) -> str:
        """The findings in plain language, a few sentences.

        Returns
        -------
        str
        """
        return " ".join(_sentences(self))

    def to_frame(self) -> Any:
        """A row for each domain: its rows, loss, metrics, their intervals, and the worst mixture.

        Returns
        -------
        pandas.DataFrame

        Examples
        --------
        >>> from anymix import audit
        >>> audit([1, 0, 1], [1, 1, 1], ["a", "a", "b"]).to_frame()["loss"].to_dict()
        {'a': 0.5, 'b': 0.0}
        """
        import pandas as pd

        index = pd.Index(list(self.domain_names), name="domain")
        return pd.DataFrame(dict(_columns(self)), index=index)

    def to_dict(self) -> dict[str, Any]:
        """Numbers, strings, lists and dicts only, for JSON; None for what is not finite.

        Returns
        -------
        dict
        """
        return {
            "loss": self.loss,
            "kind": self.kind,
            "confidence": self.confidence,
            "interval_kinds": dict(self.interval_kinds),
            "mixtures": repr(self.mixtures),
            "pooled_loss": plain(self.pooled_loss),
            "pooled_interval": [plain(end) for end in self.pooled_interval],
            "pooled_metrics": {name: plain(v) for name, v in self.pooled_metrics.items()},
            "agnostic_loss": plain(self.agnostic_loss),
            "agnostic_interval": [plain(end) for end in self.agnostic_interval],
            "n_empty_cells": self.n_empty_cells,
            "n_outside": self.n_outside,
            "loss_bound": plain(self.loss_bound),
            "guarantees": {name: g.to_dict() for name, g in self.guarantees.items()},
            "disparities": {name: [plain(x) for x in d] for name, d in self.disparities.items()},
            "weighted": self.row_weights is not None,
            "domains": [
                {"domain": str(name)} | {title: plain(v[k]) for title, v in _columns(self)}
                for k, name in enumerate(self.domain_names)
            ],
        }

    def __rich__(self) -> TerminalTable:
        return TerminalTable(*_cells(self), 2, self.domain_losses.tolist())

    def _repr_html_(self) -> str:
        return html_table(*_cells(self), self.summary())


def _columns(found: Audit) -> Iterator[tuple[str, NDArray[Any]]]:
    """Every number of the domains, with its title."""
    yield "rows", found.sizes
    measures = {"loss": (found.domain_losses, found.intervals)} | {
        name: (values, found.metric_intervals[name]) for name, values in found.metrics.items()
    }
    for name, (values, ends) in measures.items():
        yield name, values
        yield f"{name}_low", ends[:, 0]
        yield f"{name}_high", ends[:, 1]
    yield "worst_mixture", found.worst_mixture


def _cells(found: Audit) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of the table for people: domains, then all rows, then the worst."""
    names = [name for name in found.metrics if not (name == "rmse" and found.is_rooted)]
    kinds = [found.interval_kinds[name] for name in ("loss", "pooled_loss", "agnostic_loss")]
    title = level(found.confidence, max(kinds, key=SURENESS.index))
    heads = ["domain", "rows", found.unit_title, title]
    heads += [*map(metric_title, names), "worst mixture"]
    rows = [
        [
            str(name),
            f"{found.sizes[k]:,}",
            short(found.in_unit(found.domain_losses[k])),
            _interval(found, found.domain_losses[k], found.intervals[k]),
            *(short(found.metrics[m][k]) for m in names),
            f"{found.worst_mixture[k]:.1%}",
        ]
        for k, name in enumerate(found.domain_names)
    ]
    pooled = [short(found.pooled_metrics[m]) for m in names]
    blank = [""] * len(names)
    pooled_ends = _interval(found, found.pooled_loss, found.pooled_interval, "pooled_loss")
    worst_ends = _interval(found, found.agnostic_loss, found.agnostic_interval, "agnostic_loss")
    all_rows = [short(found.in_unit(found.pooled_loss)), pooled_ends, *pooled, ""]
    worst = [short(found.in_unit(found.agnostic_loss)), worst_ends, *blank, ""]
    rows += [["all rows", f"{found.n_rows:,}", *all_rows], ["worst mixture", "", *worst]]
    return heads, rows


def _interval(found: Audit, value: float, ends: Iterable[float], name: str = "loss") -> str:
    """An interval in the table, if it says something."""
    if not found.tells(value, ends, name):
        return "too wide"
    return narrow(found.in_unit(end) for end in ends)


def _sentences(found: Audit) -> Iterator[str]:
    p = len(found.sizes)
    once = found.interval_kinds["pooled_loss"] != "guaranteed"  # others are short enough to repeat
    losses, names = found.in_unit(found.domain_losses), [str(name) for name in found.domain_names]
    yield (
        f"{found.n_rows:,} rows in {p} domain{'s' * (p > 1)}: the {found.unit_title} is "
        f"{short(found.in_unit(found.pooled_loss))} on the rows as they are"
        f"{_told(found, 'pooled_loss') if once or p == 1 else ''}."
    )
    if p > 1:
        worst, best = int(np.argmax(losses)), int(np.argmin(losses))
        yield (
            f"On the worst mixture it is {short(found.in_unit(found.agnostic_loss))}"
            f"{_told(found, 'agnostic_loss')}, "
            f"reached at {mixture_in_words(found.worst_mixture, names)}."
        )
        largest, smallest = short(losses[worst]), short(losses[best])
        yield (
            f"It is {largest} on every domain."
            if largest == smallest
            else f"It is largest on {names[worst]!r} ({largest}) and smallest on {names[best]!r} "
            f"({smallest})."
        )
    if found.loss == "log" and found.loss_bound < limits(found.kind, "log")[1]:
        yield f"Log losses above {found.loss_bound:.4g} count as {found.loss_bound:.4g}."
    for name, (value, low, high) in found.disparities.items():
        yield (
            f"{metric_title(name).capitalize()}: {short(value)} "
            f"({level(found.confidence, 'guaranteed')} {span((low, high))})."
        )
    if "loss" in found.guarantees:
        yield _promise(found, found.guarantees["loss"])
    yield from few_rows(names, found.sizes)
    if found.n_outside:
        yield f"Rows in no domain, which count nowhere here: {found.n_outside:,}."
    if found.n_empty_cells:
        yield f"{found.n_empty_cells} combinations have no row at all: nothing is known of them."
    yield "Bias inside the data, such as wrong labels, is neither seen nor removed by this."


def _told(found: Audit, name: str) -> str:
    """An interval in a sentence: once, and only if it says something."""
    of = {
        "pooled_loss": (found.pooled_loss, found.pooled_interval),
        "agnostic_loss": (found.agnostic_loss, found.agnostic_interval),
    }
    value, ends = of[name]
    if not found.tells(value, ends, name):
        open_end = found.loss == "log" and found.loss_bound == limits(found.kind, "log")[1]
        limit = "; a limit on the log losses, 3 say, would narrow it" if open_end else ""
        return f" (too few rows for an interval that says something{limit})"
    shown = span(found.in_unit(end) for end in ends)
    return f" ({level(found.confidence, found.interval_kinds[name])} {shown})"


def _promise(found: Audit, promise: Guarantee) -> str:
    """The guarantee beside the estimate; for errors as accuracy too, which people know better."""
    accuracy = found.guarantees.get("accuracy")
    also = "" if accuracy is None else f", and the accuracy at least {short(1 - accuracy.value)}"
    return (
        f"Guaranteed with a probability of {1 - promise.delta:.4g}, if no training has seen these "
        f"rows: on every mixture the {found.loss_title} is at most {short(promise.value)}{also}."
    )
