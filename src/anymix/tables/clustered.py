"""Domains from a table: its clients put into clusters of those whose rows are alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.estimators import BregmanClusters, Clients, describe_clients
from anymix.problem.entries import encode
from anymix.tables.columns import numbers_of
from anymix.tables.frames import column, pandas, pandas_frame
from anymix.tables.labels import coded_column
from anymix.tables.reading import Reading, odd_notes, settled_frame

Array = NDArray[np.float64]

__all__ = ["ClusteredClients", "cluster_frame"]


class ClusteredClients(NamedTuple):
    """The clients of a table, each with its domain."""

    frame: Any
    sizes: Array
    model: BregmanClusters
    notes: list[str]


def cluster_frame(
    frame: Any,
    client: str,
    *,
    columns: Sequence[str] = (),
    n_clusters: int | str = "bound",
    divergence: str = "i_divergence",
    random_state: int = 0,
) -> ClusteredClients:
    """Cluster the clients of a table by histograms of its columns."""
    frame = settled_frame(pandas_frame(frame), Reading(as_written={client}))
    unknown = column(frame, client).isna().to_numpy()
    lost = int(unknown.sum())
    if lost == len(frame):
        raise InputError(
            f"column {client!r}", "is empty", "name the column that says whose a row is"
        )
    frame = frame[~unknown] if lost else frame
    names = [c for c in (columns or frame.columns) if c != client]
    owners = np.asarray(frame[client])
    parts = [_histogram(frame, owners, name) for name in names]
    if not parts:
        raise InputError("columns", "are none beside that of the client", "name some")
    statistics = np.hstack([part.statistics for part in parts])
    sizes = parts[0].sizes
    model = BregmanClusters(n_clusters, divergence, random_state)
    model.fit(statistics, sample_weight=sizes)
    table = {client: parts[0].names, "domain": model.labels_, "rows": sizes.astype(np.int64)}
    total = np.asarray(np.bincount(model.labels_, sizes), dtype=np.float64)
    said = [f"{client!r}: {lost:,} rows without a client, left out"] if lost else []
    said += odd_notes(frame, names)
    return ClusteredClients(pandas().DataFrame(table), total, model, said)


def _histogram(frame: Any, owners: NDArray[Any], name: str) -> Clients:
    """The shares of a column's levels, or of ten bins of its numbers, for each client."""
    # What is missing is a level, or a bin, of its own.
    values = column(frame, name)
    if values.dtype.kind == "M":
        values = pandas().Series(numbers_of(name, values))
    if values.dtype.kind in "iuf" and values.nunique() > 20:
        x = values.to_numpy(dtype=np.float64)
        if not np.isnan(x).any():
            return describe_clients(owners, X=x[:, None])
        edges = np.unique(np.nanquantile(x, np.arange(1, 10) / 10))
        bins = np.where(np.isnan(x), len(edges) + 1, np.searchsorted(edges, x, side="right"))
        return describe_clients(owners, labels=bins)
    if values.dtype.kind == "f":
        text = values.map(lambda v: "(missing)" if v != v else f"{v:g}")
        return describe_clients(owners, labels=encode(name, text.to_numpy(), len(text))[1])
    return describe_clients(owners, labels=coded_column(frame, name)[1])
