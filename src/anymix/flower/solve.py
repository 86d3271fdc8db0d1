"""The certified optimum over clients that keep their rows.

    min_w max_{λ∈Λ} Σ_k λ_k L_k(w) + γ R(w),   L_k(w) = (1/m_k) Σ_{clients} Σ_{i in domain k} ℓ_i(w)

is solved by `anymix.solve` itself: a client is a part of the rows (`problem.parts`), and asking all
parts is a round of messages. About ten rounds, in which a client with p domains sends
pD + D(D+1)/2 numbers, D = len(w).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Unpack

import numpy as np
from flwr.serverapp import Grid
from numpy.typing import ArrayLike, NDArray

from anymix.flower.aggregation import Limits
from anymix.flower.client_errors import Reason, RefusedError
from anymix.flower.client_parts import Clients
from anymix.flower.results import Record
from anymix.mixtures.parsing import Mixtures
from anymix.objective import Objective, Parts, objective_of
from anymix.problem import parts as problem_parts
from anymix.solvers.certificates import Certificate, certify
from anymix.solvers.exact import Solution, solve

log = logging.getLogger("anymix.flower")
Array = NDArray[np.float64]

__all__ = ["FederatedSolution", "federated_certify", "federated_solve"]


@dataclass(frozen=True)
class FederatedSolution(Solution):
    """A Solution, whose clients it is of, and what the way to it cost.

    Attributes
    ----------
    domain_names : tuple of str
        The domains, in the order of the mixture.
    sizes : ndarray of shape (p,)
        The rows of every domain over all clients.
    client_keys : tuple of str
        Who took part.
    rounds : list of dict
        A record for every round of messages: sent and received (bytes of the arrays), seconds, and
        asked (how many messages; more than there are clients where some were asked again).
    by_gradients : bool
        Whether clients refused second derivatives (`ClientLimits`), and steps and proof are made
        of first ones: more rounds.
    """

    domain_names: tuple[str, ...] = ()
    sizes: Array = field(default_factory=lambda: np.zeros(0))
    client_keys: tuple[str, ...] = ()
    rounds: list[Record] = field(default_factory=list, repr=False)
    by_gradients: bool = False

    @staticmethod
    def of(solution: Solution, clients: Clients, by_gradients: bool = False) -> FederatedSolution:
        """A solution of the problem of these clients."""
        return FederatedSolution(
            **vars(solution),
            by_gradients=by_gradients,
            domain_names=clients.roster.domains,
            sizes=clients.roster.sizes,
            client_keys=tuple(clients.roster.keys),
            rounds=clients.rounds,
        )


def federated_solve(
    grid: Grid,
    mixtures: Objective | Mixtures = None,
    *,
    tol: float = 1e-6,
    start: Solution | ArrayLike | None = None,
    max_iter: int = 100,
    n_clients: int | None = None,
    domains: Sequence[str] | None = None,
    timeout: float = 200.0,
    attempts: int = 3,
    limits: Limits | None = None,
    verbose: bool = False,
    **parts: Unpack[Parts],
) -> FederatedSolution:
    """min_w max_{λ∈Λ} Σ_k λ_k (L_k(w) − b_k) + γ R(w) − μ χ²(λ‖m̄) over the rows of all clients.

    The result is that of `anymix.solve` on the table of all rows, which nobody has.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        Flower's grid, or a LocalGrid, of clients made by `client_app` without a `model`.
    mixtures : Objective, MixtureSet, function, str or None
        What is to be minimised, over the domains sorted by name; or Λ alone, and the rest by name.
        A function makes Λ from the sizes m_k, which are learnt from the clients.
    tol : float
        The gap of the certificate at which to stop.
    start : Solution or array-like, optional
        Where to begin: an earlier solution, or a vector w.
    max_iter : int
        Iterations at most, each of which takes a round of messages or two.
    n_clients : int, optional
        Wait for so many clients. Nodes take their time to register, so give it for any grid but a
        LocalGrid: None takes the nodes that are there now, all of them.
    domains : sequence of str, optional
        All names of domains, if another order than the sorted one is wanted.
    timeout : float
        Seconds to wait for the answer of a client.
    attempts : int
        How often it is asked when it fails or does not answer in that time. A client that has come
        back meanwhile, on another node, is known by its key.
    limits : Limits, optional
        What a client may claim of itself: rows, domains, clients_per_domain, authenticated.
    verbose : bool
        Show a progress line.
    **parts : Any
        Parts of an `Objective` by name: gamma (1e-3), mu, norm, prior, ...; not beside one.

    Returns
    -------
    FederatedSolution

    Raises
    ------
    TimeoutError
        If answers are missing; names the clients.
    InputError
        If an answer cannot be used; names the client and what is wrong with it. If the limits of
        clients refuse a question, its argument is the setting, as "limits.questions".

    Examples
    --------
    >>> from anymix.flower import LocalGrid, client_app
    >>> def load(context):  # client 0 has only label 1; client 1 has both
    ...     here = context.node_config["partition-id"]
    ...     return [[0.0], [0.0]], [1, 1 - here], ["east", "west"][here:][:1] * 2
    >>> grid = LocalGrid(client_app(load, classes=[0, 1]), nodes=2)
    >>> solution = federated_solve(grid, gamma=0.0)
    >>> print(solution.certificate)
    agnostic objective 0.693147, no model below 0.693147 (gap ...)
    >>> solution.domain_names, solution.mixture.tolist(), len(solution.rounds)
    (('east', 'west'), [0.0, 1.0], 2)
    """
    objective = objective_of(mixtures, parts)
    clients = Clients(grid, n_clients, domains, timeout, attempts, limits)
    objective = clients.roster.settled(objective)
    center = objective.shrunk(clients.roster.sizes).center
    problem: problem_parts.Parts | None = None
    try:
        problem = clients.problem(center)
        found = solve(problem, objective, tol=tol, start=start, max_iter=max_iter, verbose=verbose)
        return FederatedSolution.of(found, clients)
    except RefusedError as refused:
        if refused.reason not in (Reason.LIMIT_ROWS, Reason.LIMIT_CURVATURES):
            raise
        log.warning("%s: it goes on with gradients alone, which takes more rounds", refused)
    if problem is not None:
        start = problem.at_last.w
    gradients = clients.problem_of_gradients(center)
    gradients.shrinkage = objective.on(gradients).shrinkage
    found = solve(gradients, objective, tol=tol, start=start, max_iter=max_iter, verbose=verbose)
    return FederatedSolution.of(found, clients, by_gradients=True)


def federated_certify(
    grid: Grid,
    mixtures: Objective | Mixtures,
    w: ArrayLike,
    mixture: ArrayLike,
    *,
    n_clients: int | None = None,
    domains: Sequence[str] | None = None,
    timeout: float = 200.0,
    attempts: int = 3,
    limits: Limits | None = None,
    **parts: Unpack[Parts],
) -> Certificate:
    """lower ≤ min_w max_{λ∈Λ} Φ(w, λ) ≤ upper over the rows of all clients, in four rounds.

    As `anymix.certify`, for a linear model however it was trained: upper is what w reaches, and no
    model is below lower. What Φ is made of must be what the model was trained with.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        Flower's grid, or a LocalGrid, of clients made by `client_app` without a `model`.
    mixtures : Objective, MixtureSet, function, str or None
        As in `federated_solve`.
    w : array-like of shape (D,)
        The model.
    mixture : array-like of shape (p,)
        A mixture in Λ, the nearer to the worst one the better the proof.
    n_clients : int, optional
        Wait for so many clients; None takes the nodes that are there now.
    domains : sequence of str, optional
        All names of domains, if another order than the sorted one is wanted.
    timeout : float
        Seconds to wait for the answer of a client.
    attempts : int
        How often a client is asked when it fails or does not answer in that time.
    limits : Limits, optional
        What a client may claim of itself: rows, domains, clients_per_domain, authenticated.
    **parts : Any
        Parts of an `Objective` by name, as in `federated_solve`.

    Returns
    -------
    Certificate

    Examples
    --------
    >>> import anymix as ax
    >>> from anymix.flower import AgnosticStrategy, LocalGrid, Steps, client_app
    >>> def load(context):
    ...     here = context.node_config["partition-id"]
    ...     return [[0.0], [1.0], [2.0]], [here, 1, 0], ["east", "west", "west"]
    >>> grid = LocalGrid(client_app(load, classes=[0, 1]), nodes=2)
    >>> strategy = AgnosticStrategy(ax.Objective(gamma=0.1), steps=Steps(0.5, 0.1))
    >>> trained = strategy.start(grid, num_rounds=200)
    >>> proof = federated_certify(grid, None, trained.w, trained.mixture, gamma=0.1)
    >>> proof.gap < 1e-3
    True
    """
    objective = objective_of(mixtures, parts)
    clients = Clients(grid, n_clients, domains, timeout, attempts, limits)
    objective, lam = clients.roster.settled(objective), np.asarray(mixture, dtype=np.float64)
    target = objective.shrunk(clients.roster.sizes)
    near = target.project(lam) if lam.shape == (target.n_domains,) else target.center
    return certify(clients.problem(near), objective, w, lam)
