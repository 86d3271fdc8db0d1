"""One run of training: the clients, both players, and what has happened, round by round.

`AgnosticStrategy` is the settings; this is what moves. The model is one vector w here, and named
arrays for Flower and its users.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import ArrayRecord, Message
from flwr.serverapp import Grid
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.flower.checkpoint import Checkpoint, Saved
from anymix.flower.client_errors import RefusedError, why
from anymix.flower.consistency import Tangents
from anymix.flower.coordinates import Coordinates
from anymix.flower.exchange import Post
from anymix.flower.judging import Best, Comparison, judge, look_at_columns, worst_of
from anymix.flower.local_training import own_settings
from anymix.flower.members import Members, MissingClientsError
from anymix.flower.results import AgnosticResult, History, domain_metrics, metrics
from anymix.flower.roster import Roster
from anymix.flower.training_round import TrainingRound, growth, row_weights
from anymix.flower.wire import BEFORE, FIRST, Settings, pack, pack_record, record_of, unpack
from anymix.mixtures import Adversary, MixtureSet, Penalty
from anymix.solvers.optimizers import SGD
from anymix.solvers.players import Players
from anymix.solvers.samplers import FullBatch
from anymix.solvers.steps import as_function
from anymix.solvers.untuned import Untuned

if TYPE_CHECKING:
    from anymix.flower.strategy import AgnosticStrategy

Array = NDArray[np.float64]
MOST_SKIPPED = 3  # rounds in a row in which nobody answers for a domain
MOST_BYTES = 2 * 10**9  # protobuf, which carries the messages, ends at 2³¹ bytes
log = logging.getLogger("anymix.flower")

__all__ = ["ModelArrays", "TrainingRun", "first_arrays"]


def first_arrays(grid: Grid, roster: Roster, seed: int, timeout: float) -> ArrayRecord | None:
    """The start of the model: None, which is 0, for a linear one; a module's own first weights."""
    # A module at 0 would never learn. Any client can make its module from the seed: the first does.
    if roster.members[0].linear:
        return None
    D, told = roster.members[0].n_parameters, ""
    for member in roster.members[:3]:
        post, replies = Post(grid), dict[int, Message]()
        post.send([Message(pack({}, {"seed": seed}), member.node_id, FIRST)])
        post.listen(timeout, replies.__setitem__)
        for reply in replies.values():
            arrays = {} if reply.has_error() else unpack(reply.content)[0]
            fits = sum(a.size for a in arrays.values()) == D
            if fits and all(np.isfinite(a).all() for a in arrays.values()):
                return record_of(arrays)
            what = why(reply) if reply.has_error() else "its model has other arrays"
            told = f"client {member.key!r}: {what}"
    raise InputError(
        "initial_arrays",
        f"is None, and no client gave the first weights of its module ({told or 'no answer'})",
        "give initial_arrays=ArrayRecord(...) of the module's parameters",
    )


class ModelArrays:
    """Names, shapes and types of a model's arrays."""

    def __init__(self, start: ArrayRecord | None, n_parameters: int) -> None:
        self._like: dict[str, NDArray[Any]] = {"w": np.zeros(n_parameters)}
        if start is not None:
            self._like = {name: array.numpy() for name, array in start.items()}
        n = sum(array.size for array in self._like.values())
        if n != n_parameters:
            raise InputError(
                "initial_arrays",
                f"has {n} numbers, but the clients' model has {n_parameters}",
                "give its parameters in their order (of a module: named_parameters(), not buffers)",
            )
        size = sum(array.nbytes for array in self._like.values())
        if size > MOST_BYTES:
            raise InputError(
                "initial_arrays",
                f"has {size / 1e9:.1f} GB, and a message holds {MOST_BYTES / 1e9:.1f} GB",
                "give float32 or float16 arrays, or train fewer parameters",
            )
        flat = [array.ravel() for array in self._like.values()]
        self.w: Array = np.concatenate(flat).astype(np.float64)

    @property
    def form(self) -> list[list[Any]]:
        """Name, shape and type of each array, as JSON knows them."""
        return [[name, list(a.shape), str(a.dtype)] for name, a in self._like.items()]

    def beside(self, record: ArrayRecord, vectors: Mapping[str, Array]) -> ArrayRecord:
        """A record of the model, and these vectors of its length in the type of its numbers."""
        dtype = np.result_type(*self._like.values())
        more = record_of({name: v.astype(dtype) for name, v in vectors.items()})
        return ArrayRecord({**record, **more})

    def record(self, w: Array) -> ArrayRecord:
        """w in the arrays that the run began with."""
        parts, begin = {}, 0
        for name, like in self._like.items():
            part = w[begin : begin + like.size].reshape(like.shape)
            parts[name] = part.astype(like.dtype)
            begin += like.size
        return record_of(parts)


