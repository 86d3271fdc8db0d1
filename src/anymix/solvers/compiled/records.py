"""What the kernels work on: codes instead of objects, arrays that change in place.

There are two ways to keep w, and three to keep λ. Who does not play is None and is not compiled.

Plain  w itself, O(d) a step: any step rule, any number of scores.
Lazy   w = s v, for SGD and one score: a step on rows x_j of CSR data costs O(their entries).
       v ← v − (η/s) Σ c_j x_j moves, s ← (1 − ηγ) s shrinks, and Π_W scales s by way of ‖v‖², kept
       up to date. With S = s_1 + … + s_t the total Σ w_t is S v − drag, if every change Δ of v adds
       S Δ to drag. Before s is small all is folded back to s = 1, S = 0. The intercept, last in w,
       is apart: it does not shrink.

Dense  λ itself, O(p) a step; or `Euclidean` or `Entropic`, trees with O(log p) a step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Numbers = NDArray[np.uint32]

LOG, HUBER, HINGE, SOFTMAX = 0, 1, 2, 3  # losses; the squared error is Huber's with δ = ∞
SGD, MOMENTUM, ADAGRAD, ADAM = 0, 1, 2, 3
SCALE, SUM, SQUARE, SINCE = 0, 1, 2, 3  # places in Lazy.numbers
NOTHING, LISTS, VECTORS = 0, 1, 2  # what is known of the last step


class Rules(NamedTuple):
    """What is played, as numbers."""

    loss: int
    huber: float  # its δ
    weighted: bool  # or per domain
    batch: int
    uniform: bool  # or every domain
    mixture_batch: int
    optimizer: int
    beta1: float
    beta2: float
    epsilon: float
    gamma: float
    mu: float
    radius: float  # inf for none
    optimistic: bool
    entropic: bool
    fixed: bool  # λ does not move


class Data(NamedTuple):
    """The rows, read only. Dense rows lie one after the other and have no columns and ends."""

    values: Array
    columns: Numbers
    ends: Integers  # (n + 1,)
    y: Array  # (n,)
    domain_ends: Integers  # (p + 1,)
    domain_rows: Numbers  # row numbers, domain by domain
    shares: Array  # their running sum, domain k over (k, k + 1]; empty if all are equal
    offsets: Array  # (p,)
    d: int
    intercept: bool
    longest: float  # no row is longer, if w has to stay in a ball


class Choice(NamedTuple):
    """The rows that a step is about."""

    rows: Integers  # (n_w,): of δ_w
    mixture_rows: Integers  # (n_λ,): of δ_λ
    domains: Integers  # (2 m,): of the entries of δ_λ, then of those of the last step


class Step(NamedTuple):
    """The gradients: δ_w as slopes of rows, δ_λ as m entries (p of them for every domain)."""

    slopes: Array  # (n_w, K): c_j ℓ'
    entries: Array  # (2 m,): of this step, then of the last
    moves: Array  # (2 m,), scratch
    scores: Array  # (K,), scratch
    past: Integers  # (1,): what is known of the last step, if optimistic


class Lazy(NamedTuple):
    """w = s v."""

    v: Array  # (P,)
    total: Array
    drag: Array
    numbers: Array  # (4,): s, S, ‖v‖², steps since s was 1
    last_rows: Integers  # (n_w,)
    last_slopes: Array  # (n_w, 1)
    previous: Array  # (P,): δ_w before the first step of a resumed run


class Plain(NamedTuple):
    """w, and what its step rule remembers."""

    w: Array  # (P,)
    total: Array
    previous: Array  # δ_w of the last step
    gradient: Array  # scratch
    first: Array
    second: Array
    time: Array  # (1,)


class Dense(NamedTuple):
    """λ, (p,)."""

    mixture: Array
    logarithm: Array
    running: Array  # sum of λ; during a step, what rounding has taken from λ
    total: Array
    gradient: Array
    previous: Array  # δ_λ of the last step
    reference: Array  # m̄
    prior: Array  # α − 1 of a Dirichlet prior; empty without one
