"""What a federated run leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp.strategy import Result
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.estimators import AgnosticClassifier, AgnosticRegressor
from anymix.flower.roster import Member

Array = NDArray[np.float64]
Record = dict[str, Any]

__all__ = ["AgnosticResult", "History", "Record", "domain_metrics", "metrics", "numbers"]


class History(list[Record]):
    """What happened, a record for each round. A record is a dict with these entries:

    - round, and skipped, whether no step was made;
    - domains; mixture and domain_losses, λ and L_k of the model that the round began with (NaN of
      domains that nobody was asked about); agnostic_loss, their worst mixture in Λ;
    - clients, asked, missing, failures, rejected and clipped, numbers of clients;
    - dropped, the replies that were not looked at: second ones, and those of nobody asked;
    - epsilon, what the rounds so far have cost in privacy, where there is a promise of it;
    - held_out_losses and held_out_worst, where rows held out judged the model after the round;
    - seconds, bytes_sent and bytes_received.
    """

    def to_frame(self) -> Any:
        """A pandas frame with one row a round, and a column of λ and L for every domain."""
        import pandas as pd

        return pd.DataFrame([_flat(record) for record in self])


def _flat(record: Record) -> Record:
    flat = {k: v for k, v in record.items() if k not in ("domains", "mixture", "domain_losses")}
    for key in ("mixture", "domain_losses"):
        flat |= {f"{key}[{d}]": v for d, v in zip(record["domains"], record[key], strict=True)}
    return flat


def metrics(record: Record) -> MetricRecord:
    """The numbers of a record, as Flower keeps them."""
    kept = {k: v for k, v in record.items() if k not in ("domains", "skipped")}
    return MetricRecord(kept | {"skipped": int(record["skipped"])})


def numbers(record: Record) -> dict[str, float]:
    """The numbers of a record, one for each domain where it has a list: a line of a logger.

    Parameters
    ----------
    record : dict
        One of `History`.

    Returns
    -------
    dict of str to float

    Examples
    --------
    >>> numbers({"round": 3, "clients": 5, "domains": ["chat", "web"], "mixture": [0.4, 0.6]})
    {'clients': 5.0, 'mixture/chat': 0.4, 'mixture/web': 0.6}
    """
    found = {k: float(v) for k, v in record.items() if isinstance(v, int | float) and k != "round"}
    for name, values in record.items():
        if isinstance(values, list) and name != "domains":
            pairs = zip(record["domains"], values, strict=True)
            found |= {f"{name}/{domain}": float(value) for domain, value in pairs}
    return found


def domain_metrics(history: History) -> dict[int, MetricRecord]:
    """The loss of every domain after so many rounds: on rows held out, or else where known."""
    held = {r["round"]: r["held_out_losses"] for r in history if "held_out_losses" in r}
    known = held or {r["round"] - 1: r["domain_losses"] for r in history if not r["skipped"]}
    domains = history[-1]["domains"] if history else []
    pairs = {t: zip(domains, losses, strict=True) for t, losses in known.items()}
    return {t: MetricRecord({d: x for d, x in p if np.isfinite(x)}) for t, p in pairs.items()}


@dataclass
class AgnosticResult(Result):
    """Flower's result (`arrays` is the best model), and the rest of what came out.

    Attributes
    ----------
    w, mixture : ndarray
        The last iterates, the output of the optimistic algorithm.
    w_average, mixture_average : ndarray
        The averages of all iterates, the output of Stochastic-AFL.
    w_best : ndarray
        The model of `arrays`: the best one, or what `output` of the strategy asks for.
    output : str
        Which one that is: "best" of those seen on the way, "last" or "average".
    round : int
        After which round that model was there; of the average, the last round.
    average_arrays : ArrayRecord
        w_average in the form of `arrays`.
    domains : tuple of str
        The domains, in the order of the mixture.
    history : History
        A record of every round.
    excluded : dict of str to str
        The clients that were left out, by key, and why.
    epsilon : float, optional
        The price in privacy, None without a promise of it.
    train_metrics_clientapp : dict of int to MetricRecord
        The numbers of the history, by round.
    evaluate_metrics_clientapp : dict of int to MetricRecord
        The clients' loss of every domain under the model after so many rounds: on rows held out,
        where there are any, and else on the rows that the next round asked for.
    """

    w: Array = field(default_factory=lambda: np.zeros(0))
    mixture: Array = field(default_factory=lambda: np.zeros(0))
    w_average: Array = field(default_factory=lambda: np.zeros(0))
    mixture_average: Array = field(default_factory=lambda: np.zeros(0))
    w_best: Array = field(default_factory=lambda: np.zeros(0))
    output: str = "last"
    round: int = 0
    average_arrays: ArrayRecord = field(default_factory=ArrayRecord)
    domains: tuple[str, ...] = ()
    history: History = field(default_factory=History)
    excluded: dict[str, str] = field(default_factory=dict)
    epsilon: float | None = None
    member: Member | None = field(default=None, repr=False)  # any client: all have one model

    def estimator(self) -> AgnosticClassifier | AgnosticRegressor:
        """The linear model of `arrays` as a fitted estimator, without a certificate.

        Returns
        -------
        AgnosticClassifier or AgnosticRegressor
            It predicts, and knows `mixture_`, `domain_names_` and the last known `domain_losses_`.

        Examples
        --------
        >>> from anymix.flower import AgnosticStrategy, LocalGrid, client_app
        >>> app = client_app(lambda context: ([[-1.0], [1.0]], ["no", "yes"], ["a", "a"]))
        >>> result = AgnosticStrategy().start(LocalGrid(app, nodes=1), num_rounds=5)
        >>> result.estimator().predict([[-2.0], [3.0]]).tolist()
        ['no', 'yes']
        """
        member = self.member
        classes, loss = (None, "") if member is None else (member.classes, member.loss)
        if member is None or not loss.startswith(("CrossEntropy", "SquaredError", "Huber")):
            found = f"is not linear, or has a loss {loss!r} that no estimator fits"
            raise InputError("the model", found, "load `arrays` into a module, or use `w_best`")
        W = self.w_best.reshape(member.n_scores, -1)
        n = W.shape[1] - int(member.intercept)
        coef, intercept = W[:, :n], W[:, n] if member.intercept else np.zeros(len(W))
        if len(W) > 1:  # no loss sees a common shift of the K scores: leave none
            coef, intercept = coef - coef.mean(axis=0), intercept - intercept.mean()
        known = self.evaluate_metrics_clientapp
        losses = dict(known[max(known)]) if known else {}
        made = AgnosticRegressor() if classes is None else AgnosticClassifier()
        made.__dict__ |= {
            "n_features_in_": n,
            "coef_": coef[0] if classes is None else coef,
            "intercept_": float(intercept[0]) if classes is None else intercept,
            "mixture_": self.mixture,
            "domain_names_": np.array(self.domains),
            "domain_losses_": np.array([losses.get(name, np.nan) for name in self.domains]),
        }
        if classes is not None:
            made.__dict__["classes_"] = np.array(classes)
        made.fit_intercept = member.intercept
        return made
