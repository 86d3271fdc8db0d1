"""From the readable loop to the kernels: rules as codes, data as arrays, players in lazy forms."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from anymix.mixtures import DirichletPrior
from anymix.solvers.compiled import kernels
from anymix.solvers.compiled.kernels import (
    Choice,
    Data,
    Dense,
    Entropic,
    Euclidean,
    Lazy,
    Plain,
    Rules,
    Step,
    entropic,
    euclidean,
)
from anymix.solvers.game import Game
from anymix.solvers.optimizers import SGD, Adagrad, Adam, Momentum, Optimizer
from anymix.solvers.players import Players
from anymix.solvers.samplers import DomainRows, UniformDomain, Weighted

Array = NDArray[np.float64]
Mixture = tuple[Dense | None, Euclidean | None, Entropic | None]  # one of them

__all__ = ["Forms", "data_of", "forms_of", "memory_of", "rules_of"]


class Forms(NamedTuple):
    """All that a step changes, in the order in which `kernels.advance` takes it."""

    chosen: Choice
    ahead: Choice
    step: Step
    lazy: Lazy | None
    plain: Plain | None
    dense: Dense | None
    euclidean: Euclidean | None
    entropic: Entropic | None


def forms_of(game: Game, players: Players) -> Forms:
    """The players as the kernels keep them."""
    adversary: dict[str, Any] = players.adversary.state_dict()
    last, lazy = adversary["previous"], _is_lazy(game)
    return Forms(
        _choice(game, last),
        _choice(game, last),
        _step(game, players, last),
        _lazy(game, players) if lazy else None,
        None if lazy else _plain(game, players),
        *_mixture(game, adversary),
    )


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


def rules_of(game: Game) -> Rules:
    """What is played, as codes and numbers."""
    problem, rule, p = game.problem, game.optimizer, game.problem.n_domains
    loss = problem.loss.scalar
    assert loss is not None  # as `stochastic` has made sure
    return Rules(
        value=kernels.address(loss.value),
        slope=kernels.address(loss.slope),
        parameter=float(loss.parameter),
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
        radius=math.inf if game.objective.w_radius is None else game.objective.w_radius,
        optimistic=bool(game.optimistic),
        entropic=game.adversary == "entropic",
        fixed=game.objective.mixtures.is_point,
    )


def data_of(game: Game) -> Data:
    """The rows of the problem and of its domains, read-only."""
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
        longest=0.0 if game.objective.w_radius is None else _longest(problem.X),
    )


def _longest(X: Any) -> float:
    """A bound on ‖x_i‖, from the largest entry and the number of entries."""
    n, values = X.shape[1], X
    if sparse.issparse(X):
        n, values = np.diff(X.indptr).max(initial=0), X.data
    return float(max(values.max(initial=0.0), -values.min(initial=0.0)) * math.sqrt(n))


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


def _step(game: Game, players: Players, last: Array) -> Step:
    """Room for a step's gradients; the entries of the last δ_λ."""
    m, K = _n_entries(game), game.problem.n_scores
    entries, known = np.zeros(2 * m), last[np.flatnonzero(last)[:m]]
    entries[m : m + len(known)] = known
    return Step(
        slopes=np.zeros((_n_rows(game), K)),
        entries=entries,
        moves=np.zeros(2 * m),
        scores=np.zeros(K),
        past=np.array([kernels.NOTHING if players.previous is None else kernels.VECTORS]),
    )


def _lazy(game: Game, players: Players) -> Lazy:
    d, n = game.problem.n_features, _n_rows(game)
    return Lazy(
        v=players.w.copy(),
        total=players.total.copy(),
        drag=np.zeros_like(players.w),
        numbers=np.array([1.0, 0.0, players.w[:d] @ players.w[:d], 0.0]),
        last_rows=np.zeros(n, dtype=np.int64),
        last_slopes=np.zeros((n, 1)),
        previous=np.zeros_like(players.w) if players.previous is None else players.previous.copy(),
    )


def _plain(game: Game, players: Players) -> Plain:
    zeros = np.zeros_like(players.w)
    plain = Plain(
        w=players.w.copy(),
        total=players.total.copy(),
        previous=zeros.copy() if players.previous is None else players.previous.copy(),
        gradient=zeros.copy(),
        first=zeros.copy(),
        second=zeros.copy(),
        time=np.zeros(1),
    )
    for name, array in memory_of(game.optimizer, plain).items():
        array[...] = players.memory[name]
    return plain


def memory_of(rule: Optimizer, plain: Plain) -> dict[str, Array]:
    """Where the kernels keep what the step rule remembers."""
    if isinstance(rule, Adam):
        return {"m": plain.first, "v": plain.second, "t": plain.time}
    if isinstance(rule, SGD):
        return {}
    return {"v" if isinstance(rule, Momentum) else "G": plain.first}


def _prior(game: Game) -> Array:
    """What log λ is multiplied by in a Dirichlet prior, (p,); nothing without one."""
    penalty = game.objective.penalty
    return penalty.exponent if isinstance(penalty, DirichletPrior) else np.empty(0)


def _mixture(game: Game, state: dict[str, Any]) -> Mixture:
    """λ, in a tree if a step draws from λ and moves few entries."""
    lam, total, log = state["mixture"], state["total"], state.get("logarithm")
    free = game.objective.mu == 0 and game.objective.penalty.is_quadratic
    few = _is_weighted(game) and _is_uniform(game) and free
    if few and not game.objective.mixtures.is_point:
        if log is None:
            return None, euclidean(lam, total), None
        return None, None, entropic(log, total)
    dense = Dense(
        mixture=lam,
        logarithm=np.zeros_like(lam) if log is None else log,
        running=np.cumsum(lam),
        total=total,
        gradient=state["previous"].copy(),
        previous=state["previous"],
        reference=_constant(game.problem.reference, np.float64),
        prior=_constant(_prior(game), np.float64),
    )
    return dense, None, None
