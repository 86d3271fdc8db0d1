"""Personal models: each client mixes the shared model with its own, which never leaves it.

    python examples/federated_personal.py

Six clients of two kinds. The shared model h is the certified agnostic one. A client fits h_k to its
own rows, and `Personalized` chooses α of α h + (1 − α) h_k by rows that neither model has seen.
What it tells is how many rows it reports on, and the losses of h and of the mixture there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import anymix as ax
from anymix.flower import LocalGrid, client_app, federated_solve


def rows(context: Context) -> tuple[Any, Any]:
    i = int(context.node_config["partition-id"])
    rng = np.random.default_rng(i)
    X = rng.normal(size=(300, 3))
    signal = X[:, 0] + 2 * (-1) ** i * X[:, 1] + 2 * (i % 2)
    return X, (signal + rng.logistic(size=300) > 0).astype(int)


TRAIN, CHOOSE, REPORT = slice(0, 180), slice(180, 240), slice(240, 300)


def load(context: Context) -> tuple[Any, Any, Any]:
    X, y = rows(context)
    return X[TRAIN], y[TRAIN], [f"kind {int(context.node_config['partition-id']) % 2}"] * 180


app = client_app(load, classes=[0, 1])


def as_estimator(w: Any) -> LogisticRegression:
    """The linear model (coefficients, intercept) of two classes, fitted."""
    model = LogisticRegression()
    model.coef_, model.intercept_, model.classes_ = w[None, :-1], w[-1:], np.array([0, 1])
    return model


@app.query("personal")
def judge_personal(message: Message, context: Context) -> Message:
    X, y = rows(context)
    (w,) = message.content.array_records["model"].to_numpy_ndarrays()
    shared = as_estimator(w)
    own = LogisticRegression().fit(X[TRAIN], y[TRAIN])
    me = np.array(["me"] * len(y))
    mixed = ax.Personalized(shared, {"me": own}).fit(X[CHOOSE], y[CHOOSE], domains=me[CHOOSE])
    told: dict[str, Any] = {
        "rows": 60,
        "shared": float(log_loss(y[REPORT], shared.predict_proba(X[REPORT]))),
        "personal": float(log_loss(y[REPORT], mixed.predict_proba(X[REPORT], domains=me[REPORT]))),
    }
    return Message(RecordDict({"told": MetricRecord(told)}), reply_to=message)


def main() -> None:
    grid = LocalGrid(app, nodes=6)
    shared = federated_solve(grid, gamma=0.01)
    sent = RecordDict({"model": ArrayRecord([shared.w])})
    asked = [Message(sent, node, "query.personal") for node in grid.get_node_ids()]
    told: list[Any] = [reply.content["told"] for reply in grid.send_and_receive(asked)]
    rows = [t["rows"] for t in told]
    for name in ("shared", "personal"):
        print(f"{name:9}{np.average([t[name] for t in told], weights=rows):.3f}")


if __name__ == "__main__":
    main()
