"""A client's answers to the exact solver: sums over its own rows, and no rows.

The client holds rows i, S_ik of domain k each, and is sent w and the weights λ_k/m_k of its own
domains. With c_i = Σ_k S_ik λ_k/m_k and D = len(w) it returns

    losses      Σ_i S_ik ℓ_i(w) of each of its domains k                      p numbers
    jacobian    Σ_i S_ik ∇ℓ_i(w) of each of its domains k                    pD numbers
    curvature   Σ_i c_i ∇²ℓ_i(w), the upper triangle; none if every c_i is 0  D(D+1)/2

or, sent a step s as well, for a certificate, with α_i = ℓ'_i + ℓ''_i ⟨s, (x_i, 1)⟩,

    conjugate   Σ_i c_i ℓ*(α_i)                                               1 number
    slope       Σ_i c_i α_i (x_i, 1)                                          D numbers
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.flower.wire import Arrays, Settings
from anymix.problem.linear import Evaluation, LinearDomains
from anymix.problem.losses import CrossEntropy, Huber, Loss

Array = NDArray[np.float64]
Shapes = dict[str, tuple[int, ...]]

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
    alpha = scale * (here.slope + here._bend(rows.scores(step)))
    alpha = _inside(rows.loss, alpha, rows.y)
    conjugate = np.where(c > 0, rows.loss.conjugate(alpha, rows.y), 0.0)
    return {
        "conjugate": np.array([c @ conjugate]),
        "slope": rows.pull_back(alpha * (c if alpha.ndim == 1 else c[:, None])),
    }


def _inside(loss: Loss, alpha: Array, y: NDArray[Any]) -> Array:
    """α, moved to where ℓ* is finite."""
    if isinstance(loss, Huber):
        return np.clip(alpha, -loss.delta, loss.delta)
    if not isinstance(loss, CrossEntropy):
        return alpha
    if alpha.ndim == 1:
        return np.clip(alpha, -y, 1 - y)
    target = np.eye(alpha.shape[1])[y]
    p = np.maximum(alpha + target, 0.0)
    p /= p.sum(axis=1, keepdims=True)
    moved: Array = p - target
    return moved


def _about(rows: LinearDomains) -> Arrays:
    """Σ_i s_i x_ij² of every column, and (Σ_i s_i y_i, Σ_i s_i) where y are numbers."""
    s = rows.average.T @ rows.sizes  # (n,): how often a row counts, over all domains
    squares = np.append((rows.X * rows.X).T @ s, [s.sum()] * rows.intercept)
    targets = [0.0, 0.0] if rows.classes is not None else [float(s @ rows.y), float(s.sum())]
    return {
        "penalized": rows.penalized.astype(np.float64),
        "squares": np.tile(squares, rows.n_scores),
        "targets": np.array(targets),
    }


def shapes_of(p: int, D: int, weighs: bool, proof: bool, about: bool) -> Shapes:
    """The arrays of a good answer from a client with p domains."""
    if proof:
        return {"conjugate": (1,), "slope": (D,)}
    shapes: Shapes = {"losses": (p,), "jacobian": (p, D)}
    if weighs:  # rows without weight have no curvature to tell
        shapes["curvature"] = (D * (D + 1) // 2,)
    if about:
        shapes |= {"penalized": (D,), "squares": (D,), "targets": (2,)}
    return shapes
