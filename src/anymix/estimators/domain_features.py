"""The domain as a feature: z = ⟨w, x⟩ + b + deviations of the row's own domain.

    "intercept":  z = ⟨w, x⟩ + b + b_k           "slopes":  z = ⟨w + v_k, x⟩ + b + b_k

The deviations b_k and v_k are penalised as w is, so a small domain borrows from the shared part w,
b; a row whose domain is unknown, or not among those fitted, is served by the shared part alone.
Both are linear models of a wider X: (x, 1_k) and (x, 1_k, x 1_k), 1_k the indicators of domains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from anymix.errors import InputError
from anymix.problem.arrays import read_domains
from anymix.problem.rows import Rows

Array = NDArray[np.float64]
Kind = str | None
"""One of KINDS, or None for a model that does not see the domain."""

__all__ = ["KINDS", "Deviations", "Kind", "deviation_columns", "members_of", "widened"]

KINDS = ("intercept", "slopes")
"""What of a model may differ between domains."""
MOST_DENSE = 2e7  # entries up to which the wider X is dense if X is


@dataclass(frozen=True, eq=False)
class Deviations:
    """What the scores of each domain's rows differ by from the shared part."""

    kind: str  # "intercept" or "slopes"
    coef: Array  # (K, p) or (K, p + p d): of the columns of `deviation_columns`
    names: NDArray[Any]  # (p,) domains

    def scores(self, X: Any, members: sparse.csr_array) -> Array:
        """What to add to the scores of rows with these memberships, (n, K)."""
        return np.asarray(deviation_columns(X, members, self.kind) @ self.coef.T)

    @property
    def intercepts(self) -> Array:
        """b_k of each domain, (p, K)."""
        return self.coef[:, : len(self.names)].T

    def slopes(self, d: int) -> Array:
        """v_k of each domain, (p, K, d); zeros if only intercepts differ."""
        p, K = len(self.names), len(self.coef)
        if self.kind == "intercept":
            return np.zeros((p, K, d))
        return self.coef[:, p:].reshape(K, p, d).transpose(1, 0, 2)


def deviation_columns(X: Any, members: sparse.csr_array, kind: str) -> sparse.csr_array:
    """The columns that a wider X has beyond X: 1_k, and for "slopes" x 1_k."""
    if kind == "intercept":
        return members
    thin = sparse.csr_array(X)
    products = [thin.multiply(members[:, [k]]) for k in range(members.shape[1])]
    return sparse.csr_array(sparse.hstack([members, *products], format="csr"))


def widened(rows: Rows, kind: Kind) -> Rows:
    """The rows with the domain among the features; the same rows if kind is None."""
    if kind is None:
        return rows
    if kind not in KINDS:
        raise InputError("domain_features", f"is {kind!r}", "give 'intercept', 'slopes' or None")
    more = deviation_columns(rows.X, rows.domains.indicators(len(rows.names)), kind)
    size = rows.X.shape[0] * (rows.X.shape[1] + more.shape[1])
    if not sparse.issparse(rows.X) and size <= MOST_DENSE:
        return rows.with_features(np.column_stack([rows.X, more.toarray()]))
    wide = sparse.hstack([sparse.csr_array(rows.X), more], format="csr")
    return rows.with_features(sparse.csr_array(wide))


def members_of(domains: Any, names: NDArray[Any], n: int) -> sparse.csr_array:
    """Which of n rows are in which of the domains fitted; a row of no known domain is in none."""
    shape = domains.shape if hasattr(domains, "shape") else np.shape(domains)
    place = {str(name): k for k, name in enumerate(names.tolist())}  # '1' is 1, as people write it
    place |= {name: k for k, name in enumerate(names.tolist())}
    if len(shape) == 2 and shape[1] > 1:
        titles, matrix = read_domains(domains, n)
        if titles.tolist() != names.tolist():
            found = f"has the columns {titles.tolist()}"
            raise InputError("domains", found, f"give those that were fitted, {names.tolist()}")
        return sparse.csr_array((matrix.T > 0).astype(np.float64))
    labels = np.asarray(domains, dtype=object).ravel().tolist()
    if len(labels) != n:
        raise InputError("domains", f"has {len(labels)} entries but X has {n} rows", f"give ({n},)")
    known = {label: place.get(label, place.get(str(label), -1)) for label in set(labels)}
    codes = np.array([known[label] if _known(label) else -1 for label in labels], dtype=int)
    inside = np.flatnonzero(codes >= 0)
    ones = np.ones(len(inside))
    return sparse.csr_array((ones, (inside, codes[inside])), shape=(n, len(names)))


def _known(label: Any) -> bool:
    """Whether a label is none of the things that stand for a missing one."""
    return label is not None and label == label  # NaN is not equal to itself
