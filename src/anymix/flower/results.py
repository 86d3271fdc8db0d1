"""What a federated run leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp.strategy import Result
from numpy.typing import NDArray

Array = NDArray[np.float64]
Record = dict[str, Any]

__all__ = ["AgnosticResult", "History", "Record", "metrics"]


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
