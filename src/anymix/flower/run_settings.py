"""What a run of training is told, as `AgnosticStrategy` holds it and explains it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from anymix.flower.aggregation import Aggregation
from anymix.flower.policy import Limits, Patience
from anymix.mixtures import MixtureSet, Penalty
from anymix.solvers.optimizers import Optimizer
from anymix.solvers.samplers import ModelSampler

__all__ = ["RunSettings"]


class RunSettings(Protocol):
    """The settings of a run; see `AgnosticStrategy` for what each of them means."""

    mixtures: MixtureSet | Callable[[NDArray[np.float64]], MixtureSet] | None
    domains: Sequence[str] | None
    step_w: Callable[[int], float] | None
    step_mixture: Callable[[int], float] | None
    sampler: ModelSampler
    clients_per_round: int | None
    local_steps: int
    local_epochs: int | None
    server_optimizer: Optimizer | None
    optimistic: bool
    adversary: Literal["euclidean", "entropic"]
    gamma: float
    mu: float
    prior: Penalty | None
    w_radius: float | None
    aggregation: Aggregation
    patience: Patience
    limits: Limits
    output: Literal["best", "last", "average"]
    hold_out: float
    evaluate_every: int
    stop_after: int | None
    judged_by: MixtureSet | Callable[[NDArray[np.float64]], MixtureSet] | None
    checkpoint: Path | None
    seed: int

    @property
    def settings(self) -> str:
        """What a resumed run must share with the run it continues."""
        ...
