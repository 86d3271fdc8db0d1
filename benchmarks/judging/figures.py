"""Losses of test rows made into figures: worst domain, all rows, paired errors, what was reached.

D_k of a predictor is the mean loss of the test rows of domain k, then over the splits; *worst* is
max_k D_k, *all rows* Σ_k m̄_k D_k with the table's mixture m̄. Changes are relative to another
predictor's figure on the same splits. An error of one split's rows is that of the paired
differences, its mean over the splits: test rows of several splits are largely the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from judging.results import Result

Array = NDArray[np.float64]

LINEAR, TREES, CONSTANT = "linear", "trees", "constant"
UNUSED, INFERRED, HONEST = "ours, unused", "ours, inferred", "better of linear and trees"
MARGIN = 0.01  # of the worst loss, beyond one paired error: clearly better or worse
PRICE = 0.05

__all__ = ["Line", "Mean", "Table", "combined", "mean", "paired_error", "within"]


def domain_means(losses: NDArray[np.floating], k: NDArray[np.intp], p: int) -> Array:
    """The mean loss of each domain."""
    return np.bincount(k, losses, minlength=p) / np.bincount(k, minlength=p)


def paired_error(differences: NDArray[np.floating]) -> float:
    """The standard error of a mean; infinite for one row."""
    d = np.asarray(differences, dtype=float)
    return float(d.std(ddof=1) / math.sqrt(len(d))) if len(d) > 1 else math.inf


@dataclass(frozen=True)
class Mean:
    """A mean over tables and its standard error."""

    value: float
    error: float


def mean(values: Sequence[float]) -> Mean:
    """Over tables; sd / √n, infinite for one table."""
    return Mean(float(np.mean(values)), paired_error(np.asarray(values)))


@dataclass(frozen=True)
class Line:
    """A figure with its target.

    Attributes
    ----------
    text : str
        What it is.
    target : float
        What it should be at most, or at least.
    found : Mean
        A count or a ratio of sums has the error 0.
    at_least : bool
        The target is a lower bound.
    unit : str
        "%" for a share.
    note : str
        The tables counted, or the number of them.
    """

    text: str
    target: float
    found: Mean
    at_least: bool = False
    unit: str = "%"
    note: str = ""

    @property
    def verdict(self) -> str:
        """Reached by the mean, by the mean less one standard error, or not."""
        sign = -1 if self.at_least else 1
        excess = sign * (self.found.value - self.target)
        if excess <= 1e-12:
            return "reached"
        near = math.isfinite(self.found.error) and excess <= self.found.error
        return "reached within one error" if near else "not reached"


@dataclass(frozen=True, eq=False)
class Table:
    """All results of one table, split by split.

    Attributes
    ----------
    name, kind : str
        As in `judging.tables`.
    domains : tuple of str
        Their names.
    shares : ndarray of shape (p,)
        m̄.
    rows : dict of str to dict of int to ndarray
        Per column and split, the losses of the test rows.
    k : dict of int to ndarray
        Per split, their domains.
    means : dict of str to dict of int to ndarray of shape (p,)
        Per column and split, D.
    results : dict of int to Result
        Per split, what the flagship reported.
    """

    name: str
    kind: str
    domains: tuple[str, ...]
    shares: Array
    rows: dict[str, dict[int, NDArray[np.float32]]]
    k: dict[int, NDArray[np.intp]]
    means: dict[str, dict[int, Array]]
    results: dict[int, Result] = field(default_factory=dict)

    def splits(self, *columns: str) -> list[int]:
        """Those that all columns have."""
        found = [set(self.means.get(column, {})) for column in columns]
        return sorted(set.intersection(*found))

    def domain_losses(self, column: str, splits: Iterable[int]) -> Array:
        """D, (p,)."""
        return np.asarray(np.mean([self.means[column][s] for s in splits], axis=0))

    def change(self, column: str, base: str) -> tuple[float, float]:
        """Of the worst domain and of all rows, relative."""
        splits = self.splits(column, base)
        D, D0 = (self.domain_losses(c, splits) for c in (column, base))
        A, A0 = self.shares @ D, self.shares @ D0
        return float(D.max() / D0.max() - 1), float(A / A0 - 1)

    def error(self, column: str, base: str, s: int) -> Array:
        """Paired error of each domain's D in one split, (p,)."""
        d = self.rows[column][s].astype(float) - self.rows[base][s]
        return np.array([paired_error(d[self.k[s] == j]) for j in range(len(self.shares))])

    def clearly(self, column: str, base: str) -> int:
        """1 where the worst domain is clearly worse than the base's, −1 clearly better, else 0."""
        splits = self.splits(column, base)
        D, D0 = (self.domain_losses(c, splits) for c in (column, base))
        apart = D.max() - D0.max()
        error = np.mean([self.error(column, base, s)[D.argmax()] for s in splits])
        return int(np.sign(apart)) if abs(apart) > error + MARGIN * D0.max() else 0

    def exceeds(self, column: str, base: str, price: float) -> bool:
        """Do all rows pay more than the price and one error?"""
        splits = self.splits(column, base)
        A, A0 = (self.shares @ self.domain_losses(c, splits) for c in (column, base))
        errors = [np.linalg.norm(self.shares * self.error(column, base, s)) for s in splits]
        limit = A0 * within(self.kind, price) + np.mean(errors)
        return bool(limit < A)

    def moved(self) -> list[int]:
        """Splits in which another model than the reference is recommended."""
        facts = {s: result.facts for s, result in self.results.items()}
        return sorted(s for s, f in facts.items() if str(f["chosen"]) != str(f["reference"]))

    def below_constant(self, splits: Sequence[int]) -> bool:
        """Is the recommended model worse than a constant guess by two errors, the reference not?"""
        if not splits:
            return False
        found = [self.domain_losses(c, splits) for c in (INFERRED, UNUSED, CONSTANT)]
        error = np.mean([self.error(INFERRED, CONSTANT, s) for s in splits], axis=0)
        ours, reference, constant = found
        return bool(np.any((ours - constant > 2 * error) & (reference <= constant)))

    def mixtures(self, column: str | None) -> tuple[Array, Array]:
        """Loss of each random mixture relative to the reference's, and its error, (S, 20).

        None is the model adapted to unlabelled rows, guarded. Entries are differences divided by
        the reference's loss, mean over the splits.
        """
        changes, errors, base = [], [], []
        for s, result in sorted(self.results.items()):
            mixtures = result.facts["mixtures"]
            reference = mixtures @ self.means[UNUSED][s]
            if column is None:
                loss, error = result.facts["mixture losses"], result.facts["mixture errors"]
            else:
                loss = mixtures @ self.means[column][s]
                error = np.linalg.norm(mixtures * self.error(column, UNUSED, s), axis=1)
            changes.append(loss - reference)
            errors.append(error)
            base.append(reference)
        scale = np.mean(base, axis=0)
        return np.array(changes) / scale, np.array(errors) / scale


