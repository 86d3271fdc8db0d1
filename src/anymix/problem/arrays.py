"""Reading tables, targets, domains and weights: any kind of array or frame in, checked arrays out.

Every refusal is a ValueError that names the argument, what was found and what to do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from anymix.problem.losses import CrossEntropy, Hinge, Loss

Array = NDArray[np.float64]

__all__ = [
    "average_shares",
    "encode",
    "features",
    "memberships",
    "numbers",
    "refuse_missing",
    "rows_of_domains",
    "targets",
]


def features(X: Any) -> Any:
    """X as a C-ordered float64 array (not copied if it is one) or as csr_array, all finite."""
    fix = "encode categories first, for example with sklearn.preprocessing.OneHotEncoder"
    if sparse.issparse(X):
        table = sparse.csr_array(X)
        if not table.has_canonical_format:  # an entry stored twice has no square of its own
            table = table.copy()
            table.sum_duplicates()
        table.data = values = _floats("X", table.data, fix)
    else:
        table = values = np.ascontiguousarray(_floats("X", X, fix))
    if table.ndim != 2:
        raise ValueError(f"X has shape {table.shape}; give a table (n rows, d features)")
    if table.shape[0] == 0:
        raise ValueError("X has no rows; give at least one")
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(np.vdot(values, values))  # one pass, no array of booleans
    if suspicious:
        refuse_missing("X", values, "impute them, for example with sklearn.impute.SimpleImputer")
    return table


def _floats(name: str, table: Any, fix: str) -> Array:
    """A dense table as float64, not copied if it is one; dates and strings are no numbers."""
    try:
        types = table.dtypes if hasattr(table, "dtypes") else [np.asarray(table).dtype]
        strange = [str(t) for t in types if getattr(t, "kind", "f") in "cmMSTUV"]
        if strange:
            raise TypeError(f"but of type {strange[0]}")
        return np.asarray(table, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} has entries that are not numbers ({error}); {fix}") from None


def refuse_missing(name: str, values: NDArray[Any], fix: str = "drop or fill in the rows") -> None:
    """Refuse NaN and infinity."""
    bad = ~np.isfinite(values)
    if bad.any():
        raise ValueError(
            f"{name} has {bad.sum()} missing or infinite entries, the first of them "
            f"{values[bad][0]}; {fix}"
        )


def _column(name: str, values: Any, n: int) -> NDArray[Any]:
    try:
        column = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} is not a column ({error}); give ({n},)") from None
    if column.dtype.kind in "US" and not hasattr(values, "dtype"):
        column = np.asarray(values, dtype=object)  # else NumPy makes NaN the string 'nan'
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.shape != (n,):
        raise ValueError(f"{name} has shape {column.shape} but X has {n} rows; give ({n},)")
    if column.dtype.kind in "fcmM":
        refuse_missing(name, column)
    return column


def numbers(name: str, values: Any, n: int) -> Array:
    """n finite numbers, (n,)."""
    numbers = _floats(name, _column(name, values, n), "convert them")
    refuse_missing(name, numbers)
    return numbers


def encode(name: str, values: Any, n: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Sorted distinct values and the place of every entry among them.

    >>> names, codes = encode("domains", ["b", "a", "b"], 3)
    >>> names.tolist(), codes.tolist()
    (['a', 'b'], [1, 0, 1])
    """
    column = _column(name, values, n)
    low, high = (column.min(), column.max()) if column.dtype.kind in "iu" else (0, 2**63)
    if int(high) - int(low) < 4 * n + 1000 and high < 2**63:  # few enough to count, without a sort
        offset = column.astype(np.int64) - int(low)
        seen = np.bincount(offset) > 0
        names = np.flatnonzero(seen) + int(low)
        return names.astype(column.dtype), (np.cumsum(seen) - 1)[offset]
    if column.dtype.kind in "OUST":
        return _encode_objects(name, column)
    names, codes = np.unique(column, return_inverse=True)
    return names, codes


