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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from numpy.typing import NDArray

from anymix.flower import checkpoint as files
from anymix.flower.attendance import Attendance, MissingClientsError, empty_domains
from anymix.flower.players import Players
from anymix.flower.privacy import Privacy
from anymix.flower.results import AgnosticResult, History, Record, metrics
from anymix.flower.roster import Roster
from anymix.flower.sampling import row_weights
from anymix.flower.tally import Answer, add_up, clip, enough, read_answer
from anymix.flower.wire import TRAIN, exchange, n_bytes, pack_record, record_of, with_vector
from anymix.mixtures.adversary import Adversary
from anymix.mixtures.penalties import Chi2Penalty
from anymix.mixtures.sets import MixtureSet, Simplex
from anymix.solvers.optimizers import SGD, Optimizer
from anymix.solvers.samplers import FullBatch, ModelSampler, PerDomain, Weighted
from anymix.solvers.stochastic import Schedule, _schedule

Array = NDArray[np.float64]

__all__ = ["AgnosticStrategy", "MissingClientsError"]

log = logging.getLogger("anymix.flower")


@dataclass
class _Round:
    """One round on its way: who is there, what they were asked, and what came of it."""

    number: int
    roster: Roster
    a: Array  # (clients, p), the weights of their rows, see sampling
    b: Array
    started: float
    sent: int = 0
    received: int = 0
    answers: dict[int, Answer] = field(default_factory=dict)  # by the client's row in the roster
    rejected: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    clipped: set[int] = field(default_factory=set)
    someone_left: bool = False

    def __post_init__(self) -> None:
        self.A, self.B = self.a * self.roster.counts, self.b * self.roster.counts  # their masses
        self.asked: NDArray[np.bool_] = (self.A > 0) | (self.B > 0)
        self.rows: list[int] = np.flatnonzero(self.asked.any(axis=1)).tolist()

    @property
    def missing(self) -> set[int]:
        """Sent minus received: a killed client sends no error."""
        return set(self.rows) - set(self.answers) - self.rejected - self.failed

    def keys(self, rows: Iterable[int]) -> list[str]:
        return [self.roster.members[i].key for i in sorted(rows)]


