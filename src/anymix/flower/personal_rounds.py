"""The server's side of clusters, personal models and a choice of models: sums, in order of keys.

All clients are those of `personal_client_app`. Each function is one round of messages, or one for
every step, and gives the same bits on every engine.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from flwr.serverapp import Grid
from numpy.typing import ArrayLike, NDArray

from anymix.bounds.clusterings import clusters_by_bound
from anymix.errors import InputError, finite_number
from anymix.flower.asking import ask_all
from anymix.mixtures.checks import generator, matrix, vector
from anymix.problem.clusters import best_clusters
from anymix.problem.divergences import divergence_of

Array = NDArray[np.float64]

__all__ = [
    "ClientClusters",
    "ModelChoice",
    "PersonalLosses",
    "federated_choice",
    "federated_clusters",
    "federated_personal",
]

log = logging.getLogger("anymix.flower")


@dataclass(frozen=True, eq=False)
class ClientClusters:
    """Clients in clusters, which may serve as domains.

    Attributes
    ----------
    keys : tuple of str
        The clients, sorted.
    labels : ndarray of shape (n,)
        The cluster of each; 0 is the one with the most rows.
    statistics : ndarray of shape (n, d)
        What they were clustered by.
    sizes : ndarray of shape (n,)
        Their rows.
    centers : ndarray of shape (K, d)
        The mean statistics of each cluster.

    Examples
    --------
    >>> found = ClientClusters(("a", "b"), np.array([0, 1]), np.eye(2), np.ones(2), np.eye(2))
    >>> found.by_key
    {'a': 0, 'b': 1}
    """

    keys: tuple[str, ...]
    labels: NDArray[np.intp]
    statistics: Array
    sizes: Array
    centers: Array

    @property
    def by_key(self) -> dict[str, int]:
        """The cluster of each client by its key."""
        return dict(zip(self.keys, self.labels.tolist(), strict=True))


def federated_clusters(
    grid: Grid,
    n_clusters: int | str = "bound",
    *,
    kind: str = "labels",
    divergence: str | None = None,
    n_clients: int | None = None,
    timeout: float = 200.0,
    seed: int = 0,
) -> ClientClusters:
    """Cluster clients by summaries of their rows, for which they are asked in one round.

    "labels": each client tells how many of its rows have which class. "moments": the sums of its
    columns and of their squares, so their means and variances. Of a client with very few rows, that
    may be much of what it has.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        Where the clients are, made by `personal_client_app`.
    n_clusters : int or "bound"
        How many clusters to make, or as many as the learning bound advises.
    kind : str
        "labels" or "moments".
    divergence : str or None
        As in `BregmanClusters`; None is "kl" for labels and "euclidean" for moments.
    n_clients : int or None
        Wait for so many clients; None takes the nodes that are there now.
    timeout : float
        Seconds to wait at most.
    seed : int
        Chooses where the search begins.

    Returns
    -------
    ClientClusters

    Examples
    --------
    >>> from anymix.flower import LocalGrid
    >>> from anymix.flower.personal import personal_client_app
    >>> def load(context):  # clients 0 and 1 are alike, client 2 is not
    ...     rare = 9 if context.node_config["partition-id"] < 2 else 3
    ...     return [[0.0]] * 300, [int(i % 10 < rare) for i in range(300)], ["all"] * 300
    >>> grid = LocalGrid(personal_client_app(load, classes=[0, 1]), nodes=3)
    >>> federated_clusters(grid).by_key
    {'0': 0, '1': 0, '2': 1}
    """
    if kind not in ("labels", "moments"):
        raise InputError("kind", f"is {kind!r}", "give 'labels' or 'moments'")
    D = divergence_of(divergence or ("kl" if kind == "labels" else "euclidean"))

    def shapes(settings: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
        return {"sums": (int(settings["length"]),), "size": (1,)}

    replies = ask_all(grid, "query.describe", {}, {"kind": kind}, shapes, n_clients, timeout)
    length = {len(arrays["sums"]) for arrays, _ in replies.values()}
    if len(length) != 1:
        raise InputError("classes", f"differ: clients sent {sorted(length)} sums", "name them all")
    sums = np.array([arrays["sums"] for arrays, _ in replies.values()])
    sizes = np.array([float(arrays["size"][0]) for arrays, _ in replies.values()])
    X = D.read(_statistics(sums, sizes, kind))
    rng = generator("seed", seed)
    if n_clusters == "bound":
        found, _ = clusters_by_bound(X, sizes, D, rng)
    elif isinstance(n_clusters, int) and 1 <= n_clusters <= len(X):
        found = best_clusters(X, sizes, n_clusters, D, rng)
    else:
        fix = f"give 'bound' or a number from 1 to {len(X)}, the clients"
        raise InputError("n_clusters", f"is {n_clusters!r}", fix)
    log.info("%d clients in clusters of %s", len(X), np.bincount(found.labels).tolist())
    return ClientClusters(tuple(replies), found.labels, X, sizes, found.centers)


def _statistics(sums: Array, sizes: Array, kind: str) -> Array:
    """Shares of the classes, or means in units of all rows' standard deviation."""
    mean = sums / sizes[:, None]
    if kind == "labels":
        return mean
    d = sums.shape[1] // 2
    total = sums.sum(axis=0) / sizes.sum()
    spread = np.sqrt(np.maximum(total[d:] - total[:d] ** 2, 0.0))
    unit = np.where(spread > 0, spread, 1.0)
    return np.asarray((mean[:, :d] - total[:d]) / unit)


