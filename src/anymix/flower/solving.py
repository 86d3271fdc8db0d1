"""The certified optimum over clients that keep their rows.

    min_w max_{λ∈Λ} Σ_k λ_k L_k(w) + γ R(w),   L_k(w) = (1/m_k) Σ_{clients} Σ_{i in domain k} ℓ_i(w)

All that the exact solver asks about a point w is a sum over rows, hence over clients. A client with
rows i is sent w and the weights λ_k/m_k of its domains, and returns in one reply, D = len(w),

    losses      Σ_i ℓ_i(w) of each of its domains                            p numbers
    jacobian    Σ_i ∇ℓ_i(w) of each of its domains                          pD numbers
    curvature   Σ_i c_i ∇²ℓ_i(w), c_i = Σ_k S_ik λ_k/m_k: a triangle  D(D+1)/2 numbers

so a trial point costs one round. A certificate costs one more, and D + 1 numbers: the server knows
the Newton step s; with α_i = ℓ'_i + ℓ''_i ⟨s, (x_i, 1)⟩ a client returns Σ_i c_i ℓ*(α_i) and
Σ_i c_i α_i (x_i, 1). Sums over a part of the rows prove nothing about the rest: a round needs an
answer of every client, and an error names those whose answer is missing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from flwr.app import Message
from flwr.serverapp import Grid
from numpy.typing import ArrayLike, NDArray

from anymix.certificates import Certificate, certify
from anymix.domains import Evaluation, LinearDomains
from anymix.exact import Record, Solution, solve
from anymix.flower.messages import SOLVE, Arrays, Settings, exchange, n_bytes, pack, unpack
from anymix.flower.roster import Member, Roster, find_members
from anymix.losses import CrossEntropy, Huber, Loss
from anymix.mixtures import MixtureSet, Simplex
from anymix.penalties import DirichletPrior

Array = NDArray[np.float64]
Shapes = dict[str, tuple[int, ...]]

__all__ = ["Clients", "FederatedSolution", "federated_certify", "federated_solve"]

log = logging.getLogger("anymix.flower")


@dataclass(frozen=True)
class FederatedSolution(Solution):
    """A Solution, whose clients it is of, and what the way to it cost.

    `rounds` has a record for every round of messages: sent and received (bytes of the arrays),
    seconds, and asked (how many messages; more than there are clients where some were asked again).
    """

    domain_names: tuple[str, ...] = ()
    sizes: Array = field(default_factory=lambda: np.zeros(0))
    client_keys: tuple[str, ...] = ()
    rounds: list[Record] = field(default_factory=list, repr=False)


def federated_solve(
    grid: Grid,
    mixtures: MixtureSet | Callable[[Array], MixtureSet] | None = None,
    gamma: float = 1e-3,
    mu: float = 0.0,
    norm: str = "squared",
    offsets: ArrayLike | None = None,
    tol: float = 1e-6,
    *,
    prior: DirichletPrior | None = None,
    start: Solution | ArrayLike | None = None,
    max_iter: int = 100,
    n_clients: int | None = None,
    domains: Sequence[str] | None = None,
    timeout: float = 200.0,
    attempts: int = 3,
    verbose: bool = False,
) -> FederatedSolution:
    """min_w max_{λ∈Λ} Σ_k λ_k (L_k(w) − b_k) + γ R(w) − μ χ²(λ‖m̄) over the rows of all clients.

    The result is that of `anymix.solve` on the table of all rows, which nobody has.

    Parameters
    ----------
    grid : Flower's grid, or a LocalGrid, of clients made by `client_app` without a `model`.
    mixtures : Λ over the domains, sorted by name; or a function that makes it from the sizes m_k,
        which are learnt from the clients; None is the whole simplex.
    gamma, mu, norm, offsets, tol, prior, start, max_iter, verbose : as in `anymix.solve`.
    n_clients : wait for so many clients. Nodes take their time to register, so give it for any
        grid but a LocalGrid: None takes the nodes that are there now, all of them.
    domains : all names of domains, if another order than the sorted one is wanted.
    timeout : seconds to wait for the answer of a client.
    attempts : how often it is asked when it fails or does not answer in that time. A client that
        has come back meanwhile, on another node, is known by its key.

    Returns a `FederatedSolution`. Raises a TimeoutError that names the clients whose answer is
    missing, and a ValueError that names the client and what is wrong with its answer.

    >>> from anymix.flower import LocalGrid, client_app
    >>> def load(context):  # client 0 has only label 1; client 1 has both
    ...     here = context.node_config["partition-id"]
    ...     return [[0.0], [0.0]], [1, 1 - here], ["east", "west"][here:][:1] * 2
    >>> grid = LocalGrid(client_app(load, classes=[0, 1]), nodes=2)
    >>> solution = federated_solve(grid, gamma=0.0)
    >>> print(solution.certificate)
    agnostic objective 0.693147, no model below 0.693147 (gap 0.0e+00)
    >>> solution.domain_names, solution.mixture.tolist(), len(solution.rounds)
    (('east', 'west'), [0.0, 1.0], 3)
    """
    roster = _everybody(grid, n_clients, domains, timeout, attempts)
    chosen = _mixture_set(mixtures, roster)
    clients = Clients(grid, roster, chosen.center, timeout, attempts)
    solution = solve(
        clients,
        chosen,
        gamma,
        mu,
        norm,
        offsets,
        tol,
        prior=prior,
        start=start,
        max_iter=max_iter,
        verbose=verbose,
    )
    return FederatedSolution(
        **vars(solution),
        domain_names=roster.domains,
        sizes=roster.sizes,
        client_keys=tuple(member.key for member in roster.members),
        rounds=clients.rounds,
    )


def federated_certify(
    grid: Grid,
    mixtures: MixtureSet | Callable[[Array], MixtureSet] | None,
    w: ArrayLike,
    mixture: ArrayLike,
    gamma: float = 1e-3,
    mu: float = 0.0,
    *,
    norm: str = "squared",
    offsets: ArrayLike | None = None,
    prior: DirichletPrior | None = None,
    n_clients: int | None = None,
    domains: Sequence[str] | None = None,
    timeout: float = 200.0,
    attempts: int = 3,
) -> Certificate:
    """lower ≤ min_w max_{λ∈Λ} Φ(w, λ) ≤ upper over the rows of all clients, in four rounds.

    As `anymix.certify`, for a linear model however it was trained: upper is what w reaches, and no
    model is below lower. The other parameters are as in `federated_solve`.

    >>> import anymix as ax
    >>> from anymix.flower import AgnosticStrategy, LocalGrid, client_app
    >>> def load(context):
    ...     here = context.node_config["partition-id"]
    ...     return [[0.0], [1.0], [2.0]], [here, 1, 0], ["east", "west", "west"]
    >>> grid = LocalGrid(client_app(load, classes=[0, 1]), nodes=2)
    >>> strategy = AgnosticStrategy(step_w=0.5, step_mixture=0.1, gamma=0.1)
    >>> trained = strategy.start(grid, num_rounds=200)
    >>> proof = federated_certify(grid, None, trained.w, trained.mixture, gamma=0.1)
    >>> proof.gap < 1e-3
    True
    """
    roster = _everybody(grid, n_clients, domains, timeout, attempts)
    chosen = _mixture_set(mixtures, roster)
    lam = np.asarray(mixture, dtype=np.float64)
    center = chosen.project(lam) if lam.shape == (len(roster.domains),) else chosen.center
    clients = Clients(grid, roster, center, timeout, attempts)
    return certify(clients, chosen, w, lam, gamma, mu, norm=norm, offsets=offsets, prior=prior)


def _everybody(
    grid: Grid,
    n_clients: int | None,
    domains: Sequence[str] | None,
    timeout: float,
    attempts: int,
) -> Roster:
    """The clients, as soon as there are enough: n_clients, or else all nodes there are."""
    end, failures = time.monotonic() + timeout, 0
    members: dict[int, Member] = {}
    while True:
        wrong: dict[int, str] = {}
        rest = max(0.1, end - time.monotonic())
        members = find_members(grid, known=members, timeout=rest, reject=wrong.__setitem__)
        wanted = len(set(grid.get_node_ids())) if n_clients is None else n_clients
        if len(members) >= max(1, wanted):
            return Roster.of(members.values(), domains)
        failures += bool(wrong)
        if failures >= attempts:
            raise ValueError(f"a client cannot take part: {'; '.join(wrong.values())}")
        if time.monotonic() >= end:
            raise TimeoutError(
                f"{len(members)} of {wanted} clients answered within {timeout} s; start the "
                "others, or raise timeout"
            )
        time.sleep(0.2)


def _mixture_set(
    mixtures: MixtureSet | Callable[[Array], MixtureSet] | None, roster: Roster
) -> MixtureSet:
    p = len(roster.domains)
    chosen: object = mixtures(roster.sizes) if callable(mixtures) else mixtures
    if chosen is None:
        return Simplex(p)
    if not isinstance(chosen, MixtureSet) or chosen.n_domains != p:
        raise ValueError(
            f"mixtures is {chosen!r}; give a set over the clients' {p} domains "
            f"{list(roster.domains)}, in this order"
        )
    return chosen


# -- the server's side -----------------------------------------------------------------------------


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
        self.n_scores = max(1, int(np.sum(~self.penalized)))  # each has its intercept
        self.reach = np.sqrt(sums["squares"] / self.sizes.sum())  # a sum, where a maximum is none
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
            shapes[key] = _shapes(len(own), len(w), bool(np.any(own)), step is not None, about)
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
        return sums

    def _round(
        self, contents: Mapping[str, Any], shapes: Mapping[str, Shapes]
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


def _shapes(p: int, D: int, weighs: bool, proof: bool, about: bool) -> Shapes:
    """The arrays of a good answer from a client with p domains."""
    if proof:
        return {"conjugate": (1,), "slope": (D,)}
    shapes: Shapes = {"losses": (p,), "jacobian": (p, D)}
    if weighs:  # rows without weight have no curvature to tell
        shapes["curvature"] = (D * (D + 1) // 2,)
    if about:
        shapes |= {"penalized": (D,), "squares": (D,), "targets": (2,)}
    return shapes


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

    def dual(
        self, mixture: Array, step: Array | None = None, scale: float = 1.0
    ) -> tuple[float, Array]:
        """As in Evaluation: Σ λ_k L_k(w') ≥ value + ⟨v, w'⟩ for every w'.

        Without a step it is the tangent here, known without a round. The Newton step has
        Σ c_i α_i = 0 among its equations, which a bound needs where intercepts are free.
        """
        if step is None:
            v = scale * self.gradient(mixture)
            return scale * float(mixture @ self.losses) - float(v @ self.w), v
        sums = self.clients.ask(self.w, mixture, step, scale)
        return -float(sums["conjugate"][0]), sums["slope"]


# -- the client's side -----------------------------------------------------------------------------


def answer(rows: LinearDomains, arrays: Arrays, settings: Settings) -> Arrays:
    """A client's sums over its own rows: of a look at w, or with a step of a proof."""
    here = rows.at(arrays["w"])
    mixture = arrays["weights"] * rows.sizes  # then row i weighs c_i = Σ_k S_ik λ_k/m_k
    if "step" in arrays:
        return _proof(here, mixture, arrays["step"], settings["scale"])
    reply = {
        "losses": here.losses * rows.sizes,
        "jacobian": here.jacobian() * rows.sizes[:, None],
    }
    if np.any(mixture):
        reply["curvature"] = here.hessian(mixture)[np.triu_indices(rows.n_parameters)]
    return {**reply, **_about(rows)} if settings["about"] else reply


def _proof(here: Evaluation, mixture: Array, step: Array, scale: float) -> Arrays:
    """Σ c_i ℓ*(α_i) and Σ c_i α_i (x_i, 1)."""
    rows, c = here.problem, here._weights(mixture)
    alpha = scale * (here.slope + here._bend(rows.scores(step)))
    alpha = _inside(rows.loss, alpha, rows.y)
    conjugate = np.where(c > 0, rows.loss.conjugate(alpha, rows.y), 0.0)
    return {
        "conjugate": np.array([c @ conjugate]),
        "slope": rows.pull_back(alpha * (c if alpha.ndim == 1 else c[:, None])),
    }


def _inside(loss: Loss, alpha: Array, y: NDArray[Any]) -> Array:
    """α, moved to where ℓ* is finite."""
    if isinstance(loss, Huber):
        return np.clip(alpha, -loss.delta, loss.delta)
    if not isinstance(loss, CrossEntropy):
        return alpha
    if alpha.ndim == 1:
        return np.clip(alpha, -y, 1 - y)
    target = np.eye(alpha.shape[1])[y]
    p = np.maximum(alpha + target, 0.0)
    p /= p.sum(axis=1, keepdims=True)
    moved: Array = p - target
    return moved


def _about(rows: LinearDomains) -> Arrays:
    """Σ_i s_i x_ij² of every column, and (Σ_i s_i y_i, Σ_i s_i) where y are numbers."""
    s = rows.average.T @ rows.sizes  # (n,): how often a row counts, over all domains
    squares = np.append((rows.X * rows.X).T @ s, [s.sum()] * rows.intercept)
    targets = [0.0, 0.0] if rows.classes is not None else [float(s @ rows.y), float(s.sum())]
    return {
        "penalized": rows.penalized.astype(np.float64),
        "squares": np.tile(squares, rows.n_scores),
        "targets": np.array(targets),
    }