def _encode_objects(name: str, column: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    entries = column.tolist()
    try:
        distinct = set(entries)
    except TypeError as error:
        raise ValueError(f"{name} has {error} entries; give numbers or strings") from None
    missing = [v for v in distinct if _is_missing(v)]
    if missing:
        raise ValueError(
            f"{name} has missing entries ({missing[0]}); drop those rows or name them, say "
            "'unknown'"
        )
    try:
        names = sorted(distinct)
    except TypeError:
        kinds = sorted({type(v).__name__ for v in distinct})
        raise ValueError(f"{name} mixes {' and '.join(kinds)}; convert all to one type") from None
    place = {v: k for k, v in enumerate(names)}
    codes = np.fromiter((place[v] for v in entries), dtype=np.intp, count=len(entries))
    if isinstance(names[0], tuple):
        return np.fromiter(names, dtype=object), codes
    return np.array(names, dtype=column.dtype if column.dtype.kind == "U" else None), codes


def _is_missing(v: Any) -> bool:
    """None, NaN, NaT, or pandas' NA, whose comparisons have no truth value."""
    try:
        return v is None or bool(v != v)
    except TypeError:
        return True


def targets(
    y: ArrayLike, n: int, loss: Loss, classes: ArrayLike | None
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """y as numbers, or as codes of its sorted classes for the losses of classification."""
    if not isinstance(loss, CrossEntropy | Hinge):
        return _moderate(numbers("y", y, n)), None
    names, codes = encode("y", y, n)
    if classes is not None:
        names, codes = _place_among(names, codes, encode("classes", classes, np.size(classes))[0])
    if len(names) < 2:
        raise ValueError(
            f"y has one class only ({names.tolist()[0]!r}); a classifier needs two or more (name "
            "the others with classes= if they are only missing here)"
        )
    if isinstance(loss, Hinge) and len(names) > 2:
        raise ValueError(f"y has {len(names)} classes; the hinge loss takes two: use CrossEntropy")
    return (codes.astype(np.int8) if len(names) == 2 else codes), names


def _moderate(y: Array) -> Array:
    """Refuse numbers whose squares are infinite or zero."""
    most = float(np.max(np.abs(y), initial=0.0))
    if most > 1e150 or 0 < most < 1e-150:
        raise ValueError(
            f"y has values up to {most:.0e}, whose squares are no numbers; divide y by {most:.0e}"
        )
    return y


def _place_among(
    names: NDArray[Any], codes: NDArray[np.intp], classes: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    place = {v: k for k, v in enumerate(classes.tolist())}
    unknown = [v for v in names.tolist() if v not in place]
    if unknown:
        raise ValueError(
            f"y has the label {unknown[0]!r}, which is not among classes {list(place)}; add it"
        )
    return classes, np.array([place[v] for v in names.tolist()])[codes]


def memberships(domains: Any, n: int) -> tuple[NDArray[Any], sparse.csc_array]:
    """Names of the domains and the (p, n) matrix of memberships."""
    shape = domains.shape if hasattr(domains, "shape") else np.shape(domains)
    if not sparse.issparse(domains) and (len(shape) != 2 or shape[1] == 1):
        if len(shape) == 2 and np.asarray(domains).dtype.kind not in "OUST":
            raise ValueError(
                f"domains has shape {shape}, one column of labels or of memberships; give labels "
                f"as ({n},), the weights of a single domain as sample_weight"
            )
        names, codes = encode("domains", domains, n)
        kind = np.int32 if n < 2**31 - 1 else np.int64
        matrix = sparse.csc_array(
            (np.ones(n), codes.astype(kind), np.arange(n + 1, dtype=kind)), shape=(len(names), n)
        )
        return names, matrix
    if shape[0] != n:
        raise ValueError(f"domains has {shape[0]} rows but X has {n}; give one row of each")
    names = np.asarray(getattr(domains, "columns", np.arange(shape[1])))
    if len(names) == 0 or len(set(names.tolist())) < len(names):
        raise ValueError(
            f"domains has the columns {names.tolist()}; give one or more, of different names"
        )
    return names, _weights_table(domains).T.tocsc()


def _weights_table(domains: Any) -> sparse.csr_array:
    fix = "an (n, p) table holds memberships, booleans or weights: join label columns into one"
    table = domains if sparse.issparse(domains) else _floats("domains", domains, fix)
    table = sparse.csr_array(table, copy=True)
    table.data = _floats("domains", table.data, fix)
    refuse_missing("domains", table.data)
    if np.any(table.data < 0):
        raise ValueError(f"domains has the membership {table.data.min()}; give memberships ≥ 0")
    table.eliminate_zeros()  # in place: hence the copy
    return table


def average_shares(
    membership: sparse.csc_array, names: NDArray[Any], sample_weight: ArrayLike | None
) -> tuple[Array, sparse.csc_array]:
    """m_k = Σ_i S_ik and a_ki = S_ik / m_k, with S the memberships times the sample weights."""
    p, n = membership.shape
    data = membership.data
    if sample_weight is not None:
        weight = numbers("sample_weight", sample_weight, n)
        if np.any(weight < 0):
            raise ValueError(f"sample_weight has a negative entry {weight.min()}; give weights ≥ 0")
        data = data * np.repeat(weight, np.diff(membership.indptr))
    sizes: Array = np.bincount(membership.indices, weights=data, minlength=p).astype(np.float64)
    if np.any(sizes <= 0):
        empty = names.tolist()[int(np.argmin(sizes))]
        raise ValueError(
            f"domains has no rows in {empty!r}, or sample_weight none above 0 there; leave the "
            "domain out or merge it with another"
        )
    if not np.all(np.isfinite(sizes)):
        raise ValueError("sample_weight or domains adds up to inf; divide by the largest weight")
    shares = data / sizes[membership.indices]
    return sizes, sparse.csc_array((shares, membership.indices, membership.indptr), shape=(p, n))


def rows_of_domains(domains: Any, n: int) -> dict[Any, NDArray[np.intp]]:
    """Which of n rows are in each domain.

    >>> {name: rows.tolist() for name, rows in rows_of_domains(["b", "a", "b"], 3).items()}
    {'a': [1], 'b': [0, 2]}
    """
    names, membership = memberships(domains, n)
    csr = membership.tocsr()
    if not np.all(csr.data == 1):
        raise ValueError("domains has fractional memberships; here a row is in a domain or not")
    parts = np.split(csr.indices.astype(np.intp), csr.indptr[1:-1])
    return {name: rows for name, rows in zip(names.tolist(), parts, strict=True) if len(rows)}
