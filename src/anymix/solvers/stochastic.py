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

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.mixtures import (
    Adversary,
    Chi2Penalty,
    DirichletPrior,
    MixtureSet,
    Point,
    Simplex,
    Vertices,
)
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import CrossEntropy, Hinge, Huber, SquaredError
from anymix.solvers.certificates import Objective
from anymix.solvers.optimizers import SGD, Adagrad, Adam, Momentum, Optimizer
from anymix.solvers.samplers import (
    DomainRows,
    EveryDomain,
    MixtureSampler,
    ModelSampler,
    PerDomain,
    UniformDomain,
    Weighted,
    companion,
)

Array = NDArray[np.float64]
Schedule = float | Callable[[int], float]
State = dict[str, Any]

__all__ = ["Iterate", "mirror_prox_afl", "optimistic_afl", "stochastic_afl"]


@dataclass(frozen=True)
class Iterate:
    """(w_t, λ_t), the averages of w_1..w_t and λ_1..λ_t, and all that a resumed run needs."""

    w: Array
    mixture: Array
    w_average: Array
    mixture_average: Array
    step: int
    state: State = field(repr=False)


def stochastic_afl(
    problem: LinearDomains,
    mixtures: MixtureSet | None = None,
    *,
    step_w: Schedule,
    step_mixture: Schedule,
    sampler: ModelSampler | None = None,
    mixture_sampler: MixtureSampler | None = None,
    adversary: Literal["euclidean", "entropic"] = "euclidean",
    optimizer: Optimizer | None = None,
    gamma: float = 0.0,
    mu: float = 0.0,
    norm: str = "squared",
    prior: DirichletPrior | None = None,
    offsets: ArrayLike | None = None,
    w_radius: float | None = None,
    start: ArrayLike | None = None,
    start_mixture: ArrayLike | None = None,
    seed: int | np.random.Generator = 0,
    every: int = 1,
    compiled: bool | None = None,
    state: Mapping[str, Any] | None = None,
) -> Iterator[Iterate]:
    """w_t = Π_W(w_{t−1} − γ_w δ_w),  λ_t = Π_Λ(λ_{t−1} + γ_λ δ_λ), both from the old point.

    Parameters
    ----------
    step_w, step_mixture : γ_w and γ_λ, numbers or functions of t = 1, 2, …
    sampler : δ_w: PerDomain (default), Weighted or FullBatch.
    mixture_sampler : δ_λ: EveryDomain, UniformDomain or FullBatch; by default the one that costs
        as much as the sampler.
    adversary : "euclidean", the paper's, or "entropic", multiplicative weights.
    optimizer : the rule for w: SGD (default), Momentum, Adagrad, Adam.
    gamma, norm, mu, prior, offsets : as in `solve`.
    w_radius : W is the ball ‖w‖ ≤ w_radius; None is all of R^d.
    start, start_mixture : w_0 and λ_0; 0 and the center of Λ by default.
    seed : same seed, same numbers.
    every : yield after every so many steps; the numbers do not depend on it.
    compiled : the same numbers from compiled code, many times faster, where there is such code;
        None takes it if it can, True insists, False is the loop below.
    state : `Iterate.state` of an earlier run with the same arguments, to continue it.

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
    game = _game(
        problem,
        mixtures,
        step_w=step_w,
        step_mixture=step_mixture,
        sampler=sampler,
        mixture_sampler=mixture_sampler,
        adversary=adversary,
        optimizer=optimizer,
        gamma=gamma,
        mu=mu,
        norm=norm,
        prior=prior,
        offsets=offsets,
        w_radius=w_radius,
        start=start,
        start_mixture=start_mixture,
        seed=seed,
        every=every,
    )
    return _run(game, state, compiled)


def optimistic_afl(
    problem: LinearDomains,
    mixtures: MixtureSet | None = None,
    *,
    step_w: Schedule,
    step_mixture: Schedule,
    compiled: bool | None = None,
    state: Mapping[str, Any] | None = None,
    **options: Any,
) -> Iterator[Iterate]:
    """w_t = Π_W(w_{t−1} − γ_w (2δ_w^t − δ_w^{t−1})),  λ_t likewise; δ⁰ = δ¹.

    Its last iterate converges where that of Stochastic-AFL circles. Options as in
    `stochastic_afl`.

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
    return _run(_game(problem, mixtures, **options), state, compiled)


