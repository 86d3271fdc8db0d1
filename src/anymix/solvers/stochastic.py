"""Stochastic-AFL and Optimistic Stochastic-AFL, as printed in the paper, and Mirror-Prox.

min_w max_{λ∈Λ} Σ_k λ_k (L_k(w) − b_k) + γ R(w) − penalty(λ),  by simultaneous stochastic steps:

    Stochastic-AFL  w_t = Π_W(w_{t−1} − γ_w δ_w^t)                  output the averages
                    λ_t = Π_Λ(λ_{t−1} + γ_λ δ_λ^t)
    Optimistic      w_t = Π_W(w_{t−1} − γ_w (2δ_w^t − δ_w^{t−1}))   output the last iterate
                    λ_t = Π_Λ(λ_{t−1} + γ_λ (2δ_λ^t − δ_λ^{t−1}))

with δ^t the stochastic gradients at (w_{t−1}, λ_{t−1}) and δ⁰ = δ¹. The functions are generators:
the caller stops, logs, plots or saves. The same seed gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Literal, Protocol, Unpack, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError
from anymix.mixtures import DirichletPrior
from anymix.mixtures.parsing import Mixtures
from anymix.objective import Objective, Parts, objective_of, parts_in
from anymix.problem.linear import LinearDomains
from anymix.solvers.game import Game
from anymix.solvers.optimizers import SGD, Adagrad, Adam, Momentum, Optimizer
from anymix.solvers.players import Players, too_long
from anymix.solvers.samplers import (
    DomainRows,
    EveryDomain,
    MixtureSampler,
    ModelSampler,
    PerDomain,
    UniformDomain,
    Weighted,
)
from anymix.solvers.steps import Schedule

Array = NDArray[np.float64]

__all__ = [
    "Iterate",
    "PlayersPoint",
    "Point",
    "mirror_prox_afl",
    "optimistic_afl",
    "stochastic_afl",
]


State = dict[str, Any]


class Point(Protocol):
    """Where an iterate finds its numbers; each call makes new arrays."""

    def w(self) -> Array:
        """w_t."""
        ...

    def mixture(self) -> Array:
        """λ_t."""
        ...

    def w_average(self) -> Array:
        """The average of the w so far."""
        ...

    def mixture_average(self) -> Array:
        """The average of the λ so far."""
        ...

    def state(self) -> State:
        """All that a run needs to go on from here."""
        ...


@final
class Iterate:
    """(w_t, λ_t), the averages of w_1..w_t and λ_1..λ_t, and all that a resumed run needs.

    All but `step` is computed when first asked for and kept then, so that iterates nobody looks at
    cost nothing. One that is asked late, after the run has gone on, still gives its own numbers: a
    compiled run goes from the last point it has kept to that step again, bit for bit.

    For the same reason a compiled run plays its steps when somebody looks, or when many have come
    together: if a step fails, the error may come a while after it, at the latest with its numbers.

    Parameters
    ----------
    step : int
        t, the number of steps made.
    point : Point
        Where the numbers are found.

    Attributes
    ----------
    w : ndarray of shape (D,)
        w_t, the output of Optimistic Stochastic-AFL.
    mixture : ndarray of shape (p,)
        λ_t, read-only.
    w_average : ndarray of shape (D,)
        w^A = (w_1 + … + w_t)/t, the output of Stochastic-AFL.
    mixture_average : ndarray of shape (p,)
        λ^A = (λ_1 + … + λ_t)/t, read-only.
    state : dict
        All that a run needs to go on from here, of arrays and numbers: `state=` of the algorithms.

    Examples
    --------
    >>> import numpy as np
    >>> import anymix as ax
    >>> problem = ax.LinearDomains(np.zeros((4, 1)), [1, 1, 0, 1], ["a", "a", "b", "b"])
    >>> run = ax.stochastic_afl(problem, step_w=0.1, step_mixture=0.1)
    >>> first, second = next(run), next(run)
    >>> first.step, first.w.shape, np.array_equal(first.w, second.w)
    (1, (2,), False)
    """

    def __init__(self, step: int, point: Point) -> None:
        self.step = step
        self._point = point

    @cached_property
    def w(self) -> Array:
        """w_t, (D,)."""
        return self._point.w()

    @cached_property
    def mixture(self) -> Array:
        """λ_t, (p,), read-only."""
        return _frozen(self._point.mixture())

    @cached_property
    def w_average(self) -> Array:
        """w^A, (D,)."""
        return self._point.w_average()

    @cached_property
    def mixture_average(self) -> Array:
        """λ^A, (p,), read-only."""
        return _frozen(self._point.mixture_average())

    @cached_property
    def state(self) -> State:
        """All that a run needs to go on from here."""
        return self._point.state()

    def __repr__(self) -> str:
        return f"Iterate(step={self.step}, w={self.w}, mixture={self.mixture})"

    def __getstate__(self) -> dict[str, Any]:
        """The numbers, without the way to them."""
        names = ("step", "w", "mixture", "w_average", "mixture_average", "state")
        return {name: getattr(self, name) for name in names}


class PlayersPoint:
    """The point where players stand now, and what else their state holds.

    Parameters
    ----------
    players : Players
        They may go on afterwards.
    rng : numpy.random.Generator
        Where the uniforms come from.
    mixture_total : ndarray of shape (p,), optional
        The sum to average λ by, where it is not that of λ_1..λ_t.
    """

    def __init__(
        self, players: Players, rng: np.random.Generator, mixture_total: Array | None = None
    ) -> None:
        self._players, self._rng_state = players.copy(), rng.bit_generator.state
        self._mixture_total = mixture_total

    def w(self) -> Array:
        """w_t."""
        return self._players.w.copy()

    def mixture(self) -> Array:
        """λ_t."""
        return self._players.adversary.mixture.copy()

    def w_average(self) -> Array:
        """The average of the w so far."""
        return self._players.w_average

    def mixture_average(self) -> Array:
        """The average of the λ so far."""
        if self._mixture_total is None:
            return self._players.adversary.average
        return self._mixture_total / self._players.t

    def state(self) -> State:
        """All that a run needs to go on from here."""
        state = self._players.state_dict() | {"rng": self._rng_state}
        if self._mixture_total is not None:
            state["mixture_total"] = self._mixture_total.copy()
        return state


def _frozen(array: Array) -> Array:
    array.setflags(write=False)
    return array


def stochastic_afl(
    problem: LinearDomains,
    mixtures: Objective | Mixtures = None,
    *,
    step_w: Schedule,
    step_mixture: Schedule,
    sampler: ModelSampler | None = None,
    mixture_sampler: MixtureSampler | None = None,
    adversary: Literal["euclidean", "entropic"] = "euclidean",
    optimizer: Optimizer | None = None,
    start: ArrayLike | None = None,
    start_mixture: ArrayLike | None = None,
    seed: int | np.random.Generator = 0,
    every: int = 1,
    compiled: bool | None = None,
    state: Mapping[str, Any] | None = None,
    **parts: Unpack[Parts],
) -> Iterator[Iterate]:
    """w_t = Π_W(w_{t−1} − γ_w δ_w),  λ_t = Π_Λ(λ_{t−1} + γ_λ δ_λ), both from the old point.

    Parameters
    ----------
    problem : LinearDomains
        The rows, the domains and the loss.
    mixtures : Objective, MixtureSet, function, str or None
        What is to be minimised; or Λ alone (None is the whole simplex), and the rest by name.
    step_w, step_mixture : float or function
        γ_w and γ_λ, numbers or functions of t = 1, 2, …
    sampler : ModelSampler, optional
        How δ_w is drawn: PerDomain (default), Weighted or FullBatch.
    mixture_sampler : MixtureSampler, optional
        How δ_λ is drawn: EveryDomain, UniformDomain or FullBatch; by default the one that costs as
        much as the sampler.
    adversary : {"euclidean", "entropic"}
        How λ steps: "euclidean" is the paper's way, "entropic" is multiplicative weights.
    optimizer : Optimizer, optional
        The rule for w: SGD (default), Momentum, Adagrad or Adam.
    start : array-like of shape (D,), optional
        The first model w_0; 0 by default.
    start_mixture : array-like of shape (p,), optional
        The first mixture λ_0; the center of Λ by default.
    seed : int or numpy.random.Generator
        Where the rows are drawn from: same seed, same numbers.
    every : int, default 1
        Yield after every so many steps; the numbers do not depend on it.
    compiled : bool, optional
        The same numbers from compiled code, many times faster, where there is such code: None
        takes it if it can, True insists, False is the readable loop.
    state : dict, optional
        `Iterate.state` of an earlier run with the same arguments, to continue it.
    **parts : Any
        Parts of an `Objective` by name: gamma (0 here), mu, norm, prior, offsets, w_radius, ...;
        not beside one.

    Returns
    -------
    iterator of Iterate
        It has no end: stop when you have enough.

    Examples
    --------
    >>> from itertools import islice
    >>> import numpy as np
    >>> import anymix as ax
    >>> X, y = np.zeros((4, 1)), [1, 1, 0, 1]
    >>> problem = ax.LinearDomains(X, y, ["a", "a", "b", "b"])
    >>> run = ax.stochastic_afl(problem, ax.Simplex(2), step_w=0.1, step_mixture=0.1, every=500)
    >>> last = list(islice(run, 4))[-1]
    >>> last.step, problem.losses(last.w_average).max().round(2)
    (2000, np.float64(0.69))
    """
    game = Game.of(
        problem,
        objective_of(mixtures, parts, gamma=0.0),
        step_w=step_w,
        step_mixture=step_mixture,
        sampler=sampler,
        mixture_sampler=mixture_sampler,
        adversary=adversary,
        optimizer=optimizer,
        start=start,
        start_mixture=start_mixture,
        seed=seed,
        every=every,
    )
    return _run(game, state, compiled)


def optimistic_afl(
    problem: LinearDomains,
    mixtures: Objective | Mixtures = None,
    *,
    step_w: Schedule,
    step_mixture: Schedule,
    compiled: bool | None = None,
    state: Mapping[str, Any] | None = None,
    **options: Any,
) -> Iterator[Iterate]:
    """w_t = Π_W(w_{t−1} − γ_w (2δ_w^t − δ_w^{t−1})),  λ_t likewise; δ⁰ = δ¹.

    Its last iterate converges where that of Stochastic-AFL circles.

    Parameters
    ----------
    problem : LinearDomains
        The rows, the domains and the loss.
    mixtures : Objective, MixtureSet, function, str or None
        What is to be minimised; or Λ alone (None is the whole simplex), and the rest by name.
    step_w, step_mixture : float or function
        γ_w and γ_λ, numbers or functions of t = 1, 2, …
    compiled : bool, optional
        The same numbers from compiled code: None takes it if it can, True insists, False does not.
    state : dict, optional
        `Iterate.state` of an earlier run with the same arguments, to continue it.
    **options : object
        All others of `stochastic_afl`.

    Returns
    -------
    iterator of Iterate
        It has no end: stop when you have enough.

    Examples
    --------
    >>> import numpy as np
    >>> import anymix as ax
    >>> from anymix.solvers.samplers import FullBatch
    >>> problem = ax.LinearDomains(np.zeros((4, 1)), [1, 1, 0, 1], ["a", "a", "b", "b"])
    >>> run = ax.optimistic_afl(
    ...     problem, step_w=0.5, step_mixture=0.5, sampler=FullBatch(), every=500
    ... )
    >>> problem.losses(next(run).w).max().round(4)
    np.float64(0.6931)
    """
    options |= {"step_w": step_w, "step_mixture": step_mixture, "optimistic": True}
    return _run(_game(problem, mixtures, options), state, compiled)


def mirror_prox_afl(
    problem: LinearDomains,
    mixtures: Objective | Mixtures = None,
    *,
    step_w: Schedule,
    step_mixture: Schedule,
    state: Mapping[str, Any] | None = None,
    **options: Any,
) -> Iterator[Iterate]:
    """Extragradient: a trial step from (w, λ), then the real step along the gradients found there.

    w' = Π_W(w_{t−1} − γ_w δ_w(w_{t−1}, λ_{t−1})),   w_t = Π_W(w_{t−1} − γ_w δ_w(w', λ')),
    λ' and λ_t likewise. The method that the optimistic one saves half the gradients of; the
    averages are those of the trial points (w', λ'), to which its theory applies.

    Examples
    --------
    >>> import numpy as np
    >>> import anymix as ax
    >>> from anymix.solvers.samplers import FullBatch
    >>> from anymix.solvers.stochastic import mirror_prox_afl
    >>> problem = ax.LinearDomains(np.zeros((4, 1)), [1, 1, 0, 1], ["a", "a", "b", "b"])
    >>> run = mirror_prox_afl(
    ...     problem, step_w=0.5, step_mixture=0.5, sampler=FullBatch(), every=500
    ... )
    >>> problem.losses(next(run).w).max().round(4)
    np.float64(0.6931)
    """
    options |= {"step_w": step_w, "step_mixture": step_mixture}
    game = _game(problem, mixtures, options)
    if not isinstance(game.optimizer, SGD):
        fix = "Mirror-Prox takes plain steps, SGD()"
        raise InputError("optimizer", f"is {game.optimizer}", fix)
    return _play_mirror_prox(game, state)


def _game(problem: LinearDomains, mixtures: Objective | Mixtures, options: dict[str, Any]) -> Game:
    """The arguments of `stochastic_afl`: parts of the objective, and those of the run."""
    objective = objective_of(mixtures, parts_in(options), gamma=0.0)
    return Game.of(problem, objective, **options)


def _run(game: Game, state: Mapping[str, Any] | None, compiled: bool | None) -> Iterator[Iterate]:
    """By the compiled loop or the readable one."""
    reason = _obstacle(game)
    if compiled and reason is not None:
        raise InputError("compiled", f"is True but {reason}", "leave compiled=None to run without")
    readable = compiled is False or reason is not None
    return _play(game, state) if readable else _play_compiled(game, state)


def _obstacle(game: Game) -> str | None:
    """What the compiled loop does not take, or None."""
    takes: dict[str, tuple[object, tuple[type, ...]]] = {
        "sampler": (game.sampler, (PerDomain, Weighted)),
        "mixture_sampler": (game.mixture_sampler, (EveryDomain, UniformDomain)),
        "optimizer": (game.optimizer, (SGD, Momentum, Adagrad, Adam)),
    }
    for name, (value, kinds) in takes.items():
        if type(value) not in kinds:
            known = ", ".join(kind.__name__ for kind in kinds)
            return f"{name} is {type(value).__name__} and there is compiled code for {known}"
    if game.problem.loss.scalar is None:
        return f"loss is {game.problem.loss} and has no scalar form to compile"
    objective = game.objective
    mixtures = objective.mixtures
    if not (mixtures.is_simplex or mixtures.is_point):
        known = "Simplex, Vertices, Point"
        return f"mixtures is {type(mixtures).__name__} and there is compiled code for {known}"
    penalty = objective.penalty
    if not (penalty.is_quadratic or isinstance(penalty, DirichletPrior)):
        return f"prior is a {type(penalty).__name__} and there is compiled code for DirichletPrior"
    if objective.shrinkage.anchor is not None:
        return "anchor is given and there is compiled code for None"
    if not objective.shrinkage.is_quadratic:
        return f"norm is {objective.norm!r} and there is compiled code for 'squared'"
    return None


def _play(game: Game, state: Mapping[str, Any] | None) -> Iterator[Iterate]:
    """The loop of both algorithms."""
    rows, (players, rng) = DomainRows(game.problem), game.begin(state)
    while True:
        players.step(*_gradients(game, rows, players, rng))
        if players.t % game.every == 0:
            yield Iterate(players.t, PlayersPoint(players, rng))


def _play_compiled(game: Game, state: Mapping[str, Any] | None) -> Iterator[Iterate]:
    """The same numbers, by compiled code."""
    from anymix.solvers.compiled.run import CompiledRun  # loads Numba

    run = CompiledRun(game, *game.begin(state), None if state is None else state.get("compiled"))
    while True:
        run.advance(game.every - run.t % game.every)
        yield Iterate(run.t, run.point())


def _play_mirror_prox(game: Game, state: Mapping[str, Any] | None) -> Iterator[Iterate]:
    """A trial step by a copy of the players, then the step along the gradients found there."""
    rows, (players, rng) = DomainRows(game.problem), game.begin(state)
    p = game.problem.n_domains
    mixture_total = np.zeros(p) if state is None else np.array(state["mixture_total"])
    while True:
        sizes, trial = players.next_sizes(), players.copy()
        trial.step(*_gradients(game, rows, players, rng), sizes)
        players.step(*_gradients(game, rows, trial, rng), sizes)
        players.total = trial.total  # the sum of the trial points
        mixture_total = mixture_total + trial.adversary.mixture
        if players.t % game.every == 0:
            yield Iterate(players.t, PlayersPoint(players, rng, mixture_total))


@np.errstate(over="ignore", invalid="ignore")  # what is not finite is refused
def _gradients(
    game: Game, rows: DomainRows, at: Players, rng: np.random.Generator
) -> tuple[Array, Array]:
    """δ_w with the regulariser, and δ_λ with offsets and penalty, from one draw of uniforms."""
    w, mixture, p = at.w, at.adversary.mixture, game.problem.n_domains
    n_w = game.sampler.n_draws(p)
    u = rng.random(n_w + game.mixture_sampler.n_draws(p))
    delta_w = game.sampler.model_gradient(rows, w, mixture, u[:n_w])
    delta_w = delta_w + game.objective.regularizer_gradient(w)
    b = game.objective.offsets
    losses = game.mixture_sampler.mixture_gradient(rows, w, b, u[n_w:])
    delta_mixture = losses - game.objective.penalty.gradient(mixture)
    if np.isfinite(losses).all() and not np.isfinite(delta_mixture).all():
        raise too_long("step_mixture", at.t + 1)
    return delta_w, delta_mixture
