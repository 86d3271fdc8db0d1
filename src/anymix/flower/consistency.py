"""Whether what a client says in one round agrees with what it said before.

The losses of its rows are convex in w. So for any two points that it was asked about, and each of
its domains k, with the sums L_k of losses and g_k of gradients,

    L_k(v) ≥ L_k(w) + ⟨g_k(w), v − w⟩

and the sums of a proof, with weights c_k, keep to the inequality of Fenchel and Young:

    Σ c ℓ*(α) ≥ ⟨Σ c α x, v⟩ − Σ_k c_k L_k(v)

The first question is about w = 0, where each row of one of K classes has the loss log K, so that
L_k(0) = m_k log K for the m_k rows that the client said it has.

In training a client tells of each round one gradient, of f(w) = Σ_k a_k L_k(w) + q(w) with the
weights a of that round and q its part of γ/2 ‖w‖², and the sums L_k: f too is above its tangents.

Whoever breaks one of these lies, or computes wrongly, and is known by its key. Whoever keeps them
all may still lie: rows that it made up, or labels that it changed, agree with each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anymix.problem.part_sums import Question, Sums

Array = NDArray[np.float64]

__all__ = ["Statements", "Tangent", "Tangents"]

KEPT = 4  # points that are remembered of each client
ROUNDING = 1e-9  # of the numbers compared


@dataclass(frozen=True)
class _Statement:
    """What was said about one point: L (p,) and g (p, D)."""

    w: Array
    losses: Array
    jacobian: Array


class Statements:
    """What clients said about the last points, each by its own name."""

    def __init__(self) -> None:
        self._said: dict[Hashable, deque[_Statement]] = {}

    def contradiction(
        self, who: Hashable, sizes: Array, question: Question, sums: Sums
    ) -> str | None:
        """What is wrong with an answer, None if it agrees with those before."""
        before = self._said.setdefault(who, deque(maxlen=KEPT))
        if "conjugate" in sums and "slope" in sums:
            return next(filter(None, (self._fenchel(old, question, sums) for old in before)), None)
        if not {"losses", "jacobian"} <= set(sums):
            return None
        if "kind" in sums and "targets" in sums and not np.any(question.w):
            wrong = self._at_zero(sizes, sums)
            if wrong:
                return wrong
        new = _Statement(question.w, sums["losses"], sums["jacobian"])
        for old in before:
            wrong = self._convex(old, new, new.losses) or self._convex(new, old, new.losses)
            if wrong:
                return wrong
        before.append(new)
        return None

    def _at_zero(self, sizes: Array, sums: Sums) -> str | None:
        """Whether a model that knows nothing has the loss of one, where there are classes."""
        if sums["targets"][1] != 0:
            return None  # numbers, which may be anything
        each = float(np.log(max(2.0, sums["kind"][1])))
        must = sizes * each
        away = np.abs(sums["losses"] - must) - ROUNDING * must
        if np.all(away <= 0):
            return None
        k = int(np.argmax(away))
        return (
            f"its answers contradict each other: of the {sizes[k]:g} rows of its domain {k} a "
            f"model of zeros has the loss {must[k]:g}, and not {sums['losses'][k]:g}"
        )

    def _convex(self, at: _Statement, other: _Statement, told: Array) -> str | None:
        """Whether the tangents at one point are below the losses at another."""
        step = other.w - at.w
        rise = at.jacobian @ step
        size = np.abs(at.losses) + np.abs(other.losses) + np.abs(at.jacobian) @ np.abs(step)
        slack = ROUNDING * size
        lack = at.losses + rise - other.losses
        if np.all(lack <= slack):
            return None
        k = int(np.argmax(lack - slack))
        must = at.losses[k] + rise[k] if other.losses is told else other.losses[k] - rise[k]
        bound = "least" if other.losses is told else "most"
        return (
            f"its answers contradict each other: the loss of its domain {k} is {told[k]:g}, and "
            f"must be at {bound} {must:g} after what it said about another model"
        )

    def _fenchel(self, old: _Statement, question: Question, sums: Sums) -> str | None:
        """Whether a proof's sums leave the losses told before possible."""
        conjugate, c = sums["conjugate"], question.weights
        least = float(sums["slope"] @ old.w - c @ old.losses)
        size = float(np.abs(sums["slope"]) @ np.abs(old.w) + c @ np.abs(old.losses))
        slack = ROUNDING * (size + float(np.abs(conjugate).sum()))
        if conjugate[0] >= least - slack:
            return None
        return (
            "its answers contradict each other: a proof would have losses below those that it told "
            f"before, {conjugate[0]:g} is less than {least:g}"
        )


@dataclass(frozen=True)
class Tangent:
    """f(w) = ⟨a, L(w)⟩ + `mass` h(w) at w, h = γ/2 ‖w‖² without intercepts, and its gradient g."""

    w: Array
    a: Array  # (p,)
    losses: Array  # L, (p,)
    mass: float
    h: float
    gradient: Array  # (D,)

    def lack(self, other: Tangent) -> float:
        """By how much f is below its tangent at another point, beyond all rounding."""
        mine = float(self.a @ self.losses) + self.mass * self.h
        others = float(self.a @ other.losses) + self.mass * other.h
        size = float(np.abs(self.gradient) @ (np.abs(self.w) + np.abs(other.w)))
        rise = float(self.gradient @ (other.w - self.w))
        return mine + rise - others - ROUNDING * (abs(mine) + abs(others) + size)


class Tangents:
    """What clients said in the last round of a training that sees all rows."""

    def __init__(self) -> None:
        self._said: dict[str, Tangent] = {}

    def contradiction(self, key: str, new: Tangent) -> str | None:
        """What is wrong with an answer, None if it agrees with the one before."""
        old = self._said.get(key)
        if old is not None and old.a.shape == new.a.shape:
            lack = max(old.lack(new), new.lack(old))
            if lack > 0:
                return (
                    "its answers contradict each other: losses are convex, and what it told of two "
                    f"models is {lack:.3g} apart from that"
                )
        self._said[key] = new
        return None
