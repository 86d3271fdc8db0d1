"""Clusters of clients as domains: `BregmanClusters` on counts of classes, then an agnostic model.

    python examples/federated_clusters.py

Twelve clients of three kinds, one of them rare. Each tells how many of its rows have which class,
and nothing else. The server clusters the clients, and the centers go back with the run: a client
looks up its own cluster, which is the domain of its rows.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from flwr.app import Context, Message, MetricRecord, RecordDict

import anymix as ax
from anymix.flower import LocalGrid, client_app, federated_solve

KINDS = [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2]  # of each client; nobody tells them
SHARES = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]


def rows(context: Context) -> tuple[Any, Any]:
    i = int(context.node_config["partition-id"])
    rng = np.random.default_rng(i)
    y = rng.choice(3, p=SHARES[KINDS[i]], size=100)
    return np.eye(3)[y] + rng.normal(size=(100, 3)), y


def counts(context: Context) -> list[int]:
    return [int(n) for n in np.bincount(rows(context)[1], minlength=3)]


def load(context: Context) -> tuple[Any, Any, Any]:
    X, y = rows(context)
    centers = json.loads(str(context.run_config["centers"]))
    clusters = ax.BregmanClusters(len(centers), init=centers, max_iter=1).fit(centers)
    name = clusters.labels_.tolist().index(clusters.predict([counts(context)])[0])
    return X, y, [f"cluster {name}"] * len(y)


app = client_app(load, classes=[0, 1, 2])


@app.query("counts")
def tell_counts(message: Message, context: Context) -> Message:
    return Message(RecordDict({"counts": MetricRecord({"n": counts(context)})}), reply_to=message)


def main() -> None:
    grid = LocalGrid(app, nodes=len(KINDS))
    asked = [Message(RecordDict(), node, "query.counts") for node in grid.get_node_ids()]
    replies: list[Any] = [reply.content["counts"] for reply in grid.send_and_receive(asked)]
    told = np.array([reply["n"] for reply in replies])
    clusters = ax.BregmanClusters("bound").fit(told, sample_weight=told.sum(axis=1))

    centers = clusters.cluster_centers_.tolist()
    grid = LocalGrid(app, nodes=len(KINDS), run_config={"centers": json.dumps(centers)})
    agnostic = federated_solve(grid)
    ordinary = federated_solve(grid, ax.Point(agnostic.sizes / agnostic.sizes.sum()))
    print("loss       " + "  ".join(agnostic.domain_names))
    for name, found in {"ordinary": ordinary, "agnostic": agnostic}.items():
        print(f"{name:9}" + "".join(f"{loss:11.3f}" for loss in found.domain_losses))


if __name__ == "__main__":
    main()
