"""Losses of C models on rows held out, and what they say of domains and mixtures.

    D_ck      mean loss of model c on domain k          A_c   on all rows, Σ_k m̄_k D_ck
    s_k       standard error of D_0k                    ξ_k   standard normal, the same for every c
    V_c       E_ξ max_{λ∈Λ} Σ_k λ_k (D_ck + s_k ξ_k − b_k)
    π_c       E_ξ of the λ that attains the maximum: the chance that k is the worst domain

Model 0 is the reference. V looks at domains as they might have been, for which one is worst is
known only as surely as the means are. All models meet the same s_k ξ_k: with errors of its own, a
model that hardly tells rows apart would do well, because its losses differ little.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from anymix.mixtures import MixtureSet, NoPenalty, Penalty

Array = NDArray[np.float64]

__all__ = ["Errors", "HeldOut", "Judged", "chances", "worst_mixtures"]

DRAWS, FEW_DRAWS = 1000, 200  # of ξ; few where each worst mixture is a program of its own
MOST_AT_ONCE = 2e6  # numbers


@lru_cache(maxsize=4)
def _draws(count: int, p: int) -> Array:
    """ξ, (count, p): the same in every call, each draw followed by its opposite."""
    half = np.random.default_rng(0).standard_normal((count // 2, p))
    found = np.concatenate([half, -half])
    found.flags.writeable = False
    return found


def worst_mixtures(mixtures: MixtureSet, losses: Array, prior: Penalty | None = None) -> Array:
    """argmax over Λ of ⟨λ, L⟩ (+ log p(λ)) for each L of (C, p)."""
    if prior is None and mixtures.is_simplex:
        return np.asarray(np.eye(losses.shape[1])[losses.argmax(axis=1)])
    corners = mixtures.corners if prior is None else None
    if corners is not None:
        return np.asarray(corners[(losses @ corners.T).argmax(axis=1)])
    penalty = NoPenalty() if prior is None else prior
    return np.array([penalty.best_response(mixtures, L) for L in losses])


def chances(
    mixtures: MixtureSet, losses: Array, spread: Array, prior: Penalty | None = None
) -> Array:
    """π = E_ξ argmax_{λ∈Λ} ⟨λ, L + s∘ξ⟩, (p,)."""
    if prior is None and mixtures.is_simplex:
        worst = (losses + spread * _draws(DRAWS, losses.size)).argmax(axis=1)
        return np.bincount(worst, minlength=losses.size) / DRAWS
    count = DRAWS if prior is None and mixtures.corners is not None else FEW_DRAWS
    drawn = losses + spread * _draws(count, losses.size)
    return np.asarray(worst_mixtures(mixtures, drawn, prior).mean(axis=0))


class Judged(ABC):
    """What the rule asks for. `HeldOut` has the rows; where others keep them, their sums will do.

    Parameters are those of `HeldOut`.
    """

    mixtures: MixtureSet
    offsets: Array
    reference: Array
    constant: Array | None
    prior: Penalty | None
    squared: bool

    @property
    @abstractmethod
    def domain_losses(self) -> Array:
        """D, (C, p)."""

    @property
    @abstractmethod
    def spread(self) -> Array:
        """s, (p,)."""

    @abstractmethod
    def error(self, c: int, mixture: Array, other: int | None = None) -> float:
        """The standard error of Σ_k λ_k D_ck, or of Σ_k λ_k (D_ck − D_ok), paired row by row."""

    @cached_property
    def regrets(self) -> Array:
        """D − b, (C, p)."""
        return self.domain_losses - self.offsets

    @cached_property
    def pooled(self) -> Array:
        """A, (C,)."""
        return np.asarray(self.domain_losses @ self.reference)

    @cached_property
    def worst(self) -> Array:
        """A worst mixture of each model for these very rows, (C, p)."""
        return worst_mixtures(self.mixtures, self.regrets, self.prior)

    @cached_property
    def value(self) -> Array:
        """max_{λ∈Λ} Σ_k λ_k (D_ck − b_k) for these very rows, (C,)."""
        return self._values(self.regrets)

    @cached_property
    def expected(self) -> Array:
        """V, (C,)."""
        C, p = self.domain_losses.shape
        corners = None if self.prior is not None else self._corners
        easy = self.prior is None and (self.mixtures.is_simplex or corners is not None)
        xi = _draws(DRAWS if easy else FEW_DRAWS, p)
        at_once = max(1, int(MOST_AT_ONCE / (C * max(p, 0 if corners is None else len(corners)))))
        total = np.zeros(C)
        for start in range(0, len(xi), at_once):
            apart = self.spread * xi[start : start + at_once]  # (draws, p)
            losses = self.regrets + apart[:, None, :]  # (draws, C, p)
            total += self._values(losses.reshape(-1, p)).reshape(-1, C).sum(axis=0)
        return total / len(xi)

    @property
    def constant_errors(self) -> Array | float:
        """Paired standard errors of D − constant, (C, p); 0 where the rows are not here."""
        return 0.0

    def chances(self, c: int = 0) -> Array:
        """π_c, (p,)."""
        return chances(self.mixtures, self.regrets[c], self.spread, self.prior)

    @property
    def by_fold(self) -> tuple[Array, Array]:
        """D of each fold's rows, (F, C, p), and their shares of the domains' rows, (F, p)."""
        return self.domain_losses[None], np.ones((1, len(self.reference)))

    @cached_property
    def fold_chances(self) -> Array:
        """π_f, (F, p): π of the reference without the rows of fold f."""
        D, a = self.by_fold
        if len(D) == 1:
            return self.chances()[None]
        sums, rest = a * D[:, 0], 1 - a
        known = rest > 1e-9  # else all rows of the domain are in this fold
        means = (sums.sum(axis=0) - sums) / np.where(known, rest, 1.0)
        means = np.where(known, means, self.pooled[0]) - self.offsets
        return np.array([chances(self.mixtures, L, self.spread, self.prior) for L in means])

    @property
    def judged_at(self) -> Array:
        """π̄ = Σ_f a_f ∘ π_f, the weights of the domains in `gain`, (p,)."""
        return np.asarray((self.by_fold[1] * self.fold_chances).sum(axis=0))

    def gain(self, c: int) -> tuple[float, float]:
        """G = Σ_f Σ_k π_fk a_fk (D_f0k − D_fck), and its paired standard error.

        a_fk is the share of domain k's rows in fold f. Rows that look bad by chance do not choose
        the domain that they are judged on.
        """
        D, a = self.by_fold
        G = float(np.sum(self.fold_chances * a * (D[:, 0] - D[:, c])))
        return G, self.error(c, self.judged_at, 0)

    @cached_property
    def _corners(self) -> Array | None:
        return None if self.mixtures.is_simplex else self.mixtures.corners

    def _values(self, losses: Array) -> Array:
        """max_λ Σ_k λ_k L_k of each L, less what a prior takes off for far-fetched mixtures."""
        if self.prior is None and self.mixtures.is_simplex:
            return np.asarray(losses.max(axis=1))
        if self.prior is None and self._corners is not None:
            return np.asarray((losses @ self._corners.T).max(axis=1))
        mixtures = worst_mixtures(self.mixtures, losses, self.prior)
        found = np.einsum("cp,cp->c", mixtures, losses)
        if self.prior is None:
            return np.asarray(found)
        least = self.prior.value(self.prior.best_response(self.mixtures, 0 * self.reference))
        return np.asarray(found - [self.prior.value(lam) - least for lam in mixtures])


@dataclass(frozen=True, eq=False)
class HeldOut(Judged):
    """Losses of C models on n rows held out."""

    losses: Array  # (C, n) loss of each model on each row
    average: sparse.csc_array  # (p, n) shares a_ki of the rows in the domains' means
    mixtures: MixtureSet  # Λ, over the p domains
    offsets: Array  # (p,) b, what the losses of the domains are compared with
    reference: Array  # (p,) m̄, the mixture of all rows
    constant: Array | None = None  # (p,) losses of a constant guess
    # A prior on λ: a model's worst mixture is the argmax of ⟨λ, D − b⟩ + log p(λ), and V the
    # value there, with log p measured from its largest value, so that it is no reward
    prior: Penalty | None = None
    squared: bool = False  # whether losses are squared errors, whose price is that of their root
    constant_rows: Array | None = None  # (n,) loss of the constant guess on each row
    fold: NDArray[np.intp] | None = None  # (n,) number of each row's fold

    def only(self, rows: NDArray[np.bool_]) -> HeldOut:
        """The same with some of the rows; a domain that has none of them counts as all rows."""
        average = sparse.lil_array(sparse.csr_array(self.average)[:, rows])
        shares = np.asarray(average.sum(axis=1)).ravel()
        for k in np.flatnonzero(shares == 0):
            average[k, :] = 1.0 / average.shape[1]
        scale = sparse.diags_array(1 / np.where(shares > 0, shares, 1.0))
        kept = sparse.csc_array(scale @ sparse.csr_array(average))
        guess = None if self.constant_rows is None else self.constant_rows[rows]
        constant = self.constant if guess is None else np.asarray(kept @ guess)
        return replace(
            self,
            losses=self.losses[:, rows],
            average=kept,
            constant=constant,
            constant_rows=guess,
            fold=None if self.fold is None else self.fold[rows],
        )

    @cached_property
    def domain_losses(self) -> Array:
        """D, (C, p)."""
        return np.asarray((self.average @ self.losses.T).T, dtype=np.float64)

    @cached_property
    def spread(self) -> Array:
        """s, (p,)."""
        return self._errors.by_domain(self.losses[0])

    @cached_property
    def by_fold(self) -> tuple[Array, Array]:
        """As `Judged` says, from the rows themselves."""
        if self.fold is None:
            return self.domain_losses[None], np.ones((1, len(self.reference)))
        p, F = len(self.reference), int(self.fold.max()) + 1
        rows = sparse.coo_array(self.average)
        place = p * self.fold[rows.coords[1]] + rows.coords[0]
        cells = sparse.csr_array((rows.data, (place, rows.coords[1])), shape=(F * p, rows.shape[1]))
        a = np.asarray(cells.sum(axis=1)).ravel()
        D = (cells @ self.losses.T) / np.where(a > 0, a, 1.0)[:, None]
        return D.reshape(F, p, -1).transpose(0, 2, 1), a.reshape(F, p)

    @property
    def constant_errors(self) -> Array | float:
        """As `Judged` says, from the rows themselves."""
        if self.constant_rows is None:
            return 0.0
        return np.array([self._errors.by_domain(L - self.constant_rows) for L in self.losses])

    @cached_property
    def _errors(self) -> Errors:
        return Errors(self.average)

    def error(self, c: int, mixture: Array, other: int | None = None) -> float:
        """As `Judged` says, from the rows themselves."""
        loss = self.losses[c] if other is None else self.losses[c] - self.losses[other]
        return self._errors.of(loss, mixture)


class Errors:
    """Standard errors of the means Σ_i a_ki v_i of independent rows i.

        se² = Σ_i a_ki² (v_i − v̄_k)²/(1 − Σ_j a_kj²),     of m equal shares Σ (v_i − v̄)²/(m(m − 1))

    A single row says nothing of its own error: it has that of one row among all.
    """

    def __init__(self, average: sparse.csc_array) -> None:
        self.rows = sparse.csr_array(average)  # (p, n)
        self.transposed = self.rows.T
        squares = np.asarray(self.rows.multiply(self.rows).sum(axis=1)).ravel()
        self.rest = 1 - squares  # 1 − Σ_j a_kj²
        self.single = self.rest <= 1e-12

    def of(self, values: Array, mixture: Array) -> float:
        """se of Σ_k λ_k Σ_i a_ki v_i."""
        scale = np.where(self.single, 0.0, mixture / np.sqrt(np.where(self.single, 1.0, self.rest)))
        means = self.rows @ values
        # e_i = Σ_k u_k a_ki (v_i − v̄_k), u_k = λ_k/√(1 − Σ_j a_kj²)
        parts = values * (self.transposed @ scale) - self.transposed @ (scale * means)
        alone = mixture[self.single] * _deviation(values) if self.single.any() else np.empty(0)
        return _length(np.concatenate([parts, alone]))

    def by_domain(self, values: Array) -> Array:
        """se of every domain's mean, (p,)."""
        means = self.rows @ values
        k = np.repeat(np.arange(len(means)), np.diff(self.rows.indptr))  # the domain of each entry
        e = self.rows.data * (values[self.rows.indices] - means[k])
        unit = float(np.max(np.abs(e), initial=0.0)) or 1.0  # squares of huge numbers overflow
        squares = np.bincount(k, (e / unit) ** 2, minlength=len(means))
        found = unit * np.sqrt(squares / np.where(self.single, 1.0, self.rest))
        return np.where(self.single, _deviation(values), found) if self.single.any() else found


def _deviation(values: Array) -> float:
    """The standard deviation of rows; infinite for one."""
    n = len(values)
    return _length(values - values.mean()) / np.sqrt(n - 1) if n > 1 else np.inf


def _length(parts: Array) -> float:
    """‖e‖ without overflow."""
    unit = float(np.max(np.abs(parts), initial=0.0))
    return unit * float(np.linalg.norm(parts / unit)) if 0 < unit < np.inf else unit