def mirror_prox_afl(
    problem: LinearDomains,
    mixtures: MixtureSet | None = None,
    *,
    step_w: Schedule,
    step_mixture: Schedule,
    state: Mapping[str, Any] | None = None,
    **options: Any,
) -> Iterator[Iterate]:
    """Extragradient: a trial step from (w, λ), then the real step along the gradients found there.

    w' = Π_W(w_{t−1} − γ_w δ_w(w_{t−1}, λ_{t−1})),   w_t = Π_W(w_{t−1} − γ_w δ_w(w', λ')),
    λ' and λ_t likewise. The method that the optimistic one saves half the gradients of; the
    averages are those of the trial points (w', λ'), to which its theory applies. Options as in
    `stochastic_afl`; the optimizer is SGD.

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
    game = _game(problem, mixtures, **options)
    if not isinstance(game.optimizer, SGD):
        raise ValueError(f"optimizer is {game.optimizer}; Mirror-Prox takes plain steps, SGD()")
    return _play_mirror_prox(game, state)


@dataclass(frozen=True)
class Game:
    """The checked arguments of a run."""

    problem: LinearDomains
    objective: Objective
    step_w: Callable[[int], float]
    step_mixture: Callable[[int], float]
    sampler: ModelSampler
    mixture_sampler: MixtureSampler
    adversary: Literal["euclidean", "entropic"]
    optimizer: Optimizer
    w_radius: float | None
    start: Array
    start_mixture: ArrayLike | None
    seed: int | np.random.Generator
    every: int
    optimistic: bool

    def __post_init__(self) -> None:
        self.opponent()  # the entropic one does not take every set: say so before the first step

    @property
    def penalty(self) -> Chi2Penalty | DirichletPrior | None:
        return self.objective.prior or (self.objective.chi2 if self.objective.mu > 0 else None)

    def project(self, w: Array) -> Array:
        """Π_W."""
        if self.w_radius is None:
            return w
        length = float(np.linalg.norm(w))
        return w if length <= self.w_radius else w * (self.w_radius / length)

    def opponent(self) -> Adversary:
        """λ_0 with its step rule; the penalty is part of its gradients."""
        return Adversary(
            self.objective.mixtures,
            step=1.0,
            kind=self.adversary,
            start=self.start_mixture,
            optimistic=self.optimistic,
        )


def _run(game: Game, state: Mapping[str, Any] | None, compiled: bool | None) -> Iterator[Iterate]:
    """By the compiled loop or the readable one."""
    reason = _obstacle(game)
    if compiled and reason is not None:
        raise ValueError(f"compiled is True but {reason}; leave compiled=None to run without")
    readable = compiled is False or reason is not None
    return _play(game, state) if readable else _play_compiled(game, state)


def _obstacle(game: Game) -> str | None:
    """What the compiled loop does not take, or None."""
    takes: dict[str, tuple[object, tuple[type, ...]]] = {
        "loss": (game.problem.loss, (CrossEntropy, SquaredError, Huber, Hinge)),
        "mixtures": (game.objective.mixtures, (Simplex, Vertices, Point)),
        "sampler": (game.sampler, (PerDomain, Weighted)),
        "mixture_sampler": (game.mixture_sampler, (EveryDomain, UniformDomain)),
        "optimizer": (game.optimizer, (SGD, Momentum, Adagrad, Adam)),
    }
    for name, (value, kinds) in takes.items():
        if type(value) not in kinds:
            known = ", ".join(kind.__name__ for kind in kinds)
            return f"{name} is {type(value).__name__} and there is compiled code for {known}"
    if game.objective.prior is not None:
        return "there is no compiled code for a prior"
    if game.objective.gamma > 0 and game.objective.norm != "squared":
        return f"norm is {game.objective.norm!r} and there is compiled code for 'squared'"
    return None


def _play(game: Game, state: Mapping[str, Any] | None) -> Iterator[Iterate]:
    """The loop of both algorithms, in the letters of the paper."""
    rows, run = DomainRows(game.problem), _resume(game, state)
    w, lam, rng = run.w, run.adversary, run.rng
    while True:
        run.t += 1
        delta_w, delta_mixture = _gradients(game, rows, w, lam.mixture, rng)
        direction = delta_w
        if game.optimistic:
            direction = 2 * delta_w - (delta_w if run.previous is None else run.previous)
            run.previous = delta_w
        direction, run.memory = game.optimizer.direction(direction, run.memory)
        w = run.w = game.project(w - game.step_w(run.t) * direction)
        lam.step(delta_mixture, game.step_mixture(run.t))
        run.total = run.total + w
        if run.t % game.every == 0:
            yield run.iterate(lam.average)


def _play_compiled(game: Game, state: Mapping[str, Any] | None) -> Iterator[Iterate]:
    """The same numbers, by compiled.py."""
    from anymix.solvers.compiled.run import CompiledRun  # loads Numba

    run = _resume(game, state)
    players = CompiledRun(game, run, None if state is None else state.get("compiled"))
    while True:
        players.advance(game.every - run.t % game.every)
        players.write()
        yield run.iterate(run.adversary.average, compiled=players.save())


def _play_mirror_prox(game: Game, state: Mapping[str, Any] | None) -> Iterator[Iterate]:
    rows, run = DomainRows(game.problem), _resume(game, state)
    w, lam, rng = run.w, run.adversary, run.rng
    mixture_total = np.zeros(game.problem.n_domains) if state is None else state["mixture_total"]
    while True:
        run.t += 1
        gamma_w, gamma_mixture = game.step_w(run.t), game.step_mixture(run.t)
        trial = game.opponent()
        trial.load_state_dict(lam.state_dict())
        delta_w, delta_mixture = _gradients(game, rows, w, lam.mixture, rng)
        w_trial = game.project(w - gamma_w * delta_w)
        trial.step(delta_mixture, gamma_mixture)
        delta_w, delta_mixture = _gradients(game, rows, w_trial, trial.mixture, rng)
        w = run.w = game.project(w - gamma_w * delta_w)
        lam.step(delta_mixture, gamma_mixture)
        run.total, mixture_total = run.total + w_trial, mixture_total + trial.mixture
        if run.t % game.every == 0:
            yield run.iterate(mixture_total / run.t, mixture_total=mixture_total)


def _gradients(
    game: Game, rows: DomainRows, w: Array, mixture: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """δ_w with the regulariser, and δ_λ with offsets and penalty, from one draw of uniforms."""
    p = game.problem.n_domains
    n_w = game.sampler.n_draws(p)
    u = rng.random(n_w + game.mixture_sampler.n_draws(p))
    delta_w = game.sampler.model_gradient(rows, w, mixture, u[:n_w])
    delta_w = delta_w + game.objective.regularizer_gradient(w)
    b = game.objective.offsets
    delta_mixture = game.mixture_sampler.mixture_gradient(rows, w, b, u[n_w:])
    if game.penalty is not None:
        delta_mixture = delta_mixture - game.penalty.gradient(mixture)
    if not np.all(np.isfinite(delta_mixture)):
        raise ValueError(
            f"the gradient for λ = {mixture} is {delta_mixture}: make step_w shorter, or "
            "step_mixture where a prior keeps λ from 0"
        )
    return delta_w, delta_mixture


@dataclass
class Run:
    """All that changes from step to step."""

    t: int
    w: Array
    total: Array  # Σ w_t
    previous: Array | None  # δ_w of the last step, for the optimistic one
    memory: dict[str, Array]  # of the optimizer
    adversary: Adversary
    rng: np.random.Generator

    def iterate(self, mixture_average: Array, **more: Any) -> Iterate:
        """The present point; nothing in it changes later."""
        state = {
            "t": self.t,
            "w": self.w.copy(),
            "total": self.total.copy(),
            "previous": None if self.previous is None else self.previous.copy(),
            "memory": {name: value.copy() for name, value in self.memory.items()},
            "adversary": self.adversary.state_dict(),
            "rng": self.rng.bit_generator.state,
            **{name: value.copy() for name, value in more.items()},
        }
        w, average = self.w.copy(), self.total / self.t
        return Iterate(w, self.adversary.mixture, average, mixture_average, self.t, state)


def _resume(game: Game, state: Mapping[str, Any] | None) -> Run:
    rng = np.random.default_rng(game.seed)
    adversary = game.opponent()
    if state is None:
        w = game.project(game.start)
        memory = game.optimizer.start(len(w))
        return Run(0, w, np.zeros_like(w), None, memory, adversary, rng)
    adversary.load_state_dict(state["adversary"])
    rng.bit_generator.state = state["rng"]
    previous = None if state["previous"] is None else np.array(state["previous"])
    memory = {name: np.array(value) for name, value in state["memory"].items()}
    w, total = np.array(state["w"]), np.array(state["total"])
    return Run(int(state["t"]), w, total, previous, memory, adversary, rng)


def _game(
    problem: LinearDomains,
    mixtures: MixtureSet | None,
    *,
    step_w: Schedule,
    step_mixture: Schedule,
    sampler: ModelSampler | None = None,
    mixture_sampler: MixtureSampler | None = None,
    adversary: Literal["euclidean", "entropic"] = "euclidean",
    optimizer: Optimizer | None = None,
    gamma: float = 0.0,
    mu: float = 0.0,
    norm: str = "squared",
    prior: DirichletPrior | None = None,
    offsets: ArrayLike | None = None,
    w_radius: float | None = None,
    start: ArrayLike | None = None,
    start_mixture: ArrayLike | None = None,
    seed: int | np.random.Generator = 0,
    every: int = 1,
    optimistic: bool = False,
) -> Game:
    """The arguments, checked."""
    sampler = PerDomain() if sampler is None else sampler
    if not (w_radius is None or (isinstance(w_radius, Real) and 0 < w_radius < np.inf)):
        raise ValueError(f"w_radius is {w_radius!r}; give a positive number, or None for no bound")
    if adversary not in ("euclidean", "entropic"):
        raise ValueError(f"adversary is {adversary!r}; give 'euclidean' or 'entropic'")
    if not (isinstance(every, Real) and every >= 1 and every % 1 == 0):
        raise ValueError(f"every is {every!r}; give a whole number ≥ 1")
    w = np.zeros(problem.n_parameters) if start is None else problem._check_w(start)
    objective = Objective.of(problem, mixtures, gamma, mu, norm, offsets, prior)
    if start_mixture is not None and not objective.mixtures.contains(start_mixture):
        raise ValueError(
            f"start_mixture is {start_mixture}, not in {objective.mixtures}; project it first"
        )
    return Game(
        problem=problem,
        objective=objective,
        step_w=_schedule("step_w", step_w),
        step_mixture=_schedule("step_mixture", step_mixture),
        sampler=sampler,
        mixture_sampler=mixture_sampler or companion(sampler),
        adversary=adversary,
        optimizer=SGD() if optimizer is None else optimizer,
        w_radius=w_radius,
        start=w,
        start_mixture=start_mixture,
        seed=seed,
        every=int(every),
        optimistic=optimistic,
    )


def _schedule(name: str, step: Schedule) -> Callable[[int], float]:
    if callable(step):
        return lambda t: _size(f"{name}({t})", step(t))
    return Constant(_size(name, step))


@dataclass(frozen=True)
class Constant:
    """The same size at every step."""

    size: float

    def __call__(self, t: int) -> float:
        return self.size


def _size(name: str, step: float) -> float:
    if not (isinstance(step, Real) and 0 <= step < np.inf):
        raise ValueError(f"{name} is {step!r}; give a number ≥ 0, or a function of the step number")
    return float(step)
