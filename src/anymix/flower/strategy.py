"""Stochastic-AFL and Optimistic Stochastic-AFL over clients that keep their rows.

A round t, from (w, λ) = (w_{t−1}, λ_{t−1}):

    the server sends    w and the weights a_ck, b_ck of the client's rows: λ_k/m_k and 1/m_k
    a client returns    Σ_k a_ck Σ ∇ℓ and, of each domain k, b_ck Σ ℓ over its rows, in one reply
    the server adds     δ_w = Σ_c update_c,  δ_λ = Σ_c losses_c
    and steps           w_t = Π_W(w − γ_w d(δ_w)),  λ_t = Π_Λ(λ + γ_λ δ_λ)

This is `stochastic_afl`, row for row, however the rows are spread. With `local_epochs` clients take
steps of their own, and the server takes the mean of their models by their share of λ. Each step is

    v ← v − s (g_c(v) − g_c(w′) + Σ_j λ′_j g_j(w′))

with w′ and λ′ of the round before, so that the fixed point is that of one gradient a round.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from anymix.errors import InputError, finite_number
from anymix.flower.aggregation import Aggregation, Limits, Patience, Sum, count
from anymix.flower.local_training import check_evaluate_config, own_settings
from anymix.flower.results import AgnosticResult, History, Record, metrics
from anymix.flower.training_run import TrainingRun
from anymix.mixtures.parsing import Mixtures
from anymix.objective import Objective, objective_of, refuse_parts
from anymix.solvers.optimizers import Optimizer
from anymix.solvers.samplers import FullBatch, ModelSampler, PerDomain, Weighted
from anymix.solvers.steps import Schedule, as_function

__all__ = ["AgnosticStrategy", "Judging", "Steps", "Work"]

log = logging.getLogger("anymix.flower")


@dataclass(frozen=True)
class Steps:
    """How both players step.

    Parameters
    ----------
    step_w, step_mixture : float or function, optional
        γ_w and γ_λ, numbers or functions of the step t = 1, 2, … None needs none: see `Untuned`. A
        linear model is then trained in `Coordinates` of its columns, which up to 100 clients tell.
    optimizer : Optimizer, optional
        The server's rule for w, given step_w: SGD (default), Momentum, Adagrad, Adam.
    optimistic : bool
        Optimistic Stochastic-AFL, whose last iterate converges.
    adversary : {"euclidean", "entropic"}
        How λ steps; "euclidean" is the paper's.

    Examples
    --------
    >>> Steps(0.1, 0.01).adversary
    'euclidean'
    """

    step_w: Schedule | None = None
    step_mixture: Schedule | None = None
    optimizer: Optimizer | None = None
    optimistic: bool = False
    adversary: Literal["euclidean", "entropic"] = "euclidean"

    def __post_init__(self) -> None:
        for name in ("step_w", "step_mixture"):
            if getattr(self, name) is not None:
                as_function(name, getattr(self, name))
        if self.step_w is None and self.optimizer is not None:
            found = f"is {self.optimizer}, without a step_w"
            raise InputError("optimizer", found, "give step_w too, or neither")


@dataclass(frozen=True)
class Work:
    """Who is asked in a round, and what a client does.

    Parameters
    ----------
    sampler : FullBatch, PerDomain or Weighted
        FullBatch (default): a client looks at all its rows; PerDomain(b) and Weighted(b): at b of
        each domain it is asked about. Weighted draws domains by λ, and then clients.
    clients_per_round : int, optional
        None asks all (Weighted: p). Of n, every domain gets n // p draws of a client by its rows;
        Weighted draws n domains by λ, and a client of each, and as many uniformly for λ.
    local_epochs : int, optional
        Passes of a client over all its rows, in batches of the sampler's batch_size, by its own
        optimizer (see `LocalTraining`), instead of one gradient; for modules, and with a step_w.
        The server then steps by the mean of the clients' changes: step_w=1 takes the mean of their
        models. Clients' steps are corrected for what their rows have of their own, by the sum of
        the gradients of the round before; not with Privacy or Robust.

    Examples
    --------
    >>> Work(clients_per_round=50).sampler
    FullBatch()
    """

    sampler: ModelSampler = field(default_factory=FullBatch)
    clients_per_round: int | None = None
    local_epochs: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.sampler, FullBatch | PerDomain | Weighted):
            fix = "give FullBatch, PerDomain or Weighted"
            raise InputError("sampler", f"is {self.sampler!r}", fix)
        for name in ("clients_per_round", "local_epochs"):
            if getattr(self, name) is not None:
                count(name, getattr(self, name))


@dataclass(frozen=True)
class Judging:
    """Which model of a run is its result.

    Parameters
    ----------
    hold_out : float
        The part of its rows, of each domain, that a client keeps out of training to judge models
        by; which rows these are is fixed by the seed and its key. Not with Privacy or Robust:
        the losses of these rows travel as plain sums.
    every : int
        With hold_out, so many rounds lie between two models that are judged.
    stop_after : int, optional
        With hold_out, stop when so many models in a row were no better than the best; None goes on.
    by : MixtureSet, function, str or None
        The mixtures by whose worst one models are judged; None is those trained for.
    output : {"best", "last", "average"}
        Which model is the result. "best": that of the least worst-domain loss on all rows, with
        γ/2 ‖w‖², of the models judged on the way, the last one and the average. With hold_out, the
        last model that the rows held out cannot tell from the best of them (one standard error of
        the difference, row by row), or the average where that is surely better. With noise, of the
        server or of clients, the average.

    Examples
    --------
    >>> Judging(hold_out=0.2, stop_after=5).every
    10
    """

    hold_out: float = 0.0
    every: int = 10
    stop_after: int | None = None
    by: Mixtures = None
    output: Literal["best", "last", "average"] = "best"

    def __post_init__(self) -> None:
        fix = "give a number in [0, 1)"
        finite_number("hold_out", self.hold_out, fix, lambda part: 0 <= part < 1)
        count("every", self.every)
        if self.stop_after is not None:
            count("stop_after", self.stop_after)
            if self.hold_out == 0:
                fix = "give hold_out=0.2 too: only rows not trained with can tell when to stop"
                raise InputError("stop_after", f"is {self.stop_after}", fix)
        if self.output not in ("best", "last", "average"):
            fix = "give 'best', 'last' or 'average'"
            raise InputError("output", f"is {self.output!r}", fix)


class AgnosticStrategy(Strategy):
    """min_w max_{λ∈Λ} Σ_k λ_k L_k(w) + γ/2 ‖w‖² − μ χ²(λ‖m̄), over clients.

    Parameters
    ----------
    objective : Objective, MixtureSet, function, str or None
        What is to be minimised, with R = ½‖w‖²; or Λ alone (None is the simplex), with γ = 0. A
        function makes Λ from the sizes m_k.
    steps : Steps, optional
        How both players step; None needs no step sizes.
    work : Work, optional
        Who is asked in a round, and what a client does; None asks all for a gradient of all rows.
    aggregation : Sum, Privacy or Robust, optional
        How answers become one step: Sum() (default), Sum(min_share=0.9), Privacy(...), Robust(...).
    patience : Patience, optional
        What to do about clients that do not answer.
    limits : Limits, optional
        What a client may claim at most.
    judging : Judging, optional
        Which model is the result; None is the best one.
    domains : sequence of str, optional
        The names, in the order of Λ; None takes those that the first clients have, sorted.
    checkpoint : path-like, optional
        A file; the run is saved there after every round and goes on from there.
    seed : int
        Same seed, same numbers, on every engine.

    Examples
    --------
    >>> import anymix as ax
    >>> from anymix.flower import AgnosticStrategy, Patience, Steps
    >>> skip = Patience(on_missing="skip")
    >>> AgnosticStrategy(ax.Objective(gamma=0.1), steps=Steps(0.1, 0.01), patience=skip)
    AgnosticStrategy(Objective(gamma=0.1), on_missing='skip', ...)
    """

    def __init__(
        self,
        objective: Objective | Mixtures = None,
        *,
        steps: Steps | None = None,
        work: Work | None = None,
        aggregation: Aggregation | None = None,
        patience: Patience | None = None,
        limits: Limits | None = None,
        judging: Judging | None = None,
        domains: Sequence[str] | None = None,
        checkpoint: str | Path | None = None,
        seed: int = 0,
    ) -> None:
        self.objective, self.domains = objective_of(objective, {}, gamma=0.0), domains
        self.steps, self.work = steps or Steps(), work or Work()
        self.aggregation: Aggregation = Sum() if aggregation is None else aggregation
        self.patience, self.limits = patience or Patience(), limits or Limits()
        self.judging = judging or Judging()
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.seed = seed
        self._check()

    def _check(self) -> None:
        if self.judging.hold_out > 0 and not self.aggregation.exact:
            found = f"is {self.judging.hold_out:g} with {type(self.aggregation).__name__}"
            fix = (
                "leave one of them out: losses of rows held out are plain sums, without the noise "
                "or the care of this aggregation"
            )
            raise InputError("hold_out", found, fix)
        if self.work.local_epochs is not None and self.steps.step_w is None:
            found = f"is {self.work.local_epochs}, without a step_w"
            raise InputError("local_epochs", found, "give steps=Steps(step_w=..., ...)")
        refuse_parts(
            self.objective,
            "leave it out: clients train with ½‖w‖² and report their losses as they are",
            norm="squared",
            multiplicative=False,
            offsets=None,
            anchor=None,
        )
        seed: Any = self.seed
        if not (isinstance(seed, int | np.integer) and seed >= 0):
            raise InputError("seed", f"is {self.seed!r}", "give a whole number ≥ 0")

    def __repr__(self) -> str:
        return f"AgnosticStrategy({self.objective}, on_missing={self.patience.on_missing!r}, ...)"

    @property
    def settings(self) -> str:
        """What a resumed run must share with the run it continues."""
        # Functions have no lasting name, so neither Λ, a prior nor step sizes are told.
        numbers = replace(self.objective, mixtures=None, prior=None)
        steps = replace(self.steps, step_w=None, step_mixture=None, optimizer=None)
        own = (steps, self.steps.optimizer, self.work, self.aggregation, self.limits)
        told = ", ".join(map(repr, (numbers, *own)))
        return f"{told}, hold_out={self.judging.hold_out}, seed={self.seed}"

    # -- the loop ------------------------------------------------------------------------------

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord | None = None,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
        *,
        on_round: Callable[[Record], object] | None = None,
    ) -> AgnosticResult:
        """Train until round `num_rounds`, from the checkpoint if there is one.

        Parameters
        ----------
        grid : flwr.serverapp.Grid
            Where the clients are.
        initial_arrays : ArrayRecord, optional
            The start of the model; None starts a linear model at 0, and a module at its own first
            weights, which a client makes from the seed.
        num_rounds : int
            The number of the last round.
        timeout : float
            Seconds that a round waits for replies, each time it asks.
        train_config : ConfigRecord, optional
            Sent to the clients, whose own optimizer gets it (see `LocalTraining`). local_epochs,
            batch_size and step in it take the place of the strategy's.
        evaluate_config : ConfigRecord, optional
            `chunk`, how many rows a client computes at once when models are judged.
        evaluate_fn : function, optional
            evaluate_fn(round, arrays) is called after every round.
        on_round : function, optional
            on_round(record) gets the record of every round, see `History`; with `numbers(record)`
            of `anymix.flower.results`, a line for wandb, MLflow or TensorBoard.

        Returns
        -------
        AgnosticResult
        """
        config, evaluation = dict(train_config or {}), dict(evaluate_config or {})
        own_settings(config), check_evaluate_config(evaluation)  # complain before the first round
        result, run = AgnosticResult(), TrainingRun(self, grid, initial_arrays)
        run.train_config, run.evaluate_config = config, evaluation
        self._run = run
        while run.number < num_rounds:
            t = run.number + 1
            run.plan(t, run.model)
            run.now.ask(grid, timeout, self.patience, self.aggregation, run.members.failures)
            if run.now.must_begin_again(self.patience):
                continue
            run.advance()
            if run.judge_now():
                run.judge(timeout)
            run.save()
            found = None if evaluate_fn is None else evaluate_fn(t, run.model)
            if found is not None:
                result.evaluate_metrics_serverapp[t] = found
            if on_round is not None:
                on_round(self.history[-1])
            if self.judging.stop_after is not None and run.best.since >= self.judging.stop_after:
                log.info("round %d: no better model for %d evaluations", t, run.best.since)
                break
        return run.finish(result, timeout)

    @property
    def history(self) -> History:
        """The records of the rounds so far; `evaluate_fn` may look at the last one."""
        return self._run.history

    # -- the rest of Flower's interface --------------------------------------------------------

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The messages of a round: the model, and the weights of the rows of each client asked."""
        self._run.plan(server_round, arrays)
        return self._run.now.replies.messages()

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord, MetricRecord]:
        """Add the replies up and step; the model after it, and the record of the round."""
        for reply in replies:
            self._run.now.replies.take(reply)
        self._run.advance()
        return self._run.model, metrics(self._run.history[-1])

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """No messages: the losses come with the updates, more would double the time."""
        return []

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """None, for there is nothing to add up."""
        return None

    def summary(self) -> None:
        """Log what is about to run."""
        log.info("%r: %s", self, self.settings)
