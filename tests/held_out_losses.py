"""Tables of held-out losses, as the rule takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

import anymix as ax
from anymix.mixtures import MixtureSet
from anymix.selection.held_out import HeldOut


def shares(members: Any) -> sparse.csc_array:
    """a_ki of memberships (p, n)."""
    table = np.asarray(members, dtype=np.float64)
    return sparse.csc_array(table / table.sum(axis=1, keepdims=True))


def held_out(
    losses: Any, domains: Any, mixtures: MixtureSet | None = None, b: Any = None, **options: Any
) -> HeldOut:
    """Losses (C, n) of rows in one domain each."""
    members = np.array([np.asarray(domains) == k for k in np.unique(domains)])
    p, sizes = len(members), members.sum(axis=1)
    offsets = np.zeros(p) if b is None else np.asarray(b, dtype=np.float64)
    target = ax.Simplex(p) if mixtures is None else mixtures
    values = np.asarray(losses, dtype=np.float64)
    return HeldOut(values, shares(members), target, offsets, sizes / sizes.sum(), **options)
