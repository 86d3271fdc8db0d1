"""A run of `stochastic.py` by the compiled kernels: the way there and back.

Imported when the first compiled run begins, for Numba takes a while to load.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from anymix.mixtures import Point
from anymix.problem.losses import CrossEntropy, Hinge
from anymix.solvers.compiled import kernels, trees
from anymix.solvers.compiled.kernels import Choice, Data, Dense, Lazy, Plain, Rules, Step
from anymix.solvers.compiled.trees import Entropic, Euclidean
from anymix.solvers.optimizers import SGD, Adagrad, Adam, Momentum, Optimizer
from anymix.solvers.samplers import DomainRows, UniformDomain, Weighted
from anymix.solvers.stochastic import Constant, Game, Run

Array = NDArray[np.float64]
Mixture = tuple[Dense | None, Euclidean | None, Entropic | None]  # one of them
Players = tuple[Choice, Choice, Step, Lazy | None, Plain | None, *Mixture]

__all__ = ["CompiledRun"]

BLOCK = 2**16  # uniforms drawn at once: they stay in the cache


class CompiledRun:
    """The players of a run in the form of the kernels.

    They keep w and λ in lazy forms; `write` turns these into what the readable loop keeps and
    leaves them as they are, so that the numbers do not depend on when one looks.
    """

    def __init__(self, game: Game, run: Run, saved: Mapping[str, ArrayLike] | None) -> None:
        self.game, self.run = game, run
        self.rules, self.data = _rules(game), _data(game)
        adversary: dict[str, Any] = run.adversary.state_dict()
        self.chosen, self.ahead = (_choice(game, adversary["previous"]) for _ in range(2))
        self.step = _step(game, run, adversary["previous"])
        self.lazy = _lazy(game, run) if _is_lazy(game) else None
        self.plain = None if _is_lazy(game) else _plain(game, run)
        self.dense, self.euclidean, self.entropic = _mixture(game, adversary)
        if saved is not None:
            self._load(saved)

    def advance(self, steps: int) -> None:
        """So many steps."""
        game, run, p = self.game, self.run, self.game.problem.n_domains
        n_draws = game.sampler.n_draws(p) + game.mixture_sampler.n_draws(p)
        while steps > 0:
            n = min(steps, max(1, BLOCK // n_draws))
            uniforms = run.rng.random((n, n_draws))
            sizes = _sizes(game.step_w, run.t, n), _sizes(game.step_mixture, run.t, n)
            done = kernels.advance(self.rules, self.data, *self._players(), uniforms, *sizes)
            run.t += done
            steps -= n
            if done < n:
                raise ValueError(
                    f"the gradients of step {run.t + 1} at w = {self._w()} are not finite: make "
                    "step_w or step_mixture shorter, or scale the columns of X"
                )

    def _players(self) -> Players:
        room = self.chosen, self.ahead, self.step
        return *room, self.lazy, self.plain, self.dense, self.euclidean, self.entropic

    # -- what the readable loop keeps ----------------------------------------------------------

    def write(self) -> None:
        """The present point into the run."""
        run = self.run
        run.w, run.total = self._w(), self._total()
        run.previous = self._last_gradient() if self.game.optimistic else None
        if self.plain is not None:
            memory = _memory(self.game.optimizer, self.plain)
            run.memory = {name: array.copy() for name, array in memory.items()}
        run.adversary.load_state_dict(self._adversary())

    def _w(self) -> Array:
        if self.plain is not None:
            return self.plain.w.copy()
        assert self.lazy is not None
        w, d = self.lazy.v.copy(), self.data.d
        w[:d] *= self.lazy.numbers[kernels.SCALE]
        return w

    def _total(self) -> Array:
        """w_1 + … + w_t."""
        if self.plain is not None:
            return self.plain.total.copy()
        assert self.lazy is not None
        total, v, d = self.lazy.total.copy(), self.lazy.v, self.data.d
        total[:d] += self.lazy.numbers[kernels.SUM] * v[:d] - self.lazy.drag[:d]
        return total

    def _last_gradient(self) -> Array:
        """δ_w of the last step."""
        if self.plain is not None:
            return self.plain.previous.copy()
        problem = self.game.problem
        part = problem._with_rows(self.chosen.rows, problem.average)
        return part.pull_back(self.step.slopes[:, 0])

    def _adversary(self) -> dict[str, Any]:
        """As `Adversary.state_dict`."""
        t, p, m = self.run.t, self.game.problem.n_domains, len(self.step.entries) // 2
        previous: Array = np.zeros(p)
        np.add.at(previous, self.chosen.domains[:m], self.step.entries[:m])
        if self.euclidean is not None:
            mixture, total = trees.euclidean_read(self.euclidean)
            return {"mixture": mixture, "total": total, "previous": previous, "n_steps": t}
        if self.entropic is not None:
            mixture, logarithm, total = trees.entropic_read(self.entropic)
        else:
            assert self.dense is not None
            mixture, logarithm, total = self.dense.mixture, self.dense.logarithm, self.dense.total
            total, previous = (
                (t * mixture, previous) if self.rules.fixed else (total, self.dense.gradient)
            )
        state = {"mixture": mixture, "total": total, "previous": previous, "n_steps": t}
        return state | ({"logarithm": logarithm} if self.rules.entropic else {})

    # -- the lazy forms themselves, to continue bit for bit ------------------------------------

    def save(self) -> dict[str, Array]:
        """Copies of all arrays that change."""
        return {name: array.copy() for name, array in self._arrays().items()}

    def _load(self, saved: Mapping[str, ArrayLike]) -> None:
        """What `save` gave, unless by a run of another form."""
        arrays = self._arrays()
        if {k: v.shape for k, v in arrays.items()} == {k: np.shape(v) for k, v in saved.items()}:
            for name, array in arrays.items():
                array[...] = saved[name]

    def _arrays(self) -> dict[str, Array]:
        parts = [part for part in self._players() if part is not None and part is not self.ahead]
        arrays = {f"{type(a).__name__} {k}": v for a in parts for k, v in a._asdict().items()}
        return {name: v for name, v in arrays.items() if v.flags.writeable}


# -- from the readable loop ------------------------------------------------------------------------


def _is_lazy(game: Game) -> bool:
    """Whether w = s v will do. The optimistic direction holds γ w_{t−1}, no multiple of w_t."""
    plain = type(game.optimizer) is SGD and game.problem.n_scores == 1
    return plain and not (game.optimistic and game.objective.gamma > 0)


def _n_rows(game: Game) -> int:
    """Rows of δ_w."""
    return game.sampler.n_draws(game.problem.n_domains) // (2 if _is_weighted(game) else 1)


def _n_mixture_rows(game: Game) -> int:
    """Rows of δ_λ."""
    return game.mixture_sampler.n_draws(game.problem.n_domains) // (2 if _is_uniform(game) else 1)


def _n_entries(game: Game) -> int:
    """Entries of δ_λ: one a row, or one a domain."""
    return _n_mixture_rows(game) if _is_uniform(game) else game.problem.n_domains


def _is_weighted(game: Game) -> bool:
    return type(game.sampler) is Weighted


def _is_uniform(game: Game) -> bool:
    return type(game.mixture_sampler) is UniformDomain


def _rules(game: Game) -> Rules:
    problem, rule, p = game.problem, game.optimizer, game.problem.n_domains
    losses = {CrossEntropy: kernels.LOG, Hinge: kernels.HINGE}
    loss = losses.get(type(problem.loss), kernels.HUBER)
    return Rules(
        loss=loss if problem.n_scores == 1 else kernels.SOFTMAX,
        huber=float(getattr(problem.loss, "delta", math.inf)),
        weighted=_is_weighted(game),
        batch=_n_rows(game) // (1 if _is_weighted(game) else p),
        uniform=_is_uniform(game),
        mixture_batch=_n_mixture_rows(game) // (1 if _is_uniform(game) else p),
        optimizer=(SGD, Momentum, Adagrad, Adam).index(type(rule)),
        beta1=float(getattr(rule, "beta", getattr(rule, "beta1", 0.0))),
        beta2=float(getattr(rule, "beta2", 0.0)),
        epsilon=float(getattr(rule, "epsilon", 0.0)),
        gamma=float(game.objective.gamma),
        mu=float(game.objective.mu),
        radius=math.inf if game.w_radius is None else float(game.w_radius),
        optimistic=bool(game.optimistic),
        entropic=game.adversary == "entropic",
        fixed=type(game.objective.mixtures) is Point,
    )


def _data(game: Game) -> Data:
    problem, rows, none = game.problem, DomainRows(game.problem), np.empty(0)
    X: Any = problem.X
    values, columns, ends = X, none, none
    if sparse.issparse(X):
        values, columns, ends = X.data, X.indices, X.indptr
    return Data(
        values=_constant(values.reshape(-1), np.float64),
        columns=_constant(columns, np.uint32),
        ends=_constant(ends, np.int64),
        y=_constant(problem.y, np.float64),
        domain_ends=_constant(np.append(rows.starts, len(rows.rows)), np.int64),
        domain_rows=_constant(rows.rows, np.uint32),
        shares=_constant(none if rows.cumulative is None else rows.cumulative, np.float64),
        offsets=_constant(game.objective.offsets, np.float64),
        d=problem.n_features,
        intercept=problem.intercept,
    )


def _constant(values: NDArray[Any], kind: type) -> NDArray[Any]:
    """Read-only, whatever the input was: one type, compiled once; int32 is uint32 as it stands."""
    if values.dtype == np.int32 and kind is np.uint32:
        values = values.view(np.uint32)
    array: NDArray[Any] = np.ascontiguousarray(values, dtype=kind).view()
    array.flags.writeable = False
    return array


def _choice(game: Game, last: Array) -> Choice:
    """Room for a step's rows; the domains of the last δ_λ."""
    m = _n_entries(game)
    domains, known = np.resize(np.arange(m), 2 * m), np.flatnonzero(last)[:m]
    domains[m : m + len(known)] = known
    return Choice(
        rows=np.zeros(_n_rows(game), dtype=np.int64),
        mixture_rows=np.zeros(_n_mixture_rows(game), dtype=np.int64),
        domains=domains,
    )