@dataclass(frozen=True, eq=False)
class PersonalLosses:
    """Losses on rows that nothing was fitted to, before and after personalisation.

    Attributes
    ----------
    domains : tuple of str
        The domains, sorted.
    counts : ndarray of shape (p,)
        Rows that were judged.
    shared_loss : ndarray of shape (p,)
        The mean loss of the shared model on each domain.
    personal_loss : ndarray of shape (p,)
        That of each client's own mixture of models, on the same rows.
    too_small : tuple of str
        Clients with fewer than six rows: they are served by the shared model alone, and none of
        their rows was judged.

    Examples
    --------
    >>> one = np.ones(1)
    >>> PersonalLosses(("web",), one, 0.7 * one, 0.6 * one).domains
    ('web',)
    """

    domains: tuple[str, ...]
    counts: Array
    shared_loss: Array
    personal_loss: Array
    too_small: tuple[str, ...] = ()


def federated_personal(
    grid: Grid, w: ArrayLike, *, n_clients: int | None = None, timeout: float = 200.0
) -> PersonalLosses:
    """A round in which every client mixes the shared model with its own, and reports its losses.

    A client fits its own model the first time, and keeps it. It chooses α anew, by rows that
    neither model was fitted to, and sends sums of losses over others: neither model nor α. A client
    with fewer than six rows is served by the shared model alone, and named in `too_small`.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        Where the clients are, made by `personal_client_app`.
    w : array-like of shape (D,)
        The shared model, such as `federated_solve(grid).w`.
    n_clients : int or None
        Wait for so many clients; None takes the nodes that are there now.
    timeout : float
        Seconds to wait at most.

    Returns
    -------
    PersonalLosses

    Examples
    --------
    >>> from anymix.flower import LocalGrid
    >>> from anymix.flower.personal import personal_client_app
    >>> def load(context):  # what matters differs from client to client
    ...     sign = 1 if context.node_config["partition-id"] else -1
    ...     x = np.random.default_rng(0).normal(size=(200, 1))
    ...     return x, (sign * x[:, 0] > 0).astype(int), ["all"] * 200
    >>> grid = LocalGrid(personal_client_app(load, classes=[0, 1]), nodes=2)
    >>> found = federated_personal(grid, np.zeros(2))
    >>> bool(found.personal_loss[0] < 0.5 * found.shared_loss[0])
    True
    """
    shared = vector("w", w)

    def shapes(settings: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
        p = len(settings["domains"])
        return dict.fromkeys(("shared_loss", "personal_loss", "counts"), (p,))

    replies = ask_all(grid, "query.personal", {"w": shared}, {}, shapes, n_clients, timeout)
    domains = sorted({name for _, settings in replies.values() for name in settings["domains"]})
    place = {name: k for k, name in enumerate(domains)}
    sums = {name: np.zeros(len(domains)) for name in ("counts", "shared_loss", "personal_loss")}
    for arrays, settings in replies.values():
        at = [place[name] for name in settings["domains"]]
        for name, total in sums.items():
            total[at] += arrays[name]
    counts = sums["counts"]
    mean = {name: total / counts for name, total in sums.items() if name != "counts"}
    log.info("loss of the shared model %s, of personal ones %s", *mean.values())
    small = tuple(key for key, (_, settings) in replies.items() if settings.get("too_small"))
    if small:
        log.warning("%d clients have too few rows for a model of their own: %s", len(small), small)
    return PersonalLosses(tuple(domains), counts, mean["shared_loss"], mean["personal_loss"], small)


@dataclass(frozen=True, eq=False)
class ModelChoice:
    """K models, each trained by the clients that it serves best.

    Attributes
    ----------
    models : ndarray of shape (K, D)
        The models.
    choices : dict of str to int
        The model that each client chose last.
    history : list of float
        The mean loss of all rows, each under the model of its client, in every round.

    Examples
    --------
    >>> ModelChoice(np.zeros((2, 3)), {"a": 1}).choices
    {'a': 1}
    """

    models: Array
    choices: dict[str, int]
    history: list[float] = field(default_factory=list)


def federated_choice(
    grid: Grid,
    models: ArrayLike | Sequence[ArrayLike],
    rounds: int = 10,
    step: float = 0.5,
    *,
    n_clients: int | None = None,
    timeout: float = 200.0,
) -> ModelChoice:
    """K models and clients that choose among them: w_j ← w_j − s Σ_c ∇L_c(w_j) m_c / Σ_c m_c.

    In every round a client looks which of the models has the least loss on its rows, and sends its
    gradient there; the sum is over those that chose j (IFCA: Ghosh, Chung, Yin and Ramchandran, An
    Efficient Framework for Clustered Federated Learning, 2020). The server learns the choices.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        Where the clients are, made by `personal_client_app`.
    models : array-like of shape (K, D)
        Where to begin: they must differ, or all clients choose the first.
    rounds : int
        How many rounds to go.
    step : float
        s > 0, the step size.
    n_clients : int or None
        Wait for so many clients; None takes the nodes that are there now.
    timeout : float
        Seconds to wait at most, in each round.

    Returns
    -------
    ModelChoice

    Examples
    --------
    >>> from anymix.flower import LocalGrid
    >>> from anymix.flower.personal import personal_client_app
    >>> def load(context):  # two kinds of clients
    ...     sign = 1 if context.node_config["partition-id"] % 2 else -1
    ...     x = np.random.default_rng(0).normal(size=(60, 1))
    ...     return x, (sign * x[:, 0] > 0).astype(int), ["all"] * 60
    >>> grid = LocalGrid(personal_client_app(load, classes=[0, 1]), nodes=4)
    >>> federated_choice(grid, [[0.1, 0.0], [-0.1, 0.0]]).choices
    {'0': 1, '1': 0, '2': 1, '3': 0}
    """
    given: Any = models
    W = matrix("models", given)
    if isinstance(rounds, bool) or not isinstance(rounds, Integral) or rounds < 1:
        raise InputError("rounds", f"is {rounds!r}", "give a whole number ≥ 1")
    s = finite_number("step", step, "give a number > 0", lambda x: x > 0)
    found = ModelChoice(W, {})

    def shapes(settings: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
        return {"update": (W.shape[1],), "loss": (1,), "size": (1,)}

    for number in range(1, rounds + 1):
        sent = {"models": found.models}
        settings = {"round": number}
        replies = ask_all(grid, "query.choose", sent, settings, shapes, n_clients, timeout)
        choices = {key: int(said["choice"]) for key, (_, said) in replies.items()}
        update, rows, loss = np.zeros_like(W), np.zeros(len(W)), 0.0
        for key, (arrays, _) in replies.items():
            update[choices[key]] += arrays["update"]
            rows[choices[key]] += arrays["size"][0]
            loss += float(arrays["loss"][0])
        moved = found.models - s * update / np.maximum(rows, 1.0)[:, None]
        found = ModelChoice(moved, choices, [*found.history, loss / float(rows.sum())])
        log.info("round %d: models of %s rows, loss %.6g", number, rows.tolist(), found.history[-1])
    return found
