"""Stochastic-AFL and Optimistic Stochastic-AFL over clients that keep their rows.

A round t, from (w, λ) = (w_{t−1}, λ_{t−1}):

    the server sends    w and the weights a_ck, b_ck of the client's rows: λ_k/m_k and 1/m_k
    a client returns    Σ_k a_ck Σ ∇ℓ and, of each domain k, b_ck Σ ℓ over its rows, in one reply
    the server adds     δ_w = Σ_c update_c,  δ_λ = Σ_c losses_c
    and steps           w_t = Π_W(w − γ_w d(δ_w)),  λ_t = Π_Λ(λ + γ_λ δ_λ)

With one local step this is `stochastic_afl`, row for row, however the rows are spread. With more,
clients take steps of their own and the server averages them by their share of λ; then Theorem 2 of
the paper no longer covers the run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from numpy.typing import NDArray

from anymix.errors import InputError, finite_number
from anymix.flower import checkpoint as files
from anymix.flower.aggregation import Aggregation, Sum
from anymix.flower.members import Members, MissingClientsError
from anymix.flower.model_arrays import ModelArrays
from anymix.flower.moved import refuse_moved
from anymix.flower.policy import Limits, Patience, count
from anymix.flower.results import AgnosticResult, History, metrics
from anymix.flower.roster import Roster
from anymix.flower.sampling import row_weights
from anymix.flower.training import TrainingRound
from anymix.flower.wire import pack_record
from anymix.mixtures import Adversary, MixtureSet, Penalty
from anymix.mixtures.penalties import penalty_on_mixtures
from anymix.solvers.optimizers import SGD, Optimizer
from anymix.solvers.players import Players
from anymix.solvers.samplers import FullBatch, ModelSampler, PerDomain, Weighted
from anymix.solvers.steps import Schedule, as_function

Array = NDArray[np.float64]

__all__ = ["AgnosticStrategy", "MissingClientsError"]

log = logging.getLogger("anymix.flower")


class AgnosticStrategy(Strategy):
    """min_w max_{λ∈Λ} Σ_k λ_k L_k(w) + γ/2 ‖w‖² − μ χ²(λ‖m̄), over clients.

    Parameters
    ----------
    mixtures : MixtureSet or function, optional
        Λ; a function makes it from the sizes m_k; None is the simplex.
    step_w, step_mixture : float or function
        γ_w and γ_λ, numbers or functions of the step t = 1, 2, …
    sampler : FullBatch, PerDomain or Weighted, optional
        FullBatch (default): a client looks at all its rows; PerDomain(b) and Weighted(b): at b of
        each domain it is asked about. Weighted draws domains by λ, and then clients.
    clients_per_round : int, optional
        None asks all (Weighted: draws p), else see `sampling.row_weights`.
    local_steps : int
        Gradient steps of a client before it replies.
    server_optimizer : Optimizer, optional
        The rule for w: SGD (default), Momentum, Adagrad, Adam.
    optimistic : bool
        Optimistic Stochastic-AFL, whose last iterate converges.
    adversary : {"euclidean", "entropic"}
        How λ steps; "euclidean" is the paper's.
    gamma, mu : float
        γ and μ, the weights of ½‖w‖² and of the χ² penalty on λ.
    w_radius : float, optional
        W is the ball ‖w‖ ≤ w_radius, to which every step comes back; None is all vectors.
    aggregation : Sum or Privacy, optional
        How answers become one step: Sum() (default), Sum(min_share=0.9), Privacy(...).
    patience : Patience, optional
        What to do about clients that do not answer.
    limits : Limits, optional
        What a client may claim at most.
    domains : sequence of str, optional
        The names, in the order of Λ; None takes those that the first clients have, sorted.
    checkpoint : path-like, optional
        A file; the run is saved there after every round and goes on from there.
    seed : int
        Same seed, same numbers, on every engine.
    prior : Penalty, optional
        A prior on λ instead of mu, such as a `DirichletPrior`.

    Examples
    --------
    >>> import anymix as ax
    >>> from anymix.flower import AgnosticStrategy, Patience
    >>> skip = Patience(on_missing="skip")
    >>> AgnosticStrategy(ax.Simplex(3), step_w=0.1, step_mixture=0.01, patience=skip)
    AgnosticStrategy(Simplex(n_domains=3), on_missing='skip', ...)
    """

    @refuse_moved
    def __init__(
        self,
        mixtures: MixtureSet | Callable[[Array], MixtureSet] | None = None,
        *,
        step_w: Schedule,
        step_mixture: Schedule,
        sampler: ModelSampler | None = None,
        clients_per_round: int | None = None,
        local_steps: int = 1,
        server_optimizer: Optimizer | None = None,
        optimistic: bool = False,
        adversary: Literal["euclidean", "entropic"] = "euclidean",
        gamma: float = 0.0,
        mu: float = 0.0,
        w_radius: float | None = None,
        aggregation: Aggregation | None = None,
        patience: Patience | None = None,
        limits: Limits | None = None,
        domains: Sequence[str] | None = None,
        checkpoint: str | Path | None = None,
        seed: int = 0,
        prior: Penalty | None = None,
    ) -> None:
        self.mixtures, self.domains = mixtures, domains
        self.step_w = as_function("step_w", step_w)
        self.step_mixture = as_function("step_mixture", step_mixture)
        self.sampler = FullBatch() if sampler is None else sampler
        self.clients_per_round, self.local_steps = clients_per_round, local_steps
        self.server_optimizer = SGD() if server_optimizer is None else server_optimizer
        self.optimistic, self.adversary = optimistic, adversary
        self.gamma, self.mu, self.w_radius = gamma, mu, w_radius
        self.aggregation: Aggregation = Sum() if aggregation is None else aggregation
        self.patience = Patience() if patience is None else patience
        self.limits = Limits() if limits is None else limits
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.seed, self.prior = seed, prior
        self._check()

    def _check(self) -> None:
        count("local_steps", self.local_steps)
        if self.clients_per_round is not None:
            count("clients_per_round", self.clients_per_round)
        if self.w_radius is not None:
            fix = "give a positive number, or None"
            finite_number("w_radius", self.w_radius, fix, lambda r: r > 0)
        for name in ("gamma", "mu"):
            finite_number(name, getattr(self, name), "give a number ≥ 0", lambda x: x >= 0)
        if not isinstance(self.sampler, FullBatch | PerDomain | Weighted):
            raise InputError(
                "sampler", f"is {self.sampler!r}", "give FullBatch, PerDomain or Weighted"
            )
        seed: Any = self.seed
        if not (isinstance(seed, int | np.integer) and seed >= 0):
            raise InputError("seed", f"is {self.seed!r}", "give a whole number ≥ 0")

    def __repr__(self) -> str:
        return f"AgnosticStrategy({self.mixtures}, on_missing={self.patience.on_missing!r}, ...)"

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
    ) -> AgnosticResult:
        """Train until round `num_rounds`, from the checkpoint if there is one.

        Parameters
        ----------
        grid : flwr.serverapp.Grid
            Where the clients are.
        initial_arrays : ArrayRecord, optional
            The start of the model; None starts the linear model at 0.
        num_rounds : int
            The number of the last round.
        timeout : float
            Seconds that a round waits for replies, each time it asks.
        train_config, evaluate_config : ConfigRecord, optional
            Not used: all settings are the strategy's own.
        evaluate_fn : function, optional
            evaluate_fn(round, arrays) is called after every round.

        Returns
        -------
        AgnosticResult
        """
        result = AgnosticResult()
        arrays = self._begin(grid, initial_arrays)
        while self._number < num_rounds:
            t = self._number + 1
            self._plan(t, arrays)
            self._now.ask(grid, timeout, self.patience, self.aggregation)
            self._advance()
            self._save()
            arrays = self._arrays.record(self._players.w)
            if evaluate_fn is not None:
                found = evaluate_fn(t, arrays)
                if found is not None:
                    result.evaluate_metrics_serverapp[t] = found
        return self._finish(result)

    def _begin(self, grid: Grid, initial_arrays: ArrayRecord | None) -> ArrayRecord:
        """Meet the clients and set up the players, or put them back as they were."""
        max_rows = np.inf if self.limits.rows is None else self.limits.rows
        self._members = Members(grid, self.domains, max_rows)
        self._history, self._number, saved = History(), 0, None
        if self.checkpoint is not None and self.checkpoint.exists():
            saved = self._load(self.checkpoint)
        roster = self._members.gather(self.patience.min_clients, self.patience.deadline)
        self._arrays = ModelArrays(initial_arrays, roster.members[0].n_parameters)
        self._players = Players(
            self._arrays.w,
            self._opponent(roster),
            self.server_optimizer,
            self.step_w,
            self.step_mixture,
            self.w_radius,
        )
        if saved is not None:
            D, saved_size = self._arrays.w.size, saved["w"].size
            if saved_size != D:
                found = f"has {saved_size} parameters, the clients' model {D}"
                raise InputError("checkpoint", found, "give another file")
            self._players.load_state_dict(files.nested(saved))
        return self._arrays.record(self._players.w)

    def _opponent(self, roster: Roster) -> Adversary:
        """λ, which moves only there."""
        return Adversary(
            roster.mixture_set(self.mixtures),
            step=1.0,
            kind=self.adversary,
            optimistic=self.optimistic,
            penalty=penalty_on_mixtures(self.mu, roster.sizes, self.prior),
        )

    def _finish(self, result: AgnosticResult) -> AgnosticResult:
        players, members = self._players, self._members
        result.w, result.w_average = players.w.copy(), players.w_average
        result.arrays = self._arrays.record(result.w)
        result.average_arrays = self._arrays.record(result.w_average)
        result.mixture = players.adversary.mixture
        result.mixture_average = players.adversary.average
        result.domains, result.excluded = members.domains or (), dict(members.excluded)
        result.history = self._history
        result.train_metrics_clientapp = {r["round"]: metrics(r) for r in self._history}
        result.epsilon = self.aggregation.price(players.t)
        return result

    # -- one round -----------------------------------------------------------------------------

    def _plan(self, number: int, arrays: ArrayRecord) -> None:
        """Who is asked about which rows in this round."""
        started = time.monotonic()
        waiting = self.patience.deadline if self.patience.on_missing == "wait" else 0.0
        roster = self._members.wait(lambda roster: not roster.empty_domains, waiting)
        settings = {
            "seed": int(self.seed),
            "round": number,
            "batch_size": getattr(self.sampler, "batch_size", 0),
            "local_steps": self.local_steps,
            "step": self.step_w(self._players.t + 1),
            "gamma": float(self.gamma),
        }
        a, b = self._row_weights(roster, number)
        content, D = pack_record(arrays, settings), len(self._players.w)
        self._now = TrainingRound(number, roster, a, b, content, D, started)

    def _row_weights(self, roster: Roster, number: int) -> tuple[Array, Array]:
        """How much the rows of every client count, (clients, p); 0 where a domain has nobody."""
        if roster.empty_domains:
            return np.zeros_like(roster.counts), np.zeros_like(roster.counts)
        mixture, seed = self._players.adversary.mixture, [self.seed, number]
        return row_weights(roster.counts, mixture, self.sampler, self.clients_per_round, seed)

    @np.errstate(over="ignore", invalid="ignore")  # what is not finite is found, and told
    def _advance(self) -> None:
        """Add the answers up and step; no step where answers are missing."""
        now, replies, players = self._now, self._now.replies, self._players
        for key, why in replies.rejected.items():
            self._members.exclude(key, why)
        failed = sorted([*replies.missing, *replies.failed])
        self._members.note(replies.answers, failed, self.patience.max_failures)
        now.check_not_blown_up(players.w)
        given = now.contributions(self.limits, self.local_steps)
        sums = self.aggregation.add_up(given, now.A, now.B, players.t + 1)
        mixture, losses, worst = players.adversary.mixture, np.full(now.A.shape[1], np.nan), np.nan
        if sums is None:
            now.go_on_without(self.patience)
        else:
            players.step(*sums)
            if not np.isfinite(players.w).all():
                raise InputError(
                    "step_w",
                    f"took w beyond all numbers in round {now.number}",
                    "make step_w shorter, or give limits=Limits(update=...) if a "
                    "client may send anything",
                )
            losses = np.where(now.B.sum(axis=0) > 0, sums[1], np.nan)
        if np.all(np.isfinite(losses)):
            worst = float(players.adversary.mixtures.maximize(losses) @ losses)
        self._number = now.number
        self._history.append(now.record(mixture, losses, worst, skipped=sums is None))

    # -- the rest of Flower's interface --------------------------------------------------------

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The messages of a round: the model, and the weights of the rows of each client asked."""
        self._plan(server_round, arrays)
        return self._now.replies.messages()

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord, MetricRecord]:
        """Add the replies up and step; the model after it, and the record of the round."""
        for reply in replies:
            self._now.replies.take(reply)
        self._advance()
        return self._arrays.record(self._players.w), metrics(self._history[-1])

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
        log.info("%r: %s", self, self._settings)

    # -- checkpoints ---------------------------------------------------------------------------

    @property
    def _settings(self) -> str:
        """What a resumed run must share with the run it continues."""
        names = (
            "sampler clients_per_round local_steps server_optimizer optimistic adversary gamma mu "
            "w_radius aggregation limits seed"
        )
        return ", ".join(f"{name}={getattr(self, name)}" for name in names.split())

    def _save(self) -> None:
        if self.checkpoint is None:
            return
        rest = {
            "round": self._number,
            "domains": self._members.domains,
            "failures": self._members.failures,
            "excluded": self._members.excluded,
            "history": self._history,
            "settings": self._settings,
        }
        files.save(self.checkpoint, files.flat(self._players.state_dict()), rest)

    def _load(self, path: Path) -> dict[str, NDArray[Any]]:
        arrays, rest = files.load(path)
        if rest["settings"] != self._settings:
            raise InputError(
                f"checkpoint {path}",
                f"is of a run with {rest['settings']}, this one has {self._settings}",
                "give the same settings or another file",
            )
        self._number, self._history = rest["round"], History(rest["history"])
        members = self._members
        members.domains = tuple(rest["domains"])
        members.failures, members.excluded = rest["failures"], rest["excluded"]
        return arrays
