"""Which of C models is best for the worst mixture on rows none of them has seen, and how surely.

    V_c = E max_{λ∈Λ} Σ_k λ_k (L̂_ck + s_k ξ_k − b_k),     ξ_k ~ N(0, 1)

L̂_ck is the mean loss of model c on domain k's rows, and s_k the standard error of the ordinary
model's. E looks at domains as they might have been: which one is worst is known only as surely as
the means are. A model that lightens the domain that happens to be worst, and burdens one that is
hardly better, gains nothing. All models meet the same errors s_k ξ_k: with errors of its own, a
model that says little about anybody would do well, because its losses differ little.

The least V_c is a lucky one as well as a good one. The guard therefore takes the tamest model that
the rows cannot tell from it. With b the model of least V, that holds for model c if

    V_c − V_b ≤ one standard error of Σ_k λ_k (L̂_ck − L̂_bk), row by row,

λ being the worst mixture of model c. (That sum itself would flatter b: the worst mixture of c is
partly one where c had bad luck.) Where a few rows make up most of that error, as in regressions
with a few very large ones, it is known badly, and counts for more, by Student's distribution.

The tamest is the ordinary model, c = 0, or else the one of least mean loss on all rows. In the
latter case a model will do as well that keeps four fifths of the gain V_0 − V_b: on very many rows
the last fifth, though sure, often costs all others more than the rest together. And no model
differs from another within 1 % of the ordinary one's worst loss on these very rows: what is that
small, however sure, helps no one.

The ordinary model is also kept where its worst domain has fewer than ten rows, which tell nothing.
And no model is taken that is little more than a constant guess: no better than that for its worst
mixture, and with less than half of what the ordinary model has learnt about all rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import ndtr, ndtri

from anymix.auditing.words import FEWEST_ROWS
from anymix.errors import InputError
from anymix.estimators.mean_errors import Errors, in_doubt
from anymix.mixtures import MixtureSet, NoPenalty, Penalty

Array = NDArray[np.float64]

__all__ = ["RULES", "HeldOut", "Judged", "NothingGained"]

RULES = ("guard", "min", "1se")
"""How a model is chosen by rows held out, by name."""
WORTH = 0.01  # a change of the ordinary model's worst loss that is worth a change of the model
SURELY, FOR_ALL = 2.0, 0.005  # standard errors, and a part of the mean loss, that all rows gain
LAST_FIFTH = 0.2  # of the gain, which may be left for the sake of the others
DRAWS, FEW_DRAWS = 1000, 200  # of ξ; few where each worst mixture is a program of its own
MOST_AT_ONCE = 2e6  # numbers


class NothingGained(UserWarning):
    """No robust model is better for the worst domain on rows held out: the ordinary one is kept.

    Examples
    --------
    >>> import warnings
    >>> import anymix as ax
    >>> X, y, d = [[0.0], [1.0]] * 20, [0, 1] * 20, ["a", "a", "b", "b"] * 10
    >>> with warnings.catch_warnings(action="ignore", category=NothingGained):
    ...     model = ax.AgnosticClassifierCV().fit(X, y, domains=d)
    """


class Judged(ABC):
    """The losses of C models on rows that they had not seen, wherever these are, and the choice.

    Parameters are those of `HeldOut`, which has the rows; where they are kept by others, their sums
    do as well.
    """

    mixtures: MixtureSet
    offsets: Array
    reference: Array
    resolution: float
    constant: Array | None
    prior: Penalty | None

    @property
    @abstractmethod
    def domain_losses(self) -> Array:
        """L̂, (C, p)."""

    @property
    @abstractmethod
    def squares(self) -> Array:
        """Σ_i a_ki² of the shares of the rows, (p,): of m equal rows, 1/m."""

    @abstractmethod
    def error(self, c: int, mixture: Array, other: int | None = None) -> float:
        """The standard error of Σ_k λ_k L̂_ck, or of how much that differs from another model's.

        Parameters
        ----------
        c : int
            The place of the model.
        mixture : ndarray of shape (p,)
            λ.
        other : int or None
            The place of the model to subtract, row by row; None subtracts nothing.

        Returns
        -------
        float
        """

    @abstractmethod
    def doubt(self, c: int, other: int, mixture: Array) -> float:
        """The standard error of how much two models differ, larger where a few rows make it up.

        Parameters
        ----------
        c, other : int
            The places of the models.
        mixture : ndarray of shape (p,)
            λ.

        Returns
        -------
        float
            See `in_doubt`.
        """

    @property
    @abstractmethod
    def spread(self) -> Array:
        """s, (p,): the standard errors of the ordinary model's means; of a single row 0."""

    @cached_property
    def worst(self) -> Array:
        """A worst mixture of each model, (C, p)."""
        return self._worst_of(self.domain_losses - self.offsets)

    @cached_property
    def value(self) -> Array:
        """max_λ Σ_k λ_k (L̂_ck − b_k), (C,): of these very rows."""
        return self._values_of(self.domain_losses - self.offsets)

    @cached_property
    def expected(self) -> Array:
        """V, (C,): the mean of that over domains as they might have been.

        Draws of ξ, each with its opposite; the same in every call. Rows of several domains count
        in each as if they were others.
        """
        regret = self.domain_losses - self.offsets
        C, p = regret.shape
        easy = self.prior is None and (self.mixtures.is_simplex or self._corners is not None)
        half = np.random.default_rng(0).standard_normal(((DRAWS if easy else FEW_DRAWS) // 2, p))
        width = p if self.mixtures.is_simplex or self._corners is None else len(self._corners)
        total, at_once = np.zeros(C), max(1, int(MOST_AT_ONCE / (C * max(p, width))))
        for start in range(0, len(half), at_once):
            apart = self.spread * half[start : start + at_once]  # (draws, p)
            for sign in (1, -1):
                losses = regret + sign * apart[:, None, :]  # (draws, C, p)
                total += self._values_of(losses.reshape(-1, p)).reshape(-1, C).sum(axis=0)
        return total / (2 * len(half))

    def _values_of(self, losses: Array) -> Array:
        """max_λ Σ_k λ_k L_k, less what a prior takes off for far-fetched mixtures, for each L."""
        if self.prior is None and self.mixtures.is_simplex:
            return np.asarray(losses.max(axis=1))
        if self.prior is None and self._corners is not None:
            return np.asarray((losses @ self._corners.T).max(axis=1))
        mixtures = self._worst_of(losses)
        found = np.einsum("cp,cp->c", mixtures, losses)
        if self.prior is None:
            return np.asarray(found)
        least = self.prior.value(self.prior.best_response(self.mixtures, 0 * self.reference))
        return np.asarray(found - [self.prior.value(lam) - least for lam in mixtures])

    def _worst_of(self, losses: Array) -> Array:
        penalty = NoPenalty() if self.prior is None else self.prior
        return np.array([penalty.best_response(self.mixtures, L) for L in losses])

    @cached_property
    def _corners(self) -> Array | None:
        return self.mixtures.corners

    @cached_property
    def pooled(self) -> Array:
        """The mean loss of each model on all rows, (C,)."""
        return np.asarray(self.domain_losses @ self.reference)

    def gain(self, c: int, other: int = 0, mixture: Array | None = None) -> tuple[float, float]:
        """Σ_k λ_k (L̂_other,k − L̂_ck), and its standard error; λ is the other's worst mixture."""
        lam = self.worst[other] if mixture is None else mixture
        difference = self.domain_losses[other] - self.domain_losses[c]
        return float(lam @ difference), self.error(c, lam, other)

    def change(self, c: int) -> tuple[float, float]:
        """V_c − V_0, and the paired standard error by which the guard judges it."""
        return float(self.expected[c] - self.expected[0]), self.doubt(c, 0, self.worst[0])

    def choose(self, rule: str = "guard") -> int:
        """The place of the model to take.

        Parameters
        ----------
        rule : str
            "guard", the tamest that is within one paired standard error of the best, or has four
            fifths of its gain; "1se", the tamest whose V is within the best one's own standard
            error; or "min", the best. The first two keep the ordinary model where its worst
            domain has fewer than ten rows.

        Returns
        -------
        int
        """
        if rule not in RULES:
            raise InputError("rule", f"is {rule!r}", "give 'guard', 'min' or '1se'")
        if rule == "min":
            return int(np.argmin(self.expected))
        if self.is_known_by_few:
            return 0
        fit = np.where(self._is_constant, np.inf, self.expected)
        best = self.best
        if rule == "1se":
            limit = self.expected[best] + self.error(best, self.worst[best])
            return self._tamest(fit <= limit)
        good = np.array([self._is_as_good(c, best) for c in range(len(fit))])
        return self._tamest(good & np.isfinite(fit))

    def free_of_charge(self, among: Sequence[int]) -> int:
        """The place of a model for which no domain surely pays, of least mean loss; 0 if none is.

        Its V is at most the ordinary model's, its mean loss on all rows is surely less, by two
        standard errors and half a percent, and no domain's is surely more.

        Parameters
        ----------
        among : sequence of int
            The places of the models to look at.

        Returns
        -------
        int
        """
        enough = FOR_ALL * abs(float(self.pooled[0]))
        for c in sorted(among, key=lambda c: float(self.pooled[c])):
            sure = max(SURELY * self.error(c, self.reference, 0), enough)
            gains = self.expected[c] <= self.expected[0] and self.pooled[0] - self.pooled[c] > sure
            if gains and not self._burdens(c):
                return c
        return 0

    def _burdens(self, c: int) -> bool:
        """Whether some domain surely pays for a model; of p, one seems to p times as often."""
        more = self.domain_losses[c] - self.domain_losses[0]
        surely, domains = -ndtri(ndtr(-SURELY) / len(more)), np.eye(len(more))
        return any(m > surely * self.error(c, e, 0) for m, e in zip(more, domains, strict=True))

    @property
    def best(self) -> int:
        """The place of the model of least V, of those that are more than a constant guess."""
        return int(np.argmin(np.where(self._is_constant, np.inf, self.expected)))

    @cached_property
    def _is_constant(self) -> NDArray[np.bool_]:
        """Which models are little more than a constant guess, (C,); never the ordinary one."""
        if self.constant is None:
            return np.zeros(len(self.value), dtype=bool)
        regret = self.constant - self.offsets
        floor = self.mixtures.maximize(regret) @ regret
        learnt = self.constant @ self.reference - self.pooled
        little = (self.value >= (1 - WORTH) * floor) & (learnt < 0.5 * learnt[0])
        return np.asarray(little & (np.arange(len(little)) > 0))

    @property
    def is_known_by_few(self) -> bool:
        """Whether the worst mixture of the ordinary model rests on a domain of very few rows."""
        return bool(np.any((self.worst[0] > 0.01) & (self.squares > 1 / FEWEST_ROWS)))

    def _is_as_good(self, c: int, best: int) -> bool:
        """Whether rows cannot tell it from the best, or the difference is not worth its price."""
        loss = float(self.expected[c] - self.expected[best])
        last_fifth = LAST_FIFTH * float(self.expected[0] - self.expected[best])
        small = max(WORTH * abs(float(self.value[0])), self.resolution)
        return loss <= max(self.doubt(c, best, self.worst[c]), last_fifth, small)

    def _tamest(self, good: NDArray[np.bool_]) -> int:
        return 0 if good[0] else int(np.argmin(np.where(good, self.pooled, np.inf)))


@dataclass(frozen=True, eq=False)
class HeldOut(Judged):
    """Losses of C models on n rows that they had not seen.

    Parameters
    ----------
    losses : ndarray of shape (C, n)
        The loss of each model on each row; the ordinary model first.
    average : sparse array of shape (p, n)
        The shares a_ki of the rows in the domains' means.
    mixtures : MixtureSet
        Λ, over the p domains.
    offsets : ndarray of shape (p,)
        b, what the losses of the domains are compared with.
    reference : ndarray of shape (p,)
        m̄, the mixture of all rows.
    resolution : float
        A difference of losses that tells nothing, for models are fitted only so well.
    constant : ndarray of shape (p,) or None
        The losses of a constant guess.
    prior : Penalty or None
        A prior on λ: a model's worst mixture is the argmax of ⟨λ, L̂ − b⟩ + log p(λ), and V the
        value there, with log p measured from its largest value, so that it is no reward.

    Examples
    --------
    >>> from anymix.mixtures import Simplex
    >>> average = sparse.csc_array(np.kron(np.eye(2), np.full((1, 12), 1 / 12)))
    >>> losses = np.repeat([[1, 1, 1, 1, 4, 5, 6, 5.0], [2, 2, 2, 2, 4, 3, 5, 5.0]], 3, axis=1)
    >>> found = HeldOut(losses, average, Simplex(2), np.zeros(2), np.full(2, 0.5))
    >>> found.value, found.choose("min"), found.choose("guard")
    (array([5.  , 4.25]), 1, 1)
    """

    losses: Array
    average: sparse.csc_array
    mixtures: MixtureSet
    offsets: Array
    reference: Array
    resolution: float = 0.0
    constant: Array | None = None
    prior: Penalty | None = None

    def only(self, rows: NDArray[np.bool_]) -> HeldOut:
        """The same with some of the rows, which must have one of every domain.

        Parameters
        ----------
        rows : ndarray of bool of shape (n,)
            Which of them.

        Returns
        -------
        HeldOut
        """
        average = sparse.csc_array(self.average[:, rows])
        shares = np.asarray(average.sum(axis=1)).ravel()
        average.data /= shares[average.indices]
        return replace(self, losses=self.losses[:, rows], average=average)

    @cached_property
    def domain_losses(self) -> Array:
        """L̂, (C, p)."""
        return np.asarray((self.average @ self.losses.T).T, dtype=np.float64)

    @cached_property
    def squares(self) -> Array:
        """Σ_i a_ki², (p,)."""
        return np.asarray(self.average.multiply(self.average).sum(axis=1)).ravel()

    @cached_property
    def spread(self) -> Array:
        """As `Judged` says, from the rows themselves."""
        return self._errors.by_domain(self.losses[0])

    @cached_property
    def _errors(self) -> Errors:
        return Errors(self.average)

    def error(self, c: int, mixture: Array, other: int | None = None) -> float:
        """As `Judged` says, from the rows themselves."""
        loss = self.losses[c] if other is None else self.losses[c] - self.losses[other]
        return self._errors.of(loss, mixture)

    def doubt(self, c: int, other: int, mixture: Array) -> float:
        """As `Judged` says, from the rows themselves."""
        parts = self._errors.parts(self.losses[c] - self.losses[other], mixture)
        unit = float(np.max(np.abs(parts)))  # fourth powers of huge losses overflow
        if not 0 < unit < np.inf:
            return unit
        parts = parts / unit
        return unit * in_doubt(float(parts @ parts), float(np.sum(parts**4)))