def _step(game: Game, run: Run, last: Array) -> Step:
    """Room for a step's gradients; the entries of the last δ_λ."""
    m, K = _n_entries(game), game.problem.n_scores
    entries, known = np.zeros(2 * m), last[np.flatnonzero(last)[:m]]
    entries[m : m + len(known)] = known
    return Step(
        slopes=np.zeros((_n_rows(game), K)),
        entries=entries,
        moves=np.zeros(2 * m),
        scores=np.zeros(K),
        past=np.array([kernels.NOTHING if run.previous is None else kernels.VECTORS]),
    )


def _lazy(game: Game, run: Run) -> Lazy:
    d, n = game.problem.n_features, _n_rows(game)
    return Lazy(
        v=run.w.copy(),
        total=run.total.copy(),
        drag=np.zeros_like(run.w),
        numbers=np.array([1.0, 0.0, run.w[:d] @ run.w[:d], 0.0]),
        last_rows=np.zeros(n, dtype=np.int64),
        last_slopes=np.zeros((n, 1)),
        previous=np.zeros_like(run.w) if run.previous is None else run.previous.copy(),
    )


def _plain(game: Game, run: Run) -> Plain:
    zeros = np.zeros_like(run.w)
    plain = Plain(
        w=run.w.copy(),
        total=run.total.copy(),
        previous=zeros.copy() if run.previous is None else run.previous.copy(),
        gradient=zeros.copy(),
        first=zeros.copy(),
        second=zeros.copy(),
        time=np.zeros(1),
    )
    for name, array in _memory(game.optimizer, plain).items():
        array[...] = run.memory[name]
    return plain


