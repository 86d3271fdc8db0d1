"""Φ a second time, in extended precision, and a solver of its own: nothing of the package is used.

L_k(w) = Σ_i a_ki ℓ(⟨w, (x_i, 1)⟩, y_i),   Φ(w, λ) = Σ λ_k (L_k − b_k) + γR(w − a) − f(λ),

with f = μ χ²(λ‖m̄), −log of a Dirichlet density, or κ ‖λ − c‖² for a normal one. The maximum over Λ
lies between the value at any λ of Λ and that value plus max_Λ ⟨g, λ' − λ⟩, g the gradient there.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from anymix.mixtures import (
    Box,
    Chi2Ball,
    Hull,
    MixtureSet,
    Point,
    Shrunk,
    Simplex,
    TVBall,
    Vertices,
)
from anymix.problem.losses import CrossEntropy, Hinge, Huber, Loss

Long = NDArray[np.longdouble]
Scalar = Any  # a longdouble
Array = NDArray[np.float64]


def long(x: Any) -> Long:
    return np.asarray(x, dtype=np.longdouble)


@dataclass(frozen=True)
class Phi:
    """Φ of some rows; `shares` are the a_ki (p, n), `anchor` is a with 0 for the intercepts."""

    X: Array
    y: Array
    shares: Long
    reference: Long
    loss: Loss
    n_scores: int
    intercept: bool
    gamma: float
    norm: str
    anchor: Array
    offsets: Array
    mu: float = 0.0
    alpha: Array | None = None  # of a Dirichlet prior
    normal: tuple[float, Array] | None = None  # κ and c of a normal one
    unit: float = 1.0  # what the prior is multiplied by

    # -- in w ----------------------------------------------------------------------------------

    @cached_property
    def rows(self) -> Long:
        """(X, 1)."""
        ones = np.ones((len(self.X), int(self.intercept)))
        return np.hstack([long(self.X), long(ones)])

    def scores(self, w: Array) -> Long:
        z: Long = self.rows @ long(w).reshape(self.n_scores, -1).T
        return z if self.n_scores > 1 else z[:, 0]

    def derivatives(self, w: Array) -> tuple[Long, Long, Long]:
        """ℓ (n,), ℓ' and ℓ'' (n, K), the latter without what couples the scores."""
        z, y = self.scores(w), self.y
        if self.n_scores > 1:
            z, target = z - z.max(axis=1, keepdims=True), np.eye(self.n_scores)[y.astype(int)]
            P = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
            return np.log(np.exp(z).sum(axis=1)) - (z * target).sum(axis=1), P - target, P
        if isinstance(self.loss, CrossEntropy):
            s = 1 - 2 * long(y)
            e = np.exp(-np.abs(z))
            P = np.where(s * z >= 0, 1, e) / (1 + e)
            return np.log1p(e) + np.maximum(s * z, 0), (s * P)[:, None], (e / (1 + e) ** 2)[:, None]
        if isinstance(self.loss, Hinge):
            s = 2 * long(y) - 1
            over = np.maximum(1 - s * z, 0)
            return over, np.where(over > 0, -s, 0)[:, None], np.zeros((len(z), 1), np.longdouble)
        r = z - long(y)
        delta = long(self.loss.delta) if isinstance(self.loss, Huber) else long(np.inf)
        g = np.clip(r, -delta, delta)
        return g * (r - g / 2), g[:, None], (np.abs(r) < delta).astype(np.longdouble)[:, None]

    def losses(self, w: Array) -> Long:
        losses: Long = self.shares @ self.derivatives(w)[0]
        return losses

    def doubt(self, w: Array, unit: float = 2.0**-53) -> float:
        """What rounding may do to a loss at w: slope times what a score may lose."""
        size = np.abs(self.rows) @ np.abs(long(w)).reshape(self.n_scores, -1).T
        value, slope, _ = self.derivatives(w)
        lost = self.shares @ ((np.abs(slope) * size).sum(axis=1) + value)
        lowest = 1.0 if self.loss.takes_classes else 0.0  # log(1 + small) of three classes
        return 64 * unit * (float(lost.max()) + lowest / 16)

    def pull(self, w: Array) -> Long:
        """w − a where it is penalised, (K, d)."""
        u: Long = (long(w) - long(self.anchor)).reshape(self.n_scores, -1)
        return u[:, : self.X.shape[1]]

    def regularizer(self, w: Array) -> Scalar:
        square = np.sum(self.pull(w) ** 2)
        return self.gamma * (square / 2 if self.norm == "squared" else np.sqrt(square))

    # -- in λ ----------------------------------------------------------------------------------

    def penalty(self, lam: Long) -> tuple[Scalar, Long]:
        """f and its gradient."""
        m, zero = self.reference, np.zeros_like(lam)
        if self.normal is not None:
            kappa, c = self.normal[0] * long(self.unit), long(self.normal[1])
            return kappa * np.sum((lam - c) ** 2), 2 * kappa * (lam - c)
        if self.alpha is None:
            mu = long(self.mu)
            return mu * np.sum((lam - m) ** 2 / m), 2 * mu * (lam / m - 1)
        a, used = long(self.alpha) - 1, self.alpha > 1
        constant = gammaln(self.alpha).sum() - gammaln(self.alpha.sum())
        with np.errstate(divide="ignore"):
            value = constant - np.sum(a[used] * np.log(lam[used]))
            slope = np.divide(-a, lam, out=zero, where=used)
        return self.unit * value, long(self.unit) * slope

    def value(self, w: Array, lam: Array) -> float:
        """Φ(w, λ)."""
        lam_ = long(lam)
        at_lam = lam_ @ (self.losses(w) - long(self.offsets)) - self.penalty(lam_)[0]
        return float(at_lam + self.regularizer(w))

    def between(self, w: Array, mixtures: MixtureSet, lam: Array) -> tuple[float, float]:
        """Two values with max_λ Φ(w, λ) between them; close if λ is about the best."""
        lam_, u = long(lam), self.losses(w) - long(self.offsets)
        value, slope = self.penalty(lam_)
        g = u - slope
        g -= g.max()
        low = lam_ @ u - value + self.regularizer(w)
        return float(low), float(low + np.maximum(support(mixtures, g) - lam_ @ g, 0))

    def least(self, lam: Array, start: Array) -> Array:
        """About the best w for λ, by Newton's method: slopes in extended precision."""
        w, value, c = start, self.value(start, lam), long(lam) @ self.shares
        for _ in range(40):
            _, slope, bent = self.derivatives(w)
            g = ((slope * c[:, None]).T @ self.rows).ravel()
            H = self._curvature(bent, c)
            self._add_regularizer(w, g, H)
            scale = np.sqrt(np.maximum(np.diag(H), 1e-300))
            S, g = (H / np.outer(scale, scale)).astype(float), (g / scale).astype(float)
            if not (np.all(np.isfinite(S)) and np.all(np.isfinite(g))):
                break
            step = -np.linalg.lstsq(S, g, rcond=1e-13)[0] / scale.astype(float)
            tries = [(self.value(w + t * step, lam), t) for t in (1.0, 0.5, 0.1, 1e-3)]
            best, t = min(tries)
            if not best < value:
                break
            w, value = w + t * step, best
        return w

    def _curvature(self, bent: Long, c: Long) -> Long:
        blocks: Any = [(self.rows * (h * c)[:, None]).T @ self.rows for h in bent.T]
        size, K = self.rows.shape[1], self.n_scores
        H = np.zeros((K, size, K, size), np.longdouble)
        for k, block in enumerate(blocks):
            H[k, :, k, :] = block
        if K > 1:
            for j, k in itertools.product(range(K), repeat=2):
                h = c * bent[:, j] * bent[:, k]
                H[j, :, k, :] -= (self.rows * h[:, None]).T @ self.rows
        return H.reshape(K * size, K * size)

    def _add_regularizer(self, w: Array, g: Long, H: Long) -> None:
        u = np.zeros((self.n_scores, self.rows.shape[1]), np.longdouble)
        u[:, : self.X.shape[1]] = self.pull(w)
        seen = np.zeros(u.shape)
        seen[:, : self.X.shape[1]] = 1
        size = 1.0 if self.norm == "squared" else max(float(np.sqrt(np.sum(u**2))), 1e-12)
        g += self.gamma * u.ravel() / size
        H += np.diag(self.gamma * long(seen).ravel() / size)