def within(kind: str, price: float) -> float:
    """The factor by which a mean loss may rise: the price is of the root of a squared error."""
    return (1 + price) ** (2 if kind == "regression" else 1)


def combined(name: str, results: dict[str, dict[int, Result]]) -> Table | None:
    """A table of the results of all learners by their name and split; None without the flagship."""
    ours = results.get("anymix", {})
    if not ours:
        return None
    first = next(iter(ours.values()))
    p = len(first.shares)
    rows: dict[str, dict[int, NDArray[np.float32]]] = {}
    for by_split in results.values():
        for s, result in by_split.items():
            if s not in ours:
                continue  # its rows have nothing to be compared with
            if not np.array_equal(result.k, ours[s].k):
                raise ValueError(f"{name}, split {s}: learners were tested on other rows")
            columns = dict(result.losses)
            if result is ours[s]:
                facts = result.facts
                columns[UNUSED] = columns[str(facts["reference"])]
                columns[INFERRED] = columns[str(facts["chosen"])]
                columns[HONEST] = columns[str(facts["simpler"])]
            for column, losses in columns.items():
                rows.setdefault(column, {})[s] = losses
    k = {s: result.k for s, result in ours.items()}
    means = {
        column: {s: domain_means(losses, k[s], p) for s, losses in of.items()}
        for column, of in rows.items()
    }
    domains = tuple(first.domains.tolist())
    return Table(name, first.kind, domains, first.shares, rows, k, means, ours)