def _memory(rule: Optimizer, plain: Plain) -> dict[str, Array]:
    """Where the kernels keep what the step rule remembers."""
    if isinstance(rule, Adam):
        return {"m": plain.first, "v": plain.second, "t": plain.time}
    if isinstance(rule, SGD):
        return {}
    return {"v" if isinstance(rule, Momentum) else "G": plain.first}


def _mixture(game: Game, state: dict[str, Any]) -> Mixture:
    """λ, in a tree if a step draws from λ and moves few entries."""
    lam, total, log = state["mixture"], state["total"], state.get("logarithm")
    few = _is_weighted(game) and _is_uniform(game) and game.objective.mu == 0
    if few and type(game.objective.mixtures) is not Point:
        if log is None:
            return None, trees.euclidean(lam, total), None
        return None, None, trees.entropic(log, total)
    dense = Dense(
        mixture=lam,
        logarithm=np.zeros_like(lam) if log is None else log,
        running=np.cumsum(lam),
        total=total,
        gradient=state["previous"].copy(),
        previous=state["previous"],
        reference=_constant(game.problem.reference, np.float64),
    )
    return dense, None, None


def _sizes(step: Any, t: int, n: int) -> Array:
    """The sizes of the steps t + 1, …, t + n."""
    if isinstance(step, Constant):
        return np.full(n, step.size)
    return np.array([step(t + 1 + j) for j in range(n)], dtype=np.float64)
