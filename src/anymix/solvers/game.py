"""What is played in a stochastic run: its arguments, checked, and the players at their start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError
from anymix.mixtures import Adversary, MixtureSet
from anymix.objective import Objective, Phi
from anymix.problem.linear import LinearDomains
from anymix.solvers.optimizers import SGD, Optimizer
from anymix.solvers.players import Players
from anymix.solvers.samplers import MixtureSampler, ModelSampler, PerDomain, companion
from anymix.solvers.steps import Schedule, as_function

Array = NDArray[np.float64]
Kind = Literal["euclidean", "entropic"]

__all__ = ["Game"]


@dataclass(frozen=True)
class Game:
    """The checked arguments of a run."""

    problem: LinearDomains
    objective: Phi
    step_w: Callable[[int], float]
    step_mixture: Callable[[int], float]
    sampler: ModelSampler
    mixture_sampler: MixtureSampler
    adversary: Kind
    optimizer: Optimizer
    start: Array
    start_mixture: ArrayLike | None
    seed: int | np.random.Generator
    every: int
    optimistic: bool

    def __post_init__(self) -> None:
        self.opponent()  # the entropic one does not take every set: say so before the first step

    @classmethod
    def of(
        cls,
        problem: LinearDomains,
        objective: Objective,
        *,
        step_w: Schedule,
        step_mixture: Schedule,
        sampler: ModelSampler | None = None,
        mixture_sampler: MixtureSampler | None = None,
        adversary: Kind = "euclidean",
        optimizer: Optimizer | None = None,
        start: ArrayLike | None = None,
        start_mixture: ArrayLike | None = None,
        seed: int | np.random.Generator = 0,
        every: int = 1,
        optimistic: bool = False,
    ) -> Game:
        """The arguments of `stochastic_afl`, checked."""
        sampler = PerDomain() if sampler is None else sampler
        _check(adversary, every)
        w = np.zeros(problem.n_parameters) if start is None else problem._check_w(start)
        phi = objective.on(problem)
        _check_start(start_mixture, phi.mixtures)
        return cls(
            problem=problem,
            objective=phi,
            step_w=as_function("step_w", step_w),
            step_mixture=as_function("step_mixture", step_mixture),
            sampler=sampler,
            mixture_sampler=mixture_sampler or companion(sampler),
            adversary=adversary,
            optimizer=SGD() if optimizer is None else optimizer,
            start=w,
            start_mixture=start_mixture,
            seed=seed,
            every=int(every),
            optimistic=optimistic,
        )

    def opponent(self) -> Adversary:
        """λ_0 with its step rule; the penalty is part of its gradients."""
        return Adversary(
            self.objective.mixtures,
            step=1.0,
            kind=self.adversary,
            start=self.start_mixture,
            optimistic=self.optimistic,
        )

    def begin(self, state: Mapping[str, Any] | None) -> tuple[Players, np.random.Generator]:
        """The players and the source of uniforms at the start, or where `state` was taken."""
        rng = np.random.default_rng(self.seed)
        rules = self.optimizer, self.step_w, self.step_mixture, self.objective.w_radius
        players = Players(self.start, self.opponent(), *rules)
        if state is not None:
            players.load_state_dict(state)
            rng.bit_generator.state = state["rng"]
        return players, rng


def _check(adversary: str, every: float) -> None:
    if adversary not in ("euclidean", "entropic"):
        raise InputError("adversary", f"is {adversary!r}", "give 'euclidean' or 'entropic'")
    if not (isinstance(every, Real) and every >= 1 and every % 1 == 0):
        raise InputError("every", f"is {every!r}", "give a whole number ≥ 1")


def _check_start(start_mixture: ArrayLike | None, mixtures: MixtureSet) -> None:
    if start_mixture is not None and not mixtures.contains(start_mixture):
        found = f"is {start_mixture}, not in {mixtures}"
        raise InputError("start_mixture", found, "project it first")