class TrainingRun:
    """A run from its first round, or from where its checkpoint left it."""

    def __init__(
        self, strategy: AgnosticStrategy, grid: Grid, initial_arrays: ArrayRecord | None
    ) -> None:
        self.strategy, self.grid, patience = strategy, grid, strategy.patience
        self.held = {"hold_out": [float(strategy.judging.hold_out), int(strategy.seed)]}
        self.members = Members(
            grid, strategy.domains, strategy.limits, patience.introduction, self.held
        )
        self.history, self.number, self.best = History(), 0, Best()
        self._rule, self._asked = Untuned(), set[str]()  # whom the last round has asked
        self._before: dict[str, Array] = {}  # BEFORE of the next round's epochs
        self._said, self._alone = Tangents(), Counter[str]()
        self._longest: str | None = None  # who sent the longest update for its rows
        self.train_config: Settings = {}
        self.evaluate_config: Settings = {}
        self._file = None if strategy.checkpoint is None else Checkpoint(strategy.checkpoint)
        saved = None if self._file is None else self._file.load(strategy.settings)
        if saved is not None:
            self.number, self.history = saved.round, saved.history
            self.members.domains = saved.domains
            self.members.failures, self.members.excluded = saved.failures, saved.excluded
        roster = self.members.gather(patience.min_clients, patience.deadline, patience.max_failures)
        if initial_arrays is None and saved is not None:
            initial_arrays = saved.arrays
        if initial_arrays is None:
            initial_arrays = first_arrays(grid, roster, strategy.seed, patience.introduction)
        self._member = roster.members[0]  # all have the same model
        self.arrays = ModelArrays(initial_arrays, self._member.n_parameters)
        self._noisy = any(member.noisy for member in roster.members)
        # with noise, the average of the w_t, weighted by t
        self._late = np.zeros(self._member.n_parameters if self._noisy else 0)
        self._coordinates = self._choose_coordinates(roster, saved)
        w, steps = self.arrays.w, strategy.steps
        rule = SGD() if steps.optimizer is None else steps.optimizer
        self.players = Players(
            w if self._coordinates is None else self._coordinates.to_v(w),
            self._opponent(roster),
            self._rule if steps.step_w is None else rule,
            as_function("step_w", 1.0 if steps.step_w is None else steps.step_w),
            as_function("step_mixture", 0.0 if steps.step_mixture is None else steps.step_mixture),
            strategy.objective.w_radius,
            responds=steps.step_mixture is None and self._is_penalised,
        )
        if saved is not None:
            saved.check_size(w.size)
            self.players.load_state_dict(saved.players)
            self._rule.load_state_dict(saved.extra["rule"])
            models = dict(saved.extra["best"])
            self._late = models.pop("late")
            self.best = Best(**saved.best, **models)
            self._before = saved.extra.get("before", {})

    def _choose_coordinates(self, roster: Roster, saved: Saved | None) -> Coordinates | None:
        """Those in which all columns look alike, for a linear model without step sizes."""
        # Not with a promise of privacy, which the sums of the columns would break, nor with a ball
        # for w, which is not one in other coordinates.
        strategy = self.strategy
        if saved is not None and "coordinates" in saved.extra:
            return Coordinates.load(saved.extra["coordinates"])
        if saved is None and (
            strategy.steps.step_w is None
            and strategy.objective.w_radius is None
            and self._exact
            and roster.members[0].linear
        ):
            timeout = strategy.patience.introduction
            return look_at_columns(self.grid, roster, self.held, timeout, strategy.objective.gamma)
        return None

    def _opponent(self, roster: Roster) -> Adversary:
        """λ, which moves only there."""
        strategy, objective = self.strategy, roster.settled(self.strategy.objective)
        return Adversary(
            objective.shrunk(roster.sizes),
            step=1.0,
            kind=strategy.steps.adversary,
            optimistic=strategy.steps.optimistic,
            penalty=objective.penalty(roster.sizes),
        )

    @property
    def w(self) -> Array:
        """The model as it is now, as a vector."""
        return self._to_w(self.players.w)

    @property
    def model(self) -> ArrayRecord:
        """The model as it is now."""
        return self.arrays.record(self.w)

    def _to_w(self, v: Array) -> Array:
        return v.copy() if self._coordinates is None else self._coordinates.to_w(v)

    # -- one round -----------------------------------------------------------------------------

    def plan(self, number: int, arrays: ArrayRecord) -> None:
        """Who is asked about which rows in this round."""
        started, strategy, w = time.monotonic(), self.strategy, self.players.w
        roster = self._who_is_there(number)
        settings = {
            "seed": int(strategy.seed),
            "round": number,
            "batch_size": getattr(strategy.work.sampler, "batch_size", 0),
            "step": self.players.step_w(self.players.t + 1),
            "gamma": strategy.objective.gamma,
            "local_epochs": strategy.work.local_epochs or 0,
            "config": self.train_config,
            **own_settings(self.train_config),
            **self.held,
        }
        # Under noise or a middle of the answers there is no sum to correct by.
        settings["corrects"] = corrects = (
            settings["local_epochs"] > 0 and strategy.aggregation.exact
        )
        a, b = self._row_weights(roster, number)
        content = pack_record(self.arrays.beside(arrays, self._before), settings)
        vectors = 2 if corrects else 1
        self.now = TrainingRound(number, roster, a, b, content, len(w), started, vectors)
        self._asked = set(self.now.replies.questions)

    def _who_is_there(self, number: int) -> Roster:
        """The clients of this round; unless rounds are skipped, those that left are waited for."""
        patience, members = self.strategy.patience, self.members

        def enough(roster: Roster) -> bool:
            gone = members.absent(roster)
            if not gone or patience.on_missing == "skip":
                return not roster.empty_domains
            whole = Roster.of([*roster.members, *gone], members.domains)
            here = np.isin(whole.keys, roster.keys)
            return self.strategy.aggregation.enough(whole.counts, whole.counts, here)

        roster = members.wait(enough, patience.deadline if patience.on_missing == "wait" else 0.0)
        gone = sorted(member.key for member in members.absent(roster))
        if gone:
            log.warning("round %d is without the clients %s, which have left", number, gone)
        if not enough(roster) and patience.on_missing != "skip":
            raise MissingClientsError(
                f"round {number} cannot begin: the clients {gone} have left and did not come back "
                f"in {patience.deadline if patience.on_missing == 'wait' else 0.0:g} s, nobody has "
                f"rows of {roster.empty_domains}; left out: {members.excluded}"
            )
        return roster

    def _row_weights(self, roster: Roster, number: int) -> tuple[Array, Array]:
        """How much the rows of every client count, of each of its domains; 0 if one has nobody."""
        if roster.empty_domains:
            return np.zeros_like(roster.holdings.m), np.zeros_like(roster.holdings.m)
        strategy, mixture = self.strategy, self.players.adversary.mixture
        seed = [strategy.seed, number]
        work = strategy.work
        return row_weights(roster.holdings, mixture, work.sampler, work.clients_per_round, seed)

    @np.errstate(over="ignore", invalid="ignore")  # what is not finite is found, and told
    def advance(self) -> None:
        """Add the answers up and step; no step where answers are missing."""
        strategy, now, players, before = self.strategy, self.now, self.players, self.w
        if now.replies.refused:
            raise RefusedError(now.replies.refused)
        if self._sees_rows:
            now.reject_contradictions(self._said, before, strategy.objective.gamma)
        left_out = self._note_failures()
        self._refuse_divergence(now.all_nonsense(players.w))
        given = now.contributions(strategy.limits)
        sums = strategy.aggregation.add_up(given, now.A, now.B, players.t + 1)
        mixture, losses, worst = players.adversary.mixture, np.full(now.A.shape[1], np.nan), np.nan
        if sums is None:
            now.go_on_without(strategy.patience, left_out, self.members.excluded)
            self._note_domains()
        else:
            self._alone.clear()
            losses = np.where(now.B.sum(axis=0) > 0, sums[1], np.nan)
            if strategy.aggregation.spent(1) is None and not self._noisy:
                # the growth of noisy losses would say nothing
                self._refuse_divergence(
                    growth(losses, f"in round {now.number}", now.roster, self.history)
                )
            self._longest = now.longest(given)
            delta_w, *gradient = np.split(sums[0], now.vectors)
            if gradient:
                self._before = dict(zip(BEFORE, (before, gradient[0]), strict=True))
            try:
                self._step(delta_w, sums[1])
            except InputError as error:
                if error.argument != "step_w":
                    raise
                self._refuse_divergence(f"w is beyond all numbers in round {now.number}", error)
        if np.all(np.isfinite(losses)):
            worst = self._worst(losses)
        if self._sees_all and np.isfinite(worst):
            mixtures, penalty = self._judged_by
            aim = worst_of(mixtures, losses, penalty) + self._penalty(before)
            self.best.see(before, aim, self.number)
        self.number = now.number
        record = now.record(mixture, losses, worst, skipped=sums is None)
        epsilon = strategy.aggregation.spent(players.t)
        self.history.append(record if epsilon is None else record | {"epsilon": epsilon})

    def _refuse_divergence(self, found: str | None, error: Exception | None = None) -> None:
        """End a run of which this is to be said: its steps did it, or a client."""
        if found is None:
            return
        limits = "limits=Limits(loss=..., update=...)"
        if self.strategy.steps.step_w is None and self._longest is not None:
            raise InputError(
                f"client {self._longest!r}",
                f"has sent the longest update for its rows, and the run diverges: {found}",
                f"look at its rows, leave it out, or give aggregation=Robust() or {limits}",
            ) from error
        fix = f"make step_w shorter (a tenth of it, say), or give {limits} if a client may lie"
        raise InputError("step_w", f"makes the run diverge: {found}", fix) from error

    def _step(self, delta_w: Array, delta_mixture: Array) -> None:
        """Both players step, with the sizes given, or with those that need not be."""
        strategy, players, rule = self.strategy, self.players, self._rule
        if players.t == 0:
            rule.worst = self._worst(delta_mixture)
        gamma_w, gamma_mixture = players.next_sizes()
        if players.responds:
            gamma_mixture = rule.response_step(players.t + 1)
        elif strategy.steps.step_mixture is None:
            gamma_mixture = rule.mixture_step(delta_mixture)
        if self._coordinates is not None:
            delta_w = self._coordinates.pull_back(delta_w)
        players.step(delta_w, delta_mixture, (gamma_w, gamma_mixture))
        if self._noisy:
            self._late += (self.w - self._late) * (2 / (players.t + 1))

    def _worst(self, losses: Array) -> float:
        return float(self.players.adversary.mixtures.maximize(losses) @ losses)

    @property
    def _is_penalised(self) -> bool:
        return self.strategy.objective.prior is not None or self.strategy.objective.mu > 0

    def _penalty(self, w: Array) -> float:
        """γ/2 ‖w‖², which is part of the aim on the rows trained with, and not on others."""
        if self.strategy.judging.hold_out > 0:
            return 0.0
        return self.strategy.objective.gamma * self._member.half_square(w)

    @property
    def _sees_rows(self) -> bool:
        """Whether a round asks for the losses and gradients of all rows trained with."""
        work = self.strategy.work
        whole = isinstance(work.sampler, FullBatch) and work.clients_per_round is None
        return whole and self._exact

    @property
    def _sees_all(self) -> bool:
        """Whether these are all rows, so that they judge the model of the round."""
        return self._sees_rows and self.strategy.judging.hold_out == 0

    @property
    def _exact(self) -> bool:
        """Whether the sums are those of the rows, without noise of the server's or a client's."""
        return self.strategy.aggregation.exact and not self._noisy

    # -- which model is the best -----------------------------------------------------------------

    def judge_now(self) -> bool:
        """Whether the model is to be judged by the rows held out."""
        judging = self.strategy.judging
        return judging.hold_out > 0 and self.number % judging.every == 0

    def judge(self, timeout: float) -> None:
        """Judge the model on rows held out, beside the best so far; keep it if as good."""
        best, (mixtures, penalty) = self.best, self._judged_by
        found = self._compare(self.w, timeout, best.w if best.w.size else None)
        aim = worst_of(mixtures, found.losses, penalty)
        if best.w.size:
            loss, error = found.gain(mixtures, penalty)
            best.worst = worst_of(mixtures, found.others, penalty)  # by those who answered now
            best.see(self.w, aim, self.number, is_as_good=loss <= error)
        else:
            best.see(self.w, aim, self.number)
        worst = worst_of(mixtures, found.losses)
        self.history[-1] |= {"held_out_losses": found.losses.tolist(), "held_out_worst": worst}

    @property
    def _judged_by(self) -> tuple[MixtureSet, Penalty | None]:
        """The set by whose worst mixture models are judged, and the penalty on λ, if any."""
        adversary, judged_by = self.players.adversary, self.strategy.judging.by
        if judged_by is None:
            return adversary.mixtures, adversary.penalty if self._is_penalised else None
        return self.members.look().mixture_set(judged_by), None

    def _compare(
        self, w: Array, timeout: float, beside: Array | None = None, roster: Roster | None = None
    ) -> Comparison:
        held = self.strategy.judging.hold_out > 0
        settings = {**self.held, **self.evaluate_config, "held": held}
        roster = self.members.look() if roster is None else roster
        return judge(self.grid, roster, self.arrays.record(w), settings, timeout, beside)

    def _choose(self, timeout: float) -> tuple[Array, str]:
        """The model to return, and what it is."""
        # With noise at every step, the first models are far out and the last ones are not at rest.
        average = self._late if self._noisy else self._to_w(self.players.w_average)
        models = {"last": self.w, "average": average}
        output = self.strategy.judging.output
        if output != "best":
            self._check_result(models[output], timeout)
            return models[output], output
        if not self._exact:  # losses without noise would give away what it hid
            return models["average"], "average"
        if self.strategy.judging.hold_out > 0:
            return self._choose_by_rows_held_out(models, timeout)
        judged, (mixtures, penalty) = {}, self._judged_by
        for name, w in models.items():
            losses = self._compare(w, timeout).losses
            if not np.isnan(losses).all():
                judged[name] = worst_of(mixtures, losses, penalty) + self._penalty(w)
        return self.best.among(models, judged)

    def _choose_by_rows_held_out(
        self, models: dict[str, Array], timeout: float
    ) -> tuple[Array, str]:
        """The model kept, or the average where that is surely better."""
        best = self.best
        if self.number and not self.judge_now():
            self.judge(timeout)
        if not best.kept.size:
            return models["last"], "last"
        found = self._compare(best.kept, timeout, models["average"])
        loss, error = found.gain(*self._judged_by)
        if loss > error:
            return models["average"], "average"
        return best.kept, "last" if best.kept_round == self.number else "best"

    def _note_domains(self) -> None:
        """Rounds may be skipped for want of somebody with rows of a domain, three in a row."""
        alone = self.now.domains_without_answers
        self._alone = Counter({name: self._alone[name] + 1 for name in alone})
        long = sorted(name for name, rounds in self._alone.items() if rounds >= MOST_SKIPPED)
        if long:
            raise MissingClientsError(
                f"nobody has answered for the domains {long} in {MOST_SKIPPED} rounds, the last "
                f"one round {self.now.number}, and nothing can be learnt without; clients that had "
                f"rows of them and are not there: {self._who_had(long)}; left out: "
                f"{self.members.excluded}"
            )

    def _who_had(self, domains: list[str]) -> list[str]:
        roster = self.members.look()
        silent = [m for m in roster.members if m.key not in self.now.replies.answers]
        gone = [*self.members.absent(roster), *silent]
        return sorted(member.key for member in gone if set(member.domains) & set(domains))

    def _note_failures(self) -> list[str]:
        """Leave out who sent nonsense, or failed too often; their keys."""
        # Silence is a failure only where rounds are skipped: who is late where others are enough
        # has not failed, and who is waited for is never dropped for it.
        replies, patience = self.now.replies, self.strategy.patience
        for key, reason in replies.rejected.items():
            self.members.exclude(key, reason)
        counts = patience.on_missing == "skip" and not self.now.has_enough
        failed = dict.fromkeys(replies.missing if counts else (), 1)
        failed |= {key: replies.errors[key] for key in replies.failed}
        tired = self.members.note(replies.answers, failed, patience.max_failures)
        return [*replies.rejected, *tired]

    def _check_result(self, w: Array, timeout: float) -> None:
        """The last step may be the one that is too long: those asked last tell how w does."""
        # Where clients may say anything, or their losses are not to be seen, nobody is asked.
        strategy = self.strategy
        if not self._exact or strategy.limits.loss is not None or not self.history:
            return
        here = self.members.look()
        asked = [m for m in here.members if not self._asked or m.key in self._asked]
        found = self._compare(w, timeout, roster=Roster.of(asked, here.domains))
        if found.is_nonsense:
            self._refuse_divergence("the result has no losses that are finite")
        self._refuse_divergence(growth(found.losses, "at the result", here, self.history))

    # -- its end -------------------------------------------------------------------------------

    def save(self) -> None:
        """Write the checkpoint, if there is one."""
        if self._file is not None:
            members, strategy, best = self.members, self.strategy, self.best
            rest = {
                "domains": members.domains,
                "failures": members.failures,
                "excluded": members.excluded,
                "settings": strategy.settings,
                "form": self.arrays.form,
                "best": {k: v for k, v in vars(best).items() if k not in ("w", "kept")},
            }
            models = {"w": best.w, "kept": best.kept, "late": self._late}
            extra = {"rule": self._rule.state_dict(), "best": models}
            extra["before"] = self._before
            if self._coordinates is not None:
                extra["coordinates"] = self._coordinates.state_dict()
            state = {**self.players.state_dict(), "extra": extra}
            self._file.save(self.number, state, rest, self.history)

    def finish(self, result: AgnosticResult, timeout: float) -> AgnosticResult:
        """Put what came out into the result."""
        players, members = self.players, self.members
        result.w, result.w_average = self.w, self._to_w(players.w_average)
        result.w_best, result.output = self._choose(timeout)
        result.round = self.best.kept_round if result.output == "best" else self.number
        result.arrays = self.arrays.record(result.w_best)
        result.average_arrays = self.arrays.record(result.w_average)
        result.mixture = players.adversary.mixture
        result.mixture_average = players.adversary.average
        result.domains = members.domains or ()
        result.excluded = members.excluded
        result.history = self.history
        result.evaluate_metrics_clientapp = domain_metrics(self.history)
        result.member = self._member
        result.train_metrics_clientapp = {r["round"]: metrics(r) for r in self.history}
        result.epsilon = self.strategy.aggregation.price(players.t)
        return result
