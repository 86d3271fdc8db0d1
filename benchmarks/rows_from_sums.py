"""Rows of clients, read by the server out of the sums that they send. No client misbehaves.

    python benchmarks/rows_from_sums.py

follows  an ordinary `federated_solve`. Two curvatures Σ c_i ℓ''_i x_i x_iᵀ of a client with n ≤ D
         rows are diagonalised together by the rows themselves, up to their lengths; the intercept's
         1 gives these (Jennrich, 1970).
chooses  questions of training. With w = T v and the intercept −T c a row's gradient is
         (1[⟨v, x⟩ > c] − y)(x, 1), so the difference of two sums over all clients is the sum of the
         rows between two planes; bisection finds planes with one row between.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flwr.app import Context, Message
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from anymix.flower import LocalGrid, client_app, federated_solve
from anymix.flower.wire import SOLVE, TRAIN, pack, unpack

Array = NDArray[np.float64]

X, Y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)
SIZE = X[:, 0] + 0.5 * np.random.default_rng(0).normal(size=len(X))
DOMAINS = np.array(["small", "medium", "large"])[np.digitize(SIZE, [-0.5, 0.4])]
D = X.shape[1] + 1


class Tapped(LocalGrid):
    """A grid whose server keeps what client 0 sends."""

    def _push(self, message: Message) -> str:
        message_id = super()._push(message)
        first = message.metadata.dst_node_id == next(iter(self.contexts))
        if first and message.metadata.message_type == SOLVE:
            self.kept = [*getattr(self, "kept", []), unpack(self._replies[message_id].content)[0]]
        return message_id


def grid_of(parts: list[NDArray[np.intp]]) -> Tapped:
    """Clients that hold these rows."""

    def load(context: Context) -> Any:
        rows = parts[int(context.node_config["partition-id"])]
        return X[rows], Y[rows], DOMAINS[rows]

    return Tapped(client_app(load, classes=[0, 1]), len(parts))


def distance(found: Array, rows: Array) -> Array:
    """How far each of the rows is from the nearest that was found, in its worst column."""
    return np.array([np.abs(found - x).max(axis=1).min() for x in rows])


def follows(n: int) -> Array:
    """The errors of the rows of a client of n, by each of the curvatures that it sent, (q, n)."""
    order = np.random.default_rng(1).permutation(len(X))
    grid = grid_of([order[:n], *np.array_split(order[n:], 5)])
    federated_solve(grid, gamma=1e-2)
    curvatures = []
    for sums in grid.kept:
        if "curvature" in sums:
            H = np.zeros((D, D))
            H[np.triu_indices(D)] = sums["curvature"]
            curvatures.append(H + np.triu(H, 1).T)
    sizes, U = np.linalg.eigh(sum(curvatures))
    seen = sizes > 1e-13 * sizes[-1]  # the space of the rows
    B = U[:, seen] / np.sqrt(sizes[seen])
    errors = []
    for H in curvatures:
        rows = np.linalg.pinv(B.T) @ np.linalg.eigh(B.T @ H @ B)[1]
        errors.append(distance((rows / rows[-1]).T[:, :-1], X[order[:n]]))
    return np.array(errors)


def chooses(T: float = 1e13) -> tuple[Array, int]:
    """The errors of all rows, and how many sums over all clients were asked for."""
    grid = grid_of(np.array_split(np.random.default_rng(0).permutation(len(X)), 6))
    v = np.random.default_rng(5).normal(size=D - 1)
    v /= np.linalg.norm(v)
    asked = 0

    def total(c: float) -> Array:
        nonlocal asked
        asked += 1
        settings = {
            "seed": 0,
            "round": 1,
            "batch_size": 0,
            "local_epochs": 0,
            "corrects": False,
            "step": 1.0,
        }
        settings |= {"gamma": 0.0, "weights": np.repeat([1.0, 0.0], 3)}
        content = pack({"w": T * np.append(v, -c)}, settings)
        messages = [Message(content, node, TRAIN) for node in grid.get_node_ids()]
        replies = grid.send_and_receive(messages)
        return np.sum([unpack(reply.content)[0]["update"] for reply in replies], axis=0)

    found: list[Array] = []
    open_ones = [(-30.0, total(-30.0), 30.0, total(30.0))]
    while open_ones:
        low, below, high, above = open_ones.pop()
        rows = round((below - above)[-1])
        if rows == 1:
            found.append((below - above)[:-1])
        elif rows > 1 and high - low > 1e-9:
            c = (low + high) / 2
            between = total(c)
            open_ones += [(low, below, c, between), (c, between, high, above)]
    return distance(np.array(found), X), asked


def main() -> None:
    for n in (10, 20, 31, 40):
        errors = follows(n)
        best = min(errors, key=np.median)
        near, any_near = np.sum(best < 1e-2), np.sum(errors.min(axis=0) < 1e-2)
        print(
            f"client of {n}: {near} rows by the best of {len(errors)} curvatures (median error "
            f"{np.median(best):.0e}, worst {best.max():.0e}), {any_near} by any of them"
        )
    errors, asked = chooses()
    near = errors < 1e-6
    print(f"{near.sum()} of {len(X)} rows, error {errors[near].max():.0e}, {asked} questions")


if __name__ == "__main__":
    main()
