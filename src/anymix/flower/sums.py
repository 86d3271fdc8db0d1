"""A client's answers to the exact solver: sums over its own rows, and no rows.

The client holds rows i, S_ik of domain k each, and is sent w and the weights λ_k/m_k of its own
domains. With c_i = Σ_k S_ik λ_k/m_k and D = len(w) it returns

    losses      Σ_i S_ik ℓ_i(w) of each of its domains k                      p numbers
    jacobian    Σ_i S_ik ∇ℓ_i(w) of each of its domains k                    pD numbers
    curvature   Σ_i c_i ∇²ℓ_i(w), the upper triangle; none if every c_i is 0  D(D+1)/2

or, sent a step s as well, for a certificate, with α_i = ℓ'_i + ℓ''_i ⟨s, (x_i, 1)⟩,

    conjugate   Σ_i c_i ℓ*(α_i), Σ_i c_i |ℓ*(α_i)|                            2 numbers
    slope       Σ_i c_i α_i (x_i, 1)                                          D numbers
    error       what rounding may have done to the slope                      D numbers
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.domains import Evaluation, LinearDomains
from anymix.flower.messages import Arrays, Settings
from anymix.losses import CrossEntropy, Huber, Loss

Array = NDArray[np.float64]
Shapes = dict[str, tuple[int, ...]]

POWER = 8  # (Σ_i |x_ij|⁸)^(1/8) is at least the largest |x_ij|, and a sum

__all__ = ["Shapes", "answer", "shapes_of"]


def answer(rows: LinearDomains, arrays: Arrays, settings: Settings) -> Arrays:
    """A client's sums over its own rows: of a look at w, or with a step of a proof."""
    here = rows.at(arrays["w"])
    mixture = arrays["weights"] * rows.sizes  # then row i weighs c_i = Σ_k S_ik λ_k/m_k
    if "step" in arrays:
        return _proof(here, mixture, arrays["step"], settings["scale"])
    reply = {
        "losses": here.losses * rows.sizes,
        "jacobian": here.jacobian() * rows.sizes[:, None],
    }
    if np.any(mixture):
        reply["curvature"] = here.hessian(mixture)[np.triu_indices(rows.n_parameters)]
    return {**reply, **_about(rows)} if settings["about"] else reply


def _proof(here: Evaluation, mixture: Array, step: Array, scale: float) -> Arrays:
    """Σ c_i ℓ*(α_i) and Σ c_i α_i (x_i, 1)."""
    rows, c = here.problem, here._weights(mixture)
    alpha = here.slope + here._bend(_short(rows.scores(step), here))
    alpha = scale * _inside(rows.loss, alpha, rows.y)
    total, size = here.conjugates(c, alpha)
    v, error = here.slopes(c, alpha)
    return {
        "conjugate": np.array([total, size]),
        "slope": v,
        "error": error,
    }


def _short(u: Array, here: Evaluation) -> Array:
    """A change u of the scores, cut where ℓ' + ℓ''u would leave the domain of ℓ*."""
    if not isinstance(here.problem.loss, CrossEntropy):
        return u
    if u.ndim == 1:
        return np.clip(u, -0.5, 0.5)
    u = u - np.einsum("ik,ik->i", here._curvature, u)[:, None]
    longest = np.abs(u).max(axis=1, keepdims=True)
    short: Array = u * np.minimum(1.0, 0.5 / np.maximum(longest, 0.5))
    return short


def _inside(loss: Loss, alpha: Array, y: NDArray[Any]) -> Array:
    """α, moved to where ℓ* is finite and has room around it."""
    if isinstance(loss, CrossEntropy):  # but for rounding it is there
        if alpha.ndim == 1:
            return np.clip(alpha, -y, 1 - y)
        target = np.eye(alpha.shape[1])[y]
        p = alpha + target
        p[p < 1e-12] = 0.0  # a class that no row has goes to 0 for ever: there it has arrived
        p /= p.sum(axis=1, keepdims=True)
        moved: Array = p - target
        return moved
    if not isinstance(loss, Huber):
        return alpha
    most = loss.delta - loss.room
    return np.where(np.abs(alpha) > loss.delta, np.clip(alpha, -most, most), alpha)


def _about(rows: LinearDomains) -> Arrays:
    """Σ_i x_ij⁸ of every column, (Σ_i s_i y_i, Σ_i s_i) where y are numbers, rows and the loss."""
    s = rows.average.T @ rows.sizes  # (n,): how often a row counts, over all domains
    counts = (s > 0).astype(np.float64)
    powers = np.append((abs(rows.X) ** POWER).T @ counts, [counts.sum()] * rows.intercept)
    targets = [0.0, 0.0] if rows.classes is not None else [float(s @ rows.y), float(s.sum())]
    return {
        "penalized": rows.penalized.astype(np.float64),
        "powers": np.tile(powers, rows.n_scores),
        "targets": np.array(targets),
        "kind": np.array([rows.n_rows, rows.n_scores, min(rows.loss.room, 1e300)]),
    }


def shapes_of(p: int, D: int, weighs: bool, proof: bool, about: bool) -> Shapes:
    """The arrays of a good answer from a client with p domains."""
    if proof:
        return {"conjugate": (2,), "slope": (D,), "error": (D,)}
    shapes: Shapes = {"losses": (p,), "jacobian": (p, D)}
    if weighs:  # rows without weight have no curvature to tell
        shapes["curvature"] = (D * (D + 1) // 2,)
    if about:
        shapes |= {"penalized": (D,), "powers": (D,), "targets": (2,), "kind": (3,)}
    return shapes
