"""Rows that are not here, as an estimator is given them: who reads them, by what they can do.

An estimator may be given a problem that was made already, or the dataset, frame or array of a
package that keeps rows on a disk or on other machines. What such a thing can do tells which
function makes a problem of it; that function is loaded only then, for it needs more software.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from anymix.errors import InputError
from anymix.problem.losses import Loss

__all__ = ["far_problem"]

# A method that only such rows have, and the function (data, target, domain, **options) for them.
READERS = {
    "get_fragments": ("anymix.partitions.parquet_files", "from_parquet"),  # a dataset of Arrow
    "to_arrow_refs": ("anymix.partitions.on_ray", "from_ray"),
    "__dask_graph__": ("anymix.partitions.on_dask", "from_dask"),
}


def far_problem(
    X: Any, y: Any, domains: Any, weight: Any, loss: Loss, intercept: bool
) -> Any | None:
    """The problem of rows that are not here; None if X is of rows that are."""
    if hasattr(X, "brings_curvature"):
        given = {"y": y, "domains": domains, "sample_weight": weight}
        for name in (name for name, value in given.items() if value is not None):
            raise InputError(name, "is given beside a problem, which has its own", "leave it out")
        if X.loss != loss:
            found = f"is a problem with the loss {X.loss}, but this estimator has {loss}"
            raise InputError("X", found, "make the problem with that loss")
        return X
    for method, (module, name) in READERS.items():
        if hasattr(X, method):
            read = getattr(import_module(module), name)
            options = {"columns": "plain", "loss": loss, "weight": weight, "intercept": intercept}
            return read(X, y, domains, **options)
    return None