class AgnosticStrategy(Strategy):
    """min_w max_{λ∈Λ} Σ_k λ_k L_k(w) + γ/2 ‖w‖² − μ χ²(λ‖m̄), over clients.

    Parameters
    ----------
    mixtures : Λ, a MixtureSet; a function of the sizes m_k that makes one; None is the simplex.
    step_w, step_mixture : γ_w and γ_λ, numbers or functions of the step t = 1, 2, …
    sampler : FullBatch (default): a client looks at all its rows; PerDomain(b) and Weighted(b): at
        b of each domain it is asked about. Weighted draws domains by λ, and then clients.
    clients_per_round : None asks all (Weighted: draws p), else see `sampling.row_weights`.
    local_steps : gradient steps of a client before it replies.
    server_optimizer : the rule for w: SGD (default), Momentum, Adagrad, Adam.
    optimistic : Optimistic Stochastic-AFL, whose last iterate converges.
    adversary : "euclidean", the paper's, or "entropic".
    gamma, mu, w_radius : as in `stochastic_afl`.
    loss_bound : M; a client's mean loss of a domain is cut to 0..M. Give it wherever a client may
        lie: one that reports a huge loss owns λ otherwise. The loss of guessing is a good M, log 2
        for two classes: on Adult, one liar among 20 then makes the worst domain of the others 1.6 %
        worse, 5 % with M = 1, 17 % with M = 2, and 123 % without. It cuts honest losses too.
    update_bound : G; a client's update is shortened to G times its mass (and local steps). It
        limits what a false update does, but does not undo it.
    max_rows : a client that claims more rows is left out: a false count would own its domain.
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
        max_rows: float | None = None,
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
        self.clients_per_round, self.local_steps = clients_per_round, local_steps
        self.server_optimizer = SGD() if server_optimizer is None else server_optimizer
        self.optimistic, self.adversary = optimistic, adversary
        self.gamma, self.mu, self.w_radius = gamma, mu, w_radius
        self.loss_bound, self.update_bound, self.privacy = loss_bound, update_bound, privacy
        self.max_rows = max_rows
        self.on_missing, self.min_share, self.max_failures = on_missing, min_share, max_failures
        self.min_clients, self.deadline = min_clients, deadline
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.seed = seed
        self._check()

    def _check(self) -> None:
        value: Any
        for name in ("clients_per_round", "local_steps", "max_failures", "min_clients"):
            value = getattr(self, name)
            if not ((isinstance(value, int) and value >= 1) or (value is None and name[0] == "c")):
                raise ValueError(f"{name} is {value!r}; give a whole number ≥ 1")
        for name in ("loss_bound", "update_bound", "max_rows", "w_radius"):
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
        if not isinstance(self.sampler, FullBatch | PerDomain | Weighted):
            raise ValueError(f"sampler is {self.sampler!r}; give FullBatch, PerDomain or Weighted")
        value = self.seed
        if not (isinstance(value, int | np.integer) and value >= 0):
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
        round. The configs are not used: all settings are the strategy's own.
        """
        result = AgnosticResult()
        arrays = self._begin(grid, initial_arrays)
        while self._round_number < num_rounds:
            t = self._round_number + 1
            messages = self.configure_train(t, arrays, ConfigRecord(), grid)
            self._advance(t, self._ask(grid, list(messages), timeout))
            self._save()
            arrays = self._record(self._players.w)
            if evaluate_fn is not None:
                found = evaluate_fn(t, arrays)
                if found is not None:
                    result.evaluate_metrics_serverapp[t] = found
        return self._finish(result)

    def _begin(self, grid: Grid, initial_arrays: ArrayRecord | None) -> ArrayRecord:
        """Meet the clients and set up the players, or put them back as they were."""
        max_rows = np.inf if self.max_rows is None else self.max_rows
        self._attendance = Attendance(self.domains, self.max_failures, max_rows)
        self._history, self._round_number = History(), 0
        saved = None
        if self.checkpoint is not None and self.checkpoint.exists():
            saved = self._load()
        roster = self._attendance.first_roster(grid, self.min_clients, self.deadline)
        n_parameters = roster.members[0].n_parameters
        self._template = _read_initial(initial_arrays, n_parameters)
        w = np.concatenate([a.ravel() for a in self._template.values()]).astype(np.float64)
        self._players = Players(
            w,
            self._opponent(roster),
            self.server_optimizer,
            self.step_w,
            self.step_mixture,
            self.w_radius,
        )
        if saved is not None:
            self._players.restore(saved)
        return self._record(self._players.w)

    def _opponent(self, roster: Roster) -> Adversary:
        """λ, which moves only there."""
        p, mixtures = len(roster.domains), self.mixtures
        if mixtures is None:
            mixtures = Simplex(p)
        elif not isinstance(mixtures, MixtureSet):
            mixtures = mixtures(roster.sizes)
        if mixtures.n_domains != p:
            raise ValueError(
                f"mixtures is over {mixtures.n_domains} domains, but the clients hold {p}: "
                f"{list(roster.domains)}; name those you want with domains="
            )
        penalty = Chi2Penalty(self.mu, roster.sizes) if self.mu > 0 else None
        return Adversary(
            mixtures, step=1.0, kind=self.adversary, optimistic=self.optimistic, penalty=penalty
        )

    def _finish(self, result: AgnosticResult) -> AgnosticResult:
        players, attendance = self._players, self._attendance
        result.w, result.w_average = players.w.copy(), players.w_average
        result.arrays = self._record(result.w)
        result.average_arrays = self._record(result.w_average)
        result.mixture, result.mixture_average = (
            players.adversary.mixture,
            players.adversary.average,
        )
        result.domains, result.excluded = attendance.domains or (), dict(attendance.excluded)
        result.history = self._history
        result.train_metrics_clientapp = {r["round"]: metrics(r) for r in self._history}
        if self.privacy is not None:
            result.epsilon = self.privacy.epsilon(players.t)
        return result

    # -- one round -----------------------------------------------------------------------------

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The messages of a round: the model, and the weights of the rows of each client asked."""
        started = time.monotonic()
        waiting = self.deadline if self.on_missing == "wait" else 0.0
        roster = self._attendance.wait_for_domains(grid, waiting)
        a, b = self._row_weights(roster, server_round)
        self._now = now = _Round(server_round, roster, a, b, started)
        settings = {
            "seed": int(self.seed),
            "round": server_round,
            "batch_size": getattr(self.sampler, "batch_size", 0),
            "local_steps": self.local_steps,
            "step": self.step_w(self._players.t + 1),
            "gamma": float(self.gamma),
        }
        content, group = pack_record(arrays, settings), str(server_round)
        weights, contents = np.stack([now.a, now.b], axis=1), dict[bytes, RecordDict]()
        for i in now.rows:
            own = weights[i][:, roster.places[i]]  # (2, its domains)
            same = own.tobytes()  # as most others', when all are asked
            if same not in contents:
                contents[same] = with_vector(content, "weights", own)
            yield Message(contents[same], roster.members[i].node_id, TRAIN, group_id=group)

    def _row_weights(self, roster: Roster, server_round: int) -> tuple[Array, Array]:
        """How much the rows of every client count, (clients, p); 0 where a domain has nobody."""
        if empty_domains(roster):
            return np.zeros_like(roster.counts), np.zeros_like(roster.counts)
        mixture, seed = self._players.adversary.mixture, [self.seed, server_round]
        return row_weights(roster.counts, mixture, self.sampler, self.clients_per_round, seed)

    def _ask(self, grid: Grid, messages: list[Message], timeout: float) -> list[Message]:
        """The replies; with on_missing="wait", who failed is asked again until the deadline."""
        now, replies = self._now, list[Message]()
        while messages:
            now.sent += sum(n_bytes(message.content) for message in messages)
            replies += exchange(grid, messages, timeout)
            good = {r.metadata.src_node_id for r in replies if r.has_content()}
            if self.on_missing != "wait" or len(good) == len(now.rows):
                break
            here = np.array([member.node_id in good for member in now.roster.members])
            over = time.monotonic() - now.started >= self.deadline
            if over or enough(now.A, now.B, here, self.min_share):
                break
            messages = [
                Message(m.content, m.metadata.dst_node_id, TRAIN, group_id=m.metadata.group_id)
                for m in messages
                if m.metadata.dst_node_id not in good
            ]
            if {m.metadata.dst_node_id for m in messages} - set(grid.get_node_ids()):
                now.someone_left = True  # who is gone cannot answer any more
                break
            time.sleep(0.05)
        return replies

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord, MetricRecord]:
        """Add the replies up and step; the model after it, and the record of the round."""
        self._advance(server_round, replies)
        return self._record(self._players.w), metrics(self._history[-1])

    @np.errstate(over="ignore", invalid="ignore")  # what is not finite is found, and told
    def _advance(self, server_round: int, replies: Iterable[Message]) -> None:
        """Add the replies up and step; no step where answers are missing."""
        now = self._now
        for reply in replies:
            self._read(reply)
        self._attendance.note(now.keys(now.answers), now.keys(now.missing | now.failed))
        self._check_not_blown_up()
        sums = add_up(now.answers, now.rows, now.A, now.B, self.min_share)
        if sums is None:
            self._go_on_without()
        mixture, losses = self._players.adversary.mixture, np.full(now.A.shape[1], np.nan)
        if sums is not None:
            if self.privacy is not None:
                sums = self.privacy.add_noise(*sums, self._players.t + 1)
            self._players.step(*sums)
            if not np.isfinite(self._players.w).all():
                raise ValueError(
                    f"round {server_round} took w beyond all numbers: make step_w shorter, or give "
                    "update_bound if a client may send anything"
                )
            losses = np.where(now.B.sum(axis=0) > 0, sums[1], np.nan)
        self._round_number = server_round
        self._history.append(self._note(mixture, losses, sums is None))

    def _read(self, reply: Message) -> None:
        """Put a reply to the answers, or to the failures."""
        now = self._now
        i = now.roster.row_of(reply.metadata.src_node_id)
        if i is None or i in now.answers or i in now.rejected or not now.asked[i].any():
            return  # nobody we asked, or a second reply
        now.failed.discard(i)
        if reply.has_error():
            now.failed.add(i)
            log.warning("client %s failed: %s", now.keys([i]), reply.error.reason)
            return
        now.received += n_bytes(reply.content)
        try:
            answer = read_answer(reply, len(self._players.w), now.roster, i, now.asked[i])
        except ValueError as error:
            now.rejected.add(i)
            self._attendance.exclude(now.roster.members[i].key, str(error))
            return
        now.answers[i] = self._clip(answer, i)

    def _check_not_blown_up(self) -> None:
        """When all send nonsense, it is the model's fault and not the clients'."""
        now, w = self._now, self._players.w
        if len(now.rejected) > 1 and not now.answers:
            raise ValueError(
                f"round {now.number}: all replies are nonsense ({self._attendance.excluded}) for a "
                f"w of length {np.linalg.norm(w):g}: make step_w shorter, or give update_bound"
            )

    def _clip(self, answer: Answer, i: int) -> Answer:
        """No client counts for more than its mass allows."""
        now, losses, length = self._now, None, None
        if self.loss_bound is not None:
            losses = self.loss_bound * now.B[i]
        if self.update_bound is not None:
            length = self.update_bound * float(now.A[i].sum()) * self.local_steps
        answer, changed = clip(answer, losses, length)
        if changed:
            now.clipped.add(i)
            log.info("client %s is clipped in round %d", now.keys([i]), now.number)
        if self.privacy is None:
            return answer
        return Answer(*self.privacy.clip(answer.update, answer.losses))

    def _go_on_without(self) -> None:
        """Whether a round without enough answers is skipped, or the end."""
        now = self._now
        others_can_go_on = bool(now.rejected) or now.someone_left  # in the next round, without them
        if self.on_missing == "skip" or (self.on_missing == "wait" and others_can_go_on):
            return
        raise MissingClientsError(
            f"round {now.number} lacks answers: none from {now.keys(now.missing)}, errors from "
            f"{now.keys(now.failed)}, nonsense from {now.keys(now.rejected)}; nobody has rows of "
            f"{empty_domains(now.roster)}"
        )

    def _note(self, mixture: Array, losses: Array, skipped: bool) -> Record:
        """The record of a round."""
        now, worst = self._now, float("nan")
        if np.all(np.isfinite(losses)):
            worst = float(self._players.adversary.mixtures.maximize(losses) @ losses)
        return {
            "round": now.number,
            "skipped": skipped,
            "domains": list(now.roster.domains),
            "mixture": mixture.tolist(),
            "domain_losses": losses.tolist(),
            "agnostic_loss": worst,
            "clients": len(now.roster.members),
            "asked": len(now.rows),
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
        parts, start = {}, 0
        for name, like in self._template.items():
            part = w[start : start + like.size].reshape(like.shape)
            parts[name] = part.astype(like.dtype)
            start += like.size
        return record_of(parts)

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
        log.info("%r: %s", self, self._settings)

    # -- checkpoints ---------------------------------------------------------------------------

    @property
    def _settings(self) -> str:
        """What a resumed run must share with the run it continues."""
        names = (
            "sampler clients_per_round local_steps server_optimizer optimistic adversary gamma mu"
        )
        names += " w_radius loss_bound update_bound privacy min_share seed"
        return ", ".join(f"{name}={getattr(self, name)}" for name in names.split())

    def _save(self) -> None:
        if self.checkpoint is None:
            return
        rest = {
            "round": self._round_number,
            "domains": self._attendance.domains,
            "failures": self._attendance.failures,
            "excluded": self._attendance.excluded,
            "history": self._history,
            "settings": self._settings,
        }
        files.save(self.checkpoint, self._players.state(), rest)

    def _load(self) -> dict[str, NDArray[Any]]:
        assert self.checkpoint is not None
        arrays, rest = files.load(self.checkpoint)
        if rest["settings"] != self._settings:
            raise ValueError(
                f"checkpoint {self.checkpoint} is of a run with {rest['settings']}, this one has "
                f"{self._settings}; give the same settings or another file"
            )
        self._round_number, self._history = rest["round"], History(rest["history"])
        attendance = self._attendance
        attendance.domains = tuple(rest["domains"])
        attendance.failures, attendance.excluded = rest["failures"], rest["excluded"]
        return arrays


def _read_initial(initial_arrays: ArrayRecord | None, n_parameters: int) -> dict[str, NDArray[Any]]:
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
