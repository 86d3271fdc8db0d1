"""Real data sets split into domains: fetched once, verified by checksum, kept in a cache."""

from anymix.datasets.sets import (
    Dataset,
    available,
    fetch,
    fetched,
    load_adult,
    load_fashion,
    path,
)

__all__ = ["Dataset", "available", "fetch", "fetched", "load_adult", "load_fashion", "path"]
