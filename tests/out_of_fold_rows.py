"""Predictions for rows by models that did not see them, drawn at random, as one fit brings them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from anymix.selection.one_fit import OutOfFold


def drawn(
    seed: int,
    *,
    n: int = 120,
    p: int = 3,
    families: int = 2,
    squared: bool = True,
    n_experts: int | None = None,
    weighted: bool = False,
) -> OutOfFold:
    """Models that err at random; the first domain is large, each expert is best in its own."""
    rng = np.random.default_rng(seed)
    E = p if n_experts is None else n_experts
    k = np.sort(np.append(np.arange(p).repeat(4), rng.integers(0, p, n - 4 * p) * rng.integers(2)))
    expert = np.minimum(np.arange(p), E - 1)
    weight = rng.uniform(0.2, 3.0, size=n) if weighted else np.ones(n)
    shares = np.bincount(k, weight, p) / weight.sum()
    far = np.abs(np.arange(E) - expert[k][:, None])  # (n, E)
    y = rng.normal(size=n) + k
    plain = y + rng.normal(size=(families, n)) * (0.5 + 0.3 * k)
    experts = y[:, None] + (0.3 + 0.5 * far) * rng.normal(size=(families, n, E))
    if not squared:
        plain, experts = 1 / (1 + np.exp(plain - y - 1)), 1 / (1 + np.exp(experts - y[:, None] - 1))
    return OutOfFold(
        ["first", "second"][:families],
        plain,
        experts,
        rng.dirichlet(np.ones(E), size=n) * 0.7 + 0.3 * np.eye(E)[expert[k]],
        expert,
        k,
        weight,
        np.full(n, np.average(y, weights=weight)) if squared else np.full(n, 0.4),
        y if squared else None,
        rng.permutation(np.arange(n) % 4),
        shares,
    )


def with_experts(data: OutOfFold, quality: float, **other: Any) -> OutOfFold:
    """The same with experts that err `quality` times as much in a regression."""
    assert data.y is not None
    y = data.y[:, None]
    return replace(data, experts=y + quality * (data.experts - y), **other)