def support(mixtures: MixtureSet, g: Long) -> Scalar:
    """max over Λ of ⟨λ, g⟩."""
    if isinstance(mixtures, Simplex | Vertices):
        return g.max()
    if isinstance(mixtures, Point):
        return (long(mixtures.mixture) @ g)[()]
    if isinstance(mixtures, Hull):
        return (long(mixtures.points) @ g).max()
    if isinstance(mixtures, Shrunk):
        t = long(mixtures.t)
        mean = long(mixtures.reference) @ g
        return ((1 - t) * mean + t * support(mixtures.base, g))[()]
    if isinstance(mixtures, Box):
        return _greedy(long(mixtures.lower), long(mixtures.upper), g)
    if isinstance(mixtures, TVBall):
        c, best = long(mixtures.center), int(np.argmax(g))
        gain, left = long(0), min(long(mixtures.rho), 1 - c[best])
        for k in np.argsort(g):  # mass goes from the least to the largest
            moved = min(left, c[k]) if k != best else long(0)
            gain, left = gain + moved * (g[best] - g[k]), left - moved
        return (c @ g + gain)[()]
    assert isinstance(mixtures, Chi2Ball)
    assert isinstance(mixtures.base, Simplex)
    return _ball(long(mixtures.sizes) / np.sum(long(mixtures.sizes)), long(mixtures.r), g)


def _greedy(lower: Long, upper: Long, g: Long) -> Scalar:
    value, left = lower @ g, 1 - lower.sum()
    for k in np.argsort(-g):
        more = min(left, upper[k] - lower[k])
        value, left = value + more * g[k], left - more
    return value


def _ball(m: Long, r: Long, g: Long) -> Scalar:
    """max of ⟨λ, g⟩ over λ ≥ 0, Σλ = 1, Σλ²/m ≤ r: the best of all supports' candidates."""
    best = m @ g
    for n in range(1, len(m) + 1):
        for S in map(list, itertools.combinations(range(len(m)), n)):
            M = m[S].sum()
            v = g[S] - m[S] @ g[S] / M
            spread = m[S] @ v**2
            if r < 1 / M or (n > 1 and spread == 0):
                continue
            lam = m[S] / M + (0 if n == 1 else np.sqrt((r - 1 / M) / spread) * m[S] * v)
            best = max(best, lam @ g[S]) if np.all(lam >= 0) else best
    return best
