"""Reading tables, targets, domains and weights: any kind of array or frame in, checked arrays out.

What cannot be used is refused with an InputError, which names the argument and what to do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from anymix.errors import InputError
from anymix.problem.entries import encode, floats, numbers, refuse_missing
from anymix.problem.losses import Loss

Array = NDArray[np.float64]

__all__ = [
    "average_shares",
    "bounded_features",
    "code_type",
    "encode",
    "features",
    "memberships",
    "numbers",
    "one_each",
    "pooled_rows",
    "read_domains",
    "refuse_missing",
    "rows_of_domains",
    "shares",
    "targets",
    "weights",
]


def features(X: Any) -> Any:
    """X as a C-ordered float64 array (not copied if it is one) or as csr_array, all finite."""
    return bounded_features(X)[0]


def bounded_features(X: Any) -> tuple[Any, float]:
    """X as `features` has it, and a number that no |x_ij| is above: √Σ x_ij², which costs nothing.

    Examples
    --------
    >>> X, largest = bounded_features([[3.0, 0.0], [0.0, -4.0]])
    >>> round(largest, 3)
    5.0
    """
    fix = "encode categories first, for example with sklearn.preprocessing.OneHotEncoder"
    if sparse.issparse(X):
        table = sparse.csr_array(X)
        if not table.has_canonical_format:  # an entry stored twice has no square of its own
            table = table.copy()
            table.sum_duplicates()
        table.data = values = floats("X", table.data, fix)
    else:
        table = values = np.ascontiguousarray(floats("X", X, fix))
    if table.ndim != 2:
        raise InputError("X", f"has shape {table.shape}", "give a table (n rows, d features)")
    if table.shape[0] == 0:
        raise InputError("X", "has no rows", "give at least one")
    with np.errstate(over="ignore", invalid="ignore"):
        squares = float(np.vdot(values, values))  # one pass, no array of booleans
    if not math.isfinite(squares):
        refuse_missing("X", values, "impute them, for example with sklearn.impute.SimpleImputer")
        return table, math.inf
    # The factor covers the rounding of the sum, the summand entries whose squares are 0 here.
    return table, math.sqrt(squares) * (1 + 1e-6) + 1e-150


def targets(
    y: ArrayLike, n: int, loss: Loss, classes: ArrayLike | None
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """y as numbers, or as codes of its sorted classes for the losses of classification."""
    if not loss.takes_classes:
        values = _moderate(numbers("y", y, n))
        loss.check_targets(values)
        return values, None
    names, codes = encode("y", y, n)
    if classes is not None:
        names, codes = _place_among(names, codes, encode("classes", classes, np.size(classes))[0])
    if len(names) < 2:
        raise InputError(
            "y",
            f"has one class only ({names.tolist()[0]!r})",
            "a classifier needs two or more (name the others with classes= if they are only "
            "missing here)",
        )
    if loss.most_classes is not None and len(names) > loss.most_classes:
        fix = f"{loss} takes {loss.most_classes}: use CrossEntropy"
        raise InputError("y", f"has {len(names)} classes", fix)
    return codes.astype(code_type(len(names)), copy=False), names


def code_type(count: int) -> type[np.integer[Any]]:
    """The type of the codes of so many classes; one byte for two of them saves memory."""
    return np.int8 if count == 2 else np.intp


def _moderate(y: Array) -> Array:
    """Refuse numbers whose squares are infinite or zero."""
    most = float(np.max(np.abs(y), initial=0.0))
    if most > 1e150 or 0 < most < 1e-150:
        found = f"has values up to {most:.0e}, whose squares are no numbers"
        raise InputError("y", found, f"divide it by {most:.0e}")
    return y


def _place_among(
    names: NDArray[Any], codes: NDArray[np.intp], classes: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    place = {v: k for k, v in enumerate(classes.tolist())}
    unknown = [v for v in names.tolist() if v not in place]
    if unknown:
        found = f"has the label {unknown[0]!r}, which is not among classes {list(place)}"
        raise InputError("y", found, "add it")
    return classes, np.array([place[v] for v in names.tolist()])[codes]


def memberships(domains: Any, n: int) -> tuple[NDArray[Any], sparse.csc_array]:
    """Names of the domains and the (p, n) matrix of memberships, of labels or of a table."""
    names, found = read_domains(domains, n)
    return names, found if sparse.issparse(found) else one_each(found, len(names))


def read_domains(domains: Any, n: int) -> tuple[NDArray[Any], Any]:
    """Names of the domains, and codes (n,) of labels or a matrix (p, n) of a table's memberships.

    Examples
    --------
    >>> names, codes = read_domains(["b", "a", "b"], 3)
    >>> names.tolist(), codes.tolist()
    (['a', 'b'], [1, 0, 1])
    >>> read_domains([[True, False], [True, True]], 2)[1].toarray()
    array([[1., 1.],
           [0., 1.]])
    """
    shape = domains.shape if hasattr(domains, "shape") else np.shape(domains)
    if not sparse.issparse(domains) and (len(shape) != 2 or shape[1] == 1):
        if len(shape) == 2 and np.asarray(domains).dtype.kind not in "OUST":
            raise InputError(
                "domains",
                f"has shape {shape}, one column of labels or of memberships",
                f"give labels as ({n},), the weights of a single domain as sample_weight",
            )
        return encode("domains", domains, n)
    if shape[0] != n:
        found = f"has {shape[0]} rows but X has {n}"
        raise InputError("domains", found, "give one row of each")
    names = np.asarray(getattr(domains, "columns", np.arange(shape[1])))
    if len(names) == 0 or len(set(names.tolist())) < len(names):
        found = f"has the columns {names.tolist()}"
        raise InputError("domains", found, "give one or more, of different names")
    return names, _weights_table(domains).T.tocsc()


def one_each(codes: NDArray[np.integer[Any]], p: int) -> sparse.csc_array:
    """The (p, n) matrix with a 1 for the domain of every row."""
    n = len(codes)
    kind = np.int32 if n < 2**31 - 1 else np.int64
    places = codes.astype(kind), np.arange(n + 1, dtype=kind)
    return sparse.csc_array((np.ones(n), *places), shape=(p, n))


def _weights_table(domains: Any) -> sparse.csr_array:
    fix = "an (n, p) table holds memberships, booleans or weights: join label columns into one"
    table = domains if sparse.issparse(domains) else floats("domains", domains, fix)
    table = sparse.csr_array(table, copy=True)
    table.data = floats("domains", table.data, fix)
    refuse_missing("domains", table.data)
    if np.any(table.data < 0):
        found = f"has the membership {table.data.min()}"
        raise InputError("domains", found, "give memberships ≥ 0")
    table.eliminate_zeros()  # in place: hence the copy
    return table


def weights(sample_weight: ArrayLike, n: int) -> Array:
    """Weights ≥ 0 of n rows, (n,)."""
    weight = numbers("sample_weight", sample_weight, n)
    if np.any(weight < 0):
        found = f"has a negative entry {weight.min()}"
        raise InputError("sample_weight", found, "give weights ≥ 0")
    return weight


def average_shares(
    membership: sparse.csc_array, names: NDArray[Any], sample_weight: ArrayLike | None
) -> tuple[Array, sparse.csc_array]:
    """m_k = Σ_i S_ik and a_ki = S_ik / m_k, with S the memberships times the sample weights."""
    data = membership.data
    if sample_weight is not None:
        weight = weights(sample_weight, membership.shape[1])
        data = data * np.repeat(weight, np.diff(membership.indptr))
    sizes, average = shares(membership, data)
    if np.any(sizes <= 0):
        empty = names.tolist()[int(np.argmin(sizes))]
        raise InputError(
            "domains",
            f"has no rows in {empty!r}, or sample_weight none above 0 there",
            "leave the domain out or merge it with another",
        )
    return sizes, average


def shares(membership: sparse.csc_array, data: Array) -> tuple[Array, sparse.csc_array]:
    """m_k = Σ_i S_ik and a_ki = S_ik / m_k, S the matrix with these data; 0 in an empty domain."""
    p, where = membership.shape[0], membership.indices
    sizes: Array = np.bincount(where, weights=data, minlength=p).astype(np.float64)
    if not np.all(np.isfinite(sizes)):
        fix = "divide by the largest weight"
        raise InputError("sample_weight or domains", "adds up to inf", fix)
    part = data / np.where(sizes > 0, sizes, 1.0)[where]
    return sizes, sparse.csc_array((part, where, membership.indptr), shape=membership.shape)


def rows_of_domains(domains: Any, n: int) -> dict[Any, NDArray[np.intp]]:
    """Which of n rows are in each domain.

    Examples
    --------
    >>> {name: rows.tolist() for name, rows in rows_of_domains(["b", "a", "b"], 3).items()}
    {'a': [1], 'b': [0, 2]}
    """
    names, membership = memberships(domains, n)
    csr = membership.tocsr()
    if not np.all(csr.data == 1):
        fix = "here a row is in a domain or not"
        raise InputError("domains", "has fractional memberships", fix)
    parts = np.split(csr.indices.astype(np.intp), csr.indptr[1:-1])
    return {name: rows for name, rows in zip(names.tolist(), parts, strict=True) if len(rows)}


def pooled_rows(parts: Iterable[NDArray[np.intp]], n: int) -> NDArray[np.intp]:
    """Which of n rows are in at least one domain, sorted and each once.

    Examples
    --------
    >>> pooled_rows([np.array([3, 0]), np.array([0, 1])], 5)
    array([0, 1, 3])
    """
    is_in = np.zeros(n, dtype=bool)  # a mark for each row is much faster than np.unique
    for rows in parts:
        is_in[rows] = True
    return np.flatnonzero(is_in)
