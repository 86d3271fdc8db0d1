"""What held-out rows say of the models a user could choose from, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from anymix.selection.held_out import Errors
from anymix.selection.one_fit import Decision, OutOfFold, with_domain

Array = NDArray[np.float64]

__all__ = ["Recommendation", "recommendation_of"]


@dataclass(frozen=True, eq=False)
class Recommendation:
    """The candidates on held-out rows; differences are to the first one, the ordinary model.

    What depends on a choice (the blend, the dial, the recommended model) is judged on rows that
    did not take part in it.

    Parameters
    ----------
    reference : str
        The simplest of the models without the domain that no other beats by more than one error.
    chosen : str
        The recommended model: the reference, a place of the dial such as "t=1/8", or a model with
        the domain.
    with_domain : str or None
        The model for rows whose domain is known; None with a single domain.
    names : tuple of str
        The candidates, of which "reference" and "recommended" stand for what was chosen each time.
    domain_names : ndarray of shape (p,)
        The domains.
    sizes : ndarray of shape (p,)
        Held-out rows of each.
    losses : ndarray of shape (C, p)
        The mean loss of each candidate on each domain: log loss, or squared error.
    pooled : ndarray of shape (C,)
        On all rows.
    differences, errors : ndarray of shape (C, p)
        The loss less that of the ordinary model, and its standard error, paired by rows.
    pooled_differences, pooled_errors : ndarray of shape (C,)
        The same on all rows.
    constant : ndarray of shape (p,)
        The loss of a constant guess on each domain.
    blend : tuple of float
        The weight of the second family without and with the domain.
    change : float
        The largest last change in the fixed points of the dial.
    seconds : dict of str to float
        CPU time of each part of `fit`.
    price : float
        The part by which the loss of all rows may rise above that of the reference; of a squared
        error, its root.
    squared : bool
        Whether the loss is the squared error.

    Examples
    --------
    >>> import numpy as np
    >>> import anymix as ax
    >>> rng = np.random.default_rng(0)
    >>> d = np.repeat(["city", "rural"], [900, 100])
    >>> X = rng.normal(size=(1000, 2))
    >>> y = np.where(d == "city", X[:, 0], X[:, 1]) + 0.5 * rng.normal(size=1000) > 0
    >>> found = ax.AnyMixClassifier("linear").fit(X, y, domains=d).recommendation_
    >>> found.reference, found.chosen
    ('linear', 't=1/4')
    >>> [row["model"] for row in found.table]
    ['linear', 't=1/4', 'linear with domain']
    """

    reference: str
    chosen: str
    with_domain: str | None
    names: tuple[str, ...]
    domain_names: NDArray[Any]
    sizes: NDArray[np.intp]
    losses: Array
    pooled: Array
    differences: Array
    errors: Array
    pooled_differences: Array
    pooled_errors: Array
    constant: Array
    blend: tuple[float, float]
    change: float
    seconds: Mapping[str, float]
    price: float
    squared: bool

    @property
    def worst(self) -> NDArray[np.intp]:
        """The place of each candidate's worst domain, (C,)."""
        return np.asarray(self.losses.argmax(axis=1))

    @property
    def significance(self) -> NDArray[np.intp]:
        """−1 where a candidate is significantly better than the ordinary model, 1 where worse.

        (C, p), at 5 % for all p domains of a candidate together (Bonferroni).
        """
        p = len(self.domain_names)
        bound = float(norm.ppf(1 - 0.025 / p)) * self.errors
        found = np.where(np.abs(self.differences) > bound, np.sign(self.differences), 0)
        return np.asarray(found.astype(np.intp))

    def place(self, name: str) -> int:
        """Where a candidate stands."""
        return self.names.index(name)

    @property
    def table(self) -> list[dict[str, Any]]:
        """A row each for the ordinary model, the recommended one, and that with the domain."""
        shown = [(self.names[0], self.names[0]), ("recommended", self.chosen)]
        if self.with_domain is not None:
            shown.append((self.with_domain, self.with_domain))
        return [self.row(name, called) for name, called in shown]

    def kept(self) -> Recommendation:
        """The same with the reference as the recommended model."""
        rows = np.arange(len(self.names))
        rows[self.place("recommended")] = self.place("reference")
        names = ("losses", "pooled", "differences", "errors", "pooled_differences", "pooled_errors")
        taken = {name: getattr(self, name)[rows] for name in names}
        return replace(self, chosen=self.reference, **taken)

    def to_dict(self) -> dict[str, Any]:
        """Numbers, strings, lists and dicts only, for JSON."""
        return {
            "reference": self.reference,
            "chosen": self.chosen,
            "with_domain": self.with_domain,
            "price": self.price if np.isfinite(self.price) else None,
            "candidates": [self.row(name) for name in self.names],
        }

    def row(self, name: str, called: str | None = None) -> dict[str, Any]:
        """One candidate: its worst domain, all rows, and who gains and who pays."""
        c = self.place(name)
        k, names = int(self.worst[c]), self.domain_names.tolist()
        who = self.significance[c]
        return {
            "model": name if called is None else called,
            "worst_domain": names[k],
            "worst_loss": float(self.losses[c, k]),
            "worst_difference": float(self.losses[c, k] - self.losses[0].max()),
            "pooled_loss": float(self.pooled[c]),
            "pooled_difference": float(self.pooled_differences[c]),
            "pooled_error": float(self.pooled_errors[c]),
            "gains": [names[i] for i in np.flatnonzero(who < 0)],
            "pays": [names[i] for i in np.flatnonzero(who > 0)],
            "worse_than_constant": [
                names[i] for i in np.flatnonzero(self.losses[c] > self.constant)
            ],
        }


def recommendation_of(
    data: OutOfFold,
    decision: Decision,
    predicted: Mapping[str, Array],
    chosen: str,
    domain_names: NDArray[Any],
    seconds: Mapping[str, float],
    price: float,
) -> Recommendation:
    """The candidates' losses, and their paired differences to the first."""
    average, m = data.averages
    losses = np.array([data.losses(values) for values in predicted.values()])
    apart, error = losses - losses[0], Errors(average)
    D, difference = (np.asarray((average @ each.T).T) for each in (losses, apart))
    return Recommendation(
        decision.reference,
        chosen,
        with_domain(data) if decision.pi else None,
        tuple(predicted),
        domain_names,
        np.bincount(data.k, minlength=len(m)),
        D,
        D @ m,
        difference,
        np.array([error.by_domain(each) for each in apart]),
        difference @ m,
        np.array([error.of(each, m) for each in apart]),
        np.asarray(average @ data.losses(data.constant)),
        (decision.w, decision.w_domain),
        decision.change,
        dict(seconds),
        price,
        data.y is not None,
    )
