"""The default choice of models over clients that keep their rows.

    min_w max_{λ∈Λ_t}  Σ_k λ_k L_k(w) + γ R(w − a),     Λ_t = {(1−t) m̄ + t λ : λ ∈ Λ}

for all t and γ to be tried, a the ordinary model: each is fitted on every fold, by sums over the
rows of all clients, and judged on the rows that the fold holds out, as `AgnosticClassifierCV` does
it. The folds and the ways to their models go side by side (`side_by_side`), so it takes as many
rounds as the longest way: a few dozen.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, cast

import numpy as np
from flwr.serverapp import Grid
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.estimators.choices import front_places, frontier_of
from anymix.estimators.ordinary import GAMMAS, ROUGH, least_between, rough_ordinary
from anymix.estimators.searching import (
    ROBUST_GAMMAS,
    ROBUSTNESS,
    Candidate,
    Found,
    candidates_of,
)
from anymix.flower.aggregation import Limits, count
from anymix.flower.client_parts import Clients
from anymix.flower.fold_rows import WHOLE
from anymix.flower.folded_clients import Ask, ClientsHeldOut, FoldedClients, side_by_side
from anymix.flower.results import Record
from anymix.flower.solve import FederatedSolution
from anymix.mixtures import MixtureSet
from anymix.mixtures.parsing import is_mixture_of
from anymix.objective import Objective
from anymix.selection.held_out import HeldOut
from anymix.selection.rule import KEPT, NothingGained, check_price, choose
from anymix.solvers.exact import Solution, solve
from anymix.solvers.frontier import Frontier
from anymix.solvers.paths import Path
from anymix.solvers.sqp import Waypoint

Array = NDArray[np.float64]
MakeSet = Callable[[Array], MixtureSet]

__all__ = ["FederatedFit", "federated_fit"]

MOST = 1000  # iterations of a fit at most


@dataclass(frozen=True, eq=False)
class FederatedFit:
    """The model that rows held out recommend, fitted to the rows of all clients.

    Attributes
    ----------
    solution : FederatedSolution
        The model chosen, with its certificate.
    ordinary : FederatedSolution
        The ordinary model, which is the same where nothing is to be gained.
    robustness, gamma : float
        t and γ of the choice; t = 0 is the ordinary model.
    frontier : Frontier
        For each t the best model: its losses on the rows fitted and on rows held out.
    results : dict of str to ndarray
        Columns for pandas.DataFrame, one row for each candidate, as `cv_results_` of
        AgnosticClassifierCV.
    rounds : list of dict
        A record for every round of messages, as in `FederatedSolution`.
    """

    solution: FederatedSolution
    ordinary: FederatedSolution
    robustness: float
    gamma: float
    frontier: Frontier
    results: dict[str, Array] = field(repr=False)
    rounds: list[Record] = field(repr=False)

    @property
    def w(self) -> Array:
        """The model chosen, (D,)."""
        return self.solution.w

    @property
    def is_ordinary(self) -> bool:
        """Whether the ordinary model was kept."""
        return self.robustness == 0


def federated_fit(
    grid: Grid,
    mixtures: MixtureSet | MakeSet | None = None,
    *,
    gammas: Iterable[float] | None = None,
    robustness: Iterable[float] = ROBUSTNESS,
    price: float = 0.05,
    folds: int = 5,
    seed: int = 0,
    tol: float = 1e-6,
    n_clients: int | None = None,
    domains: Sequence[str] | None = None,
    timeout: float = 200.0,
    attempts: int = 3,
    limits: Limits | None = None,
) -> FederatedFit:
    """The linear model that rows held out recommend: an ordinary one, or one for the worst mixture.

    The choice of `AgnosticClassifierCV` (or `AgnosticRegressorCV`) on the table of all rows, which
    nobody has. Only sums travel; which rows a fold holds out is fixed by the seed and the clients'
    keys.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        Flower's grid, or a LocalGrid, of clients made by `client_app` without a `model`.
    mixtures : MixtureSet or function, optional
        Λ over the domains, sorted by name; or a function that makes it from the sizes m_k; None is
        the whole simplex.
    gammas : iterable of float, optional
        Values of γ to try; None is 10 ... 0.01, and 1 ... 1e-5 for the ordinary model, which
        supposes features of a standard scale.
    robustness : iterable of float
        Values of t in (0, 1] to try; t = 0, the ordinary model, always is.
    price : float
        The part by which the mean loss of all rows may rise, as in AgnosticClassifierCV.
    folds : int
        How many folds.
    seed : int
        Same seed, same folds.
    tol : float
        The gap of the certificate at which the last fits stop.
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

    Returns
    -------
    FederatedFit
        With a `NothingGained` warning where the ordinary model is kept.

    Examples
    --------
    >>> from anymix.flower import LocalGrid, client_app
    >>> def load(context):
    ...     rng = np.random.default_rng(context.node_config["partition-id"])
    ...     region, X = rng.choice(["city", "rural"], 200, p=[0.8, 0.2]), rng.normal(size=(200, 2))
    ...     y = np.where(region == "city", X[:, 0], X[:, 1]) + rng.logistic(size=200) / 4 > 0
    ...     return X, y, region
    >>> found = federated_fit(LocalGrid(client_app(load, classes=[False, True]), nodes=3))
    >>> found.is_ordinary, found.solution.certificate.gap < 1e-6, len(found.rounds) < 60
    (False, True, True)
    """
    check_price(price)
    if count("folds", folds) < 2:
        raise InputError("folds", f"is {folds}", "give 2 or more")
    given = None if gammas is None else [float(gamma) for gamma in gammas]
    bold = [float(t) for t in robustness if t != 0]
    clients = Clients(grid, n_clients, domains, timeout, attempts, limits)
    folded = FoldedClients(clients, folds, seed)
    search = _Search(folded, mixtures)
    found = search.run(given, candidates_of(bold, given or ROBUST_GAMMAS, to_zero=True))
    index = choose(found.held_out, price)
    if index == 0 and len(found.candidates) > 1:
        warnings.warn(KEPT, NothingGained, stacklevel=2)
    places = front_places(found, index)
    solutions = search.fit(found, places, tol)
    names, b = np.array(clients.roster.domains), np.zeros(len(clients.roster.domains))
    chosen = found.candidates[index]
    return FederatedFit(
        FederatedSolution.of(solutions[index], clients),
        FederatedSolution.of(solutions[0], clients),
        chosen.robustness,
        chosen.gamma,
        frontier_of([solutions[i] for i in places], names, b, found, places, index),
        _table(found, clients.roster.domains),
        clients.rounds,
    )


class _Search:
    """The candidates on every fold, and the last fits to all rows."""

    def __init__(self, folded: FoldedClients, mixtures: MixtureSet | MakeSet | None) -> None:
        self.folded, self._mixtures = folded, mixtures
        self.target = folded.roster.mixture_set(mixtures)

    def run(self, gammas: Sequence[float] | None, robust: Sequence[Candidate]) -> Found:
        """All candidates with their losses on rows held out."""
        gamma, first = self._ordinary(gammas)
        robust = [] if self._is_data_mixture else list(robust)
        chains = [
            list(chain) for _, chain in groupby(robust, key=lambda c: (c.robustness, c.to_zero))
        ]
        jobs = [(i, chain) for i in range(self.folded.n) for chain in chains]
        ways = self._together([self._chain(i, chain, first[i]) for i, chain in jobs])
        models = [[w0] for w0 in first]
        for (i, _), way in zip(jobs, ways, strict=True):
            models[i] += way
        return self._judged([Candidate(0.0, gamma), *robust], models)

    def _together(self, tasks: Sequence[Callable[[Ask], Any]]) -> list[Any]:
        return side_by_side(tasks, self.folded.answer)

    def _ordinary(self, gammas: Sequence[float] | None) -> tuple[float, list[Waypoint]]:
        """γ₀ and its model on every fold; of least mean loss on rows held out, as in `ordinary`."""
        path, n = sorted(gammas or GAMMAS, reverse=True), self.folded.n
        models = self._together([self._ordinary_path(i, path) for i in range(n)])
        if len(path) == 1:
            return path[0], [own[0] for own in models]
        losses = self.folded.losses(_stack(models))[:, :-1]  # without that of the constant guess
        total = np.einsum("fcp,fp->c", losses, self.folded.held)
        best = int(np.argmin(total))
        first = [own[best] for own in models]
        gamma = path[best] if gammas else least_between(path, total)
        if gamma != path[best]:
            tasks = [self._ordinary_path(i, [gamma], first[i]) for i in range(n)]
            first = [own[0] for own in self._together(tasks)]
        return gamma, first

    def _ordinary_path(
        self, number: int, gammas: Sequence[float], start: Waypoint | None = None
    ) -> Callable[[Ask], list[Waypoint]]:
        """min_w Σ_k m̄_k L_k(w) + γ R(w) for γ falling, each from the one before."""

        def work(ask: Ask) -> list[Waypoint]:
            problem = self.folded.problem(number, ask)
            return rough_ordinary(problem, gammas, Objective(), start, tol=ROUGH, max_iter=MOST)

        return work

    @property
    def _is_data_mixture(self) -> bool:
        """Whether Λ is but the mixture of all rows: every candidate is the ordinary model."""
        m = self.folded.roster.sizes
        return len(m) == 1 or is_mixture_of(self.target, m, m.sum())

    def _chain(
        self, number: int, chain: Sequence[Candidate], ordinary: Waypoint
    ) -> Callable[[Ask], list[Waypoint]]:
        """The candidates of one t for γ falling, the first from the ordinary model."""

        def work(ask: Ask) -> list[Waypoint]:
            sizes = self.folded.sizes[number]
            made = [self._objective(c, sizes, ordinary.w) for c in chain]
            near = made[0].shrunk(sizes).project(ordinary.mixture)
            path = Path(self.folded.problem(number, ask, near), ROUGH, MOST)
            found = list[Waypoint]()
            for objective in made:
                found.append(path.model(objective, found[-1] if found else ordinary))
            return found

        return work

    def _objective(self, candidate: Candidate, sizes: Array, anchor: Array | None) -> Objective:
        """Φ of a candidate for domains of these sizes."""
        made: Any = self._mixtures(sizes) if callable(self._mixtures) else self.target
        names = np.array(self.folded.roster.domains)
        return candidate.objective(Objective(made, anchor=anchor), sizes, names)

    def _judged(self, candidates: list[Candidate], models: Sequence[Sequence[Waypoint]]) -> Found:
        """The candidates with their losses on the rows that they have not seen."""
        stack, m = _stack(models), self.folded.roster.sizes
        losses = self.folded.losses(stack)
        held = ClientsHeldOut(
            self.folded,
            stack,
            losses[:, :-1],
            self.target,
            np.zeros(len(m)),
            m / m.sum(),
            np.einsum("fp,fp->p", losses[:, -1], self.folded.held) / m,
            squared=self.folded.squared,
        )
        held.look()
        judged = cast(HeldOut, held)  # which judges as that does; only the rows are not here
        return Found(candidates, judged, list(models[-1]))

    def fit(self, found: Found, places: Sequence[int], tol: float) -> dict[int, Solution]:
        """The ordinary model and these candidates, fitted to all rows, with certificates."""
        ordinary = self._together([self._last_fit(found, 0, tol, None)])[0]
        robust = [i for i in places if i != 0]
        tasks = [self._last_fit(found, i, tol, ordinary.w) for i in robust]
        return {0: ordinary, **dict(zip(robust, self._together(tasks), strict=True))}

    def _last_fit(
        self, found: Found, place: int, tol: float, anchor: Array | None
    ) -> Callable[[Ask], Solution]:
        start, sizes = found.solutions[place], self.folded.roster.sizes
        objective = self._objective(found.candidates[place], sizes, anchor)

        def work(ask: Ask) -> Solution:
            near = objective.shrunk(sizes).project(start.mixture)
            problem = self.folded.problem(WHOLE, ask, near)
            return solve(problem, objective, tol=tol, start=start, max_iter=MOST)

        return work


def _stack(models: Sequence[Sequence[Waypoint]]) -> Array:
    """The vectors of models of every fold, (folds, C, D)."""
    return np.array([[model.w for model in own] for own in models])


def _table(found: Found, names: Sequence[str]) -> dict[str, Array]:
    held, tried = found.held_out, found.candidates
    return {
        "param_robustness": np.array([c.robustness for c in tried]),
        "param_gamma": np.array([c.gamma for c in tried]),
        "param_to_zero": np.array([c.to_zero for c in tried]),
        "worst_test_loss": held.value,
        "expected_worst_test_loss": held.expected,
        "se_test_loss": np.array([held.error(c, lam) for c, lam in enumerate(held.worst)]),
        "pooled_test_loss": held.pooled,
        **{f"test_loss_{name}": held.domain_losses[:, k] for k, name in enumerate(names)},
    }
