"""Domains whose labels follow different columns, so that one model hardly serves them all."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Names = NDArray[Any]


def labels_data(
    seed: int = 0, n_large: int = 400, n_small: int = 60, d: int = 6
) -> tuple[Array, Names, Names]:
    """X, "yes" or "no", and the regions, in random order."""
    rng = np.random.default_rng(seed)
    domains = rng.permutation(np.repeat(["city", "rural"], [n_large, n_small]))
    X = rng.normal(size=(len(domains), d))
    score = 2 * np.where(domains == "city", X[:, 0], X[:, 1])
    return X, np.where(score + rng.logistic(size=len(score)) > 0, "yes", "no"), domains


def numbers_data(seed: int = 0, n_small: int = 40) -> tuple[Array, Array, Names]:
    """X, numbers, and the regions."""
    X, _, domains = labels_data(seed, n_small=n_small)
    rng = np.random.default_rng(seed + 1)
    return X, np.where(domains == "city", X[:, 0], -X[:, 1]) + rng.normal(size=len(X)), domains


def alike_data(
    seed: int, sizes: tuple[int, ...] = (300, 100), d: int = 5, *, classes: bool = True
) -> tuple[Array, Array, Names]:
    """Domains with one truth between them: nothing can be gained for any of them."""
    return _drawn(seed, sizes, d, classes, differs=False)


def different_data(
    seed: int, sizes: tuple[int, ...] = (300, 100), d: int = 5, *, classes: bool = True
) -> tuple[Array, Array, Names]:
    """The last, smallest domain follows a rule of its own."""
    return _drawn(seed, sizes, d, classes, differs=True)


def _drawn(
    seed: int, sizes: tuple[int, ...], d: int, classes: bool, differs: bool
) -> tuple[Array, Array, Names]:
    rng = np.random.default_rng(seed)
    domains = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(len(domains), d))
    common, own = rng.normal(size=(2, d)) * 2 / np.sqrt(d)
    z = np.where((domains == len(sizes) - 1) & differs, X @ own, X @ common)
    y = (rng.logistic(size=len(z)) < z).astype(float) if classes else z + rng.normal(size=len(z))
    return X, y, domains
