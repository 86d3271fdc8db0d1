"""The mean of the larger of two normal numbers, in closed form (Clark 1961)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]


def mean_of_larger(means: Any, errors: Any) -> Array:
    """E max(A, B), A and B normal and independent, by the last axis of length 2."""
    a, b = np.moveaxis(np.asarray(means, dtype=np.float64), -1, 0)
    theta = np.linalg.norm(np.asarray(errors, dtype=np.float64), axis=-1)
    d = (a - b) / np.maximum(theta, 1e-300)
    found = a * stats.norm.cdf(d) + b * stats.norm.cdf(-d) + theta * stats.norm.pdf(d)
    return np.asarray(found, dtype=np.float64)


def expected_worst(losses: Any, domains: Any, ordinary: Any = None) -> Array:
    """V, (C,), of losses (C, n) on rows of two domains; errors are those of the first model."""
    names = np.unique(domains)
    first = np.asarray(losses)[0] if ordinary is None else np.asarray(ordinary)
    rows = [first[domains == k] for k in names]
    errors = [own.std(ddof=1) / np.sqrt(len(own)) for own in rows]
    means = np.stack([np.asarray(losses)[:, domains == k].mean(axis=1) for k in names], axis=1)
    return mean_of_larger(means, np.array(errors))
