"""Random mixture sets, vectors and weights for the laws that all sets obey."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from anymix.mixtures import (
    Box,
    Chi2Ball,
    Hull,
    KLBall,
    MixtureSet,
    Point,
    Polytope,
    Simplex,
    TVBall,
    Vertices,
    cvar,
)

Array = NDArray[np.float64]


class Own(MixtureSet):
    """Another set as somebody else might write it: only its two methods, and all the defaults."""

    base: MixtureSet

    def __init__(self, base: MixtureSet) -> None:
        super().__init__(base.n_domains, base=base)

    def maximize(self, losses: ArrayLike) -> Array:
        return self.base.maximize(losses)

    def project(self, v: ArrayLike, weights: ArrayLike | None = None) -> Array:
        if weights is not None:
            return super().project(v, weights)
        return self.base.project(v)


Case = tuple[MixtureSet, Array, Array, Array]  # a set, two vectors and weights

# Strategies. Small integers make ties, zeros, repeated points and centres on the boundary common.


@st.composite
def a_mixture(draw: st.DrawFn, p: int) -> Array:
    counts = draw(st.lists(st.integers(0, 5), min_size=p, max_size=p).filter(any))
    return np.array(counts) / sum(counts)


@st.composite
def a_vector(draw: st.DrawFn, p: int) -> Array:
    scale = 10.0 ** draw(st.integers(-9, 9))
    entries = st.floats(-1, 1).map(lambda x: round(x, 12)) | st.integers(-3, 3)
    return scale * np.array(draw(st.lists(entries, min_size=p, max_size=p)), dtype=float)


@st.composite
def some_weights(draw: st.DrawFn, p: int, spread: int) -> Array:
    powers = st.floats(-spread, spread) | st.integers(-spread, spread)
    return 10.0 ** np.array(draw(st.lists(powers, min_size=p, max_size=p)), dtype=float)


@st.composite
def a_box(draw: st.DrawFn, p: int) -> Box:
    c, floor, roof = draw(a_mixture(p)), draw(a_mixture(p)), draw(a_mixture(p))
    return Box(np.minimum(c, floor), np.maximum(c, roof))


@st.composite
def a_polytope(draw: st.DrawFn, p: int) -> Polytope:
    """Around a mixture, which inequalities may touch; repeated and opposite rows are common."""
    c, m = draw(a_mixture(p)), draw(st.integers(1, 4))
    entries = st.lists(st.integers(-2, 2), min_size=p, max_size=p)
    A = np.array(draw(st.lists(entries, min_size=m, max_size=m)), dtype=float)
    A = np.vstack((A, draw(st.sampled_from([-1, 0, 1])) * A[:1]))
    room = draw(st.lists(st.sampled_from([0.0, 0.1, 0.5]), min_size=m + 1, max_size=m + 1))
    return Polytope(A, A @ c + np.array(room))


@st.composite
def a_chi2_ball(draw: st.DrawFn, p: int, base: MixtureSet | None) -> Chi2Ball:
    sizes = np.array(draw(st.lists(st.integers(1, 1000), min_size=p, max_size=p)))
    over = draw(st.sampled_from([1e-3, 0.1, 0.5, 3.0, 100.0]))
    return Chi2Ball(sizes, least_skewness(sizes, base or Simplex(p)) * (1 + over), base)


@st.composite
def a_mixture_set(draw: st.DrawFn, p: int, depth: int = 1) -> MixtureSet:
    kinds = ["simplex", "vertices", "point", "hull", "box", "cvar", "tv", "polytope", "kl"]
    kind = draw(st.sampled_from(kinds + (["chi2"] * 4 + ["shrunk", "own"] * 2) * (depth >= 0)))
    if kind == "simplex":
        return Simplex(p)
    if kind == "vertices":
        return Vertices(p)
    if kind == "point":
        return Point(draw(a_mixture(p)))
    if kind == "hull":
        return Hull(draw(st.lists(a_mixture(p), min_size=1, max_size=5)))
    if kind == "box":
        return draw(a_box(p))
    if kind == "cvar":
        return cvar(draw(a_mixture(p)), draw(st.floats(0.01, 1)))
    if kind == "tv":
        return TVBall(draw(a_mixture(p)), draw(st.sampled_from([0, 0.05, 0.3, 0.9, 1, 1.5])))
    if kind == "polytope":
        return draw(a_polytope(p))
    if kind == "kl":
        return KLBall(draw(a_mixture(p)), draw(st.sampled_from([0, 1e-6, 0.02, 0.3, 2.0])))
    if kind == "own":
        return Own(draw(a_mixture_set(p, depth - 1)).convex_hull)
    if kind == "shrunk":
        t = draw(st.sampled_from([1e-6, 0.1, 0.5, 0.999]))
        return draw(a_mixture_set(p, depth - 1)).shrunk(t, draw(a_mixture(p)))
    return draw(a_chi2_ball(p, draw(a_mixture_set(p, depth - 1))))


@st.composite
def a_case(draw: st.DrawFn, spread: int = 3) -> Case:
    """A set, two vectors and weights."""
    p = draw(st.integers(1, 7))
    return (
        draw(a_mixture_set(p)),
        draw(a_vector(p)),
        draw(a_vector(p)),
        draw(st.just(np.ones(p)) | some_weights(p, spread)),
    )


def least_skewness(sizes: NDArray[Any], base: MixtureSet) -> float:
    m = sizes / sizes.sum()
    return max(1.0, float(np.sum(base.project(m, 1 / m) ** 2 / m)))


def assert_box_kkt(lam: Array, v: Array, w: Array, lower: Array, upper: Array) -> None:
    """w(v − λ) = τ off the bounds, ≥ τ at the upper and ≤ τ at the lower: entry by entry."""
    ulp = 4e-15 * (np.abs(v) + 1)
    g, rounding = w * (v - lam), 10 * ulp * w
    at_most = np.where(lam < upper - ulp, g - rounding, -np.inf).max()
    at_least = np.where(lam > lower + ulp, g + rounding, np.inf).min()
    assert at_most <= at_least
