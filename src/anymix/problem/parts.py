"""The problem whose rows are in parts: every sum is the total of what the parts give.

L_k(w) = (1/m_k) Σ_parts Σ_{i in domain k} ℓ_i(w), and so are the gradients, the curvature of a
mixture, and the dual value of a proof. `Parts` asks all parts, adds up their answers in a fixed
order, and is an oracle for `solve` and `certify`, as LinearDomains is. How the parts are reached
(a loop, a cluster, a federation) is a function that it is given; what a part does is `answer`.

Asking costs a round, so a question has what the solver will want next: the losses, the gradients,
and, up to `dense_up_to` parameters, the curvature of the mixture that the solver named. Beyond, no
D x D matrix is sent unless `hessian` is called: the solver has the diagonal and the gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError
from anymix.problem.duals import Dual
from anymix.problem.evaluation import MOST_DENSE
from anymix.problem.floors import UNIT, absorbed, floor, rounding_of
from anymix.problem.floors import Sums as Known
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import Growth
from anymix.problem.oracle import Conditioned, Oracle
from anymix.problem.part_sums import ABOUT, BY_DOMAIN, LOOK, POWER, PROOF, Question, Sums, answer

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Ask = Callable[[Sequence[Question]], Sequence[Sums]]

__all__ = ["About", "Ask", "Look", "Parts"]

TOO_LONG = "limits.norm"  # the argument of the error of a part that answers about no w as long
KEPT = 4  # answers that are kept, besides the first


@dataclass(frozen=True, eq=False)
class About:
    """What the solver must know about the rows before it asks about any w.

    Parameters
    ----------
    penalized : ndarray of bool, shape (D,)
        Which entries of w the regulariser sees.
    n_scores : int
        1, or K for K ≥ 3 classes.
    room : float
        `Loss.room`, 0 for a loss without curvature.
    n_rows : int
        Rows of all parts.
    reach : ndarray of shape (D,)
        At least max |x_ij| of the column that each entry of w multiplies.
    loss_scale : float
        The unit of gaps, as in LinearDomains.
    growth : Growth
        How steep the losses may be.
    """

    penalized: NDArray[np.bool_]
    n_scores: int
    room: float
    n_rows: int
    reach: Array
    loss_scale: float
    growth: Growth


class Parts:
    """L_1(w), …, L_p(w) over the rows of all parts, known by their sums.

    Parameters
    ----------
    ask : function
        Takes a question for every part and gives their answers (`part_sums.answer`), all of them
        and in the same order. Sums over some of the rows prove nothing about the others.
    places : sequence of ndarray
        places[i][j] is the number in 0..p−1 of the j-th domain of part i.
    sizes : ndarray of shape (p,)
        m_k, the rows of every domain over all parts.
    n_parameters : int
        D, the length of w.
    center : ndarray of shape (p,), optional
        The mixture whose curvature is asked for first; m̄ by default.
    dense_up_to : int
        The largest D for which curvatures of D(D+1)/2 numbers come with every answer.
    about : About, optional
        What is known of the rows already; None asks the parts, at w = 0.

    Attributes
    ----------
    penalized : ndarray of bool, shape (D,)
        Which entries of w the regulariser sees.
    n_scores : int
        Scores of one row: 1, or K for K ≥ 3 classes.
    reach : ndarray of shape (D,)
        (Σ |x_ij|⁸)^(1/8) of the column that each entry of w multiplies: at least the largest
        |x_ij|, which LinearDomains has here and which is no sum.
    rounding : float
        The relative error that a sum over all rows may have.
    n_rows : int
        Rows of all parts.
    is_smooth : bool
        Whether the loss has curvature.
    hessian_up_to : int
        `dense_up_to`: beyond it the solver asks for no Hessian.
    has_blocks : bool
        False: the diagonal of the Hessian is cheap, its blocks are not.
    brings_curvature : bool
        Whether curvatures come with every answer.

    Examples
    --------
    >>> import anymix as ax
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> domains = np.array(["a", "a", "b", "b"])
    >>> halves = [ax.LinearDomains(X[i::2], y[i::2], domains[i::2], classes=[0, 1]) for i in (0, 1)]
    >>> whole, parts = ax.LinearDomains(X, y, domains), Parts.of(halves)
    >>> float(abs(parts.at([1.0, 0.5]).losses - whole.losses([1.0, 0.5])).max()) < 1e-12
    True
    >>> abs(ax.solve(parts).objective - ax.solve(whole).objective) < 2e-6
    True
    """

    has_blocks = False

    def __init__(
        self,
        ask: Ask,
        places: Sequence[Indices],
        sizes: Array,
        n_parameters: int,
        center: Array | None = None,
        dense_up_to: int = 600,
        about: About | None = None,
    ) -> None:
        self._ask, self.places, self.sizes = ask, tuple(places), sizes
        self.n_parameters, self.dense_up_to, self._n_free = n_parameters, dense_up_to, 0
        self._center = self.reference if center is None else center
        self._first: Look | None = None
        self._looks: list[Look] = []  # the latest
        about = self._asked_about() if about is None else about
        self.penalized, self.n_scores, self._room = about.penalized, about.n_scores, about.room
        self.n_rows, self.rounding = about.n_rows, rounding_of(about.n_rows)
        self.is_smooth, self.hessian_up_to = self._room > 0, dense_up_to
        self.brings_curvature = n_parameters <= dense_up_to
        self._n_free = int(np.sum(~self.penalized))
        self.reach: Array = about.reach
        self._loss_scale, self.growth = about.loss_scale, about.growth

    def _asked_about(self) -> About:
        """What the parts say; the solver begins at w = 0, so that no round is lost."""
        zero = np.zeros(self.n_parameters)
        sums = self.ask(zero, self._look + ABOUT, self._center)
        self._first = Look(self, zero, self._center, sums)
        n_rows, *alike, more = sums["kind"].tolist()
        alike = [number / len(self.places) for number in alike]
        n_scores, of_residual, room, linear, offset = alike
        self._target, self._n_targets = sums["targets"]
        return About(
            sums["penalized"] > 0,
            round(n_scores),
            room,
            round(n_rows),
            sums["powers"] ** (1 / POWER),
            math.nan if of_residual > 0 else 1.0,  # it takes a question of its own
            Growth(linear, 1 + more, offset),
        )

    @staticmethod
    def of(parts: Sequence[LinearDomains], *, dense_up_to: int = 600) -> Parts:
        """The total of parts that are all here, their domains sorted by name."""
        names = np.unique(np.concatenate([part.domain_names for part in parts]))
        places = [np.searchsorted(names, part.domain_names) for part in parts]
        sizes = np.zeros(len(names))
        for part, place in zip(parts, places, strict=True):
            sizes[place] += part.sizes

        def ask(questions: Sequence[Question]) -> list[Sums]:
            return [answer(part, q) for part, q in zip(parts, questions, strict=True)]

        return Parts(ask, places, sizes, parts[0].n_parameters, dense_up_to=dense_up_to)

    # -- what the solver asks about the problem ------------------------------------------------

    @property
    def n_domains(self) -> int:
        """Number p of domains."""
        return len(self.sizes)

    @property
    def reference(self) -> Array:
        """m̄ = m_k / m, the mixture of the rows themselves, (p,)."""
        return self.sizes / float(self.sizes.sum())

    @property  # not cached_property: in Python 3.11 its lock would stop all other problems too
    def loss_scale(self) -> float:
        """As in LinearDomains: the worst loss of the mean target, at most 1; 1 for classes."""
        if self._first is None or not math.isnan(self._loss_scale):
            return self._loss_scale
        least = 1e-16 * float(self._first.losses.max())
        mean = self.at(np.where(self.penalized, 0.0, self._target / self._n_targets))
        self._loss_scale = min(1.0, max(float(mean.losses.max()), least) or 1.0)
        return self._loss_scale

    def merged(self) -> Oracle:
        """Itself: the parts keep their rows."""
        return self

    def coarse(self) -> Oracle | None:
        """None: fewer rows would cost as many rounds."""
        return None

    def conditioned(self) -> Conditioned | None:
        """None: the parts have the numbers that they have."""
        return None

    def at(self, w: ArrayLike, mixture: Array | None = None) -> Look:
        """What the parts say about w; the first answer and the latest ones are kept.

        `mixture` is the one whose curvature will be asked for, which then comes along.
        """
        w = np.asarray(w, dtype=np.float64)
        if w.shape != (self.n_parameters,) or not np.all(np.isfinite(w)):
            raise InputError("w", f"is {w}", f"give {self.n_parameters} finite numbers")
        for look in self._known:
            if np.array_equal(look.w, w):
                return look
        if mixture is None:
            mixture = self._known[-1].mixture if self._known else self._center
        return self.look(w, mixture)

    @property
    def at_last(self) -> Look:
        """What was asked about last."""
        return self._known[-1]

    @property
    def _known(self) -> list[Look]:
        return self._looks if self._first is None else [self._first, *self._looks]

    def look(self, w: Array, mixture: Array) -> Look:
        """Ask about w; in narrow problems with the curvature of this mixture."""
        look = Look(self, w, mixture, self.ask(w, self._look, mixture))
        self._looks = [*self._looks[1 - KEPT :], look]
        return look

    @property
    def _look(self) -> tuple[str, ...]:
        return (*LOOK, "curvature") if self.n_parameters <= self.dense_up_to else LOOK

    # -- one round -----------------------------------------------------------------------------

    def ask(
        self,
        w: Array,
        want: tuple[str, ...],
        mixture: Array,
        step: Array | None = None,
        scale: float = 1.0,
    ) -> Sums:
        """The sums over all parts, added in their order, so that rounding is the same."""
        weights = mixture / self.sizes  # λ_k / m_k
        own = [weights[place] for place in self.places]
        questions = [Question(w, a, want, step, scale, self._n_free) for a in own]
        whole = Question(w, np.ones(self.n_domains), want, step, scale, self._n_free)
        total = {name: np.zeros(shape) for name, shape in whole.shapes.items()}
        for place, sums in zip(self.places, self._ask(questions), strict=True):
            for name, value in sums.items():
                total[name][place if name in BY_DOMAIN else ...] += value
            if "error" in total:  # and what adding them up here may lose
                total["error"] += 2 * UNIT * np.abs(sums.get("slope", 0.0))
        return total


class Look:
    """The sums of all parts at one w; what else is asked for there costs another round.

    Parameters
    ----------
    parts : Parts
        Whom to ask for more.
    w : ndarray of shape (D,)
        The point.
    mixture : ndarray of shape (p,)
        λ, whose curvature is among the sums if any is.
    sums : dict of str to ndarray
        What is known.
    """

    def __init__(self, parts: Parts, w: Array, mixture: Array, sums: Sums) -> None:
        self.parts, self.w, self.mixture = parts, w, mixture
        self.losses: Array = sums["losses"] / parts.sizes
        self._jacobian: Array = sums["jacobian"] / parts.sizes[:, None]
        self._triangle: Array | None = sums.get("curvature")

    def jacobian(self) -> Array:
        """Row k is ∇L_k, (p, D)."""
        return self._jacobian

    def gradient(self, mixture: Array) -> Array:
        """∇ Σ λ_k L_k, (D,)."""
        return self._jacobian.T @ mixture

    def hessian(self, mixture: Array, n_rows: int | None = None) -> Array:
        """∇² Σ λ_k L_k, (D, D); another round, unless it is of the mixture that was named.

        Of all rows: `n_rows`, which lets LinearDomains take fewer, is of no use here.
        """
        if not self._knows_curvature(mixture):
            self.mixture = mixture
            self._triangle = self.parts.ask(self.w, ("curvature",), mixture)["curvature"]
        D = len(self.w)
        hessian = np.zeros((D, D))
        hessian[np.triu_indices(D)] = self._triangle
        return hessian + np.triu(hessian, 1).T

    def _knows_curvature(self, mixture: Array) -> bool:
        return self._triangle is not None and np.array_equal(mixture, self.mixture)

    def hessian_diagonal(self, mixture: Array) -> Array:
        """The diagonal of the Hessian, (D,); another round, unless the Hessian is known."""
        if self._knows_curvature(mixture):
            return np.diag(self.hessian(mixture)).copy()
        return self.parts.ask(self.w, ("diagonal",), mixture)["diagonal"]

    def hessian_blocks(self, mixture: Array, n_rows: int) -> Iterator[Array]:
        """The diagonal blocks of the Hessian, cut out of the whole."""
        K = self.parts.n_scores
        blocks = self.hessian(mixture).reshape(K, len(self.w) // K, K, -1)
        return (blocks[k, :, k] for k in range(K))

    def hessian_vector(self, mixture: Array, v: Array) -> Array:
        """∇² Σ λ_k L_k · v, (D,); another round."""
        return self.parts.ask(self.w, ("product",), mixture, v)["product"]

    def moved(self, step: Array, t: float = 1.0, mixture: Array | None = None) -> Look:
        """At w + t·step, in narrow problems with the curvature of the mixture: one round.

        Where a part answers about no w as long, less far.
        """
        mixture = self.mixture if mixture is None else mixture
        for nearer in (t, t / 2, t / 4):
            try:
                return self.parts.look(self.w + nearer * step, mixture)
            except InputError as refused:
                if refused.argument != TOO_LONG:
                    raise
        return self.parts.look(self.w + t / 8 * step, mixture)

    def dual(
        self,
        mixture: Array,
        step: Array | None = None,
        scale: float = 1.0,
        spare: float = 0.0,
    ) -> Dual:
        """As in Evaluation: Σ λ_k L_k(w') ≥ value + ⟨v, w'⟩ for every w'.

        Without a step it is the tangent here, known without a round; near the optimum that is
        enough, if the curvature of this mixture is known. With one it costs a round:
        a Newton step has Σ c_i α_i = 0 among its equations, which a bound needs where intercepts
        are free. Any other step is mended: τ added to its intercepts adds ℓ''_i τ to the α_i, so
        τ = −(Σ c_i ℓ''_i)⁻¹ Σ c_i α_i, and the parts are asked again. What rounding then leaves of
        the sum is taken up by the rows.
        """
        if step is None:
            return self._tangent(mixture, scale)
        free, rounding = ~self.parts.penalized, 1e-13 * np.sqrt(2 * float(mixture @ self.losses))
        for _ in range(3):  # more than once for rounding, and where α was at the edge of ℓ*
            sums = self.parts.ask(self.w, PROOF, mixture, step, scale)
            v = sums["slope"]
            if np.max(np.abs(v[free]), initial=0.0) <= rounding:
                break
            step = step.copy()
            step[free] -= np.linalg.lstsq(sums["pivot"], v[free] / scale)[0]
        return self._without_intercepts(sums)

    def _tangent(self, mixture: Array, scale: float) -> Dual:
        """The bound that ℓ' itself proves."""
        parts, loss = self.parts, float(mixture @ self.losses)
        v = scale * self.gradient(mixture)
        error = parts.rounding * self._slope(mixture) * parts.reach
        lost = parts.rounding * loss + float(error @ np.abs(self.w))
        dual = Dual(scale * loss - float(v @ self.w) - lost, v, error)
        known = scale == 1 and parts.is_smooth and self._knows_curvature(mixture)
        return self._tangent_without_intercepts(dual, mixture) if known else dual

    def _tangent_without_intercepts(self, dual: Dual, mixture: Array) -> Dual:
        """The tangent's bound with v = 0 for the intercepts, from the curvature H that is known.

        The α_i = ℓ'_i move by −ℓ''_i s, s = M⁻¹v on the intercepts, M their part of H; so v moves
        by −H s, which leaves 0 there. At α, ℓ*' is z and ℓ*'' is 1/ℓ''; the latter grows by a third
        at most while |s| ≤ `room`. So −Σ c_i ℓ*(α_i) changes by ⟨s, H w⟩ − 0.7 ⟨s, M s⟩ or more.
        What rounding then leaves of v is taken up by the rows.
        """
        parts, H, free = self.parts, self.hessian(mixture), ~self.parts.penalized
        M = H[np.ix_(free, free)]
        scale = np.sqrt(np.maximum(np.diag(H), 0.0))
        length = float(np.abs(self.w) @ scale)  # |⟨s, H w⟩| is at most this times that of s
        bend = max(float(self.w @ H @ self.w), 0.0) + parts.rounding * length**2
        step = np.linalg.lstsq(M, dual.v[free])[0] if free.any() else np.zeros(0)
        size, energy = float(np.abs(step) @ scale[free]), max(float(step @ M @ step), 0.0)
        if float(np.abs(step).sum()) > parts._room:
            return self._balanced(dual, M, bend)
        value = dual.value + float(step @ (H @ self.w)[free]) - 0.7 * energy
        value -= parts.rounding * size * (length + size)
        v = dual.v - H[:, free] @ step
        moved = Dual(value, v, dual.error + 2 * parts.rounding * scale * size)
        return self._balanced(moved, 0.7 * M, 4 * (bend + energy))

    def _without_intercepts(self, sums: Sums) -> Dual:
        """The bound of a proof's sums, with v = 0 for the intercepts where that can be had."""
        parts = self.parts
        total, size = sums["conjugate"].tolist()
        dual = Dual(-total - parts.rounding * size, sums["slope"], sums["error"])
        return self._balanced(dual, sums["give"], float(sums["bend"][0]))

    def _balanced(self, dual: Dual, give: Array, bend: float) -> Dual:
        """What is left of v for the intercepts, taken up by the rows where they have the room."""
        parts, (_, v, error) = self.parts, dual
        free, known = ~parts.penalized, (parts.reach, parts.rounding, parts._room)
        done = absorbed(v, error, give, free, *known, bend)
        return dual if done is None else Dual(dual.value - done[0], *done[1:])

    def _slope(self, mixture: Array) -> float:
        """At least Σ c_i |ℓ'_i|."""
        return self.steepness(float(mixture @ self.losses))

    def steepness(self, loss: float) -> float:
        """As in Evaluation."""
        return self.parts.growth.steepness(loss)

    def floor(self, mixture: Array) -> float:
        """As in Evaluation; parts are not asked whether columns depend on each other exactly."""
        parts = self.parts
        if parts.n_parameters > MOST_DENSE:
            return 0.0
        H, gradient = self.hessian(mixture), self.gradient(mixture)
        is_absent = (np.diag(H) == 0) & (gradient == 0)  # from all rows that the mixture weighs
        return floor(
            Known(
                value=float(mixture @ self.losses),
                gradient=gradient,
                error=parts.rounding * self._slope(mixture) * parts.reach,
                hessian=H,
                reach=np.where(is_absent, 0.0, parts.reach),
                length=float(np.abs(self.w) @ parts.reach) + parts.growth.offset,
                rounding=parts.rounding,
                room=parts._room,
                growth=parts.growth,
                n_scores=parts.n_scores,
                vanishes=lambda u: False,
            )
        )
