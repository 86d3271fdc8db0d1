"""The problem as the exact solver sees it, when the rows are at clients.

Everything that `anymix.solve` asks about a point w is a sum over rows, hence over clients (see
`sums`). A reply has the losses, the gradients and the curvature of the mixture λ that will be asked
for next, so a trial point costs one round, and a certificate one more. Sums over a part of the rows
prove nothing about the rest: a round needs an answer of every client.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from flwr.app import Message, RecordDict
from flwr.serverapp import Grid
from numpy.typing import ArrayLike, NDArray

from anymix.domains import Dual
from anymix.exact import Record
from anymix.floors import UNIT, Sums, absorbed, floor, rounding_of
from anymix.flower.messages import SOLVE, Arrays, Settings, exchange, n_bytes, pack, unpack
from anymix.flower.roster import Roster, find_members
from anymix.flower.sums import POWER, Shapes, shapes_of

Array = NDArray[np.float64]

__all__ = ["Clients", "Look"]

log = logging.getLogger("anymix.flower")


class Clients:
    """The problem as its clients know it: the oracle for `anymix.solve` and `anymix.certify`.

    `rounds` grows by a record a round; `center` is the mixture whose curvature comes first.
    """

    def __init__(
        self, grid: Grid, roster: Roster, center: Array, timeout: float = 200.0, attempts: int = 3
    ) -> None:
        if not (timeout > 0 and attempts >= 1):
            raise ValueError(
                f"timeout is {timeout} and attempts is {attempts}; give seconds > 0 and at least 1"
            )
        self.grid, self.timeout, self.attempts = grid, timeout, attempts
        self.members = {member.key: member for member in roster.members}
        self.place = {name: k for k, name in enumerate(roster.domains)}
        self.sizes, self.n_parameters = roster.sizes, roster.members[0].n_parameters
        self.rounds: list[Record] = []
        zero = np.zeros(self.n_parameters)
        sums = self.ask(zero, center, about=True)  # the solver starts there, so it costs no round
        self._looks = [Look(self, zero, center, sums)]
        self.penalized: NDArray[np.bool_] = sums["penalized"] > 0
        n_rows, n_scores, room = sums["kind"]
        self.n_scores = round(float(n_scores) / len(self.members))
        self.room = float(room) / len(self.members)
        self.rounding = rounding_of(float(n_rows))
        self.reach = sums["powers"] ** (1 / POWER)  # at least the largest |x_ij|
        self._target, self._n_targets = sums["targets"]

    @property
    def n_domains(self) -> int:
        """p."""
        return len(self.place)

    @cached_property
    def loss_scale(self) -> float:
        """As in LinearDomains: the worst loss of the mean target, at most 1; 1 for classes."""
        if self._n_targets == 0:
            return 1.0
        least = 1e-16 * float(self._looks[0].losses.max())
        mean = self.at(np.where(self.penalized, 0.0, self._target / self._n_targets))
        return min(1.0, max(float(mean.losses.max()), least) or 1.0)

    def at(self, w: ArrayLike) -> Look:
        """What the clients say about w; the first answer and the latest are kept."""
        w = np.asarray(w, dtype=np.float64)
        if w.shape != (self.n_parameters,) or not np.all(np.isfinite(w)):
            raise ValueError(f"w is {w}; give {self.n_parameters} finite numbers")
        for look in self._looks:
            if np.array_equal(look.w, w):
                return look
        return self.look(w, self._looks[-1].mixture)

    def look(self, w: Array, mixture: Array) -> Look:
        """One round: losses, Jacobian and the curvature of a mixture at w."""
        look = Look(self, w, mixture, self.ask(w, mixture))
        self._looks = [self._looks[0], *self._looks[1:][-2:], look]
        return look

    # -- one round -----------------------------------------------------------------------------

    def ask(
        self,
        w: Array,
        mixture: Array,
        step: Array | None = None,
        scale: float = 1.0,
        about: bool = False,
    ) -> Arrays:
        """The sums over all clients: of a look, or with a step of a proof."""
        weights = mixture / self.sizes  # λ_k / m_k
        arrays = {"w": w} if step is None else {"w": w, "step": step}
        settings: Settings = {"scale": scale, "about": about}
        contents, shapes = {}, {}
        for key, member in self.members.items():
            own = weights[[self.place[name] for name in member.domains]]
            contents[key] = pack({**arrays, "weights": own}, settings)
            shapes[key] = shapes_of(len(own), len(w), bool(np.any(own)), step is not None, about)
        answers = self._round(contents, shapes)
        return self._added(answers)

    def _added(self, answers: Mapping[str, Arrays]) -> Arrays:
        """The answers added up in the order of the keys, so that rounding is the same each time."""
        p, D = self.n_domains, self.n_parameters
        sums: Arrays = {
            "losses": np.zeros(p),
            "jacobian": np.zeros((p, D)),
            "curvature": np.zeros(D * (D + 1) // 2),
        }
        for key, member in self.members.items():
            rows = [self.place[name] for name in member.domains]
            for name, value in answers[key].items():
                if name in ("losses", "jacobian"):
                    sums[name][rows] += value
                else:
                    sums[name] = sums.get(name, 0.0) + value
                if name == "slope":  # what adding them up may lose
                    sums["slope sizes"] = sums.get("slope sizes", 0.0) + np.abs(value)
        return sums

    def _round(
        self, contents: Mapping[str, RecordDict], shapes: Mapping[str, Shapes]
    ) -> dict[str, Arrays]:
        """An answer of every client, by key."""
        began, asked, sent, received = time.monotonic(), 0, 0, 0
        answers: dict[str, Arrays] = {}
        wrong: dict[str, str] = {}  # what is wrong with the last answer of a client
        for attempt in range(self.attempts):
            missing = [key for key in contents if key not in answers]
            if attempt > 0:
                self._find_again(missing)
            node = {self.members[key].node_id: key for key in missing}
            messages = [Message(contents[key], i, SOLVE) for i, key in node.items()]
            asked, sent = asked + len(missing), sent + sum(n_bytes(m.content) for m in messages)
            for reply in exchange(self.grid, messages, self.timeout):
                key = node[reply.metadata.src_node_id]
                try:
                    answers[key] = _checked(reply, shapes[key])
                    received += n_bytes(reply.content)
                except ValueError as error:
                    wrong[key] = str(error)
            if len(answers) == len(contents):
                break
        else:
            raise _nobody_answers(set(contents) - set(answers), wrong, self.timeout * self.attempts)
        seconds = time.monotonic() - began
        self.rounds.append({"asked": asked, "sent": sent, "received": received, "seconds": seconds})
        log.info(
            "round %d: %d answers, %d bytes, %.1f s",
            len(self.rounds),
            len(answers),
            received,
            seconds,
        )
        return answers

    def _find_again(self, missing: Sequence[str]) -> None:
        """Clients that came back on another node, with the same rows as before."""
        known = {m.node_id: m for key, m in self.members.items() if key not in missing}
        patience = min(self.timeout, 30.0)  # a dead node may still be listed, and never answers
        for member in find_members(self.grid, known=known, timeout=patience).values():
            before = self.members.get(member.key)
            if before is None or member.key not in missing:
                continue
            if member.domains != before.domains or np.any(member.counts != before.counts):
                raise ValueError(
                    f"client {member.key!r} came back with other rows, {member.counts} of "
                    f"{member.domains} and not {before.counts} of {before.domains}; start again"
                )
            self.members[member.key] = member


def _checked(reply: Message, shapes: Shapes) -> Arrays:
    """The arrays of a reply, or what is wrong with it."""
    if reply.has_error():
        raise ValueError(f"it failed: {reply.error.reason}")
    arrays, _ = unpack(reply.content)
    found = {name: array.shape for name, array in arrays.items()}
    if found != shapes:
        raise ValueError(f"it sent {found} instead of {shapes}")
    for name, array in arrays.items():
        if array.dtype != np.float64 or not np.all(np.isfinite(array)):
            raise ValueError(f"its {name} are not all finite numbers")
    if np.any(arrays.get("losses", np.zeros(1)) < 0):
        raise ValueError("its losses are negative")
    return arrays


def _nobody_answers(missing: set[str], wrong: Mapping[str, str], seconds: float) -> Exception:
    for key in sorted(missing & set(wrong)):
        return ValueError(f"client {key!r} gave no usable answer: {wrong[key]}")
    return TimeoutError(
        f"no answer from the clients {sorted(missing)} in {seconds} s; the sums over the others "
        "prove nothing: start them again or raise timeout, or leave them out from the start"
    )


class Look:
    """The clients' sums at one w; what else the solver asks for there may cost another round."""

    def __init__(self, clients: Clients, w: Array, mixture: Array, sums: Arrays) -> None:
        self.clients, self.w, self.mixture, self._sums = clients, w, mixture, sums
        self.losses: Array = sums["losses"] / clients.sizes
        self._jacobian: Array = sums["jacobian"] / clients.sizes[:, None]

    def jacobian(self) -> Array:
        """Row k is ∇L_k, (p, D)."""
        return self._jacobian

    def gradient(self, mixture: Array) -> Array:
        """∇ Σ λ_k L_k, (D,)."""
        return self._jacobian.T @ mixture

    def hessian(self, mixture: Array, n_rows: int | None = None) -> Array:
        """∇² Σ λ_k L_k; another round, unless for the mixture that was sent along."""
        if not np.array_equal(mixture, self.mixture):
            self.mixture, self._sums = mixture, self.clients.ask(self.w, mixture)
        D = len(self.w)
        hessian = np.zeros((D, D))
        hessian[np.triu_indices(D)] = self._sums["curvature"]
        return hessian + np.triu(hessian, 1).T

    def moved(self, step: Array, t: float = 1.0, mixture: Array | None = None) -> Look:
        """At w + t·step, with the curvature of the mixture: one round."""
        return self.clients.look(self.w + t * step, self.mixture if mixture is None else mixture)

    def dual(self, mixture: Array, step: Array | None = None, scale: float = 1.0) -> Dual:
        """As in Evaluation: Σ λ_k L_k(w') ≥ value + ⟨v, w'⟩ for every w'.

        Without a step it is the tangent here, known without a round. The Newton step has
        Σ c_i α_i = 0 among its equations; what rounding leaves of that is taken up by the rows.
        """
        clients, loss = self.clients, float(mixture @ self.losses)
        if step is None:
            v = scale * self.gradient(mixture)
            error = clients.rounding * math.sqrt(2 * max(loss, 0.0)) * clients.reach
            lost = clients.rounding * loss + float(error @ np.abs(self.w))
            return Dual(scale * loss - float(v @ self.w) - lost, v, error)
        sums = clients.ask(self.w, mixture, step, scale)
        total, size = sums["conjugate"]
        value = -float(total) - clients.rounding * float(size)
        slope = math.sqrt(2 * max(loss, 0.0)) + 1.0 * (clients._n_targets == 0)
        error = sums["error"] + (len(clients.members) + 1) * UNIT * sums["slope sizes"]
        dual = Dual(value, sums["slope"], error)
        free = ~clients.penalized
        if scale < 0.5 or not free.any():
            return dual
        done = absorbed(
            dual.v,
            error,
            self.hessian(mixture),
            free,
            self.w + step,
            clients.rounding,
            clients.room,
            slope * (1 - scale) + 2.0 * (clients._n_targets == 0),
        )
        return dual if done is None else Dual(value - done[0], *done[1:])

    def floor(self, mixture: Array) -> float:
        """As in Evaluation; clients are not asked whether columns depend on each other exactly."""
        clients, loss = self.clients, float(mixture @ self.losses)
        return floor(
            Sums(
                value=loss,
                gradient=self.gradient(mixture),
                error=clients.rounding * math.sqrt(2 * max(loss, 0.0)) * clients.reach,
                hessian=self.hessian(mixture),
                reach=clients.reach,
                length=float(np.abs(self.w) @ clients.reach),
                rounding=clients.rounding,
                room=clients.room,
                n_scores=clients.n_scores,
                vanishes=lambda u: False,
            )
        )
