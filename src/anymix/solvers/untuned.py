"""Steps of both players that need no step sizes, and do not depend on any units.

    w_t = w_{t−1} − s_t g_t/√G_t,   G_t = Σ_{i≤t} g_i²                        Adagrad, of size s_t
    s_1 = 0.3 M/‖g_1‖₁,             s_t = s_{t−1} e^{c_t/2}
    λ_t = Π_Λ(λ_{t−1} + δ_t/(4√Q_t)),  Q_t = Σ_{i≤t} ‖δ_i − mean(δ_i)‖²

Where λ is penalised it goes 2/(t + 2) of the way to its best response instead: near the edge of Λ a
prior has no finite slope, so no step along it would do.

M is the worst loss at the start: with s = M/‖g‖₁ the slope of the first step would take it to 0.
c_t in [−1, 1] is the cosine between g_t and g_{t−1} (in the metric 1/√G_t): steps that keep their
direction get longer, steps that turn back get shorter. Multiply the loss or the targets by
anything: w scales with them, and the path is the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

__all__ = ["Untuned"]

FIRST, TURN, MIXTURE = 0.3, 0.5, 0.25
TINY = 1e-150  # its square is a number still


@dataclass
class Untuned:
    """The rule for w, as an `Optimizer` whose step is 1, and the step sizes of λ.

    Attributes
    ----------
    worst : float
        M, the worst loss at the start; the caller sets it before the first step.
    spread : float
        Q_t.

    Examples
    --------
    >>> rule = Untuned(worst=2.0)
    >>> d, memory = rule.direction(np.array([1.0, -3.0]), rule.start(2))
    >>> d.round(3).tolist()  # 0.3 · 2/(1 + 3), downhill
    [0.15, -0.15]
    >>> rule.mixture_step(np.array([0.0, 1.0]))
    0.353...
    """

    worst: float = np.nan
    spread: float = field(default=0.0)

    def start(self, n_parameters: int) -> dict[str, Array]:
        """G = 0, no size yet."""
        zeros = np.zeros(n_parameters)
        return {"G": zeros, "previous": zeros, "size": np.zeros(1)}

    def direction(
        self, gradient: Array, memory: dict[str, Array]
    ) -> tuple[Array, dict[str, Array]]:
        """s_t g_t/√G_t and what to remember."""
        g, previous, size = gradient, memory["previous"], memory["size"]
        G = memory["G"] + g * g
        h = np.divide(1.0, np.sqrt(G), out=np.zeros_like(G), where=TINY < G)
        if size[0] == 0:
            size = np.array([FIRST * self.worst / max(float(np.abs(g).sum()), TINY)])
        else:
            lengths = math.sqrt(float((g * h) @ g) * float((previous * h) @ previous))
            cosine = float((g * h) @ previous) / max(lengths, TINY)
            size = size * np.exp(TURN * cosine)
        if not g.any():
            size = memory["size"]
        return size * g * h, {"G": G, "previous": g, "size": size}

    def mixture_step(self, delta: Array) -> float:
        """1/(4√Q_t), with δ_t counted, unless it is rounding alone, as between losses at w = 0."""
        off = delta - delta.mean()
        if np.linalg.norm(off) > 1e-12 * np.linalg.norm(delta):
            self.spread += float(off @ off)
        return MIXTURE / math.sqrt(self.spread) if self.spread > 0 else 0.0

    @staticmethod
    def response_step(t: int) -> float:
        """2/(t + 2), the part of the way to the best response to penalised losses in step t."""
        return 2 / (t + 2)

    def state_dict(self) -> dict[str, Any]:
        """What is not in the optimizer's memory."""
        return {"worst": np.array(self.worst), "spread": np.array(self.spread)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was taken."""
        self.worst, self.spread = float(state["worst"]), float(state["spread"])
