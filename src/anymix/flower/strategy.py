"""Stochastic-AFL and Optimistic Stochastic-AFL over clients that keep their rows.

A round t, from (w, λ) = (w_{t−1}, λ_{t−1}):

    the server sends    w and the weights A_ck/m_kc, B_ck/m_kc of the client's rows (see sampling)
    a client returns    Σ_k A_ck · mean ∇ℓ and, of each domain k, B_ck · mean ℓ, in one reply
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from numpy.typing import NDArray

from anymix.adversary import Adversary
from anymix.flower import checkpoint as files
from anymix.flower.messages import TRAIN, exchange, flower_array, n_bytes, pack
from anymix.flower.privacy import Privacy
from anymix.flower.roster import Member, Roster, find_members
from anymix.flower.sampling import masses
from anymix.flower.tally import Answer, add_up, clip, enough, read_answer
from anymix.mixtures import MixtureSet, Simplex
from anymix.optimizers import SGD, Optimizer
from anymix.penalties import Chi2Penalty
from anymix.samplers import FullBatch, ModelSampler, PerDomain, Weighted
from anymix.stochastic import Schedule, _schedule

Array = NDArray[np.float64]
Record = dict[str, Any]

__all__ = ["AgnosticResult", "AgnosticStrategy", "History", "MissingClientsError"]

log = logging.getLogger("anymix.flower")


class MissingClientsError(RuntimeError):
    """A round lacks answers, and the strategy was told not to go on without them."""


class History(list[Record]):
    """One record a round; `to_frame` is the same as a pandas frame."""

    def to_frame(self) -> Any:
        """One row a round; mixture and losses get a column for every domain."""
        import pandas as pd

        return pd.DataFrame([_flat(record) for record in self])


def _flat(record: Record) -> Record:
    names = record["domains"]
    flat = {k: v for k, v in record.items() if k not in ("domains", "mixture", "domain_losses")}
    for key in ("mixture", "domain_losses"):
        flat |= {f"{key}[{name}]": v for name, v in zip(names, record[key], strict=True)}
    return flat


@dataclass
class AgnosticResult(Result):
    """Flower's result (`arrays` is the last model), and the rest of what came out.

    `w` and `mixture` are the last iterates, the output of the optimistic algorithm; the averages
    are the output of Stochastic-AFL. `epsilon` is the price in privacy, None without.
    """

    w: Array = field(default_factory=lambda: np.zeros(0))
    mixture: Array = field(default_factory=lambda: np.zeros(0))
    w_average: Array = field(default_factory=lambda: np.zeros(0))
    mixture_average: Array = field(default_factory=lambda: np.zeros(0))
    average_arrays: ArrayRecord = field(default_factory=ArrayRecord)
    domains: tuple[str, ...] = ()
    history: History = field(default_factory=History)
    epsilon: float | None = None


@dataclass
class _Run:
    """All that changes from round to round."""

    domains: tuple[str, ...]
    mixtures: MixtureSet
    adversary: Adversary
    w: Array
    total: Array  # Σ w_t
    memory: dict[str, Array]  # of the optimizer
    previous: Array | None = None  # δ_w of the last step, for the optimistic one
    round: int = 0
    steps: int = 0  # rounds that were not skipped
    history: History = field(default_factory=History)
    failures: dict[str, int] = field(default_factory=dict)  # in a row, by client key
    excluded: dict[str, str] = field(default_factory=dict)  # client key → why


@dataclass
class _Round:
    """One round on its way."""

    roster: Roster
    A: Array
    B: Array
    started: float
    sent: int = 0
    received: int = 0
    missing: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    clipped: list[str] = field(default_factory=list)

    @property
    def asked(self) -> NDArray[np.bool_]:
        """(clients, p)."""
        mask: NDArray[np.bool_] = (self.A > 0) | (self.B > 0)
        return mask


class AgnosticStrategy(Strategy):
    """min_w max_{λ∈Λ} Σ_k λ_k L_k(w) + γ/2 ‖w‖² − μ χ²(λ‖m̄), over clients.

    Parameters
    ----------
    mixtures : Λ, a MixtureSet; a function of the sizes m_k that makes one; None is the simplex.
    step_w, step_mixture : γ_w and γ_λ, numbers or functions of the step t = 1, 2, …
    sampler : FullBatch (default): a client looks at all its rows; PerDomain(b) and Weighted(b): at
        b of each domain it is asked about. Weighted draws domains by λ, and then clients.
    clients_per_round : None asks all (Weighted: draws p), else see `sampling.masses`.
    local_steps : gradient steps of a client before it replies.
    server_optimizer : the rule for w: SGD (default), Momentum, Adagrad, Adam.
    optimistic : Optimistic Stochastic-AFL, whose last iterate converges.
    adversary : "euclidean", the paper's, or "entropic".
    gamma, mu, w_radius : as in `stochastic_afl`.
    loss_bound : M; a client's mean loss of a domain is cut to 0..M. Give it wherever a client may
        lie: one that reports a huge loss owns λ otherwise.
    update_bound : G; a client's update is shortened to G times its mass (and local steps).
    privacy : clipping and noise, see `Privacy`.
    on_missing : when clients do not answer, or a domain has nobody: "wait" asks them again until
        `deadline` seconds are over, and then stops; "skip" makes no step in this round; "stop"
        raises MissingClientsError. No loss is ever made up.
    min_share : the least part of every domain's rows that must answer. Below 1, the clients of a
        domain that did answer stand for the lost ones, the mixture staying as it is.
    max_failures : a client that fails so many rounds in a row is left out from then on; one that
        sends nonsense (NaN, wrong shapes, other counts) at once.
    min_clients : the first round waits for so many.
    domains : the names, in the order of Λ; None takes those that the first clients have, sorted.
    checkpoint : a file; the run is saved there after every round and goes on from there.
    seed : same seed, same numbers, on every engine.

    >>> import anymix as ax
    >>> AgnosticStrategy(ax.Simplex(3), step_w=0.1, step_mixture=0.01, on_missing="skip")
    AgnosticStrategy(Simplex(n_domains=3), on_missing='skip', ...)
    """

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
        loss_bound: float | None = None,
        update_bound: float | None = None,
        privacy: Privacy | None = None,
        on_missing: Literal["wait", "skip", "stop"] = "wait",
        min_share: float = 1.0,
        max_failures: int = 3,
        min_clients: int = 1,
        deadline: float = 3600.0,
        domains: Sequence[str] | None = None,
        checkpoint: str | Path | None = None,
        seed: int = 0,
    ) -> None:
        self.mixtures, self.domains = mixtures, domains
        self.step_w = _schedule("step_w", step_w)
        self.step_mixture = _schedule("step_mixture", step_mixture)
        self.sampler = FullBatch() if sampler is None else sampler
        if not isinstance(self.sampler, FullBatch | PerDomain | Weighted):
            raise ValueError(f"sampler is {sampler!r}; give FullBatch, PerDomain or Weighted")
        self.clients_per_round, self.local_steps = clients_per_round, local_steps
        self.server_optimizer = SGD() if server_optimizer is None else server_optimizer
        self.optimistic, self.adversary = optimistic, adversary
        self.gamma, self.mu, self.w_radius = gamma, mu, w_radius
        self.loss_bound, self.update_bound, self.privacy = loss_bound, update_bound, privacy
        self.on_missing, self.min_share, self.max_failures = on_missing, min_share, max_failures
        self.min_clients, self.deadline = min_clients, deadline
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.seed = seed
        self._check()
        self._members: dict[int, Member] = {}
        self._nodes: set[int] = set()

    def _check(self) -> None:
        value: Any
        for name in ("clients_per_round", "local_steps", "max_failures", "min_clients"):
            value = getattr(self, name)
            if not ((isinstance(value, int) and value >= 1) or (value is None and name[0] == "c")):
                raise ValueError(f"{name} is {value!r}; give a whole number ≥ 1")
        for name in ("loss_bound", "update_bound", "w_radius"):
            value = getattr(self, name)
            if not (value is None or (isinstance(value, int | float) and 0 < value < np.inf)):
                raise ValueError(f"{name} is {value!r}; give a positive number, or None")
        for name in ("gamma", "mu"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and 0 <= value < np.inf):
                raise ValueError(f"{name} is {value!r}; give a number ≥ 0")
        if self.on_missing not in ("wait", "skip", "stop"):
            raise ValueError(f"on_missing is {self.on_missing!r}; give 'wait', 'skip' or 'stop'")
        if not 0 < self.min_share <= 1:
            raise ValueError(f"min_share is {self.min_share!r}; give a number in (0, 1]")
        if self.privacy is not None and self.min_share < 1:
            raise ValueError(
                f"min_share is {self.min_share} with privacy: standing in for lost clients makes "
                "a client count more than its clip; give min_share=1"
            )
        if not self.seed >= 0:
            raise ValueError(f"seed is {self.seed!r}; give a whole number ≥ 0")

    def __repr__(self) -> str:
        return f"AgnosticStrategy({self.mixtures}, on_missing={self.on_missing!r}, ...)"

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

        `initial_arrays` are the start of the model; None starts the linear model at 0. A round
        waits `timeout` seconds for replies. `evaluate_fn(round, arrays)` is called after every
        round.
        """
        self._begin(grid, initial_arrays)
        run, result = self.run, AgnosticResult()
        while run.round < num_rounds:
            arrays = self._record(run.w)
            messages = list(
                self.configure_train(run.round + 1, arrays, train_config or ConfigRecord(), grid)
            )
            replies = self._ask(grid, messages, timeout)
            self.aggregate_train(run.round + 1, replies)
            self._save()
            if evaluate_fn is not None:
                metrics = evaluate_fn(run.round, self._record(run.w))
                if metrics is not None:
                    result.evaluate_metrics_serverapp[run.round] = metrics
        return self._finish(result)

    def _finish(self, result: AgnosticResult) -> AgnosticResult:
        run = self.run
        average = run.total / run.steps if run.steps else run.w.copy()
        result.arrays, result.average_arrays = self._record(run.w), self._record(average)
        result.w, result.w_average = run.w.copy(), average
        result.mixture, result.mixture_average = run.adversary.mixture, run.adversary.average
        result.domains, result.history = run.domains, run.history
        result.train_metrics_clientapp = {r["round"]: _metrics(r) for r in run.history}
        if self.privacy is not None:
            result.epsilon = self.privacy.epsilon(run.steps)
        return result

    def _begin(self, grid: Grid, initial_arrays: ArrayRecord | None) -> None:
        self._members, self._nodes = {}, set()
        self._excluded: dict[str, str] = {}
        self._domains = None if self.domains is None else tuple(map(str, self.domains))
        saved = None
        if self.checkpoint is not None and self.checkpoint.exists():
            saved = files.load(self.checkpoint)
            self._excluded, self._domains = saved[1]["excluded"], tuple(saved[1]["domains"])
        roster = self._first_roster(grid)
        self._domains = roster.domains
        self._template = self._read_initial(initial_arrays, roster.members[0].n_parameters)
        w = np.concatenate([a.ravel() for a in self._template.values()]).astype(np.float64)
        self.run = self._new_run(roster, self._project(w))
        if saved is not None:
            self._restore(*saved)

    def _first_roster(self, grid: Grid) -> Roster:
        """Wait for the clients: nodes take their time to register."""
        end = time.monotonic() + self.deadline
        while True:
            self._nodes = set()  # ask again those who did not answer
            roster = self._roster(grid)
            complete = bool(roster.domains) and bool(np.all(roster.sizes > 0))
            if len(roster.members) >= self.min_clients and complete:
                return roster
            if time.monotonic() >= end:
                raise MissingClientsError(
                    f"{len(roster.members)} clients described themselves within {self.deadline} s, "
                    f"with rows of {[n for n, m in self._sizes(roster).items() if m > 0]}; needed "
                    f"are {self.min_clients} and the domains {list(roster.domains)}"
                )
            time.sleep(0.1)

    def _read_initial(
        self, initial_arrays: ArrayRecord | None, n_parameters: int
    ) -> dict[str, NDArray[Any]]:
        if initial_arrays is None:
            return {"w": np.zeros(n_parameters)}
        template = {name: array.numpy() for name, array in initial_arrays.items()}
        n = sum(array.size for array in template.values())
        if n != n_parameters:
            raise ValueError(
                f"initial_arrays has {n} numbers, but the clients' model has {n_parameters}; give "
                "its parameters in their order (of a module: named_parameters(), not buffers)"
            )
        return template

    def _new_run(self, roster: Roster, w: Array) -> _Run:
        p = len(roster.domains)
        mixtures = self.mixtures
        if mixtures is None:
            mixtures = Simplex(p)
        elif not isinstance(mixtures, MixtureSet):
            mixtures = mixtures(roster.sizes)
        if mixtures.n_domains != p:
            raise ValueError(
                f"mixtures is over {mixtures.n_domains} domains, but the clients hold {p}: "
                f"{list(roster.domains)}; name those you want with domains="
            )
        adversary = Adversary(
            mixtures,
            step=1.0,
            kind=self.adversary,
            optimistic=self.optimistic,
            penalty=Chi2Penalty(self.mu, roster.sizes) if self.mu > 0 else None,
        )
        memory = self.server_optimizer.start(len(w))
        return _Run(roster.domains, mixtures, adversary, w, np.zeros_like(w), memory)

    # -- who is there --------------------------------------------------------------------------

    def _roster(self, grid: Grid) -> Roster:
        """The clients now; whoever came since the last look is asked who it is."""
        nodes = set(grid.get_node_ids())
        if nodes != self._nodes:
            self._nodes = nodes
            found = find_members(grid, known=self._members, timeout=30.0, reject=_tell)
            known = self._domains
            self._members = {
                i: m for i, m in found.items() if known is None or set(m.domains) <= set(known)
            }
            for i in found.keys() - self._members.keys():
                _tell(i, f"client {found[i].key!r} has unknown domains {found[i].domains}")
        members = [m for m in self._members.values() if m.key not in self._excluded]
        return Roster.of(members, self._domains)

    def _sizes(self, roster: Roster) -> dict[str, float]:
        return dict(zip(roster.domains, roster.sizes.tolist(), strict=True))

    def _wait_for_domains(self, grid: Grid) -> Roster:
        """The roster, in which every domain has a client unless the policy is to skip."""
        end = time.monotonic() + (self.deadline if self.on_missing == "wait" else 0.0)
        while True:
            roster = self._roster(grid)
            empty = [name for name, m in self._sizes(roster).items() if m == 0]
            if not empty or self.on_missing == "skip":
                return roster
            if time.monotonic() >= end:
                raise MissingClientsError(f"nobody has rows of {empty}; excluded: {self._excluded}")
            time.sleep(0.1)

    # -- one round -----------------------------------------------------------------------------

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The messages of a round: w, and the weights of the rows of each client that is asked."""
        started, run = time.monotonic(), self.run
        roster = self._wait_for_domains(grid)
        rng = np.random.default_rng([self.seed, server_round])
        A = B = np.zeros_like(roster.counts)
        if np.all(roster.sizes > 0):
            A, B = masses(
                roster.counts, run.adversary.mixture, self.sampler, self.clients_per_round, rng
            )
        self._now = _Round(roster, A, B, started)
        w = flower_array(np.concatenate([array.numpy().ravel() for array in arrays.values()]))
        settings = dict(config) | {
            "seed": self.seed,
            "round": server_round,
            "batch_size": getattr(self.sampler, "batch_size", 0),
            "local_steps": self.local_steps,
            "step": self.step_w(run.steps + 1),
            "gamma": float(self.gamma),
        }
        messages = []
        for i, member in enumerate(roster.members):
            if np.any(self._now.asked[i]):
                holds = roster.counts[i] > 0
                weights = np.stack([A[i, holds], B[i, holds]]) / roster.counts[i, holds]
                content = pack({"w": w, "weights": weights}, settings)
                messages.append(Message(content, member.node_id, TRAIN, group_id=str(server_round)))
        return messages

    def _ask(self, grid: Grid, messages: list[Message], timeout: float) -> list[Message]:
        """The replies; with on_missing="wait", who failed is asked again until the deadline."""
        now, replies = self._now, list[Message]()
        while messages:
            now.sent += sum(n_bytes(message.content) for message in messages)
            replies += exchange(grid, messages, timeout)
            good = {r.metadata.src_node_id for r in replies if r.has_content()}
            here = np.array([member.node_id in good for member in now.roster.members])
            over = time.monotonic() - now.started >= self.deadline
            if self.on_missing != "wait" or over or enough(now.A, now.B, here, self.min_share):
                break
            messages = [
                Message(m.content, m.metadata.dst_node_id, TRAIN, group_id=m.metadata.group_id)
                for m in messages
                if m.metadata.dst_node_id not in good
            ]
            time.sleep(0.05)
        return replies

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Add the replies up and step; without a step where answers are missing."""
        now, run = self._now, self.run
        answers = self._read(replies)
        sums = add_up(answers, now.A, now.B, self.min_share) if answers else None
        self._count_failures(answers)
        if sums is None and self.on_missing != "skip" and not now.rejected:
            raise MissingClientsError(
                f"round {server_round}: no answer from {now.missing}, errors from {now.failed}"
            )
        if sums is None and self.on_missing == "stop":
            raise MissingClientsError(f"round {server_round}: nonsense from {now.rejected}")
        losses = np.full(len(run.domains), np.nan)
        mixture = run.adversary.mixture
        if sums is not None:
            delta_w, delta_mixture = sums
            if self.privacy is not None:
                delta_w, delta_mixture = self.privacy.add_noise(*sums, run.steps + 1)
            self._step(delta_w, delta_mixture)
            losses = np.where(now.B.sum(axis=0) > 0, delta_mixture, np.nan)
        run.round = server_round
        run.history.append(self._note(mixture, losses, sums is None))
        return self._record(run.w), _metrics(run.history[-1])

    def _read(self, replies: Iterable[Message]) -> dict[int, Answer]:
        """The good answers, by the client's row in the roster; the others are counted and told."""
        now, run = self._now, self.run
        rows = {m.node_id: i for i, m in enumerate(now.roster.members)}
        answers: dict[int, Answer] = {}
        failed: set[int] = set()
        for reply in replies:
            i = rows.get(reply.metadata.src_node_id)
            if i is None or i in answers or not np.any(now.asked[i]):
                continue  # nobody we asked, or a second reply
            now.received += n_bytes(reply.content) if reply.has_content() else 0
            member = now.roster.members[i]
            try:
                answer = read_answer(reply, len(run.w), now.roster.counts[i], now.asked[i])
            except ValueError as error:
                failed.add(i)
                log.warning("client %r, round %d: %s", member.key, run.round + 1, error)
                if reply.has_content():
                    now.rejected.append(member.key)
                    self._excluded[member.key] = str(error)
                continue
            answers[i] = self._clip(answer, i)
        asked = set(np.flatnonzero(now.asked.any(axis=1)).tolist())
        names = [member.key for member in now.roster.members]
        now.missing = [names[i] for i in sorted(asked - set(answers) - failed)]
        now.failed = [
            names[i] for i in sorted(failed - set(answers)) if names[i] not in now.rejected
        ]
        return answers

    def _clip(self, answer: Answer, i: int) -> Answer:
        now = self._now
        mass = float(now.A[i].sum())
        losses = None if self.loss_bound is None else self.loss_bound * now.B[i]
        length = None
        if self.update_bound is not None:
            length = self.update_bound * mass * self.local_steps
        answer, changed = clip(answer, losses, length)
        if changed:
            now.clipped.append(now.roster.members[i].key)
        if self.privacy is None:
            return answer
        return Answer(*self.privacy.clip(answer.update, answer.losses))

    def _count_failures(self, answers: dict[int, Answer]) -> None:
        """A client that fails too often in a row is left out from now on."""
        now, failures = self._now, self.run.failures
        for i in answers:
            failures.pop(now.roster.members[i].key, None)
        for key in now.missing + now.failed:
            failures[key] = failures.get(key, 0) + 1
            if failures[key] >= self.max_failures:
                self._excluded[key] = f"failed {failures[key]} rounds in a row"
                log.warning("client %r is left out: it %s", key, self._excluded[key])

    def _step(self, delta_w: Array, delta_mixture: Array) -> None:
        """w_t and λ_t, both from the old point."""
        run = self.run
        t = run.steps + 1
        direction = delta_w
        if self.optimistic:
            direction = 2 * delta_w - (delta_w if run.previous is None else run.previous)
            run.previous = delta_w
        direction, run.memory = self.server_optimizer.direction(direction, run.memory)
        run.w = self._project(run.w - self.step_w(t) * direction)
        run.adversary.step(delta_mixture, self.step_mixture(t))
        run.total = run.total + run.w
        run.steps = t

    def _project(self, w: Array) -> Array:
        """Π_W."""
        length = float(np.linalg.norm(w))
        if self.w_radius is None or length <= self.w_radius:
            return w
        return w * (self.w_radius / length)

    def _note(self, mixture: Array, losses: Array, skipped: bool) -> Record:
        """The record of a round: λ and the losses are those of the model that it began with."""
        now, run = self._now, self.run
        whole = bool(np.all(np.isfinite(losses)))
        worst = float(run.mixtures.maximize(losses) @ losses) if whole else float("nan")
        return {
            "round": run.round,
            "skipped": skipped,
            "domains": list(run.domains),
            "mixture": mixture.tolist(),
            "domain_losses": losses.tolist(),
            "agnostic_loss": worst,
            "clients": len(now.roster.members),
            "asked": int(now.asked.any(axis=1).sum()),
            "missing": len(now.missing),
            "failures": len(now.failed),
            "rejected": len(now.rejected),
            "clipped": len(now.clipped),
            "seconds": time.monotonic() - now.started,
            "bytes_sent": now.sent,
            "bytes_received": now.received,
        }

    def _record(self, w: Array) -> ArrayRecord:
        """w in the arrays that the run began with."""
        parts = {}
        start = 0
        for name, array in self._template.items():
            part = w[start : start + array.size].reshape(array.shape).astype(array.dtype)
            parts[name] = flower_array(part)
            start += array.size
        return ArrayRecord(parts)

    # -- the rest of Flower's interface --------------------------------------------------------

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Nothing: the losses come with the updates, a second message would double the time."""
        return []

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Nothing."""
        return None

    def summary(self) -> None:
        """Log what is about to run."""
        log.info("%r: %s, local steps %d", self, self.sampler, self.local_steps)

    # -- checkpoints ---------------------------------------------------------------------------

    @property
    def _settings(self) -> str:
        """What a resumed run must share with the run it continues."""
        return (
            f"{self.sampler}, clients_per_round={self.clients_per_round}, "
            f"local_steps={self.local_steps}, {self.server_optimizer}, "
            f"optimistic={self.optimistic}, adversary={self.adversary}, gamma={self.gamma}, "
            f"mu={self.mu}, w_radius={self.w_radius}, loss_bound={self.loss_bound}, "
            f"update_bound={self.update_bound}, {self.privacy}, seed={self.seed}"
        )

    def _save(self) -> None:
        if self.checkpoint is None:
            return
        run = self.run
        arrays = {"w": run.w, "total": run.total}
        arrays |= {f"memory/{k}": v for k, v in run.memory.items()}
        arrays |= {f"adversary/{k}": np.asarray(v) for k, v in run.adversary.state_dict().items()}
        if run.previous is not None:
            arrays["previous"] = run.previous
        rest = {
            "round": run.round,
            "steps": run.steps,
            "domains": run.domains,
            "history": run.history,
            "failures": run.failures,
            "excluded": self._excluded,
            "settings": self._settings,
        }
        files.save(self.checkpoint, arrays, rest)

    def _restore(self, arrays: dict[str, NDArray[Any]], rest: dict[str, Any]) -> None:
        run = self.run
        if rest["settings"] != self._settings:
            raise ValueError(
                f"checkpoint {self.checkpoint} is of a run with {rest['settings']}, this one has "
                f"{self._settings}; give the same settings or another file"
            )
        if arrays["w"].shape != run.w.shape:
            raise ValueError(
                f"checkpoint {self.checkpoint} has {arrays['w'].size} parameters, the clients' "
                f"model {run.w.size}; give another file"
            )
        run.w, run.total, run.previous = arrays["w"], arrays["total"], arrays.get("previous")
        run.memory = {k: arrays[f"memory/{k}"] for k in run.memory}
        state = {k[10:]: v for k, v in arrays.items() if k.startswith("adversary/")}
        run.adversary.load_state_dict(state)
        run.round, run.steps = rest["round"], rest["steps"]
        run.history, run.failures = History(rest["history"]), rest["failures"]


def _tell(node_id: int, why: str) -> None:
    log.warning("node %d is left out: %s", node_id, why)


def _metrics(record: Record) -> MetricRecord:
    kept = {k: v for k, v in record.items() if k not in ("domains", "skipped")}
    return MetricRecord(kept | {"skipped": int(record["skipped"])})
